// How the processes of a job find each other, stay in touch, and end together: a TCP connection from each to process 0.
//
//   meet()     process 0 listens; the others come, prove that they know the job's secret, and are compared with it
//   ask()      everybody's record to process 0, which answers each: addresses, decisions, barriers
//   watch()    from then on signs of life with what ranks do, several times a second, and the job's end with its cause
//
// Who is not of this job (no proof, another protocol, noise) is turned away and logged, and harms nobody. Who is, and
// has another plan, version or number, ends the start of all with a message that names both.
//
// A process that dies shows within milliseconds, by its connection; one that is stopped or cut off by its silence.
// Messages: messages.h. Cost: one connection a process, and two messages a process for each question; what an answer
// says is for its process alone, so that it need not grow with their number.
#pragma once

#include "base/status.h"
#include "transport/abort.h"
#include "transport/control/launch.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport {

/// Machines that a job may lose for good: whoever has come then goes on, as a job of the others.
struct SpareMachines {
  uint32_t machines = 0; ///< Of the whole job, with equally many processes each.
  uint32_t mostLost = 0; ///< 0: the job goes on whole or not at all.
  std::chrono::milliseconds patience = std::chrono::seconds(15); ///< Until those that have not come are lost.
};

struct ControlOptions {
  Launch launch;
  SpareMachines spares;             ///< Known to process 0, whose machine is never lost.
  std::string secret;               ///< Empty: none; then only loopback addresses are met.
  std::string interface;            ///< A network interface's name or address; empty: that of the route to process 0.
  std::string version, plan, flags; ///< Alike in all processes; see Introduction.
  std::function<bool()> isStopped = [] { return false; };         ///< The user wants the meeting to end.
  std::chrono::milliseconds patience = std::chrono::seconds(120); ///< Until all must have come.
  std::chrono::milliseconds silence = std::chrono::seconds(6); ///< Without a sign of life, until a process is given up.
};

/// What the process does with what others say; by the control's thread, short.
struct ControlHooks {
  std::function<std::vector<std::byte>()> beat;                                  ///< What this process's ranks do.
  std::function<void(uint32_t process, std::span<const std::byte> beat)> onBeat; ///< In process 0.
  /// Why this process has ended the job: asked when its abort is raised.
  std::function<Status()> cause;
  /// The job has ended for a cause of another process, of `rank`. Where nobody has ended it yet here.
  std::function<void(uint32_t rank, const Status &cause)> onStop;
  /// The rank that leads has done all there was to do (finish()).
  std::function<void()> onFinish;
};

class Control {
public:
  /// Returns when all have met. InvalidInput where processes do not fit together, or one is not let in; Unavailable
  /// where not all have come in time, naming those; Interrupted where the user asked for it, or the job goes on without
  /// this process because not all of its machine's have come.
  static Result<std::unique_ptr<Control>> meet(const ControlOptions &options);
  virtual ~Control() = default;

  /// This one, and how many there are: those of the launch, or fewer, renumbered, where machines are lost.
  virtual uint32_t process() const = 0;
  virtual uint32_t processes() const = 0;
  virtual uint32_t lostMachines() const = 0;
  /// Of this machine, by which the others reach it.
  virtual const std::string &address() const = 0;
  /// "process 3 (node7, pid 4711)"
  virtual std::string nameOf(uint32_t process) const = 0;

  using Bytes = std::vector<std::byte>;
  /// What process 0 says to a process, given all records, in order of processes; asked there for each, in order.
  using Answer = std::function<Bytes(const std::vector<Bytes> &records, uint32_t process)>;
  /// The answer to this process, when all have given their records. All call it alike.
  virtual Result<Bytes> ask(std::span<const std::byte> own, const Answer &answer) = 0;
  /// One answer for all.
  Result<Bytes> askForAll(std::span<const std::byte> own,
                          const std::function<Bytes(const std::vector<Bytes> &)> &answer) {
    Bytes one;
    return ask(own, [&](const std::vector<Bytes> &records, uint32_t process) {
      if (process == 0)
        one = answer(records);
      return one;
    });
  }
  /// Returns when all have called it.
  Status meetAgain() {
    return ask({}, [](const auto &, uint32_t) { return Bytes(); }).takeStatus();
  }

  /// Signs of life, and the end, from now on. `abort` is this process's; a cause raised there goes to all. It, and what
  /// the hooks look at, must outlive this.
  virtual void watch(const Abort &abort, uint32_t ranks, ControlHooks hooks) = 0;
  /// By one process: tells the others that what there was to do is done.
  virtual void finish() = 0;
  /// By all, at the end: returns when all have called it; then nobody's going is a failure any more.
  virtual Status leave() = 0;
  /// By how much process 0's monotonic clock (nowNs()) is ahead of this process's; better the longer both are in touch.
  virtual int64_t clockAheadNs() const = 0;
  /// The first cause of the job's end, the same in all processes, once it is known here; else `own`.
  virtual Status causeOfEnd(Status own) = 0;
};

} // namespace maestro::transport
