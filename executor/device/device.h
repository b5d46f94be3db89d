// A device: memory behind opaque addresses, and queues of work.
//
// Four queues run side by side, each in order. A Point is a place in one of them; await() holds one queue back until
// another has passed a point. Words are counters in memory that ranks share: awaitWord() holds a queue back until
// others have counted far enough, and signal() counts for others. So programs, copies and what ranks tell each other
// are ordered on the device, and no host thread stands in between: wait() is the only place where the host blocks, and
// it ends when the job is aborted.
//
// Everything that a rank does to its memory goes through these queues. Nothing may take "returned" for "done", or
// assume that the host can read device memory: no call hands out a pointer to it. A CPU device, a CPU device that
// completes late (tests), and later GPUs implement this interface.
//
// Errors of queued work (an index out of range in a kernel) surface at the next wait(), with the call's scope in the
// message; work queued behind a failure, in any queue, is skipped.
//
// Threads: one host thread at a time drives a device. allocate(), adopt() and prepare() may allocate host memory; the
// other operations do not, and block only when a queue (a bounded ring) is full.
#pragma once

#include "base/status.h"
#include "executor/device/box.h"
#include "kernels/kernel.h"
#include "transport/fabric.h"
#include "transport/wait.h"
#include "transport/word.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::executor {

/// A position in device memory. Only the device can turn it into a pointer.
struct Address {
  uint32_t block = 0; ///< 0: none.
  uint64_t offset = 0;
  bool isNull() const { return block == 0; }
  Address operator+(uint64_t bytes) const { return {block, offset + bytes}; }
};

/// What the queues are for. A device may serve several of them by one engine, in the order of submission.
enum class Queue : uint8_t { Compute, Send, Receive, Copy };
inline constexpr size_t kQueues = 4;

/// A place in a queue: behind the work that was queued there before. It has passed when that work is done, and what it
/// sends over a fabric has left this device's memory.
struct Point {
  Queue queue = Queue::Compute;
  uint64_t count = 0; ///< 0: always passed.
  uint64_t sent = 0;  ///< Writes over a fabric.
};

/// Where an operand of a call lies: a region of the executable and an offset in it. The region's
/// base is given at launch, so that one prepared program serves every slot.
struct OperandRef {
  static constexpr uint32_t kAbsent = ~0u;
  uint32_t region = kAbsent;
  uint64_t offset = 0;
};

/// One kernel call with shapes resolved, to be prepared.
struct CallDescription {
  std::string_view kernel; ///< Outlives the device, like `scope`: traces show it after the program is gone.
  std::vector<kernels::Attribute> attributes;
  std::vector<kernels::TensorType> inputTypes, outputTypes;
  std::vector<OperandRef> inputs, outputs;
  std::string_view scope; ///< Outlives the device; shown in errors and traces.
};

/// A list of calls prepared for one device and fixed shapes. Owned by the caller; it must outlive
/// the launches that use it.
class PreparedProgram {
public:
  virtual ~PreparedProgram() = default;
};

/// One executed call or copy, as the trace shows it. Times are steady-clock nanoseconds.
struct TraceSpan {
  std::string_view name, scope;
  int64_t startNs = 0, endNs = 0;
  int32_t task = -1; ///< The tag given to launch().
  int64_t ownNs = 0; ///< With CpuDeviceOptions.tracesOwnTime: what the device's thread ran of it.
};

/// When a stretch of a queue's work ran, in steady-clock nanoseconds. Lives until a point behind its end has passed.
struct Span {
  int64_t startNs = 0, endNs = 0;
  int64_t leastNs = 0; ///< The queue rests at the end until it has taken so long: rehearsals of a schedule.
};

class Device {
public:
  virtual ~Device() = default;

  /// A zeroed block, 64-byte aligned. Freed with the device.
  virtual Result<Address> allocate(uint64_t bytes, std::string_view purpose) = 0;
  /// Memory that several ranks see and that outlives the device, as a block: rings, staging, gradients that others add.
  /// What is reached over a fabric can be written by copy() and put() alone.
  virtual Result<Address> adopt(const transport::Target &memory, uint64_t bytes) = 0;
  /// Bytes allocated so far, kernels' scratch included; adopted ones are not.
  virtual uint64_t allocatedBytes() const = 0;

  virtual Result<std::unique_ptr<PreparedProgram>> prepare(std::span<const CallDescription> calls) = 0;
  /// Kernels of the programs that there are; calls that are alike share one.
  virtual size_t preparedKernels() const = 0;
  /// What the bits of results depend on beside the plan, seed and data: model and versions by name. Empty: nothing.
  virtual std::map<std::string, std::string> identity() const { return {}; }
  virtual size_t preparedBytes() const = 0; ///< About what they take.

  // ---- work, in the order of its queue

