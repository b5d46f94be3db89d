#include "executor/core/self_check.h"

#include "base/log.h"
#include "executor/core/shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

/// What rounding may do: relative to a parameter's largest gradient, and to the global norm (some
/// gradients are zero but for rounding).
struct Tolerance {
  double ofLargest, ofNorm;
};
constexpr Tolerance kF32 = {1e-4, 1e-6}, kBF16 = {5e-2, 1e-2};

Tolerance toleranceOf(const plan::Plan &plan) {
  for (const fb::Component *component : *plan->components())
    if (static_cast<DType>(component->precision()) == DType::BF16)
      return kBF16;
  return kF32;
}

Result<std::vector<float>> gradient(Job &job, uint32_t parameter) {
  std::vector<std::byte> bytes;
  MAESTRO_TRY(job.gatherAtRoot(fb::BindingKind::Gradient, parameter, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return Status();
  }));
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The evaluation in one piece runs the same programs, so that a gradient which they never write
/// would be the same zeros on both sides. There all gradients therefore start at -0.0: whatever is
/// added to that leaves it, 0.0 included.
Status markGradients(const plan::Plan &plan, Job &job) {
  auto fill = [](uint64_t, std::span<std::byte> piece) {
    std::span<float> values(reinterpret_cast<float *>(piece.data()), piece.size() / sizeof(float));
    std::ranges::fill(values, -0.0f);
    return Status();
  };
  for (uint32_t s = 0; s < job.topology().stations.size(); ++s) {
    ExecutableInstance &instance = job.station(s).instance();
    for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
      if (instance.boundBuffer(fb::BindingKind::Gradient, p) != kNone)
        MAESTRO_TRY(writePart(plan, instance, job.device(s), fb::BindingKind::Gradient, p, 1, fill));
  }
  return Status();
}

bool isUnwritten(std::span<const float> gradient) {
  return !gradient.empty() &&
         std::ranges::all_of(gradient, [](float value) { return value == 0 && std::signbit(value); });
}

/// Whether any of the holders' sections had a micro-batch: without images there is no gradient of
/// what sees them.
bool isComputed(const plan::Plan &plan, const Job &job, const StepResult &piece, uint32_t parameter) {
  for (const StationFacts &station : job.topology().stations) {
    const fb::Executable &executable = *plan->executables()->Get(station.executable);
    for (const fb::Binding *binding : *executable.bindings())
      if (binding->kind() == fb::BindingKind::Gradient && binding->index() == parameter &&
          piece.microBatches[executable.section()] > 0)
        return true;
  }
  return false;
}

} // namespace

Result<LoadSummary> loadJob(const plan::Plan &plan, const WeightFiles &weights, uint64_t seed, Job &job) {
  LoadSummary total;
  for (uint32_t s = 0; s < job.topology().stations.size(); ++s) {
    if (!job.isHere(s))
      continue;
    MAESTRO_ASSIGN(LoadSummary own, loadParameters(plan, weights, seed, job.station(s).instance(), job.device(s)));
    if (job.topology().stations[s].replica > 0 || !job.topology().stations[s].isLead())
      continue;
    total.bytes += own.bytes;
    total.fromWeights += own.fromWeights;
    total.fromPlan += own.fromPlan;
    total.seeded += own.seeded;
  }
  return total;
}

Status selfCheck(const plan::Plan &plan, Job &job, const StepResult &result, const data::SampleBatch &batch,
                 const WeightFiles &weights, uint64_t seed, uint64_t step) {
  if (!job.isRoot()) { // Hands over what it holds.
    for (uint32_t p = 0; p < plan->parameters()->size(); ++p)
      if (job.holder(fb::BindingKind::Gradient, p) != kNone)
        MAESTRO_TRY(job.gatherAtRoot(fb::BindingKind::Gradient, p, {}));
    return Status();
  }
  MAESTRO_ASSIGN(std::vector<int64_t> symbols, job.stepScheduler().combinedSymbols(batch));
  JobOptions options;
  options.seed = seed;
  options.onePiece = true;
  MAESTRO_ASSIGN(options.growth, growthFor(plan, symbols));
  MAESTRO_ASSIGN(auto whole, Job::create(plan, options));
  MAESTRO_ASSIGN(LoadSummary loaded, loadJob(plan, weights, seed, *whole));
  (void)loaded;
  MAESTRO_TRY(markGradients(plan, *whole));
  MAESTRO_TRY(whole->start());
  whole->submit(batch, step, Job::To::All, false);
  MAESTRO_ASSIGN(const StepResult *piece, whole->await(step));
  MAESTRO_TRY(whole->drain());

  double norm = std::isfinite(piece->gradientNorm) ? piece->gradientNorm : 0;
  double loss = weightedLoss(plan, result.totals), wholeLoss = weightedLoss(plan, piece->totals);
  Tolerance tolerance = toleranceOf(plan);
  logInfo(fmt::format("self-check: loss {:.9g} in {} micro-batches, {:.9g} in one piece", loss,
                      fmt::join(result.microBatches, "+"), wholeLoss));
  std::string worst;
  double worstExcess = 1;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p) {
    if (job.holder(fb::BindingKind::Gradient, p) == kNone)
      continue;
    MAESTRO_ASSIGN(auto parts, gradient(job, p));
    MAESTRO_ASSIGN(auto inOnePiece, gradient(*whole, p));
    double largest = 0, difference = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(inOnePiece[i])));
      double d = std::abs(static_cast<double>(parts[i]) - inOnePiece[i]);
      difference = std::isnan(d) ? INFINITY : std::max(difference, d);
    }
    const fb::Parameter &parameter = *plan->parameters()->Get(p);
    if (isUnwritten(inOnePiece) && isComputed(plan, *whole, *piece, p))
      return Status::invalidInput(
          fmt::format("self-check: no task writes the gradient of '{}', which would never be trained; "
                      "plan the job anew",
                      parameter.name()->string_view()));
    std::string name = fmt::format("{}.{}", plan->components()->Get(parameter.component())->name()->string_view(),
                                   parameter.name()->string_view());
    logInfo(fmt::format("self-check: {:<60} {:.2e}", name, difference / std::max(largest, 1e-30)));
    double allowed = tolerance.ofLargest * largest + tolerance.ofNorm * norm;
    double excess = allowed > 0 ? difference / allowed : (difference > 0 ? INFINITY : 0);
    if (excess > worstExcess) {
      worstExcess = excess;
      worst = name;
    }
  }
  bool lossDiffers = !(std::abs(loss - wholeLoss) <= tolerance.ofLargest * std::abs(wholeLoss) + 1e-12);
  if (!worst.empty() || lossDiffers)
    return Status::invalidInput(fmt::format(
        "self-check: {} differs between micro-batches and one piece by more than rounding; the loss depends on "
        "padding or on which samples share a micro-batch: give the graph a mask, or a loss that ignores padding",
        worst.empty() ? std::string("the loss") : "the gradient of '" + worst + "'"));
  return Status();
}

} // namespace maestro::executor
