// Which kind of call a program makes, as planning asks for it (planner/emit/operator_costs.cpp): so
// what is measured is what is looked up.
#pragma once

#include "cost_models/kernel_curves.h"
#include "kernels/kernel.h"
#include "plan/plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::plan::fb {
struct Attribute;
struct Call;
struct Executable;
} // namespace maestro::plan::fb

namespace maestro::profile {

struct CallKind {
  std::string name;             ///< cost_models::callsOf()
  cost_models::CallSample work; ///< Its time is not set.
  double products = 1;          ///< That it makes, one behind the other.
};

class CallReader {
public:
  /// `dims`: of a micro-batch, by Plan.exprs. Both must outlive the reader.
  CallReader(const plan::Plan &plan, std::span<const int64_t> dims) : plan(plan), dims(dims) {}

  CallKind read(const plan::fb::Executable &executable, const plan::fb::Call &call);

private:
  std::vector<kernels::TensorType> typesOf(const plan::fb::Executable &executable,
                                           std::span<const uint32_t> buffers) const;
  double bytesMoved(const plan::fb::Call &call) const;
  bool isBf16() const;
  const plan::fb::Attribute *find(const plan::fb::Call &call, std::string_view name) const;
  bool flag(const plan::fb::Call &call, std::string_view name) const;
  void place(const plan::fb::Call &call, CallKind &kind);
  void placeProduct(const plan::fb::Call &call, CallKind &kind);
  void placeConvolution(CallKind &kind) const;
  void placeAttention(const plan::fb::Call &call, CallKind &kind);

  const plan::Plan &plan;
  std::span<const int64_t> dims;
  std::string kernel; ///< Of the call that is being read; with a word for its kind where that matters.
  std::vector<kernels::TensorType> inputs, outputs;
};

} // namespace maestro::profile
