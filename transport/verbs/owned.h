// An object of libibverbs, destroyed by one of the library's functions.
#pragma once

#include <utility>

namespace maestro::transport {

template <typename T> class Owned {
public:
  Owned() = default;
  Owned(T *object, int (*destroy)(T *)) : object(object), destroy(destroy) {}
  Owned(Owned &&other) noexcept : object(std::exchange(other.object, nullptr)), destroy(other.destroy) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(object, other.object);
    std::swap(destroy, other.destroy);
    return *this;
  }
  ~Owned() {
    if (object)
      (void)destroy(object);
  }
  T *get() const { return object; }
  T *operator->() const { return object; }
  explicit operator bool() const { return object; }

private:
  T *object = nullptr;
  int (*destroy)(T *) = nullptr;
};

} // namespace maestro::transport
