// Which keys the readers of YAML files know, as they ask for them: for the reference, which then cannot say anything
// else (reference.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace maestro::planner {

/// Hears, while it lives, of every key that readers of this thread ask for. One at a time.
class KeyListener {
public:
  struct Key {
    std::string path;
    std::string kind;     ///< "a whole number from 1 to 1024"; empty: known to whoever asks alone.
    std::string fallback; ///< What holds without it; empty: nothing, or known to whoever asks alone.
    bool isNeeded = false;
  };

  KeyListener() { current = this; }
  ~KeyListener() { current = nullptr; }
  KeyListener(const KeyListener &) = delete;
  KeyListener &operator=(const KeyListener &) = delete;

  const std::vector<Key> &keys() const { return heard; } ///< In the order in which they were first asked for.

  // ---- by readers; without effect where nobody listens

  static void asked(const std::string &path);
  static void isOfKind(const std::string &path, std::string_view kind);
  static void fallsBackTo(const std::string &path, std::string_view value);
  static void isNeeded(const std::string &path);

private:
  static Key *find(const std::string &path);
  static thread_local KeyListener *current;
  std::vector<Key> heard;
};

} // namespace maestro::planner
