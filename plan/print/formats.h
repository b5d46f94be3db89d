// One printer per format, and the phrases they share. Internal to plan/print.
#pragma once

#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/print/print.h"
#include "plan/print/text.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace maestro::plan {

std::string printSummary(const Plan &plan, const Selection &selection);
std::string printJson(const Plan &plan);
std::string printMlir(const Plan &plan, const Selection &selection);
std::string printDot(const Plan &plan, const Selection &selection);
std::string printHtml(const Plan &plan, const Selection &selection, std::string_view timelines);

/// "AdamW, lr 0.0003 …", of a group (parameter_groups.h).
std::string groupPhrase(const fb::Training &training, uint32_t group);
/// The same of group 0, and how gradients are clipped.
std::string optimizerPhrase(const fb::Training &training);
std::string schedulePhrase(const fb::Training &training);
/// "none", "selective", "full".
std::string recomputePhrase(const fb::Layout &layout);
/// Which stages split their backward: "no", "all", or how many, the last ones; as it is pinned.
std::string splitPhrase(const fb::Layout &layout);
/// "data parallel 2, 4 stages, full recompute"; "one device" for the plain layout.
std::string layoutPhrase(const fb::Layout &layout);
/// "4 samples", "16 samples, 8192 padded tokens": what a micro-batch of the section holds at most.
std::string microBatchPhrase(const Plan &plan, uint32_t section);
/// "batch ≤ 4, seq ≤ 24, batch·seq ≤ 72"
std::string boundsPhrase(const Plan &plan, const fb::Executable &executable);
/// "f32 [batch, seq, 8]"
std::string tensorPhrase(const Plan &plan, uint8_t dtype, const flatbuffers::Vector<uint32_t> &shape);
/// "0.5 · cross_entropy"
std::string lossPhrase(const fb::Loss &loss);

/// How often each kernel is called, by name.
std::map<std::string, size_t> kernelCounts(const Plan &plan, const fb::Program &program);
/// The value of an expression at the executable's bounds; the verifier made sure there is one.
int64_t valueAtBounds(const Plan &plan, const fb::Executable &executable, uint32_t expr);

/// The quantity of this name; nothing where the plan does not state it.
std::optional<double> quantity(const Plan &plan, std::string_view name);
/// "; assumed: 100 GFLOP/s …" where nobody measured the devices and no data sheet tells: in the line of every predicted
/// time.
std::string assumptionPhrase(const Plan &plan);
/// "100 GFLOP/s", "1.50 GiB", "12.3 ms"
std::string quantityPhrase(double value, std::string_view unit);
std::vector<const fb::Candidate *> candidatesOf(const Plan &plan, fb::CandidateKind kind);
/// "280 ms, 1.12 x", against the plan's step; "lacks 3.00 MiB", "not possible".
std::string candidatePhrase(const Plan &plan, const fb::Candidate &candidate);
/// The layouts that were compared: name, time, what it is, why.
TextTable comparisonTable(const Plan &plan);
/// Bytes of one message over an edge: the consumer's ring has slots for it.
uint64_t messageBytes(const Plan &plan, uint32_t edge);
/// Why an edge carries what it carries; "" where the plan does not say.
std::string edgeReason(const Plan &plan, const fb::Edge &edge);
/// Whether a decision is about an edge's tensor: shown with the edges.
bool isOfEdge(const fb::Decision &decision);
/// Whether a number explains the search or each step's scheduling rather than the plan.
bool isOfTuning(std::string_view quantity);
/// "37 % MFU": operations over what the devices multiply, of a section or of the "step"; "" where it is not known.
std::string utilizationPhrase(const Plan &plan, const std::string &name);
/// The section that a name such as "student.micro_batch" or "student stage 1" is about; kNone: none.
uint32_t sectionNamedIn(const Plan &plan, std::string_view name);

/// Seconds of one execution at the executable's bounds, 0 where no cost is stated.
double secondsAtBounds(const Plan &plan, const fb::Executable &executable,
                       const flatbuffers::Vector<flatbuffers::Offset<fb::CostTerm>> *cost);

/// "device 3", "devices 0-2, 5"
std::string deviceRanges(std::vector<uint32_t> devices);
/// The devices of a section's stations, each once.
std::vector<uint32_t> devicesOf(const Plan &plan, uint32_t section);

/// Numbers of one component.
struct ParameterTotals {
  size_t tensors = 0, fromFiles = 0, inPlan = 0, seeded = 0, withoutValue = 0;
  uint64_t elements = 0, trainable = 0, bytes = 0;
};
ParameterTotals parameterTotals(const Plan &plan, uint32_t component);

/// "model.norm.weight", "model.layers.*.mlp.up_proj.weight (32)": numbered modules of one kind as one, in the names'
/// order.
std::vector<std::string> namePatterns(const std::vector<std::string> &names);
/// The component's parameters that train, or that do not, as such patterns; the rest of very many as a number. Buffers
/// are neither.
std::string trainedNames(const Plan &plan, uint32_t component, bool trained);

} // namespace maestro::plan
