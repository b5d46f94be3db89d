// The plan's tables, filled one kind after the other. Internal to planner/emit; emit_plan.h is what others include.
//
//   emit_plan.cpp         the order of things; training, machine, decisions
//   emit_graph.cpp        dims, components, fields, parameters, losses
//   emit_sections.cpp     sections, stages, edges, stations
//   emit_executables.cpp  programs and memory of each stage
//   emit_gradients.cpp    which gradients are added up
//   emit_prediction.cpp   what a step will take
//   emit_sources.cpp      where predicted numbers come from
#pragma once

#include "cost_models/compound.h"
#include "ir/section/section.h"
#include "plan/builder.h"
#include "planner/emit/emit_plan.h"
#include "planner/emit/executable_lowering.h"
#include "planner/emit/micro_batch_limits.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace maestro::planner {

class PlanEmitter {
public:
  explicit PlanEmitter(const EmitInput &input) : input(input), plan(builder.plan()) {}

  Result<EmittedPlan> run();

private:
  struct Stage {
    section::SectionOp op;
    uint32_t section = 0;
    const SectionLayout *layout = nullptr;
    MicroBatchLimits limits;
    uint32_t slots = 1;
  };

  // The graph.
  void declareSymbols();
  void addComponents();
  void addFields();
  Status checkGroups() const;
  Status addParameters();
  Result<uint32_t> sourceFile(const std::string &path);
  std::string relativePath(const std::string &path) const;
  void addLosses();

  // Training and machine.
  void addTraining();
  void addMachine();
  void addDecisions();
  uint64_t workloadHash() const;

  // Sections.
  void addSections();
  void addSection(section::SectionOp op, const std::string &name, const Stage &stage);
  void addUnpadded(section::SectionOp op, plan::fb::SectionT &section) const;
  void addEdges();
  void addStations();
  void addCommunicator(const std::vector<uint32_t> &ranks);
  void findHolders();
  size_t homeOf(const std::string &component);
  size_t stageNamed(llvm::StringRef name) const;
  static uint32_t stageNumber(const Stage &stage);

  // Executables.
  Status checkUpdatesAreWhole(const LoweringInput &lowering) const;
  Status addExecutable(size_t index);
  LoweringInput loweringInput(size_t index) const;
  void accountMemory(const Stage &stage, plan::fb::ExecutableT &executable);
  uint64_t reductionBytes(const Stage &stage) const;
  uint64_t sumStagingBytes() const;
  std::vector<uint32_t> sumDegrees(const std::vector<size_t> &holding) const;
  std::vector<int64_t> exprsAt(const DimSizes &sizes) const;
  std::vector<uint32_t> devicesOf(const Stage &stage) const;
  std::vector<uint32_t> replicaDevices(const Stage &stage) const;
  cost_models::CommunicationCost transferCost(const Stage &producer, const Stage &consumer) const;
  int hostThreads() const;

  // Gradients.
  Status addGradientSums();
  Status checkSum(uint32_t parameter, size_t stations) const;

  // Prediction.
  void predictUpdate(const Stage &stage, plan::fb::ExecutableT &executable);
  void addPrediction();

  // Where predicted numbers come from.
  void addSources();
  void addMachineSources();
  void addStageSources(size_t index);
  void addEdgeSource(size_t index);
  void addSource(std::string name, double value, std::string unit, std::string source);

  const EmitInput &input;
  plan::PlanBuilder builder;
  plan::fb::PlanT &plan;
  EmittedPlan emitted;
  std::map<std::string, uint32_t> fieldIndex;
  std::map<std::pair<std::string, int64_t>, uint32_t> lossIndex;
  std::vector<Stage> stages;                ///< By Plan.executables.
  std::vector<std::vector<size_t>> holders; ///< By Plan.parameters: the stages that hold it.
  std::map<std::string, uint32_t> edgeIndex, depths;
  cost_models::StepOverheads overheads;
};

} // namespace maestro::planner
