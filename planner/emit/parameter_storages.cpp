#include "planner/emit/parameter_storages.h"

#include <algorithm>

namespace maestro::planner {

namespace fb = plan::fb;
using plan::kNone;

std::vector<uint32_t> ParameterStorages::shapeOf(uint32_t parameter) {
  return tables.constants(parameters[parameter].shape);
}

void ParameterStorages::add(std::vector<uint32_t> &list, uint32_t parameter, fb::BindingKind kind,
                            fb::RegionKind region, DType dtype) {
  uint64_t elements = 1;
  for (int64_t dim : parameters[parameter].shape)
    elements *= dim;
  list[parameter] = storages.addFixed(region, elements * byteSize(dtype));
  bindings.push_back(
      {kind, parameter, View{list[parameter], shapeOf(parameter), dtype}, parameters[parameter].splitDim});
}

void ParameterStorages::layOut() {
  for (std::vector<uint32_t> *list : {&values, &gradients, &moment1, &moment2})
    list->assign(parameters.size(), kNone);
  for (uint32_t p = 0; p < parameters.size(); ++p)
    if (parameters[p].present)
      add(values, p, fb::BindingKind::Value, fb::RegionKind::Parameters, parameters[p].dtype);
  // Gradients that this executable counts in the norm come first, whole ones and then split ones, a range each.
  for (Counted group : {Counted::Whole, Counted::InParts, Counted::Elsewhere}) {
    for (uint32_t p = 0; p < parameters.size(); ++p)
      if (parameters[p].present && parameters[p].trainable && counted(p) == group)
        layOutTrained(p);
    if (group != Counted::Elsewhere)
      (group == Counted::Whole ? wholeEnd : partsEnd) = storages.regionBytes(fb::RegionKind::Gradients);
  }
}

ParameterStorages::Counted ParameterStorages::counted(uint32_t parameter) const {
  if (!parameters[parameter].owned)
    return Counted::Elsewhere;
  return parameters[parameter].splitDim == kNone ? Counted::Whole : Counted::InParts;
}

void ParameterStorages::layOutTrained(uint32_t parameter) {
  plan::GroupOptimizer optimizer = optimizerOf(parameter);
  add(gradients, parameter, fb::BindingKind::Gradient, fb::RegionKind::Gradients, DType::F32);
  if (optimizer.keepsFirstMoment())
    add(moment1, parameter, fb::BindingKind::Moment1, fb::RegionKind::OptimizerState, DType::F32);
  if (optimizer.keepsSecondMoment())
    add(moment2, parameter, fb::BindingKind::Moment2, fb::RegionKind::OptimizerState, DType::F32);
}

bool ParameterStorages::anyGradient() const {
  return std::any_of(gradients.begin(), gradients.end(), [](uint32_t storage) { return storage != kNone; });
}

uint32_t ParameterStorages::lowPrecisionCopy(uint32_t valueStorage) {
  auto value = std::find(values.begin(), values.end(), valueStorage);
  if (value == values.end())
    return kNone;
  auto [position, isNew] = lowPrecision.try_emplace(value - values.begin(), kNone);
  if (isNew)
    position->second = storages.addFixed(fb::RegionKind::Parameters, storages[valueStorage].bytes / 2);
  return position->second;
}

std::vector<PendingCall> ParameterStorages::normCalls() {
  std::vector<PendingCall> calls;
  calls.push_back(normCall(0, 0, wholeEnd));
  if (partsEnd > wholeEnd)
    calls.push_back(normCall(1, wholeEnd, partsEnd));
  return calls;
}

/// A range of gradients as one vector: the padding between them is zero and adds nothing.
PendingCall ParameterStorages::normCall(uint32_t index, uint64_t begin, uint64_t end) {
  uint32_t norm = storages.addFixed(fb::RegionKind::Step, 8);
  View squares{norm, {tables.constant(1)}, DType::F64};
  bindings.push_back({fb::BindingKind::NormSquares, index, squares});
  uint32_t range = storages.addRange(fb::RegionKind::Gradients, begin, end - begin);
  PendingCall call;
  call.kernel = "sum_squares";
  call.inputs.push_back(View{range, {tables.constant(static_cast<int64_t>((end - begin) / 4))}, DType::F32});
  call.outputs.push_back(squares);
  return call;
}

std::vector<PendingCall> ParameterStorages::prepareCalls() {
  std::vector<PendingCall> calls;
  for (auto [p, copy] : lowPrecision) {
    PendingCall call;
    call.kernel = "copy";
    call.scope = parameters[p].name;
    call.inputs.push_back(View{values[p], shapeOf(p), DType::F32});
    call.outputs.push_back(View{copy, shapeOf(p), DType::BF16});
    calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<PendingCall> ParameterStorages::updateCalls() {
  std::map<uint32_t, View> hyper; // By group; the first is there in any case.
  auto hyperOf = [&](uint32_t group) {
    auto [found, isNew] = hyper.try_emplace(group);
    if (isNew) {
      found->second = View{storages.addFixed(fb::RegionKind::Step, 8 * 4), {tables.constant(8)}, DType::F32};
      bindings.push_back({fb::BindingKind::HyperParameters, group, found->second});
    }
    return found->second;
  };
  hyperOf(0);
  std::vector<PendingCall> calls;
  for (uint32_t p = 0; p < parameters.size(); ++p)
    if (gradients[p] != kNone)
      calls.push_back(updateCall(p, hyperOf(parameters[p].group)));
  return calls;
}

PendingCall ParameterStorages::updateCall(uint32_t p, const View &hyper) {
  auto number = [](std::string_view name, double value) { return plan::floatsAttribute(name, {value}); };
  plan::GroupOptimizer optimizer = optimizerOf(p);
  std::vector<uint32_t> shape = shapeOf(p);
  View value{values[p], shape, DType::F32}, gradient{gradients[p], shape, DType::F32};
  PendingCall call;
  call.scope = parameters[p].name;
  call.attributes.push_back(number("weight_decay", parameters[p].weightDecay));
  if (optimizer.kind == fb::Optimizer::Sgd) {
    call.kernel = "sgd";
    call.attributes.push_back(number("momentum", optimizer.momentum));
    call.attributes.push_back(plan::intsAttribute("nesterov", {optimizer.nesterov}));
    std::optional<View> momentum;
    if (moment1[p] != kNone)
      momentum = View{moment1[p], shape, DType::F32};
    call.inputs = {value, gradient, momentum, hyper};
    call.outputs = {value, momentum, gradient};
  } else {
    call.kernel = optimizer.kind == fb::Optimizer::AdamW ? "adamw" : "adam";
    call.attributes.push_back(number("beta1", optimizer.beta1));
    call.attributes.push_back(number("beta2", optimizer.beta2));
    call.attributes.push_back(number("eps", optimizer.eps));
    View first{moment1[p], shape, DType::F32}, second{moment2[p], shape, DType::F32};
    call.inputs = {value, gradient, first, second, hyper};
    call.outputs = {value, first, second, gradient};
  }
  if (auto copy = lowPrecision.find(p); copy != lowPrecision.end())
    call.outputs.push_back(View{copy->second, shape, DType::BF16});
  return call;
}

} // namespace maestro::planner
