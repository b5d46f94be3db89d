// The passes of levels 1 and 2 (`nn`, `section`), from an imported graph to the programs of each section's tasks.
// passes/README.md has the picture; passes/attributes.h the names by which functions say what their
// arguments and results are.
#pragma once

#include "base/recompute.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace maestro {

/// The places where the pipeline can be stopped, in order; each ends with its verify pass.
enum class Phase { Import, Raise, Loss, Partition, Differentiate, Split };
/// "import", "raise", "loss", "partition", "differentiate", "split".
llvm::StringRef nameOf(Phase phase);
/// The inverse of nameOf(); nothing for other text.
std::optional<Phase> phaseFromName(llvm::StringRef text);
/// "import, raise, …" for messages.
std::string phaseNames();

/// Elementwise operators broadcast by themselves.
std::unique_ptr<mlir::Pass> createFoldBroadcastsPass();
/// A weighted sum of means becomes one sum and one count per mean.
std::unique_ptr<mlir::Pass> createDecomposeLossPass();
/// Refuses a graph whose losses do not decompose over samples.
std::unique_ptr<mlir::Pass> createCheckSamplesPass();
/// Where padding would show in a loss, micro-batches hold samples of equal length only. Of sections: refuses what shows
/// behind edges.
std::unique_ptr<mlir::Pass> createCheckPaddingPass();
/// Products of the named components, and what follows them, in bf16; parameters of those that are `frozen` as a whole,
/// too.
std::unique_ptr<mlir::Pass> createLowerPrecisionPass(llvm::ArrayRef<std::string> components = {},
                                                     llvm::ArrayRef<std::string> frozen = {});
struct PartitionOptions {
  /// Module scopes at which a section of its own begins ("student.model.layers.4": what this module computes and what
  /// follows from it); it is named after the scope. In any order.
  std::vector<std::string> cuts;
  /// Pipeline stages of a section by its name, "*" for all others; absent: one.
  std::map<std::string, int64_t> stages;
  /// Instead: the atoms (section_atoms.h) at which a section's stages but the first begin; absent: one stage.
  std::map<std::string, std::vector<unsigned>> firstAtoms;
  /// Instead: chains of equal atoms are shortened, and each atom left is a stage (SectionChain::trialStages()).
  bool forTrial = false;
  /// What a section's backward tasks compute again, by its name, "*" for all others; absent: nothing but what is cheap.
  std::map<std::string, RecomputeChoice> recompute;
  /// In how many stages of a section, the last ones, weight gradients are tasks of their own, by its name, "*" for all
  /// others; absent: 0.
  std::map<std::string, int64_t> splitBackward;
  /// Chunks of rows over which a section's heads, losses and their gradients are done, by its name, "*" for all others;
  /// absent: one.
  std::map<std::string, int64_t> lossChunks;
  /// Devices that share the MLP blocks of a section by its name, "*" for all others; absent: one.
  std::map<std::string, int64_t> tensor;
  /// Whether a frozen producer's last operators may move to the consumer so that fewer bytes cross.
  bool moveTails = true;
};
/// @graph becomes sections and the edges between them.
std::unique_ptr<mlir::Pass> createPartitionSectionsPass(const PartitionOptions &options = {});
/// @graph becomes @step: loss sums and the gradients of trainable parameters.
std::unique_ptr<mlir::Pass> createDifferentiatePass();
/// States of tensors over mesh axes; @step becomes what each tensor-parallel device runs.
std::unique_ptr<mlir::Pass> createShardPass();
/// Heads, losses and their gradients in @step are done over chunks of rows, where a section asks for it.
std::unique_ptr<mlir::Pass> createChunkLossesPass();
/// @step becomes @count, @forward, @backward and, where a section splits its backward, @weight_gradient; where it has
/// its losses in chunks, @evaluate.
std::unique_ptr<mlir::Pass> createSplitProgramsPass(Recompute recompute = Recompute::None);
/// Products in programs add what would be added to them.
std::unique_ptr<mlir::Pass> createFuseAdditionsPass();
/// What the IR promises after `phase`; later passes trust it.
std::unique_ptr<mlir::Pass> createVerifyPhasePass(Phase phase);

/// Coarse operators out of decomposed ones (passes/raise_*.cpp).
void addRaisePasses(mlir::OpPassManager &manager);
void registerRaisePasses();

struct PipelineOptions {
  std::optional<Phase> startAfter; ///< Phase::Loss: the module has gone so far. Nothing: it comes from the importer.
  Phase stopAfter = Phase::Split;
  Recompute recompute = Recompute::None; ///< Where partition.recompute says nothing.
  PartitionOptions partition;
  std::vector<std::string> bf16Components; ///< Whose products are computed in bf16.
  std::vector<std::string>
      bf16Parameters; ///< Of these, those whose parameters may be held in bf16: they are never saved.
};

/// From an imported module to programs.
void buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options = {});

/// All passes and the pipeline `maestro-pipeline`, for maestro-opt.
void registerPasses();

} // namespace maestro
