// Quantities with their units in their types: a time is no number of bytes, and bytes ÷ (bytes a second) is a time.
//
//   Seconds t = Bytes(1 << 20) / gigabytesPerSecond(50) + microseconds(6);
#pragma once

#include <compare>

namespace maestro::cost_models {

/// seconds^Time · bytes^Byte · flops^Flop. Made explicitly from a number in base units; `value` is that number.
template <int Time, int Byte, int Flop> struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value(value) {}
  constexpr auto operator<=>(const Quantity &) const = default;
  constexpr Quantity operator+(Quantity other) const { return Quantity(value + other.value); }
  constexpr Quantity operator-(Quantity other) const { return Quantity(value - other.value); }
  constexpr Quantity operator*(double factor) const { return Quantity(value * factor); }
  constexpr Quantity operator/(double divisor) const { return Quantity(value / divisor); }
  constexpr Quantity &operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity &operator*=(double factor) { return *this = *this * factor; }
};

using Seconds = Quantity<1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using Flops = Quantity<0, 0, 1>; ///< Floating point operations; a multiply-add counts two.
using BytesPerSecond = Quantity<-1, 1, 0>;
using FlopsPerSecond = Quantity<-1, 0, 1>;

constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) { return Seconds(bytes.value / rate.value); }
constexpr Seconds operator/(Flops flops, FlopsPerSecond rate) { return Seconds(flops.value / rate.value); }
constexpr BytesPerSecond operator/(Bytes bytes, Seconds time) { return BytesPerSecond(bytes.value / time.value); }
constexpr FlopsPerSecond operator/(Flops flops, Seconds time) { return FlopsPerSecond(flops.value / time.value); }
/// How many times the one is the other.
template <int Time, int Byte, int Flop>
constexpr double ratio(Quantity<Time, Byte, Flop> one, Quantity<Time, Byte, Flop> other) {
  return one.value / other.value;
}

// Decimal prefixes, as vendors and cluster files write them.
constexpr Seconds microseconds(double value) { return Seconds(value * 1e-6); }
constexpr Bytes gigabytes(double value) { return Bytes(value * 1e9); }
constexpr BytesPerSecond gigabytesPerSecond(double value) { return BytesPerSecond(value * 1e9); }
constexpr FlopsPerSecond teraflopsPerSecond(double value) { return FlopsPerSecond(value * 1e12); }

} // namespace maestro::cost_models
