// One sample: its sizes, and where its values are, which are read apart, by whoever needs them. Memory is reused: a run
// allocates only until it has seen its largest samples.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
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

/// An array of a sample; `bytes` are there once its values were read: dense, row-major, 64-byte aligned.
struct SampleField {
  bool present = false;
  DType dtype = DType::F32;
  Dims dims = {};
  std::span<const std::byte> bytes = {};

  size_t byteCount() const { return static_cast<size_t>(dims.elements()) * byteSize(dtype); }
};

/// What holds samples' values: an open file, or whoever makes them up.
class SampleValues {
public:
  virtual ~SampleValues() = default;
  /// Fills `values` with an array of a sample; both are as the sample says.
  virtual Status read(uint64_t number, size_t field, std::span<std::byte> values) = 0;
};

struct Sample {
  std::string key;
  std::string_view shard;               ///< Its shard's path, owned by the reader; empty for synthetic data.
  uint64_t ordinal = 0;                 ///< Index within its pass: what random numbers are keyed by.
  std::vector<SampleField> fields;      ///< In the order that the reader was asked for.
  DataPosition next;                    ///< Where reading continues after this sample.
  bool endsPass = false;                ///< The last one of its pass.
  std::shared_ptr<SampleValues> values; ///< Where its values are, until they were read,
  uint64_t number = 0;                  ///< and which of the samples there it is.

  /// "sample 'a/0001' of shard 'part-0.tar'", for messages.
  std::string describe() const;
};

/// Reads values of samples, on one thread.
class ValueReader {
public:
  /// Those of the present fields that `wanted` marks, into `storage`.
  Status read(Sample &sample, std::span<const uint8_t> wanted, ByteBuffer &storage);

private:
  size_t largest = 0; ///< Bytes of the largest sample so far.
};

} // namespace maestro::data
