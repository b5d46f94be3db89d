// Which part of a parameter a rank holds, and whole tensors made of parts, a piece at a time.
#pragma once

#include "executor/core/transfer.h"

#include <vector>

namespace maestro::executor {

/// A parameter is `runs` runs, and each of `count` ranks has an equal part of every run. Split in its first dim it is
/// one run. Whole parameters have one part.
struct Shard {
  uint32_t index = 0, count = 1;
  uint64_t runs = 1, partElements = 0; ///< Of one rank in one run.
};

/// The part that this instance's buffers of the parameter are.
Shard shardOf(const plan::Plan &plan, const ExecutableInstance &instance, plan::fb::BindingKind kind,
              uint32_t parameter);
Shard shardOf(const plan::Plan &plan, const plan::fb::Executable &executable, const TensorGroup &group,
              plan::fb::BindingKind kind, uint32_t parameter);

/// writeInPieces() of a rank's part, where `fill` fills elements of the whole tensor, a multiple of `multiple` at a
/// time.
Status writePart(const plan::Plan &plan, ExecutableInstance &instance, Device &device, plan::fb::BindingKind kind,
                 uint32_t parameter, uint64_t multiple, const FillPiece &fill);

/// Puts parts together again: bands of whole runs, of each band the ranks' parts in order. What `take` gets is the
/// whole tensor, in order.
class PartJoiner {
public:
  PartJoiner(const Shard &shard, size_t elementBytes, const TakePiece &take);

  uint64_t bands() const { return (shard.runs + runsPerBand - 1) / runsPerBand; }
  /// Bytes [begin, end) of every part that a band is made of.
  std::pair<uint64_t, uint64_t> range(uint64_t band) const;
  /// A piece of rank `part`'s bytes of the band, in order.
  Status add(uint64_t band, uint32_t part, std::span<const std::byte> piece);

private:
  Shard shard;
  uint64_t runBytes, runsPerBand;
  const TakePiece &take;
  std::vector<std::byte> joined; ///< A band, where parts interleave.
  uint64_t received = 0;         ///< Bytes of the band's part so far.
};

} // namespace maestro::executor
