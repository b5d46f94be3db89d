#include "transport/libfabric/functions.h"

#include "transport/kept_signals.h"

#include <dlfcn.h>

namespace maestro::transport {
namespace {

constexpr const char *kLibrary = "libfabric.so.1";

Result<LibfabricFunctions> load() {
  KeptSignals kept;
  void *library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::unavailable(std::string("--transport libfabric needs ") + kLibrary +
                               ", which cannot be loaded: " + ::dlerror() + "; on Debian: apt-get install libfabric1");
  LibfabricFunctions table{};
  std::string missing;
  auto find = [&](auto &function, const char *name, const char *version) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlvsym(library, name, version));
    if (!function && missing.empty())
      missing = std::string(name) + "@" + version;
  };
  // The versions whose structures are those of libfabric 1.17's headers.
  find(table.getinfo, "fi_getinfo", "FABRIC_1.3");
  find(table.dupinfo, "fi_dupinfo", "FABRIC_1.3");
  find(table.freeinfo, "fi_freeinfo", "FABRIC_1.3");
  find(table.fabric, "fi_fabric", "FABRIC_1.1");
  find(table.strerror, "fi_strerror", "FABRIC_1.0");
  if (!missing.empty())
    return Status::unavailable(std::string(kLibrary) + " lacks " + missing + "; libfabric 1.17 or newer is needed");
  return table;
}

} // namespace

Result<const LibfabricFunctions *> loadLibfabric() {
  static const Result<LibfabricFunctions> table = load();
  if (!table)
    return Status(table.status().code(), std::string(table.status().message()));
  return &*table;
}

} // namespace maestro::transport
