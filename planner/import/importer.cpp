#include "planner/import/importer.h"

#include "passes/attributes.h"
#include "planner/import/graph_importer.h"
#include "planner/import/graph_parameters.h"
#include "planner/import/half_precision.h"
#include "planner/import/metadata.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <fmt/format.h>

#include <cctype>
#include <set>

namespace maestro::planner {
namespace {

/// Every restart joins two names, so that this many are never needed by a sensible graph.
constexpr int kMaxAttempts = 32;

bool isInvented(std::string_view name) {
  if (name.size() < 2 || (name[0] != 's' && name[0] != 'u'))
    return false;
  return std::all_of(name.begin() + 1, name.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// A name that DimExpr accepts.
std::string identifier(std::string_view text) {
  std::string result;
  for (unsigned char c : text)
    result.push_back(std::isalnum(c) || c == '_' || c == '.' ? static_cast<char>(c) : '_');
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) || result[0] == '.')
    result = "_" + result;
  return result;
}

/// One attempt to import the graph, under the equalities of dims that are known so far.
class Attempt {
public:
  Attempt(const OnnxFile &file, const ImportOptions &options, mlir::ModuleOp module, DimConstraints &constraints)
      : state(file, options), builder(module.getContext()), emitter(builder, constraints), module(module),
        constraints(constraints), signature(readSignature(file.graph())) {}
  ~Attempt() {
    if (state.function && !finished)
      state.function.erase();
  }

  Status run();
  bool wantsRestart() const { return emitter.restart; }
  ImportedModel result() { return {state.function, std::move(state.notes)}; }

private:
  Status refuseMutations() const;
  void createFunction();
  Status addInputs();
  Status addInput(const onnx::ValueInfoProto &input);
  Result<Shape> inputShape(const onnx::ValueInfoProto &input);
  DimExpr inputDim(const onnx::ValueInfoProto &input, int index);
  Status returnOutputs();
  Status checkOutput(const onnx::ValueInfoProto &output, mlir::Value value);
  Status checkSymbols();
  Status verify();

  ImportState state;
  mlir::OpBuilder builder;
  Emitter emitter;
  mlir::ModuleOp module;
  DimConstraints &constraints;
  GraphSignature signature;
  Scope scope;
  bool finished = false;
};

Status Attempt::run() {
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    emitter.diagnostic = diagnostic.str();
    return mlir::success();
  });
  MAESTRO_TRY(refuseMutations());
  createFunction();
  MAESTRO_TRY(addInputs());
  GraphParameters parameters(state, emitter, signature);
  MAESTRO_TRY(parameters.add(scope));
  GraphImporter importer(state, emitter);
  MAESTRO_TRY(importer.importNodes(parameters.nodes(), state.file.opset(), scope));
  MAESTRO_TRY(returnOutputs());
  // Shape arithmetic leaves operators that only its folded values replaced.
  eraseUnused(state.function);
  std::vector<nn::ConstantOp> rounded = roundedScalars(state.function);
  if (std::optional<DType> exported = widenHalfPrecision(state.function)) {
    state.notes.push_back(fmt::format(
        "exported in {}; computes in the precision that the workload says, weights widened", name(*exported)));
    if (!rounded.empty())
      state.notes.push_back(fmt::format("{} numbers of the graph are as the exporter rounded them "
                                        "to {}; export in f32 to have them "
                                        "in full",
                                        rounded.size(), name(*exported)));
  }
  MAESTRO_TRY(checkSymbols());
  MAESTRO_TRY(verify());
  finished = true;
  return {};
}

/// A buffer that the forward pass writes (BatchNorm's running statistics in train()) cannot be kept.
Status Attempt::refuseMutations() const {
  for (const SignatureEntry &entry : signature.outputs)
    if (entry.kind == "BUFFER_MUTATION")
      return Status::invalidInput(fmt::format(
          "the graph updates the buffer '{}' in its forward pass (BatchNorm exported from train()?), which couples the "
          "samples of a batch; use GroupNorm or LayerNorm, or call eval() on these modules before exporting",
          entry.target));
  return {};
}

