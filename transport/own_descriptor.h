// A file descriptor that is closed when it goes.
#pragma once

#include <unistd.h>
#include <utility>

namespace maestro::transport {

class OwnDescriptor {
public:
  explicit OwnDescriptor(int number = -1) : number(number) {}
  OwnDescriptor(OwnDescriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  OwnDescriptor &operator=(OwnDescriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~OwnDescriptor() {
    if (number >= 0)
      ::close(number);
  }
  int get() const { return number; }

private:
  int number;
};

} // namespace maestro::transport
