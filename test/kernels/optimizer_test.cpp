// Optimizers against their published formulas, evaluated here in f64 over several steps.
#include "test/kernels/harness.h"

#include "kernels/cuda/host/functions.h"

namespace maestro::kernels::test {
namespace {

struct Hyper {
  double lr = 1e-2, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.1, momentum = 0;
  bool nesterov = false;
};

struct Exact {
  double param, m = 0, v = 0;
  void adam(double g, const Hyper &h, int t, bool decoupled) {
    if (decoupled)
      param -= h.lr * h.decay * param;
    else
      g += h.decay * param;
    m = h.beta1 * m + (1 - h.beta1) * g;
    v = h.beta2 * v + (1 - h.beta2) * g * g;
    double mHat = m / (1 - std::pow(h.beta1, t)), vHat = v / (1 - std::pow(h.beta2, t));
    param -= h.lr * mHat / (std::sqrt(vHat) + h.eps);
  }
  void sgd(double g, const Hyper &h, int t) {
    g += h.decay * param;
    if (h.momentum != 0) {
      m = t == 1 ? g : h.momentum * m + g;
      g = h.nesterov ? g + h.momentum * m : m;
    }
    param -= h.lr * g;
  }
};

/// Three steps of `kernel` in place, with gradients scaled by ½, next to the exact update.
void expectSteps(const Library &library, const std::string &kernel, const Hyper &h, int64_t count, bool copy) {
  SCOPED_TRACE(kernel + (copy ? " with copy" : ""));
  Random random(7);
  bool sgd = kernel == "sgd", buffered = !sgd || h.momentum != 0;
  Tensor param = random.floats(DType::F32, {count}), m = buffered ? Tensor(DType::F32, {count}) : Tensor();
  Tensor v = sgd ? Tensor() : Tensor(DType::F32, {count}), half = copy ? Tensor(DType::BF16, {count}) : Tensor();
  std::vector<Exact> exact;
  for (int64_t i = 0; i < count; ++i)
    exact.push_back({param.at(i)});
  std::vector<Attribute> attributes{number("beta1", h.beta1),       number("beta2", h.beta2),
                                    number("eps", h.eps),           number("weight_decay", h.decay),
                                    number("momentum", h.momentum), flag("nesterov", h.nesterov)};
  std::vector<TensorType> in{param.type(), param.type(), m.type()}, out{param.type(), m.type()};
  if (!sgd) {
    in.push_back(v.type());
    out.push_back(v.type());
  }
  Tensor scalars(DType::F32, {8});
  in.push_back(scalars.type());
  out.insert(out.end(), {param.type(), half.type()});
  auto prepared = library.prepare({kernel, Attributes(attributes), in, out, 2});
  ASSERT_TRUE(prepared.isOk() && *prepared) << prepared.status().message();
  std::vector<uint8_t> scratch((*prepared)->scratchBytes() + 64);
  for (int t = 1; t <= 3; ++t) {
    Tensor grad = random.floats(DType::F32, {count});
    for (int64_t i = 0; i < count; ++i)
      sgd ? exact[i].sgd(grad.at(i) * 0.5, h, t) : exact[i].adam(grad.at(i) * 0.5, h, t, kernel == "adamw");
    const double values[] = {h.lr, 1 - std::pow(h.beta1, t), 1 - std::pow(h.beta2, t), 0.5, static_cast<double>(t)};
    for (int64_t i = 0; i < 5; ++i)
      scalars.set(i, values[i]);
    std::vector<const void *> inputs{param.data(), grad.data(), m.data()};
    std::vector<void *> outputs{param.data(), m.data()};
    if (!sgd) {
      inputs.push_back(v.data());
      outputs.push_back(v.data());
    }
    inputs.push_back(scalars.data());
    outputs.insert(outputs.end(), {grad.data(), half.data()});
    ASSERT_TRUE((*prepared)->run(inputs, outputs, scratch.data()).isOk());
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_NEAR(param.at(i), exact[i].param, 2e-6) << "step " << t << ", element " << i;
      ASSERT_EQ(grad.at(i), 0) << "the gradient is not cleared";
      if (copy) {
        ASSERT_EQ(half.at(i), static_cast<float>(BFloat16(static_cast<float>(param.at(i)))));
      }
    }
  }
  EXPECT_TRUE(param.guardsIntact() && m.guardsIntact() && v.guardsIntact() && half.guardsIntact());
}

TEST(Optimizer, FollowsTheFormulas) {
  auto fast = createCpuLibrary(), simple = createReferenceLibrary(), cuda = cuda::host::createHostLibrary();
  for (const Library *library : {fast.get(), simple.get(), cuda.get()})
    for (int64_t count : {1, 19, 40000})
      for (bool copy : {false, true}) {
        expectSteps(*library, "adamw", {}, count, copy);
        expectSteps(*library, "adam", {}, count, copy);
        expectSteps(*library, "sgd", {}, count, copy);
        expectSteps(*library, "sgd", {.momentum = 0.9}, count, copy);
        expectSteps(*library, "sgd", {.decay = 0, .momentum = 0.8, .nesterov = true}, count, copy);
      }
}

} // namespace
} // namespace maestro::kernels::test
