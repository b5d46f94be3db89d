#include "planner/emit/executable_lowering.h"

#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "planner/emit/arena.h"
#include "planner/emit/dim_table.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;
using plan::kNone;
using mlir::Operation;
using mlir::Value;

/// Where the bytes of one or several values (reshapes of each other) lie.
struct Storage {
  enum class Place : uint8_t {
    Arena, ///< Packed by lifetime into the slot region.
    Slot,  ///< In the slot region for as long as the micro-batch is in flight (fields, loss sums).
    Channel, ///< In the ring of an edge's end.
    Region ///< At a fixed offset of another region.
  };
  Place place = Place::Arena;
  fb::RegionKind region = fb::RegionKind::Slot;
  uint32_t channel = 0; ///< Which ring.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t timeline = 0, first = 0, last = 0;
};

/// The ring of an edge's end.
struct Ring {
  uint32_t edge = 0;
  bool gradient = false;
  uint64_t bytes = 0;
  uint32_t copies = 1;
};

/// A typed view of a storage.
struct View {
  uint32_t storage = kNone;
  std::vector<uint32_t> shape; ///< Plan.exprs
  DType dtype = DType::F32;
  auto operator<=>(const View &) const = default;
};

struct PendingCall {
  std::string kernel;
  std::vector<std::optional<View>> inputs, outputs;
  std::vector<fb::AttributeT> attributes;
  std::string scope;
};

constexpr std::array<fb::RegionKind, 7> kRegionOrder = {
    fb::RegionKind::Parameters, fb::RegionKind::Gradients, fb::RegionKind::OptimizerState, fb::RegionKind::Constants,
    fb::RegionKind::Step,       fb::RegionKind::Slot,      fb::RegionKind::Workspace};

uint32_t regionIndex(fb::RegionKind kind) {
  return std::find(kRegionOrder.begin(), kRegionOrder.end(), kind) - kRegionOrder.begin();
}

std::string scopeOf(mlir::Location location) {
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(location))
    return name.getName().str();
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(location))
    for (mlir::Location inner : fused.getLocations())
      if (std::string scope = scopeOf(inner); !scope.empty())
        return scope;
  return "";
}

/// Operands as the kernel takes them: absent optional ones in their place as null.
llvm::SmallVector<Value> kernelOperands(Operation *op) {
  llvm::SmallVector<Value> operands(op->getOperands());
  size_t expected = operands.size();
  llvm::TypeSwitch<Operation *>(op)
      .Case<nn::LayerNormOp>([&](nn::LayerNormOp norm) {
        operands = {norm.getX(), norm.getScale(), norm.getBias()};
        expected = 3;
      })
      .Case<nn::MatmulOp, nn::ConvOp>([&](auto) { expected = 3; })
      .Case<nn::LayerNormGradOp>([&](auto) { expected = 5; })
      .Case<nn::RmsNormOp>([&](auto) { expected = 2; })
      .Case<nn::RmsNormGradOp>([&](auto) { expected = 4; })
      .Case<nn::AttentionOp>([&](auto) { expected = 4; })
      .Case<nn::AttentionGradOp>([&](auto) { expected = 7; });
  operands.resize(expected);
  return operands;
}

class Lowering {
public:
  Lowering(const LoweringInput &input, plan::PlanBuilder &tables, fb::ExecutableT &executable)
      : input(input), tables(tables), executable(executable) {}

  Result<LoweringReport> run();

private:
  // Storages that outlive programs.
  uint32_t addRegionStorage(fb::RegionKind region, uint64_t bytes);
  uint32_t addSlotStorage(uint64_t bytes);
  void layOutParameters();
  Result<uint64_t> bytesAtBounds(nn::TensorType type) const;

  // One function into calls. `time` continues over the functions of a timeline.
  Status lowerFunction(mlir::func::FuncOp function, uint32_t timeline, uint32_t time,
                       std::vector<PendingCall> &calls);
  Status bindArguments(mlir::func::FuncOp function, std::vector<uint32_t> &fields);
  void computeLastUses(mlir::func::FuncOp function, bool keepsSaved, uint32_t time);
  void noteSaved(mlir::func::FuncOp function);
  struct LossResult {
    Value value;
    fb::BindingKind kind;
    uint32_t loss;
  };
  std::vector<LossResult> lossResults(mlir::func::FuncOp function) const;
  Status pinResults(mlir::func::FuncOp function);
  bool isSaved(mlir::func::FuncOp function, Value source) const;
  Status pinEdges(mlir::func::FuncOp function);
  void copyResults(mlir::func::FuncOp function, std::vector<PendingCall> &calls);
  uint32_t ringStorage(const std::string &edge, bool gradient, const View &view, uint64_t bytes);
  Status lowerOperation(Operation &op, uint32_t timeline, uint32_t time, std::vector<PendingCall> &calls);
  Status placeResult(Operation &op, unsigned result, uint32_t timeline, uint32_t time);
  void sinkGradient(Value value, uint32_t parameter, std::vector<uint32_t> shape);
  void addSinks(Operation &op, std::vector<PendingCall> &calls);

  Value root(Value value) const;
  View view(Value value);
  std::vector<uint32_t> shapeExprs(nn::TensorType type);
  std::vector<uint32_t> parameterShape(uint32_t parameter);
  std::vector<fb::AttributeT> attributesOf(Operation &op);
  Result<uint32_t> constantStorage(nn::ConstantOp op);
  std::optional<uint32_t> lowPrecisionCopy(nn::CastOp op);

  // Optimizer and finishing.
  void addPrepare(std::vector<PendingCall> &calls);
  void addUpdate(std::vector<PendingCall> &calls);
  void addNorm(std::vector<PendingCall> &calls);
  void bind(fb::BindingKind kind, uint32_t index, uint32_t buffer);
  uint32_t buffer(const View &view);
  void packArenas();
  uint64_t packInto(fb::RegionKind region, const std::vector<uint32_t> &members, uint64_t base);
  std::vector<std::unique_ptr<fb::CostTermT>> costTerms(const DimExpr &flops, const DimExpr &bytes, size_t calls);
  void finishProgram(fb::ProgramKind kind, const std::vector<PendingCall> &calls,
                     std::vector<uint32_t> fields, mlir::func::FuncOp function);

