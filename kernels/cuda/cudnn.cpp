#include "kernels/cuda/cudnn.h"

#include "base/log.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/sequence.h"
#include "kernels/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <set>

namespace maestro::kernels::cuda {
namespace {

constexpr uint64_t kAlignment = 16; ///< Of every operand: cuDNN's results are silently wrong where one has less.
constexpr int64_t kMaxDepth = 256;
constexpr size_t kOrderedVersion = 92500;

/// Warns once in a process for each reason, which other shapes share.
void sayOnce(const std::string &reason, const std::string &text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  std::lock_guard lock(mutex);
  if (said.insert(reason).second)
    logWarning("attention runs on kernels without tensor cores, many times slower than cuDNN's: " + text);
}
void sayOnce(const std::string &reason) { sayOnce(reason, reason); }

/// Ok, or an operand's address, which prepared kernels never see in a plan's regions.
Status checkAligned(std::string_view kernel, std::span<const CUdeviceptr> addresses) {
  for (CUdeviceptr address : addresses)
    if (address % kAlignment)
      return Status::internal(
          fmt::format("{}: an operand lies at {:#x}, which is no multiple of {}", kernel, address, kAlignment));
  return Status();
}

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

/// Plans by what they depend on; preparing one takes seconds, so they stay.
class Plans {
public:
  using Make = Result<Plan> (*)(const Cudnn &, const Place &, const AttentionGraph &);

  Result<const Plan *> find(const Cudnn &library, cudnnHandle_t handle, Make make, const AttentionGraph &attention) {
    Key key = keyOf(make, attention);
    auto found = plans.find(key);
    if (found == plans.end()) {
      Place place{handle};
      MAESTRO_ASSIGN(Plan plan, make(library, place, attention));
      if (int64_t most = attention.maxWorkspaceBytes(make == planAttentionGrad);
          plan.workspaceBytes() > static_cast<size_t>(most))
        return Status::unavailable(
            fmt::format("it wants {} bytes of workspace, and plans keep {}", plan.workspaceBytes(), most));
      found = plans.emplace(key, std::move(plan)).first;
    }
    return &found->second;
  }

private:
  using Key = std::array<int64_t, 20>;
  static Key keyOf(Make make, const AttentionGraph &a) {
    const AttentionShape &s = a.shape;
    return {make == planAttention,
            a.batch,
            a.heads,
            a.keyHeads,
            s.heads,
            s.keyHeads,
            s.queries,
            s.keys,
            s.depth,
            s.valueDepth,
            s.sequenceMajor,
            std::bit_cast<int64_t>(s.scale),
            std::bit_cast<int64_t>(s.softcap),
            s.causal,
            s.causalOffset,
            a.bias ? 1 + static_cast<int64_t>(*a.bias) : 0,
            a.bias ? a.biasBatch() : 0,
            a.bias ? a.biasHeads() : 0,
            a.ordered,
            s.batch};
  }
  std::map<Key, Plan> plans;
};

/// What attention and its gradient share: the bias, which a kernel of our own writes from the mask.
class Attention : public Kernel {
public:
  Attention(const Cudnn &library, cudnnHandle_t handle, const AttentionGraph &graph, const Plan &plan,
            const Functions &functions)
      : library(library), handle(handle), graph(graph), plan(plan), before(functions), after(functions) {}

  size_t scratchBytes() const override { return workspace + plan.workspaceBytes(); }

protected:
  /// Scratch memory for `bytes` more.
  size_t reserve(int64_t bytes) {
    size_t offset = workspace;
    workspace += (static_cast<size_t>(bytes) + 255) / 256 * 256;
    return offset;
  }
  /// `mask` is the operand's number.
  Status addBias(const Call &call, size_t mask) {
    if (!graph.bias)
      return Status();
    const AttentionShape &s = graph.shape;
    int64_t rows = graph.biasBatch() * graph.biasHeads() * s.queries;
    bias = reserve(graph.biasBytes());
    AttentionBiasParams params{};
    params.mask = anyTensor(call.in(mask));
    params.bias.dtype = *graph.bias;
    std::copy_n(s.maskStrides.begin(), 4, params.maskStrides);
    params.heads = graph.biasHeads();
    params.queries = s.queries;
    params.keys = s.keys;
    params.row = graph.biasRow();
    params.rows = rows;
    params.boolean = call.in(mask).dtype == DType::Bool;
    return before.add("attention_bias", blocksFor(rows * graph.biasRow()), params,
                      [mask, at = bias](AttentionBiasParams &p, const Operands &o) {
                        p.mask.data = address(o.in(mask));
                        p.bias.data = o.scratchAt(at);
                      });
  }
  Status execute(const Launch &launch, std::span<void *const> pointers, CUdeviceptr scratch) const {
    MAESTRO_CUDNN_TRY(library, cudnnSetStream, handle, reinterpret_cast<cudaStream_t>(launch.stream));
    return plan.execute(handle, pointers, pointer(scratch + workspace));
  }

