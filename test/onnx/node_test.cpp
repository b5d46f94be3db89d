// ONNX's own node tests, imported and run on the reference kernels and on the CPU kernels.
//
//   node_test DIRECTORY [--only NAME] [--least N] [--verbose]
//
// DIRECTORY is onnx/backend/test/data/node of the installed `onnx` package. Prints the counts and the tests left out
// by reason; fails when a test that imports gives another result, or when fewer than N tests pass.
#include "node_case.h"

#include "ir/nn/nn.h"
#include "kernels/kernel.h"
#include "passes/attributes.h"
#include "planner/import/importer.h"
#include "planner/import/parameter_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

namespace maestro::test {
namespace {

namespace fs = std::filesystem;

/// Inputs that are shapes, axes and the like are constants in real graphs; the tests feed them.
enum class Bake { Nothing, SmallIntegers, Small };

bool bakes(Bake bake, const onnx::TensorProto &tensor) {
  auto dtype = planner::dtypeFromOnnx(tensor.data_type());
  if (!dtype || tensor.dims_size() > 1 || bake == Bake::Nothing)
    return false;
  return bake == Bake::Small || !isFloat(*dtype);
}

struct Outcome {
  enum class Kind { Passed, LeftOut, Failed } kind = Kind::Passed;
  std::string detail;
};
Outcome leftOut(std::string why) { return {Outcome::Kind::LeftOut, std::move(why)}; }
Outcome failed(std::string why) { return {Outcome::Kind::Failed, std::move(why)}; }

/// A message without what differs from test to test: its last part, names in quotes dropped.
std::string reasonOf(std::string_view message) {
  std::string text(message);
  if (size_t at = text.find("operator '"); at != std::string::npos)
    return text.substr(at, text.find('\'', at + 10) + 1 - at) + " is not supported";
  if (size_t at = text.rfind(": "); at != std::string::npos)
    text = text.substr(at + 2);
  std::string reason;
  bool quoted = false;
  for (char c : text) {
    if (c == '\'')
      quoted = !quoted;
    else if (!quoted)
      reason.push_back(c);
  }
  return reason.substr(0, 110);
}

class Runner {
public:
  Runner() { planner::loadImportDialects(context); }

  Outcome run(const NodeCase &test) {
    Outcome last;
    for (Bake bake : {Bake::Nothing, Bake::SmallIntegers, Bake::Small}) {
      last = runBaked(test, bake);
      if (last.kind != Outcome::Kind::LeftOut)
        return last;
    }
    return last;
  }

private:
  Outcome runBaked(const NodeCase &test, Bake bake) {
    std::string bytes = bakedModel(test, bake);
    auto file = planner::parseOnnx({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, test.name);
    if (!file)
      return leftOut(reasonOf(file.status().message()));
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    auto model = planner::importModel(*file, planner::ImportOptions(), *module);
    if (!model)
      return leftOut(reasonOf(model.status().message()));
    Symbols symbols;
    auto arguments = argumentsOf(test, bytes, model->function, symbols);
    if (!arguments)
      return leftOut(std::string(arguments.status().message()));
    for (const auto *library : {reference.get(), cpu.get()}) {
      std::string error = compare(test, *library, symbols, model->function, *arguments);
      if (!error.empty())
        return failed(fmt::format("{}: {}", library->name(), error));
    }
    return {};
  }

  static std::string bakedModel(const NodeCase &test, Bake bake) {
    onnx::ModelProto model = test.model;
    auto *inputs = model.mutable_graph()->mutable_input();
    for (int i = static_cast<int>(test.inputs.size()) - 1; i >= 0; --i)
      if (bakes(bake, test.inputs[i])) {
        onnx::TensorProto *constant = model.mutable_graph()->add_initializer();
        *constant = test.inputs[i];
        constant->set_name(inputs->Get(i).name());
        inputs->DeleteSubrange(i, 1);
      }
    return model.SerializeAsString();
  }

  static Result<std::vector<Tensor>> argumentsOf(const NodeCase &test, const std::string &bytes,
                                                 mlir::func::FuncOp function, Symbols &symbols) {
    std::vector<Tensor> arguments;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      if (auto info = planner::parameterInfo(function, i)) {
        auto type = mlir::cast<maestro::nn::TensorType>(function.getArgumentTypes()[i]);
        std::vector<int64_t> shape;
        for (const DimExpr &dim : type.getShape())
          shape.push_back(*dim.asConstant());
        Tensor &tensor = arguments.emplace_back(info->dtype, shape);
        std::memcpy(tensor.data(), bytes.data() + info->source->offset, info->source->length);
        continue;
      }
      auto field = function.getArgAttrOfType<mlir::StringAttr>(i, attributes::kField);
      if (!field)
        return Status::invalidInput("random numbers, which differ from the test's");
      MAESTRO_ASSIGN(Tensor input, inputNamed(test, field.str()));
      auto shape = mlir::cast<maestro::nn::TensorType>(function.getArgumentTypes()[i]).getShape();
      for (size_t axis = 0; axis < shape.size(); ++axis)
        if (auto symbol = shape[axis].asSymbol())
          symbols[*symbol] = input.type().dims[axis];
      arguments.push_back(std::move(input));
    }
    return arguments;
  }

