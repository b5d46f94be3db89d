// Speed of the CPU kernels at the shapes of a small Llama (1,024 tokens, width 512, hidden 1,408,
// vocabulary 32,000): products against oneDNN called directly, bytes per second of what is bound by
// memory, and what a call costs when there is nothing to compute.
//
//   kernels_bench --benchmark_filter=matmul        MAESTRO_BENCH_THREADS=1 for one thread
#include "kernels/cpu/openmp.h"
#include "kernels/kernel.h"

#include <benchmark/benchmark.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <cstdlib>
#include <cstring>
#include <functional>

namespace maestro::kernels {
namespace {

int threads() {
  const char *text = std::getenv("MAESTRO_BENCH_THREADS");
  return text ? std::atoi(text) : 2;
}

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};
using Block = std::unique_ptr<void, Free>;

Block allocate(size_t bytes) {
  Block block(std::aligned_alloc(64, (bytes + 127) & ~size_t{63}));
  std::memset(block.get(), 0, bytes);
  return block;
}

Attribute ints(std::string name, std::vector<int64_t> values) {
  return {std::move(name), Attribute::Kind::Ints, std::move(values), {}, {}};
}
Attribute number(std::string name, double value) { return {std::move(name), Attribute::Kind::Floats, {}, {value}, {}}; }

/// A prepared call with memory of its own: zeros, which every kernel accepts.
class Call {
public:
  Call(std::string_view kernel, std::vector<Attribute> attributes, std::vector<TensorType> in,
       std::vector<TensorType> out) {
    static auto library = createCpuLibrary();
    auto prepared = library->prepare({kernel, Attributes(attributes), in, out, threads()});
    if (!prepared.isOk() || !*prepared)
      std::abort();
    made = std::move(*prepared);
    for (const TensorType &type : in)
      inputs.push_back(add(type));
    for (const TensorType &type : out)
      outputs.push_back(add(type));
    blocks.push_back(allocate(made->scratchBytes()));
    scratch = blocks.back().get();
  }

  void run() {
    Status status = made->run(inputs, outputs, scratch);
    if (!status.isOk())
      std::abort();
  }
  int64_t bytes() const { return total; }

private:
  void *add(const TensorType &type) {
    if (!type.present)
      return nullptr;
    total += static_cast<int64_t>(type.bytes());
    blocks.push_back(allocate(type.bytes()));
    return blocks.back().get();
  }

  std::unique_ptr<Kernel> made;
  std::vector<Block> blocks;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  void *scratch;
  int64_t total = 0;
};

void measure(benchmark::State &state, Call &call, double flops = 0) {
  call.run();
  for (auto _ : state)
    call.run();
  if (flops > 0)
    state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  else
    state.SetBytesProcessed(state.iterations() * call.bytes());
}

TensorType tensor(DType dtype, std::vector<int64_t> shape) { return TensorType(dtype, shape); }
DType dtypeOf(const benchmark::State &state) { return state.range(0) ? DType::BF16 : DType::F32; }

constexpr int64_t kTokens = 1024, kWidth = 512, kHidden = 1408, kVocabulary = 32000;

//===--- Products ---------------------------------------------------------===//

void matmul(benchmark::State &state) {
  DType d = dtypeOf(state);
  int64_t m = state.range(1), n = state.range(2), k = state.range(3);
  Call call("matmul", {ints("transpose_b", {1})}, {tensor(d, {m, k}), tensor(d, {n, k}), TensorType()},
            {tensor(d, {m, n})});
  measure(state, call, 2.0 * m * n * k);
}

/// The same product through oneDNN's own interface, prepared once as well.
void onednn(benchmark::State &state) {
  using namespace dnnl;
  omp_set_num_threads(threads());
  auto type = state.range(0) ? memory::data_type::bf16 : memory::data_type::f32;
  int64_t m = state.range(1), n = state.range(2), k = state.range(3);
  engine cpu(engine::kind::cpu, 0);
  stream queue(cpu);
  memory::desc a({m, k}, type, memory::dims{k, 1}), b({k, n}, type, memory::dims{1, k}),
      c({m, n}, type, memory::dims{n, 1});
  matmul::primitive_desc pd(matmul::desc(a, b, c), cpu);
  dnnl::matmul product(pd);
  memory ma(a, cpu), mb(b, cpu), mc(c, cpu);
  for (const memory *operand : {&ma, &mb, &mc})
    std::memset(operand->get_data_handle(), 0, operand->get_desc().get_size());
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}};
  for (auto _ : state)
    product.execute(queue, arguments);
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * m * n * k, benchmark::Counter::kIsIterationInvariantRate);
}

