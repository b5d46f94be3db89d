// Numbers with units in workload and cluster files: "450 GB/s", "2 us".
#pragma once

#include "planner/workload/field_reader.h"

#include <initializer_list>
#include <string>

namespace maestro::planner {

struct Unit {
  const char *name;
  double factor;
};

/// "450 GB/s" with the factors of `units`: "b" and "bit" are bits, "B" bytes, "G" is 10^9 and "Gi" 2^30.
Result<double> readQuantity(const YamlNode &node, const std::string &path, std::initializer_list<Unit> units,
                            const char *example);
/// In bytes per second, above 0.
Result<double> readBandwidth(const YamlNode &node, const std::string &path);
/// In bytes, above 0.
Result<uint64_t> readMemory(const YamlNode &node, const std::string &path);
/// In seconds.
Result<double> readDuration(const YamlNode &node, const std::string &path);

} // namespace maestro::planner
