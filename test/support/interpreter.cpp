// See interpreter.h.
#include "test/support/interpreter.h"

#include "ir/nn/nn.h"

#include "llvm/ADT/TypeSwitch.h"

namespace maestro::test {
namespace {

std::string nameOf(mlir::Operation &op) { return op.getName().getStringRef().str(); }

/// The elements of a small constant.
Tensor constantTensor(nn::ConstantOp op, const kernels::TensorType &type) {
  Tensor tensor(type.dtype, type.shape());
  auto elements = mlir::cast<mlir::DenseElementsAttr>(op.getValue());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (!mlir::isa<mlir::FloatType>(elements.getElementType())) {
      llvm::APInt value = elements.getValues<llvm::APInt>()[i];
      tensor.set(i, type.dtype == DType::Bool ? value.getBoolValue() : double(value.getSExtValue()));
      continue;
    }
    llvm::APFloat value = elements.getValues<llvm::APFloat>()[i];
    bool lossy;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    tensor.set(i, value.convertToDouble());
  }
  return tensor;
}

/// Operands in their places: absent optional operands are null.
std::vector<mlir::Value> operandsInPlace(mlir::Operation &op) {
  if (auto product = mlir::dyn_cast<nn::MatmulAddOp>(op))
    return {product.getA(), product.getB(), product.getBias(), product.getAddend()};
  std::vector<mlir::Value> operands;
  auto segments = op.getAttrOfType<mlir::DenseI32ArrayAttr>("operandSegmentSizes");
  if (!segments) {
    operands.assign(op.operand_begin(), op.operand_end());
    return operands;
  }
  unsigned next = 0;
  for (int32_t size : segments.asArrayRef()) {
    if (size == 0)
      operands.push_back(mlir::Value());
    for (int32_t i = 0; i < size; ++i)
      operands.push_back(op.getOperand(next++));
  }
  return operands;
}

} // namespace

Result<kernels::TensorType> Interpreter::typeOf(mlir::Type type) const {
  auto tensor = mlir::dyn_cast<nn::TensorType>(type);
  if (!tensor)
    return Status::invalidInput("a value is no nn tensor");
  std::vector<int64_t> shape;
  for (const DimExpr &dim : tensor.getShape()) {
    std::optional<int64_t> value = dim.evaluate([&](std::string_view name) -> std::optional<int64_t> {
      auto found = symbols.find(name);
      return found == symbols.end() ? std::nullopt : std::optional<int64_t>(found->second);
    });
    if (!value || *value < 0)
      return Status::invalidInput("the dim " + dim.str() + " has no value");
    shape.push_back(*value);
  }
  std::optional<DType> dtype = nn::dtypeOf(tensor.getElementType());
  if (!dtype)
    return Status::invalidInput("an element type has no tensors");
  return kernels::TensorType(*dtype, shape);
}

Result<std::vector<kernels::Attribute>> Interpreter::attributesOf(mlir::Operation &op) const {
  using kernels::Attribute;
  std::vector<Attribute> list;
  Status failure;
  auto ints = [&](std::string name, std::vector<int64_t> values) {
    list.push_back({std::move(name), Attribute::Kind::Ints, std::move(values), {}, {}});
  };
  for (mlir::NamedAttribute named : op.getAttrDictionary()) {
    std::string name = named.getName().str();
    llvm::TypeSwitch<mlir::Attribute>(named.getValue())
        .Case<mlir::BoolAttr>([&](auto a) { ints(name, {a.getValue()}); })
        .Case<mlir::IntegerAttr>([&](auto a) { ints(name, {a.getInt()}); })
        .Case<mlir::UnitAttr>([&](auto) { ints(name, {1}); })
        .Case<mlir::DenseI64ArrayAttr>([&](auto a) { ints(name, a.asArrayRef().vec()); })
        .Case<mlir::FloatAttr>([&](auto a) {
          list.push_back({name, Attribute::Kind::Floats, {}, {a.getValueAsDouble()}, {}});
        })
        .Case<mlir::StringAttr>([&](auto a) {
          list.push_back({name, Attribute::Kind::Text, {}, {}, a.getValue().str()});
        })
        .Case<nn::DimsAttr>([&](nn::DimsAttr a) {
          std::vector<int64_t> values;
          for (const DimExpr &dim : a.getValues()) {
            auto value = dim.evaluate([&](std::string_view symbol) -> std::optional<int64_t> {
              auto found = symbols.find(symbol);
              return found == symbols.end() ? std::nullopt : std::optional<int64_t>(found->second);
            });
            if (!value)
              failure = Status::invalidInput("the attribute " + name + " has no value: " + dim.str());
            values.push_back(value.value_or(0));
          }
          ints(name, std::move(values));
        });
  }
  if (!failure.isOk())
    return failure;
  return list;
}