  static Result<Tensor> inputNamed(const NodeCase &test, const std::string &name) {
    for (size_t i = 0; i < test.inputs.size(); ++i)
      if (test.model.graph().input(static_cast<int>(i)).name() == name)
        return tensorOf(test.inputs[i]);
    return Status::invalidInput("the test has no data for an input");
  }

  static std::string compare(const NodeCase &test, const kernels::Library &library, const Symbols &symbols,
                             mlir::func::FuncOp function, const std::vector<Tensor> &arguments) {
    auto results = Interpreter(library, symbols).run(function, arguments);
    if (!results)
      return std::string(results.status().message());
    for (size_t i = 0; i < test.outputs.size(); ++i) {
      auto expected = tensorOf(test.outputs[i]);
      if (!expected)
        return std::string(expected.status().message());
      std::string why = difference((*results)[i], *expected);
      if (!why.empty())
        return fmt::format("output {}: {}", i, why);
    }
    return "";
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::unique_ptr<kernels::Library> reference = kernels::createReferenceLibrary();
  std::unique_ptr<kernels::Library> cpu = kernels::createCpuLibrary();
};

struct Options {
  std::string directory, only;
  size_t least = 1;
  bool verbose = false;
};

int runAll(const Options &options) {
  std::vector<std::string> folders;
  for (const auto &entry : fs::directory_iterator(options.directory))
    if (fs::exists(entry.path() / "model.onnx") &&
        entry.path().filename().string().find(options.only) != std::string::npos)
      folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  Runner runner;
  size_t passed = 0;
  std::map<std::string, std::vector<std::string>> leftOutBy;
  std::vector<std::string> failures;
  for (const std::string &folder : folders) {
    auto test = readNodeCase(folder);
    std::string name = fs::path(folder).filename().string();
    Outcome outcome = test ? runner.run(*test) : leftOut(std::string(test.status().message()));
    if (outcome.kind == Outcome::Kind::Passed)
      ++passed;
    else if (outcome.kind == Outcome::Kind::LeftOut)
      leftOutBy[outcome.detail].push_back(name);
    else
      failures.push_back(fmt::format("{}: {}", name, outcome.detail));
  }
  size_t out = 0;
  for (const auto &[reason, names] : leftOutBy)
    out += names.size();
  fmt::print("{} node tests: {} passed, {} failed, {} left out\n", folders.size(), passed, failures.size(), out);
  for (const auto &[reason, names] : leftOutBy) {
    fmt::print("  {:4} left out: {} ({}{})\n", names.size(), reason, names[0], names.size() > 1 ? ", …" : "");
    if (options.verbose)
      for (const std::string &name : names)
        fmt::print("         {}\n", name);
  }
  for (const std::string &failure : failures)
    fmt::print("FAILED {}\n", failure);
  if (passed < options.least)
    fmt::print("FAILED: {} tests passed, fewer than the {} that must\n", passed, options.least);
  return failures.empty() && passed >= options.least ? 0 : 1;
}

} // namespace
} // namespace maestro::test

int main(int count, char **arguments) {
  maestro::test::Options options;
  for (int i = 1; i < count; ++i) {
    std::string argument = arguments[i];
    if (argument == "--verbose")
      options.verbose = true;
    else if (argument == "--only" && i + 1 < count)
      options.only = arguments[++i];
    else if (argument == "--least" && i + 1 < count)
      options.least = std::stoul(arguments[++i]);
    else
      options.directory = argument;
  }
  if (options.directory.empty() || !std::filesystem::is_directory(options.directory)) {
    fmt::print("give the directory of ONNX's node tests (onnx/backend/test/data/node of the Python package)\n");
    return 1;
  }
  return maestro::test::runAll(options);
}
