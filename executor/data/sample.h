// One sample in memory. Samples are reused: reading into one keeps its memory, so that a run
// allocates only until it has seen its largest samples.
#pragma once

#include "base/dtype.h"
#include "executor/data/dims.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::data {

/// Where reading continues. Plain data that a checkpoint stores; only the reader that made it, over
/// the same data, gives it meaning. A default one is the beginning.
struct DataPosition {
  uint64_t pass = 0;    ///< Passes over the data that were completed.
  uint64_t shard = 0;   ///< In file order only: index of the shard …
  uint64_t sample = 0;  ///< … and of the sample in it.
  uint64_t ordinal = 0; ///< Samples of this pass that were read.
  bool operator==(const DataPosition &) const = default;
};

/// Uninitialised bytes that grow and never shrink.
class ByteBuffer {
public:
  /// The first `size` bytes, 64-byte aligned; contents are lost when they had to grow. Room for `expected` bytes is
  /// made at once: buffers that take turns then settle in one round.
  std::span<std::byte> resize(size_t size, size_t expected = 0);
  std::span<const std::byte> bytes() const { return {start.get(), used}; }

private:
  struct Free {
    void operator()(std::byte *start) const;
  };
  std::unique_ptr<std::byte[], Free> start;
  size_t used = 0;
  size_t capacity = 0;
};

/// An array of a sample; `bytes` lie in the sample's storage: dense, row-major, 64-byte aligned.
struct SampleField {
  bool present = false;
  DType dtype = DType::F32;
  Dims dims = {};
  std::span<const std::byte> bytes = {};
};

struct Sample {
  std::string key;
  std::string_view shard;          ///< Its shard's path, owned by the reader; empty for synthetic data.
  uint64_t ordinal = 0;            ///< Index within its pass: what random numbers are keyed by.
  std::vector<SampleField> fields; ///< In the order that the reader was asked for.
  DataPosition next;               ///< Where reading continues after this sample.
  bool endsPass = false;           ///< The last one of its pass.
  ByteBuffer storage;              ///< Of all fields.

  /// "sample 'a/0001' of shard 'part-0.tar'", for messages.
  std::string describe() const;
};

} // namespace maestro::data