  const LoweringInput &input;
  plan::PlanBuilder &tables;
  fb::ExecutableT &executable;
  LoweringReport report;

  std::vector<Storage> storages;
  std::map<fb::RegionKind, uint64_t> regionBytes;
  std::vector<uint32_t> valueStorage, gradientStorage, moment1, moment2; ///< By parameter.
  std::map<uint32_t, uint32_t> lowPrecisionStorage; ///< Parameter to its bf16 copy, for those that are read so.
  std::map<uint32_t, uint32_t> fieldStorage;                             ///< Plan.fields to storage.
  std::map<std::string, uint32_t> specialStorage;
  std::map<uint32_t, uint32_t> scaleStorage; ///< Plan.losses to storage.
  std::map<std::vector<uint8_t>, uint32_t> constants;
  std::vector<std::pair<uint32_t, std::vector<uint8_t>>> constantBytes;
  uint32_t hyperStorage = kNone, normStorage = kNone;

  llvm::DenseMap<Value, uint32_t> placed; ///< Root value to storage.
  llvm::DenseMap<Value, uint32_t> lastUse;
  llvm::DenseMap<Value, uint32_t> pinned; ///< Roots whose kernel writes straight into a loss's storage.
  std::map<std::pair<fb::BindingKind, uint32_t>, uint32_t> lossStorage; ///< (sum or count, loss)
  std::map<std::pair<uint32_t, bool>, uint32_t> ringStorages;           ///< (edge, gradient), what arrives.
  std::map<std::pair<uint32_t, bool>, uint32_t> sentStorage;            ///< (edge, gradient), what leaves.
  std::vector<Ring> rings;
  uint32_t forwardEnd = 0; ///< Where @backward begins on its timeline.
  uint64_t ownedGradientBytes = 0;
  std::map<int64_t, Value> saved;     ///< nn.saved number to @forward's value.
  llvm::DenseMap<Value, Value> savedArgument; ///< @backward's argument to @forward's root value.
  /// Gradients: the value's kernel adds into the gradient (accumulate), or an add_into follows.
  struct Sink {
    uint32_t parameter;
    std::vector<uint32_t> shape;
    bool direct;
  };
  llvm::DenseMap<Value, llvm::SmallVector<Sink, 1>> sinks;
  std::map<View, uint32_t> bufferIndex;
  std::vector<std::tuple<fb::BindingKind, uint32_t, View>> pendingBindings;
};

/// The value of floordiv, mod, min or max at the bounds.
int64_t atomAtBounds(const DimExpr::Atom &atom, const std::function<std::optional<int64_t>(std::string_view)> &boundOf) {
  int64_t left = atom.lhs->evaluate(boundOf).value_or(1), right = atom.rhs->evaluate(boundOf).value_or(1);
  switch (atom.kind) {
  case DimExpr::AtomKind::FloorDiv:
    return left / std::max<int64_t>(right, 1);
  case DimExpr::AtomKind::Mod:
    return left % std::max<int64_t>(right, 1);
  case DimExpr::AtomKind::Min:
    return std::min(left, right);
  case DimExpr::AtomKind::Max:
    return std::max(left, right);
  case DimExpr::AtomKind::Symbol:
    break;
  }
  return boundOf(atom.name).value_or(1);
}

uint64_t aligned(uint64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

uint32_t Lowering::addRegionStorage(fb::RegionKind region, uint64_t bytes) {
  Storage storage;
  storage.place = Storage::Place::Region;
  storage.region = region;
  storage.offset = regionBytes[region];
  storage.bytes = bytes;
  regionBytes[region] += aligned(bytes);
  storages.push_back(storage);
  return storages.size() - 1;
}

uint32_t Lowering::addSlotStorage(uint64_t bytes) {
  uint32_t index = addRegionStorage(fb::RegionKind::Slot, bytes);
  storages[index].place = Storage::Place::Slot;
  return index;
}

Result<uint64_t> Lowering::bytesAtBounds(nn::TensorType type) const {
  auto boundOf = [&](std::string_view name) -> std::optional<int64_t> {
    auto found = input.bounds.find(std::string(name));
    return found == input.bounds.end() ? std::nullopt : std::optional(found->second);
  };
  uint64_t bytes = byteSize(*nn::dtypeOf(type.getElementType()));
  for (const DimExpr &dim : type.getShape()) {
    std::optional<int64_t> bound = dim.upperBound(boundOf);
    if (!bound)
      return Status::invalidInput(fmt::format(
          "dim '{}' has no upper bound; give each of its symbols a max under dims in the workload", dim.str()));
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(std::max<int64_t>(*bound, 0)), &bytes))
      return Status::invalidInput(fmt::format("a tensor of shape {} is too large at the dims' bounds",
                                              nn::shapeText(type.getShape())));
  }
  return bytes;
}

std::vector<uint32_t> Lowering::parameterShape(uint32_t parameter) {
  std::vector<uint32_t> shape;
  for (int64_t dim : input.parameters[parameter].shape)
    shape.push_back(toPlan(tables, dim));
  return shape;
}

void Lowering::layOutParameters() {
  bool adam = input.training->optimizer != fb::Optimizer::Sgd;
  bool momentum = adam || input.training->momentum != 0;
  size_t count = input.parameters.size();
  for (std::vector<uint32_t> *list : {&valueStorage, &gradientStorage, &moment1, &moment2})
    list->assign(count, kNone);
  auto add = [&](std::vector<uint32_t> &list, uint32_t p, fb::BindingKind kind, fb::RegionKind region, DType dtype) {
    uint64_t elements = 1;
    for (int64_t dim : input.parameters[p].shape)
      elements *= dim;
    list[p] = addRegionStorage(region, elements * byteSize(dtype));
    pendingBindings.emplace_back(kind, p, View{list[p], parameterShape(p), dtype});
  };
  for (uint32_t p = 0; p < count; ++p)
    if (input.parameters[p].present)
      add(valueStorage, p, fb::BindingKind::Value, fb::RegionKind::Parameters, input.parameters[p].dtype);
  // Gradients that this executable counts in the norm come first: the norm is that of a prefix.
  for (bool owned : {true, false}) {
    for (uint32_t p = 0; p < count; ++p) {
      const ParameterSlot &parameter = input.parameters[p];
      if (!parameter.present || !parameter.trainable || parameter.owned != owned)
        continue;
      add(gradientStorage, p, fb::BindingKind::Gradient, fb::RegionKind::Gradients, DType::F32);
      if (momentum)
        add(moment1, p, fb::BindingKind::Moment1, fb::RegionKind::OptimizerState, DType::F32);
      if (adam)
        add(moment2, p, fb::BindingKind::Moment2, fb::RegionKind::OptimizerState, DType::F32);
    }
    if (owned)
      ownedGradientBytes = regionBytes[fb::RegionKind::Gradients];
  }
}

