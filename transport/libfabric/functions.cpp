#include "transport/libfabric/functions.h"

#include "base/loaded_library.h"

#include "transport/kept_signals.h"

namespace maestro::transport {
namespace {

constexpr const char *kLibrary = "libfabric.so.1";

Result<LibfabricFunctions> load() {
  KeptSignals kept;
  LoadedLibrary library{kLibrary};
  if (!library)
    return Status::unavailable(std::string("--transport libfabric needs ") + kLibrary + ", which cannot be loaded: " +
                               library.failure() + "; on Debian: apt-get install libfabric1");
  LibfabricFunctions table{};
  // The versions whose structures are those of libfabric 1.17's headers.
  library.find(table.getinfo, "fi_getinfo", "FABRIC_1.3");
  library.find(table.dupinfo, "fi_dupinfo", "FABRIC_1.3");
  library.find(table.freeinfo, "fi_freeinfo", "FABRIC_1.3");
  library.find(table.fabric, "fi_fabric", "FABRIC_1.1");
  library.find(table.strerror, "fi_strerror", "FABRIC_1.0");
  if (!library.missing().empty())
    return Status::unavailable(std::string(kLibrary) + " lacks " + library.missing() +
                               "; libfabric 1.17 or newer is needed");
  return table;
}

} // namespace

Result<const LibfabricFunctions *> loadLibfabric() {
  static const Result<LibfabricFunctions> table = load();
  return pointerTo(table);
}

} // namespace maestro::transport
