// Where samples come from: readers (WebDataset, synthetic) and the thread that runs ahead of the
// step loop with them.
//
//   reader ──read()──▶ ring of Samples (bounded, reused) ──next(count)──▶ step loop
//
// A reader is sequential and single-threaded. A SampleSource owns one and calls it from its own
// thread; whole Samples are swapped through the ring, so that neither side copies or, once the ring
// has seen the largest samples, allocates.
#pragma once

#include "base/status.h"
#include "executor/data/sample.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace maestro::data {

/// An endless sequence of samples: after the last one of a pass comes the first one of the next.
class SampleReader {
public:
  virtual ~SampleReader() = default;

  /// Continues from a position that an equal reader gave. Fails when the data has no such sample.
  virtual Status seek(const DataPosition &position) = 0;
  /// Reads the sample there into `sample`, reusing its memory, and moves on. After a failure only
  /// seek() may follow.
  virtual Status read(Sample &sample) = 0;
};

/// Samples of one step, reused from step to step.
struct SampleBatch {
  std::vector<Sample> samples; ///< The first `count` are valid.
  size_t count = 0;
  bool endsPass = false; ///< The last sample ends its pass: a run without --steps stops here.
  DataPosition next;     ///< For the checkpoint: where the next batch begins.

  std::span<const Sample> view() const { return {samples.data(), count}; }
};

/// Reads ahead on a thread of its own. One consumer.
class SampleSource {
public:
  /// Starts reading at `start`, at most `queueSamples` (≥ 1) samples ahead. Takes the reader.
  static Result<std::unique_ptr<SampleSource>> create(std::unique_ptr<SampleReader> reader, size_t queueSamples,
                                                      const DataPosition &start = {});
  ~SampleSource(); ///< Ends the thread.

  /// The next `count` samples, or fewer where a pass ends: no batch mixes passes. Waits for them. A
  /// failure of the reader is reported when the samples before it were handed out.
  Status next(size_t count, SampleBatch &batch);

private:
  struct Ring;
  explicit SampleSource(std::unique_ptr<Ring> ring);
  std::unique_ptr<Ring> ring;
};

} // namespace maestro::data