void Attempt::createFunction() {
  builder.setInsertionPointToEnd(module.getBody());
  auto type = builder.getFunctionType({}, {});
  auto location = mlir::NameLoc::get(builder.getStringAttr(state.file.path()));
  state.function = mlir::func::FuncOp::create(builder, location, state.options.component, type);
  builder.setInsertionPointToStart(state.function.addEntryBlock());
}

Status Attempt::addInputs() {
  std::set<std::string_view> initializers;
  for (const auto &tensor : state.file.graph().initializer())
    initializers.insert(tensor.name());
  for (const auto &input : state.file.graph().input()) {
    bool isParameter = isParameterKind(describeInput(input, signature).kind);
    if (!isParameter && !initializers.count(input.name()))
      MAESTRO_TRY(addInput(input).withContext(fmt::format("graph input '{}'", input.name())));
  }
  return {};
}

Status Attempt::addInput(const onnx::ValueInfoProto &input) {
  if (!input.type().has_tensor_type())
    return Status::invalidInput("not a tensor; sequences, maps and optional values are not supported");
  int32_t onnxType = input.type().tensor_type().elem_type();
  auto dtype = dtypeFromOnnx(onnxType);
  if (!dtype)
    return Status::invalidInput(fmt::format("element type {} is not supported", onnxTypeName(onnxType)));
  MAESTRO_ASSIGN(Shape shape, inputShape(input));
  unsigned index = state.function.getNumArguments();
  auto location = mlir::NameLoc::get(builder.getStringAttr(input.name()));
  (void)state.function.insertArgument(index, emitter.type(shape, *dtype), {}, location);
  state.function.setArgAttr(index, attributes::kField, builder.getStringAttr(input.name()));
  scope[input.name()] = ImportedValue::of(mlir::Value(state.function.getArgument(index)));
  return {};
}

Result<Shape> Attempt::inputShape(const onnx::ValueInfoProto &input) {
  if (!input.type().tensor_type().has_shape())
    return Status::invalidInput("its shape is unknown; export with known ranks");
  Shape shape;
  for (int i = 0; i < input.type().tensor_type().shape().dim_size(); ++i) {
    DimExpr dim = inputDim(input, i);
    if (auto constant = dim.asConstant(); constant && *constant < 0)
      return Status::invalidInput(fmt::format("dim {} is {}", i, *constant));
    shape.push_back(constraints.apply(dim));
  }
  return shape;
}

DimExpr Attempt::inputDim(const onnx::ValueInfoProto &input, int index) {
  const auto &dim = input.type().tensor_type().shape().dim(index);
  if (dim.has_dim_value())
    return DimExpr(dim.dim_value());
  if (dim.dim_param().empty())
    return DimExpr::symbol(identifier(fmt::format("{}.{}_{}", state.options.component, input.name(), index)));
  auto parsed = DimExpr::parse(dim.dim_param());
  DimExpr expr = parsed ? *parsed : DimExpr::symbol(identifier(dim.dim_param()));
  return expr.substitute([&](std::string_view name) -> std::optional<DimExpr> {
    if (state.options.inventedDimPrefix.empty() || !isInvented(name))
      return std::nullopt;
    return DimExpr::symbol(identifier(state.options.inventedDimPrefix + std::string(name)));
  });
}

/// Declared type and computed type must not contradict each other.
Status Attempt::checkOutput(const onnx::ValueInfoProto &output, mlir::Value value) {
  const auto &declared = output.type().tensor_type();
  if (!output.type().has_tensor_type())
    return {};
  auto dtype = dtypeFromOnnx(declared.elem_type());
  if (declared.elem_type() != 0 && dtype != Emitter::dtypeOf(value))
    return Status::invalidInput(fmt::format("declared as {}, but the graph computes {}",
                                            onnxTypeName(declared.elem_type()), name(Emitter::dtypeOf(value))));
  auto shape = Emitter::shapeOf(value);
  if (!declared.has_shape())
    return {};
  bool fits = declared.shape().dim_size() == static_cast<int>(shape.size());
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    auto constant = shape[i].asConstant();
    const auto &dim = declared.shape().dim(static_cast<int>(i));
    fits = !dim.has_dim_value() || !constant || *constant == dim.dim_value();
  }
  if (fits)
    return {};
  std::string text;
  for (const auto &dim : declared.shape().dim())
    text += (text.empty() ? "" : ", ") + (dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param());
  return Status::invalidInput(
      fmt::format("declared with shape [{}], but the graph computes {}", text, nn::shapeText(shape)));
}

