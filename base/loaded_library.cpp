#include "base/loaded_library.h"

#include <dlfcn.h>

namespace maestro {

LoadedLibrary::LoadedLibrary(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      failures.clear();
      return;
    }
    failures += (failures.empty() ? "" : "; ") + std::string(::dlerror());
  }
}

void *LoadedLibrary::address(const char *name, const char *version) {
  void *found = !handle ? nullptr : version ? ::dlvsym(handle, name, version) : ::dlsym(handle, name);
  if (!found && firstMissing.empty())
    firstMissing = version ? std::string(name) + "@" + version : name;
  return found;
}

} // namespace maestro
