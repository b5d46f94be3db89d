// The `loss` list of a workload file.
#pragma once

#include "planner/workload/workload.h"

namespace maestro::planner {

Status readLosses(const YamlNode &node, Workload &workload);

/// "a.b.c" -> component a, port b.c; without a dot a data field.
PortRef splitPort(const std::string &text);
/// By PyTorch's name (int64) or Maestro's (i64).
Result<DType> readDType(const YamlNode &node, const std::string &path);

} // namespace maestro::planner
