// One printer per format, and the phrases they share. Internal to plan/print.
#pragma once

#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "plan/print/print.h"

#include <map>
#include <string>

namespace maestro::plan {

std::string printSummary(const Plan &plan, const Selection &selection);
std::string printJson(const Plan &plan);
std::string printMlir(const Plan &plan, const Selection &selection);
std::string printDot(const Plan &plan, const Selection &selection);
std::string printHtml(const Plan &plan, const Selection &selection, std::string_view timelines);

/// "AdamW, lr 0.0003 …": optimizer and schedule.
std::string optimizerPhrase(const fb::Training &training);
std::string schedulePhrase(const fb::Training &training);
/// "data parallel 2, 4 stages, recompute"; "one device" for the plain layout.
std::string layoutPhrase(const fb::Layout &layout);
/// "batch ≤ 4, seq ≤ 24"
std::string boundsPhrase(const Plan &plan, const fb::Executable &executable);
/// "f32 [batch, seq, 8]"
std::string tensorPhrase(const Plan &plan, uint8_t dtype, const flatbuffers::Vector<uint32_t> &shape);
/// "0.5 · cross_entropy"
std::string lossPhrase(const fb::Loss &loss);

/// How often each kernel is called, by name.
std::map<std::string, size_t> kernelCounts(const Plan &plan, const fb::Program &program);
/// The value of an expression at the executable's bounds; the verifier made sure there is one.
int64_t valueAtBounds(const Plan &plan, const fb::Executable &executable, uint32_t expr);

/// Numbers of one component.
struct ParameterTotals {
  size_t tensors = 0, fromFiles = 0, inPlan = 0, seeded = 0, withoutValue = 0;
  uint64_t elements = 0, trainable = 0, bytes = 0;
};
ParameterTotals parameterTotals(const Plan &plan, uint32_t component);

} // namespace maestro::plan
