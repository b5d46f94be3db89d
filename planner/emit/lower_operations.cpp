// An operator is a kernel call on storages.
#include "planner/emit/lowering.h"

#include "passes/attributes.h"
#include "planner/emit/dim_table.h"

#include "llvm/ADT/TypeSwitch.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {

namespace fb = plan::fb;
using mlir::Operation;
using mlir::Value;
using plan::kNone;

namespace {

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
      .Case<nn::MatmulAddOp>([&](nn::MatmulAddOp product) {
        operands = {product.getA(), product.getB(), product.getBias(), product.getAddend()};
        expected = 4;
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

} // namespace

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
  auto [position, isNew] = constants.try_emplace(std::move(bytes), kNone);
  if (isNew)
    position->second = storages.addFixed(fb::RegionKind::Constants, position->first.size());
  return position->second;
}

/// The lasting copy of a parameter that `op` converts to bf16; kNone when it is no such conversion.
uint32_t Lowering::lowPrecisionCopy(nn::CastOp op) {
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(op.getX());
  nn::TensorType from = nn::typeOf(op.getX()), to = nn::typeOf(op.getY());
  if (!argument || !from.getElementType().isF32() || !to.getElementType().isBF16())
    return kNone;
  auto function = mlir::cast<mlir::func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function.getArgAttr(argument.getArgNumber(), attributes::kParameter))
    return kNone;
  return parameters.lowPrecisionCopy(placed.lookup(argument));
}

/// Attributes as kernels know them, sorted by name; types are told by the operands.
std::vector<fb::AttributeT> Lowering::attributesOf(Operation &op) {
  std::vector<fb::AttributeT> list;
  for (mlir::NamedAttribute named : op.getAttrDictionary()) {
    llvm::StringRef name = named.getName().strref();
    if (name == "operandSegmentSizes" ||
        name.starts_with("nn.")) // What passes say of the operator is not the kernel's.
      continue;
    llvm::TypeSwitch<mlir::Attribute>(named.getValue())
        .Case<mlir::BoolAttr>([&](auto a) { list.push_back(plan::intsAttribute(name, {a.getValue()})); })
        .Case<mlir::IntegerAttr>([&](auto a) { list.push_back(plan::intsAttribute(name, {a.getInt()})); })
        .Case<mlir::UnitAttr>([&](auto) { list.push_back(plan::intsAttribute(name, {1})); })
        .Case<mlir::DenseI64ArrayAttr>([&](auto a) { list.push_back(plan::intsAttribute(name, a.asArrayRef().vec())); })
        .Case<mlir::FloatAttr>([&](auto a) { list.push_back(plan::floatsAttribute(name, {a.getValueAsDouble()})); })
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

/// Whether the result may take the place of the operand, which nobody reads afterwards.
bool Lowering::mayOverwrite(Operation &op, unsigned operand, unsigned result, uint64_t bytes, uint32_t time) {
  Value value = root(op.getOperand(operand));
  auto position = placed.find(value);
  if (position == placed.end())
    return false;
  const Storage &storage = storages[position->second];
  bool dies = storage.place == Storage::Place::Arena && storage.last == time && storage.bytes == bytes &&
              op.getOperand(operand).getType() == op.getResult(result).getType();
  auto kernel = mlir::cast<nn::KernelOpInterface>(op);
  if (!dies || !kernel.canReuse(operand, result))
    return false;
  // A value used twice by this call may only be overwritten where every use allows it.
  bool everyUse = true;
  for (unsigned j = 0; j < op.getNumOperands(); ++j)
    everyUse &= j == operand || root(op.getOperand(j)) != value || kernel.canReuse(j, result);
  // Another result of this call may have taken the place already.
  for (unsigned k = 0; k < result; ++k)
    everyUse &= placed.lookup(op.getResult(k)) != position->second;
  return everyUse;
}

Status Lowering::placeResult(Operation &op, unsigned number, uint32_t timeline, uint32_t time) {
  Value result = op.getResult(number);
  MAESTRO_ASSIGN(uint64_t bytes, mostBytes(nn::typeOf(result)));
  auto used = lastUse.find(result);
  uint32_t last = used == lastUse.end() ? time : std::max(used->second, time);
  if (auto place = pinned.find(result); place != pinned.end()) {
    placed[result] = place->second;
    return Status();
  }
  for (unsigned i = 0; i < op.getNumOperands(); ++i) {
    if (!mayOverwrite(op, i, number, bytes, time))
      continue;
    uint32_t storage = placed.lookup(root(op.getOperand(i)));
    storages[storage].last = last;
    placed[result] = storage;
    return Status();
  }
  placed[result] = storages.addTransient(timeline, time, last, bytes);
  return Status();
}

Status Lowering::lowerOperation(Operation &op, uint32_t timeline, uint32_t time, Calls &calls) {
  if (mlir::isa<nn::ReshapeOp>(op))
    return Status();
  if (auto constant = mlir::dyn_cast<nn::ConstantOp>(op)) {
    MAESTRO_ASSIGN(placed[constant.getResult()], constantStorage(constant));
    return Status();
  }
  if (auto cast = mlir::dyn_cast<nn::CastOp>(op))
    if (uint32_t copy = lowPrecisionCopy(cast); copy != kNone) {
      placed[cast.getResult()] = copy;
      withoutCall.insert(&op);
      return Status();
    }
  auto kernel = mlir::dyn_cast<nn::KernelOpInterface>(op);
  if (!kernel)
    return Status::internal(fmt::format("operator {} cannot be emitted", op.getName().getStringRef().str()));
  // An addition that was taken apart into its operands' gradients computes nothing itself.
  if (mlir::isa<nn::AddOp>(op)) {
    auto found = sinks.find(op.getResult(0));
    if (found != sinks.end() && found->second.empty()) {
      withoutCall.insert(&op);
      return Status();
    }
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
      call.outputs.push_back(View{parameters.gradient(sink.parameter), sink.shape, DType::F32});
      accumulate |= int64_t{1} << r;
      continue;
    }
    MAESTRO_TRY(placeResult(op, r, timeline, time));
    call.outputs.push_back(view(op.getResult(r)));
  }
  if (accumulate)
    call.attributes.push_back(plan::intsAttribute("accumulate", {accumulate}));
  for (Value operand : kernelOperands(&op))
    call.inputs.push_back(operand ? std::optional(view(operand)) : std::nullopt);
  calls.push_back(std::move(call));
  return Status();
}

} // namespace maestro::planner