  const Cudnn &library;
  cudnnHandle_t handle;
  AttentionGraph graph;
  const Plan &plan;
  Sequence before, after;
  size_t workspace = 0, bias = 0; ///< Offsets in scratch memory; the workspace is last.
};

class Forward : public Attention {
public:
  using Attention::Attention;

  Status prepare(const Call &call) {
    if (!graph.bias)
      return Status();
    MAESTRO_TRY(addBias(call, 3));
    AttentionRowsParams params{};
    const AttentionShape &s = graph.shape;
    params.heads = s.heads;
    params.queries = s.queries;
    params.rows = s.batch * s.heads * s.queries;
    params.valueDepth = s.valueDepth;
    params.sequenceMajor = s.sequenceMajor;
    return after.add("attention_rows", blocksFor(params.rows), params, [](AttentionRowsParams &p, const Operands &o) {
      p.o = o.out(0);
      p.lse = o.out<float>(1);
    });
  }

  Status enqueue(const Launch &launch, std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs,
                 CUdeviceptr scratch) override {
    MAESTRO_TRY(checkAligned("attention", inputs.first(3)));
    MAESTRO_TRY(checkAligned("attention", outputs));
    MAESTRO_TRY(before.enqueue(launch, inputs, outputs, scratch));
    std::array<void *, 6> held{pointer(inputs[0]), pointer(inputs[1]), pointer(inputs[2])};
    size_t count = 3;
    if (graph.bias)
      held[count++] = pointer(scratch + bias);
    for (CUdeviceptr result : outputs)
      held[count++] = pointer(result);
    MAESTRO_TRY(execute(launch, std::span(held).first(count), scratch));
    return after.enqueue(launch, inputs, outputs, scratch);
  }
};

/// Part by part: each is the same graph further on.
class Backward : public Attention {
public:
  using Attention::Attention;

  Status prepare(const Call &call) {
    MAESTRO_TRY(addBias(call, 6));
    sums = reserve(graph.rowSumBytes());
    ordered = reserve(graph.orderedSumBytes());
    if (!needsStatistics())
      return Status();
    // A row of no weights has −∞, of which cuDNN would make more than none; and each part's are aligned.
    const AttentionShape &s = graph.shape;
    AttentionStatisticsParams params{};
    params.rows = s.batch * s.heads * s.queries;
    params.part = graph.batch * graph.heads * s.queries;
    params.stride = partStride(); // In elements.
    statistics = reserve(4 * partStride() * (params.rows / params.part));
    return before.add("attention_statistics", blocksFor(params.rows), params,
                      [at = statistics](AttentionStatisticsParams &p, const Operands &o) {
                        p.from = o.in<float>(5);
                        p.to = o.scratchAt<float>(at);
                      });
  }

