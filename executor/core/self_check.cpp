#include "executor/core/self_check.h"

#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

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

Result<std::vector<float>> gradient(ExecutableInstance &instance, Device &device, uint32_t parameter) {
  std::vector<std::byte> bytes;
  MAESTRO_TRY(readBound(instance, device, fb::BindingKind::Gradient, parameter, bytes));
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

} // namespace

Status selfCheck(const plan::Plan &plan, Device &device, ExecutableInstance &instance, Trainer &trainer,
                 const data::SampleBatch &batch, const LossTotals &totals, const WeightFiles &weights,
                 uint64_t seed, uint64_t step) {
  MAESTRO_ASSIGN(std::vector<int64_t> symbols, trainer.combinedSymbols(batch));
  MAESTRO_ASSIGN(uint64_t growth, instance.growthFor(symbols));
  uint32_t index = plan->stations()->Get(0)->executable();
  MAESTRO_ASSIGN(auto whole, ExecutableInstance::create(plan, index, device, growth));
  MAESTRO_ASSIGN(LoadSummary loaded, loadParameters(plan, weights, seed, *whole, device));
  (void)loaded;
  MAESTRO_ASSIGN(auto wholeTrainer, Trainer::create(plan, device, *whole, seed));
  wholeTrainer->useOnePiece();
  LossTotals wholeTotals;
  MAESTRO_TRY(wholeTrainer->computeGradients(batch, step, wholeTotals));
  MAESTRO_ASSIGN(double norm, wholeTrainer->gradientNorm());

  double loss = trainer.weightedLoss(totals), wholeLoss = trainer.weightedLoss(wholeTotals);
  Tolerance tolerance = toleranceOf(plan);
  logInfo(fmt::format("self-check: loss {:.9g} in {} micro-batches, {:.9g} in one piece", loss,
                      trainer.microBatches(), wholeLoss));
  std::string worst;
  double worstExcess = 1;
  for (uint32_t p = 0; p < plan->parameters()->size(); ++p) {
    if (instance.boundBuffer(fb::BindingKind::Gradient, p) == kNone)
      continue;
    MAESTRO_ASSIGN(auto parts, gradient(instance, device, p));
    MAESTRO_ASSIGN(auto piece, gradient(*whole, device, p));
    double largest = 0, difference = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(piece[i])));
      double d = std::abs(static_cast<double>(parts[i]) - piece[i]);
      difference = std::isnan(d) ? INFINITY : std::max(difference, d);
    }
    std::string name = plan->parameters()->Get(p)->name()->str();
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
