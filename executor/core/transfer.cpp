#include "executor/core/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

/// Two buffers in turn: the host works on one while the device works on the other. Their memory outlives what was
/// queued on them, also where the host fails in between.
class Pieces {
public:
  explicit Pieces(Device &device) : device(device) {}
  ~Pieces() {
    Status done = device.drain();
    (void)done; // Whoever queued more work sees the failure.
  }

  /// The next buffer, when the device is done with it.
  Result<std::span<std::byte>> next(size_t size) {
    turn = 1 - turn;
    MAESTRO_TRY(device.wait(busyUntil[turn]));
    buffers[turn].resize(size);
    return std::span<std::byte>(buffers[turn]);
  }
  void queued() { busyUntil[turn] = device.record(Queue::Copy); }

private:
  Device &device;
  std::array<std::vector<std::byte>, 2> buffers;
  std::array<Point, 2> busyUntil{};
  size_t turn = 0;
};

struct Bound {
  Address address;
  uint64_t bytes = 0;
  size_t elementBytes = 1;
};

Result<Bound> find(const ExecutableInstance &instance, fb::BindingKind kind, uint32_t parameter) {
  uint32_t buffer = instance.boundBuffer(kind, parameter);
  if (buffer == kNone)
    return Status::internal(fmt::format("parameter {} has no {}", parameter, fb::EnumNameBindingKind(kind)));
  const fb::Buffer &table = *instance.table().buffers()->Get(buffer);
  return Bound{instance.address(buffer, 0), table.bytes(), byteSize(static_cast<DType>(table.dtype()))};
}

} // namespace

Result<Address> boundAddress(const ExecutableInstance &instance, fb::BindingKind kind, uint32_t parameter) {
  MAESTRO_ASSIGN(Bound bound, find(instance, kind, parameter));
  return bound.address;
}

Status readInPieces(ExecutableInstance &instance, Device &device, fb::BindingKind kind, uint32_t parameter,
                    const TakePiece &take, uint64_t begin, uint64_t end) {
  MAESTRO_ASSIGN(Bound bound, find(instance, kind, parameter));
  end = std::min(end, bound.bytes);
  Pieces pieces(device);
  std::span<std::byte> previous;
  for (uint64_t offset = begin; offset < end || !previous.empty();) {
    std::span<std::byte> piece;
    Point before = device.record(Queue::Copy);
    if (offset < end) {
      MAESTRO_ASSIGN(piece, pieces.next(std::min<uint64_t>(kPieceBytes, end - offset)));
      device.read(Queue::Copy, piece.data(), bound.address + offset, piece.size());
      pieces.queued();
      offset += piece.size();
    }
    if (!previous.empty()) {
      MAESTRO_TRY(device.wait(before));
      MAESTRO_TRY(take(previous));
    }
    previous = piece;
  }
  return Status();
}

Status writeInPieces(ExecutableInstance &instance, Device &device, fb::BindingKind kind, uint32_t parameter,
                     uint64_t multiple, const FillPiece &fill) {
  MAESTRO_ASSIGN(Bound bound, find(instance, kind, parameter));
  uint64_t unit = std::max<uint64_t>(multiple, 1) * bound.elementBytes;
  uint64_t pieceBytes = std::max<uint64_t>(kPieceBytes / unit, 1) * unit;
  Pieces pieces(device);
  for (uint64_t offset = 0; offset < bound.bytes;) {
    MAESTRO_ASSIGN(std::span<std::byte> piece, pieces.next(std::min(pieceBytes, bound.bytes - offset)));
    MAESTRO_TRY(fill(offset / bound.elementBytes, piece));
    device.write(Queue::Copy, bound.address + offset, piece.data(), piece.size());
    pieces.queued();
    offset += piece.size();
  }
  return device.drain();
}

} // namespace maestro::executor
