#include "planner/emit/parameter_storages.h"

#include <algorithm>

namespace maestro::planner {

namespace fb = plan::fb;
using plan::kNone;

std::vector<uint32_t> ParameterStorages::shapeOf(uint32_t parameter) {
  return tables.constants(parameters[parameter].shape);
}

void ParameterStorages::add(std::vector<uint32_t> &list, uint32_t parameter, fb::BindingKind kind,
                            fb::RegionKind region, DType dtype, std::span<const int64_t> shape) {
  uint64_t elements = 1;
  for (int64_t dim : shape)
    elements *= dim;
  list[parameter] = storages.addFixed(region, elements * byteSize(dtype));
  bindings.push_back(
      {kind, parameter, View{list[parameter], tables.constants(shape), dtype}, parameters[parameter].splitDim});
}

/// Moment1 or Moment2, where the optimizer keeps it.
void ParameterStorages::addState(std::vector<uint32_t> &list, uint32_t parameter, fb::BindingKind kind) {
  if (auto shape = optimizerOf(parameter).momentShape(kind, parameters[parameter].shape))
    add(list, parameter, kind, fb::RegionKind::OptimizerState, DType::F32, *shape);
}

std::optional<View> ParameterStorages::momentOf(uint32_t parameter, fb::BindingKind kind) {
  auto shape = optimizerOf(parameter).momentShape(kind, parameters[parameter].shape);
  if (!shape)
    return std::nullopt;
  uint32_t storage = (kind == fb::BindingKind::Moment1 ? moment1 : moment2)[parameter];
  return View{storage, tables.constants(*shape), DType::F32};
}

void ParameterStorages::layOut() {
  for (std::vector<uint32_t> *list : {&values, &gradients, &moment1, &moment2, &averages})
    list->assign(parameters.size(), kNone);
  for (uint32_t p = 0; p < parameters.size(); ++p)
    if (parameters[p].present)
      add(values, p, fb::BindingKind::Value, fb::RegionKind::Parameters, parameters[p].dtype, parameters[p].shape);
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
  std::span<const int64_t> shape = parameters[parameter].shape;
  add(gradients, parameter, fb::BindingKind::Gradient, fb::RegionKind::Gradients, DType::F32, shape);
  addState(moment1, parameter, fb::BindingKind::Moment1);
  addState(moment2, parameter, fb::BindingKind::Moment2);
  if (training.ema_decay > 0)
    add(averages, parameter, fb::BindingKind::Average, fb::RegionKind::OptimizerState, DType::F32, shape);
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
    if (gradients[p] != kNone) {
      calls.push_back(updateCall(p, hyperOf(parameters[p].group)));
      if (averages[p] != kNone)
        calls.push_back(averageCall(p, hyperOf(0)));
    }
  return calls;
}

PendingCall ParameterStorages::averageCall(uint32_t p, const View &hyper) {
  View value{values[p], shapeOf(p), DType::F32}, average{averages[p], shapeOf(p), DType::F32};
  PendingCall call;
  call.kernel = "average";
  call.scope = parameters[p].name;
  call.attributes.push_back(plan::floatsAttribute("decay", {training.ema_decay}));
  call.inputs = {value, average, hyper};
  call.outputs = {average};
  return call;
}

/// Of Muon's products for a matrix: an iteration multiplies it with its smaller side's Gram matrix, which it makes and
/// squares.
static uint64_t muonFlops(std::span<const int64_t> shape, uint32_t iterations) {
  auto side = static_cast<uint64_t>(std::min(shape[0], shape[1])),
       other = static_cast<uint64_t>(std::max(shape[0], shape[1]));
  return iterations * (4 * side * side * other + 2 * side * side * side);
}

PendingCall ParameterStorages::updateCall(uint32_t p, const View &hyper) {
  auto number = [](std::string_view name, double value) { return plan::floatsAttribute(name, {value}); };
  auto integer = [](std::string_view name, int64_t value) { return plan::intsAttribute(name, {value}); };
  plan::GroupOptimizer optimizer = optimizerOf(p);
  std::vector<uint32_t> shape = shapeOf(p);
  View value{values[p], shape, DType::F32}, gradient{gradients[p], shape, DType::F32};
  PendingCall call;
  call.scope = parameters[p].name;
  call.attributes.push_back(number("weight_decay", parameters[p].weightDecay));
  std::optional<View> first = momentOf(p, fb::BindingKind::Moment1), second = momentOf(p, fb::BindingKind::Moment2);
  switch (optimizer.kind) {
  case fb::Optimizer::Sgd:
    call.kernel = "sgd";
    call.attributes.push_back(number("momentum", optimizer.momentum));
    call.attributes.push_back(integer("nesterov", optimizer.nesterov));
    call.inputs = {value, gradient, first, hyper};
    call.outputs = {value, first, gradient};
    break;
  case fb::Optimizer::Muon:
    call.kernel = "muon";
    call.attributes.push_back(number("momentum", optimizer.momentum));
    call.attributes.push_back(number("eps", optimizer.eps));
    call.attributes.push_back(integer("nesterov", optimizer.nesterov));
    call.attributes.push_back(integer("iterations", optimizer.iterations));
    call.attributes.push_back(integer("match_rms_adamw", optimizer.matchRms));
    call.inputs = {value, gradient, first, hyper};
    call.outputs = {value, first, gradient};
    call.flops = muonFlops(parameters[p].shape, optimizer.iterations);
    break;
  case fb::Optimizer::Adafactor:
    call.kernel = "adafactor";
    call.attributes.push_back(number("beta2_decay", optimizer.beta2Decay));
    call.attributes.push_back(number("eps1", optimizer.eps));
    call.attributes.push_back(number("eps2", optimizer.eps2));
    call.attributes.push_back(number("clip", optimizer.clip));
    call.inputs = {value, gradient, first, second, hyper};
    call.outputs = {value, first, second, gradient};
    break;
  default:
    call.kernel = optimizer.kind == fb::Optimizer::AdamW ? "adamw" : "adam";
    call.attributes.push_back(number("beta1", optimizer.beta1));
    call.attributes.push_back(number("beta2", optimizer.beta2));
    call.attributes.push_back(number("eps", optimizer.eps));
    call.inputs = {value, gradient, first, second, hyper};
    call.outputs = {value, first, second, gradient};
  }
  if (auto copy = lowPrecision.find(p); copy != lowPrecision.end())
    call.outputs.push_back(View{copy->second, shape, DType::BF16});
  return call;
}

} // namespace maestro::planner
