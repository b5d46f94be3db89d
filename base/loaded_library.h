// Shared libraries that are loaded by name when they are needed, so that a program starts where they are missing.
#pragma once

#include "base/status.h"

#include <initializer_list>
#include <string>

namespace maestro {

/// Stays loaded until the process ends.
class LoadedLibrary {
public:
  /// The first of these that the loader finds.
  explicit LoadedLibrary(std::initializer_list<const char *> names);

  explicit operator bool() const { return handle; }
  /// What the loader said of each name; empty where one was found.
  const std::string &failure() const { return failures; }

  /// Fills in a pointer to the function of that name, and of that version of the library's symbols where one is given;
  /// null where there is none.
  template <typename Function> void find(Function *&function, const char *name, const char *version = nullptr) {
    function = reinterpret_cast<Function *>(address(name, version));
  }
  /// The first function that was asked for and not found, "name" or "name@version"; empty where all were.
  const std::string &missing() const { return firstMissing; }

private:
  void *address(const char *name, const char *version);

  void *handle = nullptr;
  std::string failures, firstMissing;
};

/// A table of functions that was loaded once for the process, or why it was not.
template <typename Table> Result<const Table *> pointerTo(const Result<Table> &loaded) {
  if (!loaded)
    return Status(loaded.status().code(), std::string(loaded.status().message()));
  return &*loaded;
}

} // namespace maestro