std::vector<uint32_t> Lowering::shapeExprs(nn::TensorType type) {
  std::vector<uint32_t> shape;
  for (const DimExpr &dim : type.getShape())
    shape.push_back(toPlan(tables, dim));
  return shape;
}

/// Reshapes are views: the value whose kernel wrote the bytes.
Value Lowering::root(Value value) const {
  while (true) {
    if (auto reshape = value.getDefiningOp<nn::ReshapeOp>()) {
      value = reshape.getX();
      continue;
    }
    auto linked = savedArgument.find(value);
    if (linked == savedArgument.end())
      return value;
    value = linked->second;
  }
}

View Lowering::view(Value value) {
  nn::TensorType type = nn::typeOf(value);
  return View{placed.lookup(root(value)), shapeExprs(type), *nn::dtypeOf(type.getElementType())};
}

Status Lowering::bindArguments(mlir::func::FuncOp function, std::vector<uint32_t> &fields) {
  for (mlir::BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    nn::TensorType type = nn::typeOf(argument);
    auto text = [&](llvm::StringRef name) {
      auto attribute = function.getArgAttrOfType<mlir::StringAttr>(number, name);
      return attribute ? attribute.getValue().str() : std::string();
    };
    MAESTRO_ASSIGN(uint64_t bytes, bytesAtBounds(type));
    View bound{kNone, shapeExprs(type), *nn::dtypeOf(type.getElementType())};
    if (std::string name = text(attributes::kParameter); !name.empty()) {
      auto found = std::find_if(input.parameters.begin(), input.parameters.end(),
                                [&](const ParameterSlot &slot) { return slot.name == name; });
      if (found == input.parameters.end())
        return Status::internal("function argument names an unknown parameter: " + name);
      placed[argument] = valueStorage[found - input.parameters.begin()];
    } else if (std::string name = text(attributes::kField); !name.empty()) {
      uint32_t field = input.fields.at(name);
      auto [position, isNew] = fieldStorage.try_emplace(field, kNone);
      if (isNew) {
        position->second = bound.storage = addSlotStorage(bytes);
        pendingBindings.emplace_back(fb::BindingKind::Field, field, bound);
      }
      placed[argument] = position->second;
      if (!argument.use_empty())
        fields.push_back(field);
    } else if (std::string name = text(attributes::kSpecial); !name.empty()) {
      auto [position, isNew] = specialStorage.try_emplace(name, kNone);
      if (isNew) {
        position->second = bound.storage = addSlotStorage(bytes);
        pendingBindings.emplace_back(
            name == "rng_state" ? fb::BindingKind::RandomState : fb::BindingKind::SampleIds, 0, bound);
      }
      placed[argument] = position->second;
    } else if (std::string name = text(attributes::kLossScale); !name.empty()) {
      auto term = function.getArgAttrOfType<mlir::IntegerAttr>(number, attributes::kTerm);
      uint32_t loss = input.losses.at({name, term ? term.getInt() : 0});
      auto [position, isNew] = scaleStorage.try_emplace(loss, kNone);
      if (isNew) {
        position->second = bound.storage = addRegionStorage(fb::RegionKind::Step, bytes);
        pendingBindings.emplace_back(fb::BindingKind::LossScale, loss, bound);
      }
      placed[argument] = position->second;
    } else if (function.getArgAttr(number, attributes::kEdge) || function.getArgAttr(number, attributes::kEdgeGradient)) {
      bool gradient = !function.getArgAttr(number, attributes::kEdge);
      std::string edge = text(gradient ? attributes::kEdgeGradient : attributes::kEdge);
      placed[argument] = ringStorage(edge, gradient, bound, bytes);
      bool held = function.getName() == attributes::kBackwardFunction && !gradient && !argument.use_empty();
      if (held && std::find(report.heldEdges.begin(), report.heldEdges.end(), edge) == report.heldEdges.end())
        report.heldEdges.push_back(edge);
    } else if (auto number64 = function.getArgAttrOfType<mlir::IntegerAttr>(number, attributes::kSaved)) {
      savedArgument[argument] = root(saved.at(number64.getInt()));
    } else {
      return Status::internal(fmt::format("argument {} of @{} has no meaning", number,
                                          function.getName().str()));
    }
  }
  return Status();
}

/// What arrives over an edge lies in a ring of its own.
uint32_t Lowering::ringStorage(const std::string &name, bool gradient, const View &view, uint64_t bytes) {
  uint32_t edge = input.edges.at(name);
  auto [position, isNew] = ringStorages.try_emplace({edge, gradient}, kNone);
  if (!isNew)
    return position->second;
  Storage storage;
  storage.place = Storage::Place::Channel;
  storage.region = fb::RegionKind::Channel;
  storage.channel = rings.size();
  storage.bytes = bytes;
  rings.push_back({edge, gradient, aligned(bytes), input.depths.at(gradient ? name + "'" : name)});
  storages.push_back(storage);
  position->second = storages.size() - 1;
  View bound = view;
  bound.storage = position->second;
  pendingBindings.emplace_back(gradient ? fb::BindingKind::EdgeGradientInput : fb::BindingKind::EdgeInput, edge, bound);
  return position->second;
}

void Lowering::computeLastUses(mlir::func::FuncOp function, bool keepsSaved, uint32_t time) {
  for (Operation &op : function.getBody().front()) {
    if (mlir::isa<mlir::func::ReturnOp>(op)) {
      for (mlir::OpOperand &operand : op.getOpOperands())
        if (keepsSaved || !function.getResultAttr(operand.getOperandNumber(), attributes::kSaved))
          lastUse[root(operand.get())] = time;
      continue;
    }
    if (!mlir::isa<nn::ReshapeOp>(op))
      for (Value operand : op.getOperands())
        lastUse[root(operand)] = time;
    ++time;
  }
}