  Status enqueue(const Launch &launch, std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs,
                 CUdeviceptr scratch) override {
    MAESTRO_TRY(checkAligned("attention_grad", inputs.first(6)));
    MAESTRO_TRY(checkAligned("attention_grad", outputs));
    MAESTRO_TRY(before.enqueue(launch, inputs, outputs, scratch));
    const AttentionShape &s = graph.shape;
    for (int64_t b = 0; b < s.batch; b += graph.batch)
      for (int64_t kh = 0; kh < s.keyHeads; kh += graph.keyHeads) {
        int64_t h = kh * s.group();
        auto at = [](CUdeviceptr base, int64_t element) { return pointer(base + 2 * static_cast<uint64_t>(element)); };
        int64_t q = s.queryRow(b, h, 0), k = s.keyRow(b, kh, 0), v = s.valueRow(b, kh, 0), o = s.resultRow(b, h, 0);
        std::array<void *, 12> held{at(inputs[0], o), at(inputs[1], q), at(inputs[2], k),
                                    at(inputs[3], v), at(inputs[4], o), statisticsOf(inputs[5], scratch, b, h)};
        size_t count = 6;
        if (graph.bias) {
          int64_t head = (graph.biasBatch() > 1 ? b : 0) * graph.biasHeads() + (graph.biasHeads() > 1 ? h : 0);
          held[count++] = pointer(scratch + bias +
                                  byteSize(*graph.bias) * static_cast<uint64_t>(head * s.queries * graph.biasRow()));
        }
        held[count++] = at(outputs[0], q);
        held[count++] = at(outputs[1], k);
        held[count++] = at(outputs[2], v);
        held[count++] = pointer(scratch + sums);
        if (graph.ordered)
          held[count++] = pointer(scratch + ordered);
        MAESTRO_TRY(execute(launch, std::span(held).first(count), scratch));
      }
    return Status();
  }

private:
  bool needsStatistics() const {
    return graph.bias || graph.batch * graph.heads * graph.shape.queries * sizeof(float) % kAlignment != 0;
  }
  /// Elements from one part's to the next one's.
  int64_t partStride() const { return (graph.batch * graph.heads * graph.shape.queries + 3) / 4 * 4; }
  void *statisticsOf(CUdeviceptr operand, CUdeviceptr scratch, int64_t b, int64_t h) const {
    int64_t first = graph.shape.lseAt(b, h, 0);
    if (!needsStatistics())
      return pointer(operand + 4 * static_cast<uint64_t>(first));
    int64_t part = first / (graph.batch * graph.heads * graph.shape.queries);
    return pointer(scratch + statistics + 4 * static_cast<uint64_t>(part * partStride()));
  }

  size_t statistics = 0, sums = 0, ordered = 0;
};

class CudnnLibrary : public Library {
public:
  CudnnLibrary(const Functions &functions, const CudnnOptions &options) : functions(functions), options(options) {}
  ~CudnnLibrary() override {
    plans = Plans(); // Before the handle.
    if (handle)
      (void)library->cudnnDestroy(handle);
  }

  PreparedKernel prepare(const CallSpec &spec) const override {
    bool isGradient = spec.kernel == "attention_grad";
    if (!isGradient && spec.kernel != "attention")
      return unsupported();
    MAESTRO_TRY(checkSignature(spec));
    size_t q = isGradient ? 1 : 0, mask = isGradient ? 6 : 3;
    Call call{spec, functions, *this};
    if (call.in(q).dtype == DType::F32 || call.in(q).elements() == 0 || call.in(q + 1).elements() == 0)
      return unsupported(); // As it is meant to be.
    AttentionShape shape(spec.attributes, call.in(q), call.in(q + 1), call.in(q + 2),
                         call.hasIn(mask) ? &call.in(mask) : nullptr);
    Status refusal = takes(spec, shape);
    if (refusal.isOk())
      refusal = open();
    if (!refusal.isOk()) {
      sayOnce(std::string(refusal.message()));
      return unsupported();
    }
    std::optional<DType> bias;
    if (call.hasIn(mask))
      bias = call.in(mask).dtype == DType::F32 ? DType::F32 : DType::BF16; // Truth values are two numbers.
    AttentionGraph graph(shape, bias);
    return isGradient ? prepareGradient(call, graph) : prepareForward(call, graph);
  }

private:
  /// Ok, or why the call is left to others.
  Status takes(const CallSpec &spec, const AttentionShape &shape) const {
    auto refuse = [](std::string text) { return Status::unavailable(std::move(text)); };
    if (options.computeCapability / 10 != 9)
      return refuse(fmt::format("cuDNN's attention is used on GPUs of compute capability 9 (H100, H200), and this has "
                                "{}.{}",
                                options.computeCapability / 10, options.computeCapability % 10));
    if (size_t mask = spec.kernel == "attention_grad" ? 6 : 3; mask < spec.inputs.size() && spec.inputs[mask].present) {
      DType type = spec.inputs[mask].dtype;
      if (type != DType::Bool && type != DType::BF16 && type != DType::F32)
        return refuse(fmt::format("its mask is {}, neither bool nor bf16 nor f32", name(type)));
    }
    for (auto list : {spec.inputs.first(spec.kernel == "attention_grad" ? 5 : 3), spec.outputs})
      for (const TensorType &type : list)
        if (type.rank == 4 && type.dtype != DType::BF16)
          return refuse("its operands are not all bf16");
    if (shape.depth % 8 || shape.valueDepth % 8 || std::max(shape.depth, shape.valueDepth) > kMaxDepth)
      return refuse(fmt::format("heads are {} and {} elements deep, and cuDNN takes multiples of 8 up to {}",
                                shape.depth, shape.valueDepth, kMaxDepth));
    if (shape.causal && shape.causalOffset < 0)
      return refuse(
          fmt::format("causality begins {} keys before the first, which cuDNN does not take", -shape.causalOffset));
    if (shape.queries == 1 && shape.keys == 1)
      return refuse("one query and one key, which cuDNN does not take");
    return Status();
  }

