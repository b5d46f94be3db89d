// A queue of a GPU: a stream, the events of its points, and a bound on what is under way.
#pragma once

#include "cuda/context.h"

#include <array>
#include <memory>

namespace maestro::executor {

class Stream {
public:
  static Result<std::unique_ptr<Stream>> create(const cuda::Context &context);
  ~Stream();

  CUstream get() const { return stream; }
  /// Returns when all that is queued is done.
  void drain();
  /// Before an operation is put on it: waits while too many are under way.
  Status makeRoom();
  /// The point behind all operations so far.
  Result<uint64_t> record();
  bool hasPassed(uint64_t point);
  /// Returns when the point has passed.
  Status synchronize(uint64_t point);
  /// Holds this stream until the other has passed the point.
  Status await(Stream &other, uint64_t point);

private:
  static constexpr uint64_t kPoints = 256;        ///< Of which the time is known that they have passed.
  static constexpr uint64_t kMaxOperations = 512; ///< The driver takes about 1,000 before a launch blocks.
  static constexpr uint64_t kOperationsPerPoint = 64;

  explicit Stream(const cuda::Context &context) : context(context) {}
  CUevent &eventOf(uint64_t point) { return events[point % kPoints]; }

  const cuda::Context &context;
  CUstream stream = nullptr;
  std::array<CUevent, kPoints> events{};
  std::array<uint64_t, kPoints> operationsAt{}; ///< By point: operations before it.
  uint64_t recorded = 0, passed = 0;            ///< Points.
  uint64_t operations = 0;
};

} // namespace maestro::executor
