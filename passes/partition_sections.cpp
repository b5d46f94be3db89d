// --maestro-partition-sections: @graph becomes sections, each to get a layout of its own, and the edges between
// them.
//
//   func.func @graph(%x {nn.field}, %t {nn.parameter = "teacher/w"}, %s {nn.parameter = "student/w", nn.trainable}) {
//     %a = nn.matmul %x, %t
//     %b = nn.matmul %x, %s
//     %l = nn.kl_divergence %b, %a
//     …
//
// becomes
//
//   section.section @teacher {
//     func.func @graph(%x {nn.field}, %t …) -> (… {nn.edge = "teacher_to_student"})
//   section.section @student attributes {trains} {
//     func.func @graph(%x {nn.field}, %s …, %a {nn.edge = "teacher_to_student"}) -> (… {nn.loss …})
//   section.edge @teacher_to_student from @teacher to @student : …
//
// Which operators form a section: section_classes.h. Stages are cut here, where the work is most even (stage_cuts.h)
// or at given layers (section_atoms.h). What crosses: section_crossings.h.
#include "passes/outline_sections.h"
#include "passes/passes.h"
#include "passes/section_atoms.h"
#include "passes/section_classes.h"
#include "passes/section_crossings.h"

#include <numeric>

using namespace mlir;

namespace maestro {
namespace {

class Partitioner {
public:
  Partitioner(ModuleOp module, const DimTable &dims, const PartitionOptions &options)
      : module(module), graph(findFunction(module, attributes::kGraphFunction)), dims(dims), options(options),
        facts(graph, dims) {}

  LogicalResult run() {
    if (failed(findSections()))
      return failure();
    bool usesAtoms = options.forTrial || !options.firstAtoms.empty();
    if (failed(usesAtoms ? cutAtAtoms() : cutStages()))
      return failure();
    chooseCrossings();
    return outlineSections(module, labels, dims);
  }

  /// Only looks.
  FailureOr<AtomGraph> atoms() {
    if (failed(findSections()))
      return failure();
    return chains();
  }

private:
  LogicalResult findSections() {
    FailureOr<SectionLabels> found = classifySections(graph, facts, options);
    if (failed(found))
      return failure();
    labels = std::move(*found);
    return checkStages();
  }

  void chooseCrossings() { maestro::chooseCrossings(facts, dims, options.moveTails, labels); }

  // ---- pipeline stages ----------------------------------------------------------------------------------------

  LogicalResult checkStages() {
    std::vector<std::string> names;
    for (SectionPart &part : labels.parts) {
      names.push_back(part.section);
      part.recompute = valueOf(options.recompute, part.section, RecomputeChoice());
      part.splitStages = valueOf<int64_t>(options.splitBackward, part.section, 0);
      part.tensor = countOf(options.tensor, part.section);
      part.lossChunks = countOf(options.lossChunks, part.section);
    }
    for (const auto &[name, stages] : options.stages)
      if (name != "*" && !llvm::is_contained(names, name))
        return graph.emitError() << "there is no section '" << name << "' to cut into " << stages
                                 << " stages; sections: " << sectionNames();
    return success();
  }

  std::string sectionNames() const {
    std::string text;
    for (const SectionPart &part : labels.parts)
      text += (text.empty() ? "" : ", ") + part.section;
    return text;
  }

  /// A section's number, that of all ("*"), or 1.
  static int64_t countOf(const std::map<std::string, int64_t> &counts, const std::string &section) {
    return valueOf<int64_t>(counts, section, 1);
  }
  template <typename T>
  static T valueOf(const std::map<std::string, T> &values, const std::string &section, T otherwise) {
    auto own = values.find(section), all = values.find("*");
    return own != values.end() ? own->second : all != values.end() ? all->second : otherwise;
  }

