// Where samples come from: readers (WebDataset, rows of files, synthetic) and the thread that runs ahead of the step
// loop with them.
//
//   reader ──read()──▶ ring of Samples (bounded, reused) ──next(count)──▶ a batch of sizes
//                                                                          │  its schedule says who needs what
//   Sample::values ──▶ values ◀── read(batch): those that batch.wanted names ◀┘
//
// A reader is sequential and single-threaded. A SampleSource owns one and calls it from its own thread, on which values
// are read, too; whole Samples are swapped through the ring, so that neither side copies or, once the largest were
// seen, allocates.
#pragma once

#include "base/status.h"
#include "executor/data/sample.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace maestro::data {

/// An endless sequence of samples, without their values: after the last one of a pass comes the first one of the next.
class SampleReader {
public:
  virtual ~SampleReader() = default;

  /// Continues from a position that an equal reader gave. Fails when the data has no such sample.
  virtual Status seek(const DataPosition &position) = 0;
  /// Describes the sample there in `sample`, reusing its memory, and moves on. After a failure only
  /// seek() may follow.
  virtual Status read(Sample &sample) = 0;
};

/// Samples of one step, reused from step to step.
struct SampleBatch {
  std::vector<Sample> samples; ///< The first `count` are valid.
  size_t count = 0;
  bool endsPass = false; ///< The last sample ends its pass: a run without --steps stops here.
  DataPosition next;     ///< For the checkpoint: where the next batch begins.

  std::vector<uint8_t> wanted;      ///< Samples × fields: whose values are read here; none at first.
  std::vector<ByteBuffer> storages; ///< Of samples of which any are.
  uint64_t valueBytes = 0;          ///< That were read.

  std::span<const Sample> view() const { return {samples.data(), count}; }
  size_t fields() const { return count > 0 ? samples.front().fields.size() : 0; }
  std::span<uint8_t> wantedOf(size_t sample) { return std::span(wanted).subspan(sample * fields(), fields()); }
};

/// Reads ahead on a thread of its own. One consumer.
class SampleSource {
public:
  struct Options {
    size_t queueSamples = 1; ///< Sizes known ahead of what was asked for; ≥ 1.
    size_t batches = 1;      ///< That may be in use at the same time.
  };
  /// Starts reading at `start`. Takes the reader.
  static Result<std::unique_ptr<SampleSource>> create(std::unique_ptr<SampleReader> reader, const Options &options,
                                                      const DataPosition &start = {});
  ~SampleSource(); ///< Ends the thread.

  /// The next `count` samples without their values, or fewer where a pass ends: no batch mixes passes. Waits for them.
  /// The batch is the source's, and stays until Options::batches later ones were asked for. A failure of the reader is
  /// reported when the samples before it were handed out.
  Result<SampleBatch *> next(size_t count);
  /// Begins to read the values that the batch wants, behind those of batches before it. Once a batch.
  void read(SampleBatch &batch);
  /// Waits for them. What went wrong, as often as it is asked.
  Status await(const SampleBatch &batch);

private:
  struct Ring;
  explicit SampleSource(std::unique_ptr<Ring> ring);
  std::unique_ptr<Ring> ring;
};

} // namespace maestro::data
