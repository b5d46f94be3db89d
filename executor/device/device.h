// A device: memory behind opaque addresses and one in-order queue of work.
//
// Everything a rank does to its memory goes through its device's queue and completes by event:
// nothing may take "returned" for "done", or assume that the host can read device memory. A CPU
// device, a CPU device that completes late (tests), and later GPUs implement this interface.
//
// Errors of queued work (an index out of range in a kernel) surface at the next wait(), with the
// call's scope in the message; work queued behind a failure is skipped.
//
// Threads: one host thread drives a device. allocate() and prepare() may allocate host memory; the
// other operations do not, and block only when the queue (a bounded ring) is full.
#pragma once

#include "base/status.h"
#include "kernels/kernel.h"

#include <cstdint>
#include <functional>
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

/// A point in a device's queue; later points compare greater.
using Event = uint64_t;

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

/// What call() runs; a failure is the queue's.
using HostFunction = Status (*)(void *context, std::span<std::byte *const> pointers);

class Device {
public:
  virtual ~Device() = default;

  /// A zeroed block, 64-byte aligned. Freed with the device.
  virtual Result<Address> allocate(uint64_t bytes, std::string_view purpose) = 0;
  /// Memory that others made and that outlives the device, as a block: a ring that several ranks share.
  virtual Result<Address> adopt(void *memory, uint64_t bytes) = 0;
  /// Bytes allocated so far, kernels' scratch included; adopted ones are not.
  virtual uint64_t allocatedBytes() const = 0;

  virtual Result<std::unique_ptr<PreparedProgram>> prepare(std::span<const CallDescription> calls) = 0;
  /// Kernels of the programs that there are; calls that are alike share one.
  virtual size_t preparedKernels() const = 0;
  virtual size_t preparedBytes() const = 0; ///< About what they take.

  /// Queues. Host memory given to write() or read() must stay valid and unchanged (read: unread)
  /// until an event recorded afterwards has completed.
  virtual void write(Address destination, const void *source, uint64_t bytes) = 0;
  virtual void read(void *destination, Address source, uint64_t bytes) = 0;
  virtual void fillZero(Address destination, uint64_t bytes) = 0;
  /// `bases[r]` is region r's start for this launch. `task` tags trace spans.
  virtual void launch(const PreparedProgram &program, std::span<const Address> bases, int32_t task) = 0;

  /// Queues a function; it runs when all work before it is done, and what comes after waits for it.
  /// It gets the addresses as pointers that mean something only there. `context` must live until an
  /// event recorded afterwards has completed.
  virtual void call(HostFunction function, void *context, std::span<const Address> addresses) = 0;

  /// The point behind all work queued so far.
  virtual Event record() = 0;
  /// Returns when the queue has passed `event`; the first failure so far.
  virtual Status wait(Event event) = 0;

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

struct CpuDeviceOptions {
  int threads = 1; ///< Threads of each kernel.
  std::string name = "cpu0";
  /// Called once, on the device's thread, when queued work fails for the first time: whoever waits for what this device
  /// will now never do must learn of it.
  std::function<void(const Status &)> onFailure;
  std::function<void(DeviceSign)> onSign; ///< Short, and queues nothing.
  /// Traces also say how long the device's thread ran, which leaves out what other programs on its
  /// processor took.
  bool tracesOwnTime = false;
};

/// How the threads of CPU devices are called, and those that their kernels start.
inline constexpr const char *kCpuDeviceThread = "device";

/// A thread with an in-order queue that runs the library's kernels. Without a library (tests) programs hold no calls
/// and do nothing: whoever queues them says how long they take.
std::unique_ptr<Device> createCpuDevice(std::shared_ptr<const kernels::Library> library,
                                        const CpuDeviceOptions &options);

struct LateOptions {
  uint64_t seed = 0;           ///< Of the delays.
  uint32_t mostDelayUs = 1000; ///< 0: none.
};

/// For tests: the same, but every event completes only after a delay, so that code which does not wait fails; and its
/// memory can be read and written while its own thread runs what was queued, and faults at all other times, as it does
/// at both ends of every block.
std::unique_ptr<Device> createLateCpuDevice(std::shared_ptr<const kernels::Library> library,
                                            const CpuDeviceOptions &options, const LateOptions &late);

} // namespace maestro::executor