  /// Sections along their depth where the stages' work is most even, and of nearly even cuts where the fewest bytes
  /// cross.
  LogicalResult cutStages() {
    if (llvm::any_of(labels.parts, needsLayers)) {
      if (failed(markAtoms(chains())))
        return failure();
      labels.repeated.clear();
    }
    for (unsigned part = 0; part < labels.parts.size(); ++part) {
      int64_t stages = countOf(options.stages, labels.parts[part].section);
      llvm::SmallVector<Operation *> members;
      for (Operation &op : facts.operations())
        if (auto label = labels.part.find(&op); stages > 1 && label != labels.part.end() && label->second == part)
          members.push_back(&op);
      if (stages == 1)
        continue;
      std::vector<unsigned> ends = bestCuts(cutCosts(members, dims, facts.weights()), stages);
      if (ends.size() != static_cast<size_t>(stages))
        return graph.emitError() << "section '" << labels.parts[part].section << "' cannot be cut into " << stages
                                 << " stages: it has only " << ends.size() << " places where a sample's rows can cross";
      std::vector<std::vector<Operation *>> operators(stages);
      unsigned stage = 0;
      for (auto [position, op] : llvm::enumerate(members)) {
        while (position >= ends[stage])
          ++stage;
        operators[stage].push_back(op);
      }
      splitPart(part, operators);
      part += static_cast<unsigned>(stages) - 1;
    }
    return success();
  }

  /// One part becomes several, a stage each.
  void splitPart(unsigned part, ArrayRef<std::vector<Operation *>> operators) {
    auto stages = static_cast<unsigned>(operators.size());
    for (auto &entry : labels.part)
      if (entry.second > part)
        entry.second += stages - 1;
    SectionPart whole = labels.parts[part];
    labels.parts.erase(labels.parts.begin() + part);
    for (unsigned stage = 0; stage < stages; ++stage) {
      SectionPart cut = whole;
      cut.name = whole.section + ".stage" + std::to_string(stage);
      cut.stage = stage;
      cut.stages = stages;
      labels.parts.insert(labels.parts.begin() + part + stage, cut);
      for (Operation *op : operators[stage])
        labels.part[op] = part + stage;
    }
  }

  /// What consumers compute for themselves is asked first, since stages are of what remains.
  AtomGraph chains() {
    chooseCrossings();
    return findAtoms(graph, labels, dims, facts.weights(), [this](const std::string &section) {
      auto own = options.firstAtoms.find(section);
      return std::max<size_t>(countOf(options.stages, section),
                              own == options.firstAtoms.end() ? 1 : own->second.size() + 1);
    });
  }

  bool trains(const SectionChain &chain) const {
    return llvm::any_of(chain.atoms, [&](const auto &atom) {
      return llvm::any_of(atom, [&](Operation *op) { return labels.trains.contains(op); });
    });
  }

  static bool needsLayers(const SectionPart &part) {
    return part.recompute.most == Recompute::Full || part.recompute.lighter > 0;
  }

  /// Where a section computes whole layers again, or some of them otherwise, its operators say which layer they are of.
  LogicalResult markAtoms(const AtomGraph &atoms) {
    Builder builder(module.getContext());
    for (auto [part, chain] : llvm::zip_equal(labels.parts, atoms.sections)) {
      part.layers = static_cast<int64_t>(chain.atoms.size());
      if (part.recompute.lighter >= part.layers && !trains(chain)) // It has nothing to compute again.
        part.recompute = {};
      if (!needsLayers(part))
        continue;
      if (part.recompute.lighter >= part.layers)
        return graph.emitError() << "recompute '" << textOf(part.recompute) << "' of section '" << part.section
                                 << "' leaves no layer: it has " << part.layers;
      for (auto [number, atom] : llvm::enumerate(chain.atoms))
        for (Operation *op : atom)
          op->setAttr(attributes::kAtom, builder.getI64IntegerAttr(static_cast<int64_t>(number)));
    }
    return success();
  }

  /// Stages of whole atoms: as told, or a trial's.
  LogicalResult cutAtAtoms() {
    AtomGraph atoms = chains();
    labels.repeated.clear();
    if (failed(markAtoms(atoms)))
      return failure();
    for (unsigned section = static_cast<unsigned>(atoms.sections.size()); section-- > 0;) {
      SectionChain &chain = atoms.sections[section];
      std::vector<std::vector<unsigned>> stages = options.forTrial ? chain.trialStages() : toldStages(chain);
      if (stages.empty())
        return graph.emitError() << "section '" << chain.name << "' is to be cut at atoms that it does not have ("
                                 << chain.atoms.size() << ")";
      std::vector<std::vector<Operation *>> operators;
      for (const std::vector<unsigned> &stage : stages) {
        operators.emplace_back();
        for (unsigned atom : stage)
          operators.back().insert(operators.back().end(), chain.atoms[atom].begin(), chain.atoms[atom].end());
      }
      operators.back().insert(operators.back().end(), chain.moved.begin(), chain.moved.end());
      if (options.forTrial)
        shorten(chain, labels);
      if (operators.size() > 1)
        splitPart(section, operators);
    }
    return success();
  }