void Lowering::noteSaved(mlir::func::FuncOp function) {
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands())
    if (auto index = function.getResultAttrOfType<mlir::IntegerAttr>(operand.getOperandNumber(),
                                                                     attributes::kSaved))
      saved[index.getInt()] = operand.get();
}

/// What the executor reads after this function's task: counts of @count, sums of the others.
std::vector<Lowering::LossResult> Lowering::lossResults(mlir::func::FuncOp function) const {
  bool counts = function.getName() == attributes::kCountFunction;
  std::vector<LossResult> results;
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    auto loss = function.getResultAttrOfType<mlir::StringAttr>(number, attributes::kLoss);
    auto role = function.getResultAttrOfType<mlir::StringAttr>(number, attributes::kRole);
    auto term = function.getResultAttrOfType<mlir::IntegerAttr>(number, attributes::kTerm);
    if (!loss || !role || role.getValue() != (counts ? "count" : "sum"))
      continue;
    results.push_back({operand.get(), counts ? fb::BindingKind::LossCount : fb::BindingKind::LossSum,
                       input.losses.at({loss.getValue().str(), term ? term.getInt() : 0})});
  }
  return results;
}

/// Losses stay in the slot until the executor has read them, what leaves over an edge at its place until it is sent.
/// Where one kernel's result is one of these, the kernel writes there; copyResults() serves the rest (arguments,
/// constants, shared values).
Status Lowering::pinResults(mlir::func::FuncOp function) {
  for (const LossResult &result : lossResults(function)) {
    auto [position, isNew] = lossStorage.try_emplace({result.kind, result.loss}, kNone);
    if (isNew) {
      position->second = addSlotStorage(byteSize(DType::F32));
      pendingBindings.emplace_back(result.kind, result.loss, View{position->second, {}, DType::F32});
    }
    Value source = root(result.value);
    if (source.getDefiningOp() && !source.getDefiningOp<nn::ConstantOp>())
      pinned.try_emplace(source, position->second);
  }
  return pinEdges(function);
}

/// The edge, and whether it is its gradient, that a result leaves over; nothing for other results.
static std::optional<std::pair<std::string, bool>> sentOver(mlir::func::FuncOp function, unsigned result) {
  for (bool gradient : {false, true})
    if (auto edge = function.getResultAttrOfType<mlir::StringAttr>(
            result, gradient ? attributes::kEdgeGradient : attributes::kEdge))
      return std::pair(edge.getValue().str(), gradient);
  return std::nullopt;
}

/// Whether the function's backward task reads the value, which then outlives its own task.
bool Lowering::isSaved(mlir::func::FuncOp function, Value source) const {
  return llvm::any_of(function.getBody().front().getTerminator()->getOpOperands(), [&](mlir::OpOperand &operand) {
    return function.getResultAttr(operand.getOperandNumber(), attributes::kSaved) && root(operand.get()) == source;
  });
}

Status Lowering::pinEdges(mlir::func::FuncOp function) {
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    auto sent = sentOver(function, operand.getOperandNumber());
    if (!sent)
      continue;
    uint32_t edge = input.edges.at(sent->first);
    nn::TensorType type = nn::typeOf(operand.get());
    auto [position, isNew] = sentStorage.try_emplace({edge, sent->second}, kNone);
    Value source = root(operand.get());
    bool computed = source.getDefiningOp() && !source.getDefiningOp<nn::ConstantOp>();
    auto other = pinned.find(source);
    bool sentBefore = other != pinned.end() && std::any_of(sentStorage.begin(), sentStorage.end(), [&](const auto &entry) {
                        return entry.second == other->second;
                      });
    if (isNew && computed && sentBefore) {
      position->second = other->second; // One value over two edges.
    } else if (isNew) {
      MAESTRO_ASSIGN(uint64_t bytes, bytesAtBounds(type));
      position->second = isSaved(function, source) ? addSlotStorage(bytes)
                                                   : addRegionStorage(fb::RegionKind::Workspace, bytes);
    }
    if (isNew)
      pendingBindings.emplace_back(sent->second ? fb::BindingKind::EdgeGradientOutput : fb::BindingKind::EdgeOutput, edge,
                                   View{position->second, shapeExprs(type), *nn::dtypeOf(type.getElementType())});
    if (computed)
      pinned.try_emplace(source, position->second);
  }
  return Status();
}

void Lowering::copyResults(mlir::func::FuncOp function, std::vector<PendingCall> &calls) {
  auto copy = [&](Value value, uint32_t storage) {
    View source = view(value);
    if (source.storage == storage)
      return;
    PendingCall call;
    call.kernel = "copy";
    call.inputs.push_back(source);
    call.outputs.push_back(View{storage, source.shape, source.dtype});
    calls.push_back(std::move(call));
  };
  for (const LossResult &result : lossResults(function))
    copy(result.value, lossStorage.at({result.kind, result.loss}));
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands())
    if (auto sent = sentOver(function, operand.getOperandNumber()))
      copy(operand.get(), sentStorage.at({input.edges.at(sent->first), sent->second}));
}

Result<uint32_t> Lowering::constantStorage(nn::ConstantOp op) {
  auto elements = mlir::dyn_cast<mlir::DenseElementsAttr>(op.getValue());
  DType dtype = *nn::dtypeOf(nn::typeOf(op.getResult()).getElementType());
  if (!elements)
    return Status::internal("a constant without dense elements");
  std::vector<uint8_t> bytes;
  size_t count = elements.getNumElements();
  bytes.reserve(count * byteSize(dtype));
  if (dtype == DType::Bool) {
    for (bool value : elements.getValues<bool>())
      bytes.push_back(value);
  } else {
    auto raw = elements.getRawData();
    size_t size = byteSize(dtype);
    for (size_t i = 0; i < count; ++i) {
      const char *element = raw.data() + (elements.isSplat() ? 0 : i * size);
      bytes.insert(bytes.end(), element, element + size);
    }
  }
  auto [position, isNew] = constants.try_emplace(bytes, kNone);
  if (isNew) {
    position->second = addRegionStorage(fb::RegionKind::Constants, bytes.size());
    constantBytes.emplace_back(position->second, bytes);
  }
  return position->second;
}