  /// The library and a handle, when they are wanted for the first time; what it said then.
  Status open() const {
    if (handle)
      return Status();
    Result<const Cudnn *> loaded = maestro::cuda::loadCudnn();
    if (!loaded)
      return std::move(loaded).takeStatus();
    library = *loaded;
    return library->check(library->cudnnCreate(&handle), "cudnnCreate");
  }

  /// Nothing where cuDNN refuses, which is said.
  const Plan *planOf(Plans::Make make, const AttentionGraph &graph) const {
    Result<const Plan *> plan = plans.find(*library, handle, make, graph);
    if (plan)
      return *plan;
    const AttentionShape &s = graph.shape;
    sayOnce(std::string(plan.status().message()),
            fmt::format("cuDNN {} refuses {} queries and {} keys of {} heads, {} elements deep: {}",
                        maestro::cuda::cudnnVersionText(library->version()), s.queries, s.keys, s.heads, s.depth,
                        plan.status().message()));
    return nullptr;
  }

  PreparedKernel prepareForward(const Call &call, const AttentionGraph &graph) const {
    const Plan *plan = planOf(planAttention, graph);
    if (!plan)
      return unsupported();
    auto made = std::make_unique<Forward>(*library, handle, graph, *plan, functions);
    MAESTRO_TRY(made->prepare(call));
    return PreparedKernel(std::move(made));
  }
  PreparedKernel prepareGradient(const Call &call, const AttentionGraph &whole) const {
    auto part = partOfGradient(whole, library->version() >= kOrderedVersion, options.maxScoreBytes);
    if (!part) {
      sayOnce(
          fmt::format("the scores of one head are above {} bytes, and cuDNN {} adds gradients in order only from {} on",
                      options.maxScoreBytes, maestro::cuda::cudnnVersionText(library->version()),
                      maestro::cuda::cudnnVersionText(kOrderedVersion)));
      return unsupported();
    }
    const Plan *plan = planOf(planAttentionGrad, *part);
    if (!plan)
      return unsupported();
    auto made = std::make_unique<Backward>(*library, handle, *part, *plan, functions);
    MAESTRO_TRY(made->prepare(call));
    return PreparedKernel(std::move(made));
  }

  const Functions &functions;
  CudnnOptions options;
  // Of the one host thread that prepares.
  mutable const Cudnn *library = nullptr;
  mutable cudnnHandle_t handle = nullptr;
  mutable Plans plans;
};

} // namespace

std::string cudnnVersion() {
  auto loaded = maestro::cuda::loadCudnn();
  return loaded ? maestro::cuda::cudnnVersionText((*loaded)->version()) : "none";
}

std::unique_ptr<Library> createCudnnLibrary(const Functions &functions, const CudnnOptions &options) {
  return std::make_unique<CudnnLibrary>(functions, options);
}

} // namespace maestro::kernels::cuda