  /// Nothing where the atoms told do not ascend within the chain.
  std::vector<std::vector<unsigned>> toldStages(const SectionChain &chain) const {
    std::vector<unsigned> firsts{0};
    if (auto told = options.firstAtoms.find(chain.name); told != options.firstAtoms.end())
      firsts.insert(firsts.end(), told->second.begin(), told->second.end());
    firsts.push_back(static_cast<unsigned>(chain.atoms.size()));
    std::vector<std::vector<unsigned>> stages;
    for (size_t stage = 0; stage + 1 < firsts.size(); ++stage) {
      if (firsts[stage] >= firsts[stage + 1])
        return {};
      stages.emplace_back(firsts[stage + 1] - firsts[stage]);
      std::iota(stages.back().begin(), stages.back().end(), firsts[stage]);
    }
    return stages;
  }

  ModuleOp module;
  func::FuncOp graph;
  const DimTable &dims;
  const PartitionOptions &options;
  GraphFacts facts;
  SectionLabels labels;
};

struct PartitionSectionsPass : PassWrapper<PartitionSectionsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PartitionSectionsPass)
  PartitionSectionsPass() = default;
  PartitionSectionsPass(const PartitionSectionsPass &other) : PassWrapper(other) {
    cuts = llvm::ArrayRef<std::string>(other.cuts);
    stages = llvm::ArrayRef<std::string>(other.stages);
    tensor = llvm::ArrayRef<std::string>(other.tensor);
    lossChunks = llvm::ArrayRef<std::string>(other.lossChunks);
    recompute = llvm::ArrayRef<std::string>(other.recompute);
    splitBackward = llvm::ArrayRef<std::string>(other.splitBackward);
    firstAtoms = llvm::ArrayRef<std::string>(other.firstAtoms);
    forTrial = other.forTrial;
    moveTails = other.moveTails;
  }
  PartitionSectionsPass(const PartitionOptions &options) {
    cuts = llvm::ArrayRef<std::string>(options.cuts);
    stages = llvm::ArrayRef<std::string>(textOf(options.stages));
    tensor = llvm::ArrayRef<std::string>(textOf(options.tensor));
    lossChunks = llvm::ArrayRef<std::string>(textOf(options.lossChunks));
    recompute = llvm::ArrayRef<std::string>(textOf(options.recompute));
    splitBackward = llvm::ArrayRef<std::string>(textOf(options.splitBackward));
    firstAtoms = llvm::ArrayRef<std::string>(textOf(options.firstAtoms));
    forTrial = options.forTrial;
    moveTails = options.moveTails;
  }
  StringRef getArgument() const override { return "maestro-partition-sections"; }
  StringRef getDescription() const override { return "@graph becomes sections and the edges between them"; }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<section::SectionDialect>(); }

  void runOnOperation() override {
    PartitionOptions options;
    options.cuts.assign(cuts.begin(), cuts.end());
    options.moveTails = moveTails;
    options.forTrial = forTrial;
    if (failed(readCounts("stages", stages, options.stages)) ||
        failed(readCounts("split-backward", splitBackward, options.splitBackward, 0)) ||
        failed(readCounts("tensor", tensor, options.tensor)) ||
        failed(readCounts("loss-chunks", lossChunks, options.lossChunks)) || failed(readRecompute(options.recompute)) ||
        failed(readFirstAtoms(options.firstAtoms)))
      return signalPassFailure();
    FailureOr<DimTable> dims = DimTable::of(getOperation());
    if (!findFunction(getOperation(), attributes::kGraphFunction) || failed(dims) ||
        failed(Partitioner(getOperation(), *dims, options).run()))
      signalPassFailure();
  }

  static std::vector<std::string> textOf(const std::map<std::string, int64_t> &counts) {
    std::vector<std::string> list;
    for (const auto &[section, count] : counts)
      list.push_back(section + ":" + std::to_string(count));
    return list;
  }

  static std::vector<std::string> textOf(const std::map<std::string, std::vector<unsigned>> &atoms) {
    std::vector<std::string> list;
    for (const auto &[section, firsts] : atoms) {
      std::string text = section + ":";
      for (unsigned first : firsts)
        text += (text.back() == ':' ? "" : "+") + std::to_string(first);
      list.push_back(std::move(text));
    }
    return list;
  }

  static std::vector<std::string> textOf(const std::map<std::string, RecomputeChoice> &choices) {
    std::vector<std::string> list;
    for (const auto &[section, choice] : choices)
      list.push_back(section + ":" + maestro::textOf(choice));
    return list;
  }

  LogicalResult readRecompute(std::map<std::string, RecomputeChoice> &choices) {
    for (const std::string &text : recompute) {
      auto [section, name] = StringRef(text).rsplit(':');
      std::optional<RecomputeChoice> choice = recomputeChoiceFromText(name);
      if (!choice)
        return getOperation().emitError()
               << "recompute: '" << text << "' is not SECTION:none, SECTION:selective or SECTION:full, or the "
               << "latter less the last layers (SECTION:full-4)";
      choices[section.str()] = *choice;
    }
    return success();
  }

  LogicalResult readFirstAtoms(std::map<std::string, std::vector<unsigned>> &atoms) {
    for (const std::string &text : firstAtoms) {
      auto [section, rest] = StringRef(text).rsplit(':');
      llvm::SmallVector<StringRef> numbers;
      rest.split(numbers, '+', -1, false);
      std::vector<unsigned> &firsts = atoms[section.str()];
      for (StringRef number : numbers)
        if (number.getAsInteger(10, firsts.emplace_back()))
          return getOperation().emitError() << "first-atoms: '" << text << "' is not SECTION:ATOM+ATOM+…";
    }
    return success();
  }

  LogicalResult readCounts(StringRef option, llvm::ArrayRef<std::string> list, std::map<std::string, int64_t> &counts,
                           int64_t least = 1) {
    for (const std::string &text : list) {
      auto [section, count] = StringRef(text).rsplit(':');
      int64_t number = 0;
      if (count.getAsInteger(10, number) || number < least)
        return getOperation().emitError() << option << ": '" << text << "' is not SECTION:COUNT";
      counts[section.str()] = number;
    }
    return success();
  }

  ListOption<std::string> cuts{*this, "cuts", llvm::cl::desc("Module scopes before which a section is cut")};
  ListOption<std::string> stages{*this, "stages", llvm::cl::desc("SECTION:COUNT, pipeline stages")};
  ListOption<std::string> tensor{*this, "tensor", llvm::cl::desc("SECTION:COUNT, devices that share its MLP blocks")};
  ListOption<std::string> lossChunks{*this, "loss-chunks",
                                     llvm::cl::desc("SECTION:COUNT, chunks of rows of its heads and losses")};
  ListOption<std::string> recompute{*this, "recompute",
                                    llvm::cl::desc("SECTION:selective|full|full-4, what its backward computes again")};
  ListOption<std::string> splitBackward{
      *this, "split-backward",
      llvm::cl::desc("SECTION:COUNT, stages, the last ones, whose weight gradients are a program of their own")};
  ListOption<std::string> firstAtoms{*this, "first-atoms",
                                     llvm::cl::desc("SECTION:ATOM+ATOM, where stages but the first begin")};
  Option<bool> forTrial{*this, "for-trial", llvm::cl::init(false), llvm::cl::desc("Chains shortened, a stage an atom")};
  Option<bool> moveTails{*this, "move-tails", llvm::cl::init(true),
                         llvm::cl::desc("A frozen producer's last operators may move to the consumer")};
};

} // namespace

FailureOr<AtomGraph> findAtoms(ModuleOp module, const PartitionOptions &options) {
  FailureOr<DimTable> dims = DimTable::of(module);
  if (failed(dims))
    return failure();
  return Partitioner(module, *dims, options).atoms();
}

std::unique_ptr<Pass> createPartitionSectionsPass(const PartitionOptions &options) {
  return std::make_unique<PartitionSectionsPass>(options);
}

} // namespace maestro