/// A parameter that is read in bf16 has a lasting copy, made when it was loaded and whenever it
/// changes: no micro-batch converts it. Its storage, when `op` is such a conversion.
std::optional<uint32_t> Lowering::lowPrecisionCopy(nn::CastOp op) {
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(op.getX());
  nn::TensorType from = nn::typeOf(op.getX()), to = nn::typeOf(op.getY());
  if (!argument || !from.getElementType().isF32() || !to.getElementType().isBF16())
    return std::nullopt;
  auto value = std::find(valueStorage.begin(), valueStorage.end(), placed.lookup(argument));
  auto function = mlir::cast<mlir::func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function.getArgAttr(argument.getArgNumber(), attributes::kParameter) || value == valueStorage.end())
    return std::nullopt;
  auto [position, isNew] = lowPrecisionStorage.try_emplace(value - valueStorage.begin(), kNone);
  if (isNew)
    position->second = addRegionStorage(fb::RegionKind::Parameters, storages[*value].bytes / 2);
  return position->second;
}

/// Attributes as kernels know them, sorted by name; types are told by the operands.
std::vector<fb::AttributeT> Lowering::attributesOf(Operation &op) {
  std::vector<fb::AttributeT> list;
  for (mlir::NamedAttribute named : op.getAttrDictionary()) {
    llvm::StringRef name = named.getName().strref();
    if (name == "operandSegmentSizes")
      continue;
    llvm::TypeSwitch<mlir::Attribute>(named.getValue())
        .Case<mlir::BoolAttr>([&](auto a) { list.push_back(plan::intsAttribute(name, {a.getValue()})); })
        .Case<mlir::IntegerAttr>([&](auto a) { list.push_back(plan::intsAttribute(name, {a.getInt()})); })
        .Case<mlir::UnitAttr>([&](auto) { list.push_back(plan::intsAttribute(name, {1})); })
        .Case<mlir::DenseI64ArrayAttr>(
            [&](auto a) { list.push_back(plan::intsAttribute(name, a.asArrayRef().vec())); })
        .Case<mlir::FloatAttr>(
            [&](auto a) { list.push_back(plan::floatsAttribute(name, {a.getValueAsDouble()})); })
        .Case<mlir::StringAttr>([&](auto a) { list.push_back(plan::textAttribute(name, a.getValue())); })
        .Case<nn::DimsAttr>([&](nn::DimsAttr a) {
          std::vector<uint32_t> exprs;
          for (const DimExpr &expr : a.getValues())
            exprs.push_back(toPlan(tables, expr));
          list.push_back(plan::exprsAttribute(name, std::move(exprs)));
        });
  }
  return list;
}

/// Decides, for a gradient that @backward returns, how it reaches the gradient's memory: the kernel
/// that produces it adds there, sums are taken apart, or an add_into follows.
void Lowering::sinkGradient(Value value, uint32_t parameter, std::vector<uint32_t> shape) {
  Operation *producer = value.getDefiningOp();
  if (producer && value.hasOneUse() && !mlir::isa<nn::ConstantOp>(producer)) {
    if (auto reshape = mlir::dyn_cast<nn::ReshapeOp>(producer))
      return sinkGradient(reshape.getX(), parameter, shapeExprs(nn::typeOf(reshape.getX())));
    bool wide = *nn::dtypeOf(nn::typeOf(value).getElementType()) == DType::F32;
    auto sum = mlir::dyn_cast<nn::AddOp>(producer);
    if (sum && wide && sum.getLhs() != sum.getRhs() && sum.getLhs().getType() == value.getType() &&
        sum.getRhs().getType() == value.getType()) {
      sinkGradient(sum.getLhs(), parameter, shape);
      sinkGradient(sum.getRhs(), parameter, shape);
      sinks[value]; // Present and empty: the addition itself is not needed.
      return;
    }
    auto kernel = mlir::dyn_cast<nn::KernelOpInterface>(producer);
    unsigned result = mlir::cast<mlir::OpResult>(value).getResultNumber();
    if (kernel && wide && kernel.canAccumulate(result)) {
      sinks[value].push_back({parameter, shape, true});
      return;
    }
  }
  sinks[value].push_back({parameter, shape, false});
}

/// Calls that add a value into the gradients that want it, right after it was computed.
void Lowering::addSinks(Operation &op, std::vector<PendingCall> &calls) {
  for (Value result : op.getResults()) {
    auto found = sinks.find(result);
    if (found == sinks.end())
      continue;
    for (const Sink &sink : found->second) {
      if (sink.direct)
        continue;
      PendingCall call;
      call.kernel = "add_into";
      View source = view(result);
      call.inputs.push_back(source);
      call.outputs.push_back(View{gradientStorage[sink.parameter], source.shape, DType::F32});
      calls.push_back(std::move(call));
    }
  }
}

Status Lowering::placeResult(Operation &op, unsigned number, uint32_t timeline, uint32_t time) {
  Value result = op.getResult(number);
  MAESTRO_ASSIGN(uint64_t bytes, bytesAtBounds(nn::typeOf(result)));
  auto used = lastUse.find(result);
  uint32_t last = used == lastUse.end() ? time : std::max(used->second, time);
  if (auto loss = pinned.find(result); loss != pinned.end()) {
    placed[result] = loss->second;
    return Status();
  }
  auto kernel = mlir::cast<nn::KernelOpInterface>(op);
  for (unsigned i = 0; i < op.getNumOperands(); ++i) {
    Value operand = root(op.getOperand(i));
    auto position = placed.find(operand);
    if (position == placed.end())
      continue;
    Storage &storage = storages[position->second];
    bool dies = storage.place == Storage::Place::Arena && storage.last == time &&
                storage.bytes == bytes && op.getOperand(i).getType() == result.getType();
    if (!dies || !kernel.canReuse(i, number))
      continue;
    // A value used twice by this call may only be overwritten where every use allows it.
    bool everyUse = true;
    for (unsigned j = 0; j < op.getNumOperands(); ++j)
      everyUse &= j == i || root(op.getOperand(j)) != operand || kernel.canReuse(j, number);
    // Another result of this call may have taken the place already.
    for (unsigned k = 0; k < number; ++k)
      everyUse &= placed.lookup(op.getResult(k)) != position->second;
    if (!everyUse)
      continue;
    storage.last = last;
    placed[result] = position->second;
    return Status();
  }
  Storage storage;
  storage.bytes = bytes;
  storage.timeline = timeline;
  storage.first = time;
  storage.last = last;
  storages.push_back(storage);
  placed[result] = storages.size() - 1;
  return Status();
}

