#include "planner/workload/key_listener.h"

#include <algorithm>

namespace maestro::planner {

thread_local KeyListener *KeyListener::current = nullptr;

/// Null where nobody listens, or nobody has asked for it: what is in a list has no key.
KeyListener::Key *KeyListener::find(const std::string &path) {
  if (!current)
    return nullptr;
  auto found =
      std::find_if(current->heard.begin(), current->heard.end(), [&](const Key &key) { return key.path == path; });
  return found == current->heard.end() ? nullptr : &*found;
}

void KeyListener::asked(const std::string &path) {
  if (current && !find(path))
    current->heard.push_back({path, {}, {}, false});
}

void KeyListener::isOfKind(const std::string &path, std::string_view kind) {
  if (Key *key = find(path); key && key->kind.empty())
    key->kind = kind;
}

void KeyListener::fallsBackTo(const std::string &path, std::string_view value) {
  if (Key *key = find(path); key && key->fallback.empty())
    key->fallback = value;
}

void KeyListener::isNeeded(const std::string &path) {
  if (Key *key = find(path))
    key->isNeeded = true;
}

} // namespace maestro::planner
