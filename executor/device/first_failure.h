// What a device keeps of its failures: the first, told once to whoever waits for what will now never be done.
#pragma once

#include "base/status.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

namespace maestro::executor {

/// Threads: any.
class FirstFailure {
public:
  /// Whether there is one and everybody may see it.
  explicit operator bool() const { return isVisible; }
  /// `onFailure` is called for the first one, before anybody who waits sees it.
  void set(Status status, const std::function<void(const Status &)> &onFailure) {
    if (isTaken.exchange(true))
      return;
    if (onFailure)
      onFailure(status);
    std::lock_guard lock(mutex);
    first = std::move(status);
    isVisible = true;
  }
  Status status() const {
    std::lock_guard lock(mutex);
    return first.isOk() ? Status() : Status(first.code(), std::string(first.message()));
  }

private:
  std::atomic<bool> isTaken{false}, isVisible{false};
  mutable std::mutex mutex;
  Status first;
};

} // namespace maestro::executor
