// The state of linking; private to link*.cpp.
#pragma once

#include "planner/import/emitter.h"
#include "planner/import/link.h"
#include "planner/import/parameter_info.h"

#include "mlir/IR/IRMapping.h"

#include <map>
#include <set>
#include <unordered_map>

namespace maestro::planner {

class Linker {
public:
  Linker(const Workload &workload, mlir::ModuleOp module, const std::vector<mlir::func::FuncOp> &components);

  Status run();
  std::vector<std::string> notes;

private:
  struct Input {
    size_t component = 0;
    unsigned argument = 0;
    std::string name;
    /// Fed by this output …
    const EdgeSpec *edge = nullptr;
    /// … or by this data field.
    std::string field;
  };
  struct Output {
    size_t component = 0;
    unsigned result = 0;
    std::string name;
  };

  // link.cpp: what feeds what.
  void collectPorts();
  Status joinByName();
  Status resolveEdges();
  Status resolveFields();
  Status orderComponents();
  Status unifyShapes();
  Status checkTypes(nn::TensorType a, nn::TensorType b, const std::string &what);
  Result<Output> findOutput(const PortRef &ref) const;
  Result<Input *> findInput(const PortRef &ref);
  size_t indexOf(std::string_view component) const;
  std::string label(const Input &input) const;

  // link_body.cpp: the function.
  Status buildBody();
  Result<mlir::Value> fieldArgument(const std::string &name, nn::TensorType fallback, const std::string &place);
  mlir::Value addArgument(nn::TensorType type, llvm::ArrayRef<mlir::NamedAttribute> attributes);
  void markTrainable(unsigned argument, size_t component);
  Status inlineComponent(size_t component);
  nn::TensorType substituted(mlir::Type type) const;
  Status refuseUnused() const;
  void applyConstraints();
  Status finish();

  // link_losses.cpp: the losses.
  Status inferLosses();
  Status buildLosses();
  Status buildLoss(const LossSpec &loss);
  Status crossEntropy(const LossSpec &loss);
  Status klDivergence(const LossSpec &loss);
  Status keepLargest(const LossSpec &loss, mlir::Value &student, mlir::Value &teacher);
  Status mean(const LossSpec &loss);
  Status distance(const LossSpec &loss);
  Result<mlir::Value> divergence(const LossSpec &loss, mlir::Value student, mlir::Value teacher);
  Result<mlir::Value> regularised(const LossSpec &loss, mlir::Value each, mlir::Value logits, mlir::Value weights);
  Status addMean(const LossSpec &loss, mlir::Value each, mlir::Value weights, double factor = 1);
  Result<mlir::Value> resolve(const PortRef &ref, nn::TensorType fallback);
  Result<mlir::Value> positionWeights(const LossSpec &loss, llvm::ArrayRef<DimExpr> positions);
  Result<mlir::Value> labelWeights(mlir::Value labels, int64_t ignoreIndex);
  Status checkShape(mlir::Value value, llvm::ArrayRef<DimExpr> shape, const std::string &what, const LossSpec &loss);
  void addLossResult(const LossSpec &loss, mlir::Value value, llvm::StringRef role);

  // link_pads.cpp: padding counts in no loss.
  void inferPads();
  Status countOwnPositions();
  Status refusePaddedLabels() const;
  std::string paddedDim(mlir::Value value) const;

  // link_dims.cpp: how dims combine.
  Status describeDims();
  struct Bound {
    int64_t most = 1;
    std::string source;  ///< "" where the workload says it.
    bool isSaid = false; ///< By a model's metadata.
  };
  std::vector<std::pair<size_t, int64_t>> boundsOf(llvm::StringRef attribute, const std::string &dim);
  Result<Bound> boundOf(const std::string &name, const DimSpec &spec, int64_t otherwise);

  const Workload &workload;
  mlir::ModuleOp module;
  std::vector<mlir::func::FuncOp> components;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<EdgeSpec> edges;
  std::vector<LossSpec> losses;
  std::vector<size_t> order;
  DimConstraints constraints;
  size_t applied = 0; ///< Equalities that the graph already has.
  mlir::OpBuilder builder;
  Emitter e;
  mlir::func::FuncOp graph;
  std::vector<mlir::IRMapping> mappings;
  std::map<std::string, mlir::Value> fields;
  std::map<std::string, double> pads;
  std::set<std::pair<size_t, std::string>> usedPatterns; ///< Component, pattern of `frozen` or `trainable`.
  std::map<std::string, mlir::Value> specials;
  std::vector<std::pair<LossSpec, mlir::Value>> everyPosition; ///< Losses over all positions, and the ones they count.
  std::vector<mlir::Value> results;
  std::vector<mlir::NamedAttrList> resultAttributes;
};

} // namespace maestro::planner
