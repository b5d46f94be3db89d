#include "tools/profile/plan_subjects.h"

#include "kernels/signature.h"
#include "plan/capacity.h"
#include "plan/dims.h"
#include "plan/plan_generated.h"

#include <algorithm>
#include <set>
#include <utility>

namespace maestro::profile {
namespace {

namespace fb = plan::fb;
using kernels::Attribute;
using kernels::TensorType;

/// Which operand of attention hides keys; three later of its gradient.
constexpr size_t kMask = 3;

constexpr double kMostOperations = 1e10, kMostBytes = 256 << 20;

double elements(const TensorType &type) { return static_cast<double>(type.elements()); }

/// Which curve a call belongs to, and where on it, as planning asks for it (planner/emit/operator_costs.cpp); no curve: to none.
void place(Subject &subject) {
  kernels::Attributes attributes(subject.attributes);
  const TensorType &first = subject.inputs.front(), &result = subject.outputs.front();
  double m = 0, n = 0, k = 0;
  if (subject.kernel == "matmul") {
    bool transposed = attributes.getFlag("transpose_a");
    double matrices = 1;
    for (int i = 0; i < result.rank - 2; ++i)
      matrices *= static_cast<double>(result.dims[i]);
    if (matrices > 1 && (subject.inputs[1].rank > 2 || transposed))
      return;
    n = static_cast<double>(result.dims[result.rank - 1]);
    m = elements(result) / n;
    k = static_cast<double>(first.dims[first.rank - (transposed ? 2 : 1)]);
    bool narrow = first.dtype == DType::BF16;
    subject.curve = narrow ? "matmul bf16" : transposed ? "matmul transposed f32" : "matmul f32";
    subject.farInputs = transposed && !narrow ? 1 : 0;
  } else if (subject.kernel.starts_with("conv") && first.dtype == DType::F32) {
    bool ofFilters = subject.kernel == "conv_grad_weight";
    const TensorType &filters = ofFilters ? result : subject.inputs[1];
    const TensorType &y = subject.kernel == "conv" ? result : subject.kernel == "conv_grad_input" ? first : subject.inputs[1];
    n = ofFilters ? elements(result) / static_cast<double>(result.dims[0]) : static_cast<double>(result.dims[1]);
    m = elements(result) / n;
    k = elements(y) * elements(filters) / static_cast<double>(filters.dims[0]) / elements(result);
    subject.curve = subject.kernel;
  } else if (subject.kernel.starts_with("attention")) {
    size_t q = subject.kernel == "attention_grad" ? 1 : 0;
    TensorType none, &mask = subject.inputs.size() > kMask + 3 * q ? subject.inputs[kMask + 3 * q] : none;
    if (mask.present && mask.dtype != DType::Bool)
      return;
    bool hidesWhatComes = mask.present && mask.rank > 1 && mask.dims[mask.rank - 2] > 1;
    if (!hidesWhatComes)
      mask = {}; // Of zeros it would hide everything.
    subject.ordered = hidesWhatComes;
    const TensorType &queries = subject.inputs[q], &keys = subject.inputs[q + 1];
    k = static_cast<double>(queries.dims[queries.rank - 1]);
    m = elements(queries) / k;
    n = static_cast<double>(keys.dims[attributes.getFlag("sequence_major") ? 1 : 2]);
    subject.curve = subject.kernel + (attributes.getFlag("causal") ? " causal" : hidesWhatComes ? " masked" : "");
    subject.farInputs = q == 1 ? 16 : 0;
  }
  subject.sizes = {m, n, k};
}

class Reader {
public:
  explicit Reader(const plan::Plan &plan) : plan(plan), values(plan->exprs()->size()) {}

  PlanSubjects read() {
    for (const fb::Executable *executable : *plan->executables()) {
      std::vector<std::vector<int64_t>> largest = plan::largestMicroBatches(plan::capacityOf(*plan, *executable));
      std::vector<int64_t> half = largest.front();
      for (int64_t &size : half)
        if (size != plan::DimTable::kUndefined)
          size = std::max<int64_t>(1, size / 2);
      for (const std::vector<int64_t> &sizes : {largest.front(), largest[largest.size() / 2], largest.back(), half}) {
        plan::DimTable(*plan).evaluateDefined(sizes, values);
        for (const fb::Program *program : *executable->programs())
          if (program->kind() == fb::ProgramKind::Forward || program->kind() == fb::ProgramKind::Backward ||
              program->kind() == fb::ProgramKind::WeightGradient)
            for (const fb::Call *call : *program->calls())
              add(*executable, *call);
      }
    }
    return std::move(found);
  }

private:
  void add(const fb::Executable &executable, const fb::Call &call) {
    Subject subject;
    subject.kernel = plan->kernels()->Get(call.kernel())->str();
    if (subject.kernel != "matmul" && !subject.kernel.starts_with("conv") && !subject.kernel.starts_with("attention"))
      return;
    addAttributes(call, subject.attributes);
    double bytes = 0;
    for (auto [buffers, types] : {std::pair(call.inputs(), &subject.inputs), {call.outputs(), &subject.outputs}})
      for (uint32_t buffer : *buffers) {
        TensorType &type = types->emplace_back();
        if (buffer != plan::kNone && !describe(*executable.buffers()->Get(buffer), type))
          return;
        bytes += type.present ? static_cast<double>(type.bytes()) : 0;
      }
    kernels::CallSpec spec{subject.kernel, kernels::Attributes(subject.attributes), subject.inputs, subject.outputs};
    if (!kernels::checkSignature(spec).isOk() || !subject.outputs.front().present) // A damaged plan's: maestro-run says so.
      return;
    place(subject);
    if (subject.curve.empty() || !seen.emplace(subject.curve, subject.sizes).second)
      return;
    const std::vector<double> &s = subject.sizes;
    if (bytes > kMostBytes || 2 * s[0] * s[1] * s[2] > kMostOperations)
      ++found.leftOut;
    else
      found.list.push_back(std::move(subject));
  }

  void addAttributes(const fb::Call &call, std::vector<Attribute> &list) const {
    if (call.attributes() == plan::kNone)
      return;
    for (const fb::Attribute *item : *plan->attribute_lists()->Get(call.attributes())->items()) {
      Attribute &own = list.emplace_back();
      own.name = item->name()->str();
      if (item->floats()) {
        own.kind = Attribute::Kind::Floats;
        own.floats.assign(item->floats()->begin(), item->floats()->end());
      } else if (item->text()) {
        own.kind = Attribute::Kind::Text;
        own.text = item->text()->str();
      } else if (item->ints()) {
        own.ints.assign(item->ints()->begin(), item->ints()->end());
      }
      for (size_t i = 0; item->exprs() && i < item->exprs()->size(); ++i)
        own.ints.push_back(values[item->exprs()->Get(static_cast<uint32_t>(i))]);
    }
  }

  /// False: its shape is not known, or empty.
  bool describe(const fb::Buffer &buffer, TensorType &type) const {
    std::vector<int64_t> shape;
    for (uint32_t expr : *buffer.shape()) {
      if (values[expr] < 1)
        return false;
      shape.push_back(values[expr]);
    }
    type = TensorType(static_cast<DType>(buffer.dtype()), shape);
    return true;
  }

  const plan::Plan &plan;
  std::vector<int64_t> values; ///< Of Plan.exprs.
  std::set<std::pair<std::string, std::vector<double>>> seen; ///< Curves and sizes.
  PlanSubjects found;
};

} // namespace

PlanSubjects subjectsOf(const plan::Plan &plan) { return Reader(plan).read(); }

} // namespace maestro::profile