Status Interpreter::runKernel(mlir::Operation &op, std::string_view kernel, std::map<void *, Tensor> &values) const {
  MAESTRO_ASSIGN(std::vector<kernels::Attribute> attributes, attributesOf(op));
  std::vector<kernels::TensorType> inputTypes, outputTypes;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (mlir::Value operand : operandsInPlace(op)) {
    const Tensor *tensor = operand ? &values.at(operand.getAsOpaquePointer()) : nullptr;
    inputTypes.push_back(tensor ? tensor->type() : kernels::TensorType());
    inputs.push_back(tensor ? tensor->data() : nullptr);
  }
  for (mlir::Value result : op.getResults()) {
    MAESTRO_ASSIGN(kernels::TensorType type, typeOf(result.getType()));
    Tensor &tensor = values[result.getAsOpaquePointer()] = Tensor(type.dtype, type.shape());
    outputTypes.push_back(type);
    outputs.push_back(tensor.data());
  }
  kernels::CallSpec spec{kernel, kernels::Attributes(attributes), inputTypes, outputTypes, 1};
  MAESTRO_ASSIGN(std::unique_ptr<kernels::Kernel> prepared, library.prepare(spec));
  if (!prepared)
    return Status::internal("the library " + std::string(library.name()) + " has no such kernel");
  int64_t scratchBytes = prepared->scratchBytes();
  Tensor scratch(DType::U8, std::span<const int64_t>(&scratchBytes, 1));
  return prepared->run(inputs, outputs, scratch.data());
}

Status Interpreter::runOperation(mlir::Operation &op, std::map<void *, Tensor> &values) const {
  auto interface = mlir::dyn_cast<nn::KernelOpInterface>(op);
  if (!interface)
    return Status::internal("it has no kernel interface");
  std::string kernel = interface.getKernelName().str();
  if (!kernel.empty())
    return runKernel(op, kernel, values);
  MAESTRO_ASSIGN(kernels::TensorType type, typeOf(op.getResult(0).getType()));
  Tensor &result = values[op.getResult(0).getAsOpaquePointer()];
  if (auto constant = mlir::dyn_cast<nn::ConstantOp>(op)) {
    result = constantTensor(constant, type);
    return Status();
  }
  // A view.
  const Tensor &source = values.at(op.getOperand(0).getAsOpaquePointer());
  if (source.size() != type.elements())
    return Status::internal("its result has another number of elements");
  result = source.reshaped(type.shape());
  return Status();
}

Result<std::vector<Tensor>> Interpreter::run(mlir::func::FuncOp function, std::span<const Tensor> arguments) const {
  std::map<void *, Tensor> values;
  if (arguments.size() != function.getNumArguments())
    return Status::invalidInput("a wrong number of arguments");
  for (size_t i = 0; i < arguments.size(); ++i) {
    mlir::Value argument = function.getArgument(i);
    MAESTRO_ASSIGN(kernels::TensorType type, typeOf(argument.getType()));
    if (type != arguments[i].type())
      return Status::invalidInput("argument " + std::to_string(i) + " has another type");
    values[argument.getAsOpaquePointer()] = arguments[i];
  }
  mlir::Block &body = function.getBody().front();
  for (mlir::Operation &op : body.without_terminator())
    if (Status status = runOperation(op, values); !status.isOk())
      return std::move(status).withContext(nameOf(op));
  std::vector<Tensor> results;
  for (mlir::Value value : body.getTerminator()->getOperands())
    results.push_back(values.at(value.getAsOpaquePointer()));
  return results;
}

} // namespace maestro::test