Status Lowering::lowerOperation(Operation &op, uint32_t timeline, uint32_t time,
                                std::vector<PendingCall> &calls) {
  if (mlir::isa<nn::ReshapeOp>(op))
    return Status();
  if (auto constant = mlir::dyn_cast<nn::ConstantOp>(op)) {
    MAESTRO_ASSIGN(placed[constant.getResult()], constantStorage(constant));
    return Status();
  }
  if (auto cast = mlir::dyn_cast<nn::CastOp>(op))
    if (std::optional<uint32_t> copy = lowPrecisionCopy(cast)) {
      placed[cast.getResult()] = *copy;
      return Status();
    }
  auto kernel = mlir::dyn_cast<nn::KernelOpInterface>(op);
  if (!kernel)
    return Status::internal(fmt::format("operator {} cannot be emitted", op.getName().getStringRef().str()));
  // An addition that was taken apart into its operands' gradients computes nothing itself.
  if (mlir::isa<nn::AddOp>(op)) {
    auto found = sinks.find(op.getResult(0));
    if (found != sinks.end() && found->second.empty())
      return Status();
  }

  PendingCall call;
  call.kernel = kernel.getKernelName().str();
  call.attributes = attributesOf(op);
  call.scope = scopeOf(op.getLoc());
  int64_t accumulate = 0;
  for (unsigned r = 0; r < op.getNumResults(); ++r) {
    auto found = sinks.find(op.getResult(r));
    bool direct = found != sinks.end() && found->second.size() == 1 && found->second.front().direct;
    if (direct) {
      const Sink &sink = found->second.front();
      call.outputs.push_back(View{gradientStorage[sink.parameter], sink.shape, DType::F32});
      accumulate |= int64_t{1} << r;
      continue;
    }
    MAESTRO_TRY(placeResult(op, r, timeline, time));
    call.outputs.push_back(view(op.getResult(r)));
  }
  if (accumulate) {
    call.attributes.push_back(plan::intsAttribute("accumulate", {accumulate}));
  }
  for (Value operand : kernelOperands(&op))
    call.inputs.push_back(operand ? std::optional(view(operand)) : std::nullopt);
  calls.push_back(std::move(call));
  addSinks(op, calls);
  return Status();
}

Status Lowering::lowerFunction(mlir::func::FuncOp function, uint32_t timeline, uint32_t time,
                               std::vector<PendingCall> &calls) {
  for (Operation &op : function.getBody().front()) {
    if (mlir::isa<mlir::func::ReturnOp>(op))
      break;
    MAESTRO_TRY(lowerOperation(op, timeline, time, calls));
    ++time;
  }
  copyResults(function, calls);
  return Status();
}

void Lowering::addNorm(std::vector<PendingCall> &calls) {
  normStorage = addRegionStorage(fb::RegionKind::Step, 8);
  View squares{normStorage, {tables.constant(1)}, DType::F64};
  pendingBindings.emplace_back(fb::BindingKind::NormSquares, 0, squares);
  // What is owned as one vector: the padding between gradients is zero and adds nothing.
  Storage whole;
  whole.place = Storage::Place::Region;
  whole.region = fb::RegionKind::Gradients;
  whole.bytes = ownedGradientBytes;
  storages.push_back(whole);
  PendingCall call;
  call.kernel = "sum_squares";
  call.inputs.push_back(View{static_cast<uint32_t>(storages.size() - 1),
                             {tables.constant(static_cast<int64_t>(whole.bytes / 4))}, DType::F32});
  call.outputs.push_back(squares);
  calls.push_back(std::move(call));
}

void Lowering::addPrepare(std::vector<PendingCall> &calls) {
  for (auto [p, copy] : lowPrecisionStorage) {
    PendingCall call;
    call.kernel = "copy";
    call.scope = input.parameters[p].name;
    call.inputs.push_back(View{valueStorage[p], parameterShape(p), DType::F32});
    call.outputs.push_back(View{copy, parameterShape(p), DType::BF16});
    calls.push_back(std::move(call));
  }
}

void Lowering::addUpdate(std::vector<PendingCall> &calls) {
  hyperStorage = addRegionStorage(fb::RegionKind::Step, 8 * 4);
  View hyper{hyperStorage, {tables.constant(8)}, DType::F32};
  pendingBindings.emplace_back(fb::BindingKind::HyperParameters, 0, hyper);
  const fb::TrainingT &training = *input.training;
  auto number = [](std::string_view name, double value) { return plan::floatsAttribute(name, {value}); };
  for (uint32_t p = 0; p < input.parameters.size(); ++p) {
    if (gradientStorage[p] == kNone)
      continue;
    std::vector<uint32_t> shape = parameterShape(p);
    View value{valueStorage[p], shape, DType::F32}, gradient{gradientStorage[p], shape, DType::F32};
    PendingCall call;
    call.scope = input.parameters[p].name;
    call.attributes.push_back(number("weight_decay", input.parameters[p].weightDecay));
    if (training.optimizer == fb::Optimizer::Sgd) {
      call.kernel = "sgd";
      call.attributes.push_back(number("momentum", training.momentum));
      call.attributes.push_back(plan::intsAttribute("nesterov", {training.nesterov}));
      std::optional<View> momentum;
      if (moment1[p] != kNone)
        momentum = View{moment1[p], shape, DType::F32};
      call.inputs = {value, gradient, momentum, hyper};
      call.outputs = {value, momentum, gradient};
    } else {
      call.kernel = training.optimizer == fb::Optimizer::AdamW ? "adamw" : "adam";
      call.attributes.push_back(number("beta1", training.beta1));
      call.attributes.push_back(number("beta2", training.beta2));
      call.attributes.push_back(number("eps", training.eps));
      View first{moment1[p], shape, DType::F32}, second{moment2[p], shape, DType::F32};
      call.inputs = {value, gradient, first, second, hyper};
      call.outputs = {value, first, second, gradient};
    }
    if (auto copy = lowPrecisionStorage.find(p); copy != lowPrecisionStorage.end())
      call.outputs.push_back(View{copy->second, shape, DType::BF16});
    calls.push_back(std::move(call));
  }
}