void products(benchmark::internal::Benchmark *bench) {
  for (int64_t half : {0, 1}) {
    bench->Args({half, kTokens, kWidth, kWidth});
    bench->Args({half, kTokens, kHidden, kWidth});
    bench->Args({half, kTokens, kVocabulary, kWidth});
  }
  bench->ArgNames({"bf16", "m", "n", "k"})->UseRealTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(matmul)->Apply(products);
BENCHMARK(onednn)->Apply(products);

//===--- Attention --------------------------------------------------------===//

void attention(benchmark::State &state) {
  DType d = dtypeOf(state);
  int64_t length = state.range(1), batch = kTokens / length;
  bool causal = state.range(2), backward = state.range(3);
  TensorType q = tensor(d, {batch, length, 8, 64}), lse = tensor(DType::F32, {batch, 8, length});
  std::vector<Attribute> attributes{number("scale", 0.125), ints("causal", {causal}), ints("sequence_major", {1})};
  double flops = 4.0 * kTokens * 512 * static_cast<double>(length) / (causal ? 2 : 1);
  if (backward) {
    Call call("attention_grad", attributes, {q, q, q, q, q, lse, TensorType()}, {q, q, q});
    measure(state, call, flops * 2.5);
  } else {
    Call call("attention", attributes, {q, q, q, TensorType()}, {q, lse});
    measure(state, call, flops);
  }
}
BENCHMARK(attention)
    ->ArgsProduct({{0, 1}, {256, 1024}, {0, 1}, {0, 1}})
    ->ArgNames({"bf16", "length", "causal", "backward"})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

//===--- What memory bounds: bytes of operands and results per second -----===//

struct Streaming {
  const char *name;
  std::function<Call(DType)> make;
};

const Streaming kStreaming[] = {
    {"add",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kHidden});
       return Call("add", {}, {x, x}, {x});
     }},
    {"add_row",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kHidden});
       return Call("add", {}, {x, tensor(d, {kHidden})}, {x});
     }},
    {"silu",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kHidden});
       return Call("silu", {}, {x}, {x});
     }},
    {"gelu",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kHidden});
       return Call("gelu", {}, {x}, {x});
     }},
    {"silu_grad",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kHidden});
       return Call("silu_grad", {}, {x, x}, {x});
     }},
    {"rms_norm",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kWidth});
       return Call("rms_norm", {ints("axis", {1}), number("epsilon", 1e-6)}, {x, tensor(d, {kWidth})},
                   {x, tensor(DType::F32, {kTokens})});
     }},
    {"rms_norm_grad",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kWidth});
       return Call("rms_norm_grad", {ints("axis", {1})}, {x, x, tensor(DType::F32, {kTokens}), tensor(d, {kWidth})},
                   {x, tensor(DType::F32, {kWidth})});
     }},
    {"softmax",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kTokens});
       return Call("softmax", {ints("axis", {1})}, {x}, {x});
     }},
    {"cross_entropy",
     [](DType d) {
       TensorType row = tensor(DType::F32, {kTokens});
       return Call("cross_entropy", {}, {tensor(d, {kTokens, kVocabulary}), tensor(DType::I64, {kTokens})}, {row, row});
     }},
    {"cross_entropy_grad",
     [](DType d) {
       TensorType x = tensor(d, {kTokens, kVocabulary}), row = tensor(DType::F32, {kTokens});
       return Call("cross_entropy_grad", {}, {x, tensor(DType::I64, {kTokens}), row, row}, {x});
     }},
    {"transpose",
     [](DType d) {
       return Call("transpose", {ints("permutation", {0, 2, 1, 3})}, {tensor(d, {4, 256, 8, 64})},
                   {tensor(d, {4, 8, 256, 64})});
     }},
    {"bias_grad",
     [](DType d) {
       return Call("reduce_sum", {ints("axes", {0})}, {tensor(d, {kTokens, kHidden})}, {tensor(DType::F32, {kHidden})});
     }},
    {"adamw",
     [](DType d) {
       TensorType p = tensor(DType::F32, {16, 1 << 20}),
                  copy = d == DType::BF16 ? tensor(d, {16, 1 << 20}) : TensorType();
       return Call("adamw", {}, {p, p, p, p, tensor(DType::F32, {8})}, {p, p, p, p, copy});
     }},
    {"sum_squares",
     [](DType) {
       return Call("sum_squares", {}, {tensor(DType::F32, {16, 1 << 20})}, {tensor(DType::F64, {1})});
     }},
};

void streaming(benchmark::State &state, const Streaming &what, DType dtype) {
  Call call = what.make(dtype);
  measure(state, call);
}

//===--- Dispatch ---------------------------------------------------------===//

/// One element: what remains is the cost of the call itself.
void dispatch(benchmark::State &state) {
  TensorType one = tensor(DType::F32, {1});
  Call call("add", {}, {one, one}, {one});
  measure(state, call);
}
BENCHMARK(dispatch);

} // namespace
} // namespace maestro::kernels

int main(int argc, char **argv) {
  using namespace maestro;
  for (const kernels::Streaming &what : kernels::kStreaming)
    for (DType dtype : {DType::F32, DType::BF16}) {
      std::string name = "streaming/" + std::string(what.name) + (dtype == DType::BF16 ? "/bf16" : "/f32");
      benchmark::RegisterBenchmark(name.c_str(), kernels::streaming, what, dtype)
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
