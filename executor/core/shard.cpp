#include "executor/core/shard.h"

#include <algorithm>
#include <cstring>

namespace maestro::executor {

namespace fb = plan::fb;

Shard shardOf(const plan::Plan &plan, const fb::Executable &executable, const TensorGroup &group, fb::BindingKind kind,
              uint32_t parameter) {
  const auto &shape = *plan->parameters()->Get(parameter)->shape();
  uint32_t dim = kNone;
  for (const fb::Binding *binding : *executable.bindings())
    if (binding->kind() == kind && binding->index() == parameter)
      dim = binding->split_dim();
  Shard shard;
  shard.partElements = 1;
  for (uint32_t d = 0; d < shape.size(); ++d)
    (dim != kNone && d < dim ? shard.runs : shard.partElements) *= static_cast<uint64_t>(shape.Get(d));
  if (dim != kNone) {
    shard.index = group.index;
    shard.count = group.count;
    shard.partElements /= group.count;
  }
  return shard;
}

Shard shardOf(const plan::Plan &plan, const ExecutableInstance &instance, fb::BindingKind kind, uint32_t parameter) {
  return shardOf(plan, instance.table(), instance.tensorGroup(), kind, parameter);
}

Status writePart(const plan::Plan &plan, ExecutableInstance &instance, Device &device, fb::BindingKind kind,
                 uint32_t parameter, uint64_t multiple, const FillPiece &fill) {
  Shard shard = shardOf(plan, instance, kind, parameter);
  if (shard.count == 1)
    return writeInPieces(instance, device, kind, parameter, multiple, fill);
  if (shard.runs == 1) // One stretch of the whole tensor.
    return writeInPieces(instance, device, kind, parameter, multiple, [&](uint64_t first, std::span<std::byte> piece) {
      return fill(shard.index * shard.partElements + first, piece);
    });
  std::vector<std::byte> whole; // Runs of all ranks, of which this one's are kept.
  return writeInPieces(
      instance, device, kind, parameter, shard.partElements, [&](uint64_t first, std::span<std::byte> piece) -> Status {
        whole.resize(piece.size() * shard.count);
        MAESTRO_TRY(fill(first * shard.count, whole));
        size_t elementBytes = byteSize(
            static_cast<DType>(instance.table().buffers()->Get(instance.boundBuffer(kind, parameter))->dtype()));
        size_t runBytes = shard.partElements * elementBytes;
        for (size_t run = 0; run < piece.size() / runBytes; ++run)
          std::memcpy(&piece[run * runBytes], &whole[(run * shard.count + shard.index) * runBytes], runBytes);
        return Status();
      });
}

PartJoiner::PartJoiner(const Shard &shard, size_t elementBytes, const TakePiece &take)
    : shard(shard), runBytes(shard.partElements * elementBytes),
      runsPerBand(
          std::clamp<uint64_t>(kPieceBytes / std::max<uint64_t>(runBytes, 1), 1, std::max<uint64_t>(shard.runs, 1))),
      take(take) {}

std::pair<uint64_t, uint64_t> PartJoiner::range(uint64_t band) const {
  return {band * runsPerBand * runBytes, std::min((band + 1) * runsPerBand, shard.runs) * runBytes};
}

Status PartJoiner::add(uint64_t band, uint32_t part, std::span<const std::byte> piece) {
  if (shard.runs == 1) // Parts lie one after the other.
    return take(piece);
  auto [begin, end] = range(band);
  joined.resize((end - begin) * shard.count);
  for (size_t at = 0; at < piece.size();) {
    uint64_t run = received / runBytes, within = received % runBytes;
    size_t size = std::min<size_t>(runBytes - within, piece.size() - at);
    std::memcpy(&joined[(run * shard.count + part) * runBytes + within], &piece[at], size);
    at += size;
    received += size;
  }
  if (received < end - begin)
    return Status();
  received = 0;
  return part + 1 == shard.count ? take(joined) : Status();
}

} // namespace maestro::executor
