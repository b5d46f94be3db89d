// Real exports: every model that test/models/export.py wrote must import, small and with its parameters' names.
#include "onnx_text.h"
#include "passes/attributes.h"
#include "planner/import/metadata.h"
#include "planner/import/parameter_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>

namespace maestro::planner {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> exportedModels() {
  const char *given = std::getenv("MAESTRO_MODELS");
  fs::path folder = given ? given : MAESTRO_SOURCE_DIR "/build/models";
  std::vector<std::string> models;
  if (fs::is_directory(folder))
    for (const auto &entry : fs::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".onnx")
        models.push_back(entry.path().string());
  std::sort(models.begin(), models.end());
  return models;
}

/// What the refusal of a model must say; "" where it must import.
std::string refusalOf(const std::string &path) {
  if (path.find("batchnorm_train") != std::string::npos)
    return "couples the samples";
  if (path.find("/custom_function.onnx") != std::string::npos)
    return "PassesThrough.apply()";
  return path.find("/no_grad.onnx") != std::string::npos ? "torch.no_grad()" : "";
}

struct Imported {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<OnnxFile> file;
  ImportedModel model;
};

std::string importFile(const std::string &path, Imported &imported) {
  loadImportDialects(imported.context);
  imported.module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&imported.context));
  auto file = readOnnxFile(path);
  if (!file)
    return std::string(file.status().message());
  imported.file.emplace(std::move(*file));
  auto model = importModel(*imported.file, ImportOptions(), *imported.module);
  if (!model)
    return std::string(model.status().message());
  imported.model = std::move(*model);
  return "";
}

/// Names of the graph that some node reads.
std::set<std::string> readNames(const onnx::GraphProto &graph) {
  std::set<std::string> names;
  for (const onnx::NodeProto &node : graph.node())
    names.insert(node.input().begin(), node.input().end());
  return names;
}

/// Every floating point parameter that the signature names, and the graph reads, is an argument, under that name or as
/// an alias.
void checkParameters(Imported &imported, const std::string &path) {
  std::set<std::string> names;
  for (unsigned i = 0; i < imported.model.function.getNumArguments(); ++i)
    if (auto info = parameterInfo(imported.model.function, i)) {
      EXPECT_TRUE(names.insert(info->name).second) << path << ": " << info->name << " twice";
      names.insert(info->aliases.begin(), info->aliases.end());
    }
  std::set<std::string> read = readNames(imported.file->graph());
  for (const SignatureEntry &entry : readSignature(imported.file->graph()).inputs)
    if (entry.kind == "PARAMETER" && (read.count(entry.target) || read.count(entry.node))) {
      EXPECT_TRUE(names.count(entry.target)) << path << ": " << entry.target << " is no argument";
    }
}

TEST(Exports, AllImport) {
  std::vector<std::string> models = exportedModels();
  if (models.empty())
    GTEST_SKIP() << "no exported models (test/models/export.py writes them)";
  for (const std::string &path : models) {
    Imported imported;
    std::string error = importFile(path, imported);
    if (path.find("/optimized") != std::string::npos && error.find("optimize=False") != std::string::npos)
      continue; // What the exporter's optimizer folded, merged or took out is refused, by intent.
    if (std::string refusal = refusalOf(path); !refusal.empty()) {
      EXPECT_THAT(error, ::testing::HasSubstr(refusal)) << path;
      continue;
    }
    EXPECT_EQ(error, "") << path;
    if (!error.empty())
      continue;
    checkParameters(imported, path);
    size_t operators = imported.model.function.front().getOperations().size();
    EXPECT_LT(operators, static_cast<size_t>(imported.file->graph().node_size()) + 64) << path;
  }
}

} // namespace
} // namespace maestro::planner
