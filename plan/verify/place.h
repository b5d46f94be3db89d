// Where in a plan something is, for messages: `plan.executables[0].buffers[12].offset`.
//
// Places live on the stack and refer to their parents; text is made only when something is wrong.
#pragma once

#include "base/status.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace maestro::plan {

class Place {
public:
  static Place root() { return Place(nullptr, "plan", kNoIndex); }

  /// `this.name`. The parent must outlive the result.
  Place operator/(const char *name) const { return Place(this, name, kNoIndex); }
  /// `this.name[index]`
  Place item(const char *name, size_t index) const { return Place(this, name, index); }

  std::string str() const {
    std::string text = parent ? parent->str() + "." + name : name;
    return index == kNoIndex ? text : fmt::format("{}[{}]", text, index);
  }

private:
  static constexpr size_t kNoIndex = ~size_t{0};
  Place(const Place *parent, const char *name, size_t index) : parent(parent), name(name), index(index) {}

  const Place *parent;
  const char *name;
  size_t index;
};

/// InvalidInput "<place>: <message>".
template <typename... Args> Status wrong(const Place &place, fmt::format_string<Args...> message, Args &&...args) {
  return Status::invalidInput(place.str() + ": " + fmt::format(message, std::forward<Args>(args)...));
}

} // namespace maestro::plan