  /// Host memory given to write() or read() must stay valid and unchanged (read: unread) until a point behind it has
  /// passed.
  virtual void write(Queue queue, Address to, const void *from, uint64_t bytes) = 0;
  virtual void read(Queue queue, void *to, Address from, uint64_t bytes) = 0;
  /// The bytes are taken at once.
  virtual void put(Queue queue, Address to, std::span<const std::byte> bytes) = 0;
  static constexpr size_t kMostPutBytes = 64;
  virtual void fillZero(Queue queue, Address to, uint64_t bytes) = 0;
  /// A strided copy; offsets of the box are added to `to` and `from`. The two do not overlap.
  virtual void copy(Queue queue, Address to, Address from, const Box &box) = 0;
  void copy(Queue queue, Address to, Address from, uint64_t bytes) {
    copy(queue, to, from, Box::contiguous(0, 0, bytes));
  }
  /// to[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + …, in f32 and in this order. `to` may be one of the parts.
  virtual void sum(Queue queue, Address to, std::span<const Address> parts, uint64_t floats) = 0;
  /// On Queue::Compute. `bases[r]` is region r's start for this launch. `task` tags trace spans.
  virtual void launch(const PreparedProgram &program, std::span<const Address> bases, int32_t task) = 0;

  // ---- order

  /// The point behind all work queued there so far.
  virtual Point record(Queue queue) = 0;
  /// Holds the queue until the point has passed. In its own queue that means what was sent, for the rest is in order.
  virtual void await(Queue queue, Point point) = 0;
  /// Holds the queue until the word is `atLeast`, or the job is aborted. The note says who waits for what.
  virtual void awaitWord(Queue queue, transport::Word &word, uint64_t atLeast, const transport::WaitNote &note) = 0;
  /// Adds to the word when the work before is done, and others who see that see what it wrote.
  virtual void signal(Queue queue, const transport::WordTarget &word, uint64_t count) = 0;

  /// Returns when the point has passed; the first failure so far.
  virtual Status wait(Point point) = 0;
  /// wait() for all that is queued.
  virtual Status drain() = 0;

  // ---- times

  virtual void begin(Queue queue, Span &span) = 0;
  virtual void end(Queue queue, Span &span) = 0;
  /// Collects a span per executed call from now on; at most `capacity` (later ones are dropped).
  virtual void enableTrace(size_t capacity) = 0;
  /// The spans collected; call when idle.
  virtual std::span<const TraceSpan> trace() const = 0;
};

/// What a device tells whoever watches for progress.
enum class DeviceSign : uint8_t {
  Kernel, ///< On the device's thread: a kernel begins.
  Idle,
  Busy, ///< On the device's thread: the queue is empty; there is work again.
  HostAwaits,
  HostResumes, ///< On the host's thread: it waits for the device, and goes on.
};

struct DeviceOptions {
  uint32_t rank = 0; ///< For whoever watches.
  /// Called once, on the device's thread, when queued work fails for the first time: whoever waits for what this device
  /// will now never do must learn of it.
  std::function<void(const Status &)> onFailure;
  std::function<void(DeviceSign)> onSign; ///< Short, and queues nothing.
  /// On the device's thread: a span begins or, with its times, has ended. Short, and queues nothing.
  std::function<void(const Span &, bool hasEnded)> onSpan;
  /// Ends every wait for a word; null where the device is alone.
  const transport::Abort *abort = nullptr;
};

struct CpuDeviceOptions : DeviceOptions {
  int threads = 1; ///< Threads of each kernel.
  /// Traces also say how long the device's thread ran, which leaves out what other programs on its
  /// processor took.
  bool tracesOwnTime = false;
};

/// How the threads of CPU devices are called, and those that their kernels start.
inline constexpr const char *kCpuDeviceThread = "device";

/// A thread that runs the library's kernels and all queues, in the order of submission: on a CPU, who copies keeps a
/// core from computing. Without a library (tests) programs hold no calls and do nothing: spans say how long they take.
std::unique_ptr<Device> createCpuDevice(std::shared_ptr<const kernels::Library> library,
                                        const CpuDeviceOptions &options);

struct LateOptions {
  uint64_t seed = 0;           ///< Of the delays.
  uint32_t mostDelayUs = 1000; ///< 0: none.
};

/// For tests: the same, but each queue has a thread of its own, and work completes only after a delay, so that code
/// which does not wait, or does not hold one queue back for another, fails; and its memory can be read and written
/// while a thread of its own runs what was queued, and faults at all other times, as it does at both ends of every
/// block.
std::unique_ptr<Device> createLateCpuDevice(std::shared_ptr<const kernels::Library> library,
                                            const CpuDeviceOptions &options, const LateOptions &late);

} // namespace maestro::executor