Status Attempt::returnOutputs() {
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<mlir::Type> types;
  onnx::NodeProto outputs;
  for (const auto &output : state.file.graph().output())
    outputs.add_input(output.name());
  NodeContext context(outputs, 0, scope, emitter, state);
  for (int i = 0; i < outputs.input_size(); ++i) {
    const auto &output = state.file.graph().output(i);
    auto value = context.tensor(i).withContext(fmt::format("graph output '{}'", output.name()));
    if (!value)
      return std::move(value).takeStatus();
    MAESTRO_TRY(checkOutput(output, *value).withContext(fmt::format("graph output '{}'", output.name())));
    values.push_back(*value);
    types.push_back(value->getType());
  }
  mlir::func::ReturnOp::create(builder, builder.getUnknownLoc(), values);
  state.function.setType(builder.getFunctionType(state.function.getArgumentTypes(), types));
  for (int i = 0; i < outputs.input_size(); ++i)
    state.function.setResultAttr(i, attributes::kOutput, builder.getStringAttr(outputs.input(i)));
  mlir::NamedAttrList bounds;
  for (const auto &[symbol, bound] : constraints.bounds())
    state.boundDim(DimExpr::symbol(symbol), bound);
  for (const auto &[symbol, bound] : state.dimBounds)
    bounds.set(symbol, builder.getI64IntegerAttr(bound));
  if (!bounds.empty())
    state.function->setAttr(kDimBoundsAttribute, bounds.getDictionary(builder.getContext()));
  return {};
}

/// Sizes that depend on data must have disappeared with the operators that had them.
Status Attempt::checkSymbols() {
  for (mlir::Operation &op : state.function.front())
    for (mlir::Value result : op.getResults())
      for (const DimExpr &dim : nn::typeOf(result).getShape())
        for (const std::string &symbol : dim.symbols())
          if (symbol.find(".nonzero") != std::string::npos)
            return Status::invalidInput(fmt::format(
                "node '{}' has a shape {} that depends on data (NonZero); only masked scatters are understood",
                mlir::isa<mlir::NameLoc>(op.getLoc()) ? mlir::cast<mlir::NameLoc>(op.getLoc()).getName().str() : "",
                nn::shapeText(nn::typeOf(result).getShape())));
  return {};
}

Status Attempt::verify() {
  if (mlir::succeeded(mlir::verify(state.function)))
    return {};
  return Status::invalidInput(emitter.diagnostic);
}

} // namespace

void eraseUnused(mlir::func::FuncOp function) {
  mlir::Operation *next = nullptr;
  for (mlir::Operation *op = function.front().getTerminator()->getPrevNode(); op; op = next) {
    next = op->getPrevNode();
    if (op->use_empty() && mlir::isMemoryEffectFree(op))
      op->erase();
  }
}

void loadImportDialects(mlir::MLIRContext &context) { context.loadDialect<nn::NNDialect, mlir::func::FuncDialect>(); }

Result<ImportedModel> importModel(const OnnxFile &file, const ImportOptions &options, mlir::ModuleOp module) {
  // Dims that were invented during the import give way to those that the inputs name.
  DimConstraints constraints([](std::string_view symbol) { return symbol.find(".nonzero") == std::string_view::npos; });
  for (int i = 0; i < kMaxAttempts; ++i) {
    Attempt attempt(file, options, module, constraints);
    Status status = attempt.run();
    if (status.isOk()) {
      ImportedModel result = attempt.result();
      for (const auto &[symbol, value] : constraints.substitutions())
        result.notes.push_back(fmt::format("dim {} is {}, as the graph requires", symbol, value.str()));
      return result;
    }
    if (!attempt.wantsRestart())
      return std::move(status).withContext(file.path());
  }
  return Status::invalidInput(fmt::format("{}: more than {} dims turned out to be equal", file.path(), kMaxAttempts));
}

} // namespace maestro::planner
