// Parameters between host and device in pieces: whatever a parameter's size, moving it takes two small buffers.
#pragma once

#include "base/status.h"
#include "executor/core/executable.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace maestro::executor {

/// Bytes of a piece, a whole number of elements of every type. Two pieces are in memory at a time.
inline constexpr size_t kPieceBytes = size_t{1} << 20;

using TakePiece = std::function<Status(std::span<const std::byte> piece)>;
using FillPiece = std::function<Status(uint64_t firstElement, std::span<std::byte> piece)>;

/// Where a parameter's Value, Gradient, Moment1 or Moment2 lies.
Result<Address> boundAddress(const ExecutableInstance &instance, plan::fb::BindingKind kind, uint32_t parameter);

/// Reads a bound buffer (Value, Gradient, Moment1, Moment2) of a parameter, in the buffer's own element type, from byte
/// `begin` to `end` (or its end): `take` gets one piece after the other. Waits for the device.
Status readInPieces(ExecutableInstance &instance, Device &device, plan::fb::BindingKind kind, uint32_t parameter,
                    const TakePiece &take, uint64_t begin = 0, uint64_t end = ~uint64_t{0});

/// The inverse: `fill` writes the elements from `firstElement` on. Every piece but the last holds a multiple of
/// `multiple` elements, even where those are more than a piece's bytes.
Status writeInPieces(ExecutableInstance &instance, Device &device, plan::fb::BindingKind kind, uint32_t parameter,
                     uint64_t multiple, const FillPiece &fill);

} // namespace maestro::executor