/// Packs the storages into a region from `base` on; returns where they end.
uint64_t Lowering::packInto(fb::RegionKind region, const std::vector<uint32_t> &members, uint64_t base) {
  std::vector<Lifetime> lifetimes;
  for (uint32_t s : members)
    lifetimes.push_back({storages[s].first, storages[s].last, storages[s].bytes});
  ArenaLayout layout = packArena(lifetimes);
  for (size_t i = 0; i < members.size(); ++i) {
    storages[members[i]].region = region;
    storages[members[i]].offset = base + layout.offsets[i];
  }
  if (layout.bytes > report.arenaBytes)
    report.arenaBytes = layout.bytes, report.liveBytesBound = liveBytesBound(lifetimes);
  return base + layout.bytes;
}

/// Programs run one after the other and share memory. With one slot, forward and backward are one timeline in it;
/// with several, what crosses from forward to backward is the slot's, the rest of either program is scratch.
void Lowering::packArenas() {
  std::map<std::pair<uint32_t, bool>, std::vector<uint32_t>> scratch; // (timeline, behind forward)
  std::vector<uint32_t> kept;
  constexpr uint32_t kTraining = 1;
  bool several = input.slots > 1;
  for (uint32_t s = 0; s < storages.size(); ++s) {
    const Storage &storage = storages[s];
    if (storage.place != Storage::Place::Arena)
      continue;
    bool crosses = storage.timeline == kTraining && (!several || (storage.first < forwardEnd && storage.last >= forwardEnd));
    if (crosses)
      kept.push_back(s);
    else
      scratch[{storage.timeline, storage.timeline == kTraining && storage.first >= forwardEnd}].push_back(s);
  }
  uint64_t slotBase = regionBytes[fb::RegionKind::Slot], scratchBase = regionBytes[fb::RegionKind::Workspace];
  uint64_t slotEnd = packInto(fb::RegionKind::Slot, kept, slotBase), scratchEnd = scratchBase;
  // Counting and evaluation may use what training keeps for itself: one slot is free then.
  bool inSlot = !several;
  uint64_t otherEnd = slotBase;
  for (auto &[key, members] : scratch) {
    if (inSlot)
      otherEnd = std::max(otherEnd, packInto(fb::RegionKind::Slot, members, slotBase));
    else
      scratchEnd = std::max(scratchEnd, packInto(fb::RegionKind::Workspace, members, scratchBase));
  }
  regionBytes[fb::RegionKind::Slot] = aligned(std::max(slotEnd, otherEnd));
  regionBytes[fb::RegionKind::Workspace] = aligned(scratchEnd);
}

uint32_t Lowering::buffer(const View &view) {
  auto [position, isNew] = bufferIndex.try_emplace(view, static_cast<uint32_t>(executable.buffers.size()));
  if (isNew) {
    const Storage &storage = storages[view.storage];
    auto table = std::make_unique<fb::BufferT>();
    table->dtype = static_cast<uint8_t>(view.dtype);
    table->shape = view.shape;
    table->region = storage.place == Storage::Place::Channel ? kRegionOrder.size() + storage.channel
                                                             : regionIndex(storage.region);
    table->offset = storage.offset;
    table->bytes = storage.bytes;
    for (auto &[owner, bytes] : constantBytes)
      if (owner == view.storage)
        table->constant = bytes;
    executable.buffers.push_back(std::move(table));
  }
  return position->second;
}

/// Predicted time: floating point operations, traffic, and each call's own.
std::vector<std::unique_ptr<fb::CostTermT>> Lowering::costTerms(const DimExpr &flops, const DimExpr &bytes, size_t calls) {
  CostPolynomial cost;
  addWork(cost, flops, input.rates.flopsPerSecond, input.bounds, tables);
  addWork(cost, bytes, input.rates.bytesPerSecond, input.bounds, tables);
  cost[{}] += input.rates.callSeconds * 1e12 * static_cast<double>(calls);
  return toTerms(cost);
}

void Lowering::finishProgram(fb::ProgramKind kind, const std::vector<PendingCall> &calls,
                             std::vector<uint32_t> fields, mlir::func::FuncOp function) {
  auto program = std::make_unique<fb::ProgramT>();
  program->kind = kind;
  for (const PendingCall &pending : calls) {
    auto call = std::make_unique<fb::CallT>();
    call->kernel = tables.kernel(pending.kernel);
    for (const auto &view : pending.inputs)
      call->inputs.push_back(view ? buffer(*view) : kNone);
    for (const auto &view : pending.outputs)
      call->outputs.push_back(view ? buffer(*view) : kNone);
    call->attributes = tables.attributes(pending.attributes);
    call->scope = tables.scope(pending.scope);
    program->calls.push_back(std::move(call));
  }
  std::sort(fields.begin(), fields.end());
  fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
  program->fields = std::move(fields);
  DimExpr flops, bytes;
  if (function)
    for (Operation &op : function.getBody().front())
      if (auto cost = mlir::dyn_cast<nn::CostOpInterface>(op)) {
        flops = flops + cost.getFlops();
        bytes = bytes + cost.getBytes();
      }
  program->flops = toPlan(tables, flops);
  program->memory_bytes = toPlan(tables, bytes);
  program->cost = costTerms(flops, bytes, calls.size());
  executable.programs.push_back(std::move(program));
}

