// One executable of a plan on a device of its own: its programs run as a rank's would, each behind a pulse of a known
// product.
#pragma once

#include "executor/core/executable.h"
#include "executor/device/device.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "tools/profile/subjects.h"

#include <array>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace maestro::profile {

class Stand {
public:
  /// A micro-batch's programs, in this order; what never trains has Evaluate in place of the first.
  static constexpr std::array kKinds = {plan::fb::ProgramKind::Forward, plan::fb::ProgramKind::Backward,
                                        plan::fb::ProgramKind::WeightGradient};
  /// Behind all micro-batches, once a step: what trains has both.
  static constexpr std::array kUpdateKinds = {plan::fb::ProgramKind::Norm, plan::fb::ProgramKind::Update};
  static constexpr size_t kPulseCalls = 4;
  /// Of a pulse in traces.
  static constexpr int32_t kPulseTask = -2;

  /// Executable `index` of the plan, which outlives it, on `threads` threads, with values of its own in what its
  /// programs read.
  static Result<std::unique_ptr<Stand>> make(const plan::Plan &plan, uint32_t index, int threads);
  /// What is queued, where a round failed halfway, reads memory that goes with this.
  ~Stand() { (void)device->drain(); }

  /// Whether there is anything to run.
  bool isEmpty() const { return calls() == 0; }

  /// A micro-batch's programs, one after the other, with a pulse before each; `task` and the next numbers are theirs in
  /// traces.
  Status round(std::span<const int64_t> sizes, int32_t task);
  /// Norm and optimizer, if it trains, with a pulse before; likewise.
  Status update(int32_t task);

  /// Of a round and of an update, with their pulses.
  size_t calls() const;
  size_t updateCalls() const;
  /// Of kKinds; null where there is none.
  const plan::fb::Program *program(size_t kind) const;
  Result<executor::BoundShapes *> shapes(std::span<const int64_t> sizes) { return instance->bind(sizes); }
  void trace(size_t spans) { device->enableTrace(spans); }
  std::span<const executor::TraceSpan> traced() const { return device->trace(); }

private:
  explicit Stand(const plan::Plan &plan) : plan(plan), pulseSubject(pulseProduct()) {}

  Status fill();
  void writeFields(const executor::BoundShapes &shapes);
  void fillField(const plan::fb::Field *field, DType dtype, const std::vector<int64_t> &symbols,
                 std::vector<std::byte> &bytes) const;
  Status preparePulse();

  const plan::Plan &plan;
  Subject pulseSubject;
  std::unique_ptr<executor::Device> device;
  std::unique_ptr<executor::ExecutableInstance> instance;
  std::unique_ptr<executor::PreparedProgram> pulse;
  std::vector<executor::Address> pulseBases;
  std::map<std::pair<uint32_t, std::vector<int64_t>>, std::vector<std::byte>> fields; ///< By buffer and sizes.
};

} // namespace maestro::profile