Result<LoweringReport> Lowering::run() {
  layOutParameters();
  struct Pending {
    fb::ProgramKind kind;
    mlir::func::FuncOp function;
    std::vector<PendingCall> calls;
    std::vector<uint32_t> fields;
  };
  std::vector<Pending> programs;
  auto start = [&](fb::ProgramKind kind, mlir::func::FuncOp function) -> Pending & {
    programs.push_back({kind, function, {}, {}});
    return programs.back();
  };
  programs.reserve(8); // References stay.

  // Timelines: 0 count, 1 forward then backward, 2 evaluation (forward without anything saved).
  auto lowerAlone = [&](fb::ProgramKind kind, mlir::func::FuncOp function, uint32_t timeline) -> Status {
    Pending &pending = start(kind, function);
    MAESTRO_TRY(bindArguments(function, pending.fields));
    MAESTRO_TRY(pinResults(function));
    computeLastUses(function, false, 0);
    return lowerFunction(function, timeline, 0, pending.calls);
  };
  if (input.count)
    MAESTRO_TRY(lowerAlone(fb::ProgramKind::Count, input.count, 0));
  MAESTRO_TRY(lowerAlone(fb::ProgramKind::Evaluate, input.forward, 2));

  if (input.backward) {
    placed.clear();
    lastUse.clear();
    pinned.clear();
    Pending &forward = start(fb::ProgramKind::Forward, input.forward);
    Pending &backward = start(fb::ProgramKind::Backward, input.backward);
    mlir::func::FuncOp forwardFunction = input.forward, backwardFunction = input.backward;
    MAESTRO_TRY(bindArguments(forwardFunction, forward.fields));
    MAESTRO_TRY(pinResults(forwardFunction));
    MAESTRO_TRY(pinEdges(backwardFunction));
    noteSaved(forwardFunction);
    MAESTRO_TRY(bindArguments(backwardFunction, backward.fields));
    uint32_t forwardOps = forwardEnd = forwardFunction.getBody().front().getOperations().size();
    computeLastUses(forwardFunction, true, 0);
    computeLastUses(backwardFunction, true, forwardOps);
    Operation *terminator = backwardFunction.getBody().front().getTerminator();
    for (mlir::OpOperand &operand : terminator->getOpOperands()) {
      auto name = backwardFunction.getResultAttrOfType<mlir::StringAttr>(operand.getOperandNumber(),
                                                                         attributes::kGradient);
      if (sentOver(backwardFunction, operand.getOperandNumber()))
        continue;
      auto found = std::find_if(input.parameters.begin(), input.parameters.end(),
                                [&](const ParameterSlot &slot) { return name && slot.name == name.getValue(); });
      if (found == input.parameters.end())
        return Status::internal("a result of @backward is no parameter's gradient");
      sinkGradient(operand.get(), found - input.parameters.begin(), shapeExprs(nn::typeOf(operand.get())));
    }
    MAESTRO_TRY(lowerFunction(forwardFunction, 1, 0, forward.calls));
    MAESTRO_TRY(lowerFunction(backwardFunction, 1, forwardOps, backward.calls));
  }
  if (std::any_of(gradientStorage.begin(), gradientStorage.end(), [](uint32_t storage) { return storage != kNone; })) {
    addNorm(start(fb::ProgramKind::Norm, nullptr).calls);
    addUpdate(start(fb::ProgramKind::Update, nullptr).calls);
  }

  if (!lowPrecisionStorage.empty())
    addPrepare(start(fb::ProgramKind::Prepare, nullptr).calls);

  packArenas();
  for (Pending &pending : programs)
    finishProgram(pending.kind, pending.calls, pending.fields, pending.function);
  for (auto &[kind, index, view] : pendingBindings)
    bind(kind, index, buffer(view));
  for (fb::RegionKind kind : kRegionOrder) {
    auto region = std::make_unique<fb::RegionT>();
    region->kind = kind;
    region->bytes = regionBytes[kind];
    region->copies = kind == fb::RegionKind::Slot ? input.slots : 1;
    executable.regions.push_back(std::move(region));
  }
  for (const Ring &ring : rings) {
    auto region = std::make_unique<fb::RegionT>();
    region->kind = fb::RegionKind::Channel;
    region->bytes = ring.bytes;
    region->copies = ring.copies;
    region->edge = ring.edge;
    region->gradient = ring.gradient;
    executable.regions.push_back(std::move(region));
  }
  return report;
}

void Lowering::bind(fb::BindingKind kind, uint32_t index, uint32_t buffer) {
  auto binding = std::make_unique<fb::BindingT>();
  binding->kind = kind;
  binding->index = index;
  binding->buffer = buffer;
  executable.bindings.push_back(std::move(binding));
}

} // namespace

Result<LoweringReport> lowerExecutable(const LoweringInput &input, plan::PlanBuilder &tables,
                                       fb::ExecutableT &executable) {
  return Lowering(input, tables, executable).run();
}

void addWork(CostPolynomial &cost, const DimExpr &work, double perSecond, const std::map<std::string, int64_t> &bounds,
             plan::PlanBuilder &tables) {
  auto boundOf = [&](std::string_view name) -> std::optional<int64_t> {
    auto found = bounds.find(std::string(name));
    return found == bounds.end() ? std::nullopt : std::optional(found->second);
  };
  for (const DimExpr::Term &term : work.terms()) {
    double coefficient = static_cast<double>(term.coefficient) * 1e12 / perSecond;
    std::vector<uint32_t> symbols;
    for (const DimExpr::Atom &atom : term.atoms) {
      if (atom.kind == DimExpr::AtomKind::Symbol)
        symbols.push_back(tables.symbolIndex(atom.name));
      else
        coefficient *= static_cast<double>(atomAtBounds(atom, boundOf));
    }
    std::sort(symbols.begin(), symbols.end());
    cost[symbols] += coefficient;
  }
}

std::vector<std::unique_ptr<fb::CostTermT>> toTerms(const CostPolynomial &cost) {
  constexpr double kMostPicoseconds = 1e17;
  std::vector<std::unique_ptr<fb::CostTermT>> terms;
  for (const auto &[symbols, value] : cost) {
    if (value < 1)
      continue;
    auto term = std::make_unique<fb::CostTermT>();
    term->picoseconds = static_cast<int64_t>(std::min(value, kMostPicoseconds));
    term->symbols = symbols;
    terms.push_back(std::move(term));
  }
  return terms;
}

std::vector<std::string> parametersOf(mlir::ModuleOp section) {
  std::vector<std::string> names;
  for (auto function : section.getOps<mlir::func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto name = function.getArgAttrOfType<mlir::StringAttr>(i, attributes::kParameter))
        if (std::find(names.begin(), names.end(), name.getValue()) == names.end())
          names.push_back(name.getValue().str());
  return names;
}

} // namespace maestro::planner
