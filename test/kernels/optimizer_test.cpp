// Optimizers against their published formulas, evaluated here in f64 over several steps.
#include "test/kernels/harness.h"

#ifdef MAESTRO_TEST_ON_DEVICE
#include "test/kernels/subject.h"
#else
#include "kernels/cuda/host/functions.h"
#endif

namespace maestro::kernels::test {
namespace {

/// What is judged: here all libraries, on a GPU its own.
struct Judged {
  const Library *library;
  bool isOfGpus = false;
  std::shared_ptr<Library> held = nullptr;
};
std::vector<Judged> judgedLibraries() {
#ifdef MAESTRO_TEST_ON_DEVICE
  return {{&subject(), true}};
#else
  std::vector<Judged> all;
  for (std::shared_ptr<Library> library :
       {std::shared_ptr(createCpuLibrary()), std::shared_ptr(createReferenceLibrary()),
        std::shared_ptr(cuda::host::createHostLibrary())})
    all.push_back({library.get(), all.size() == 2, library});
  return all;
#endif
}

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
  for (const auto &[library, isOfGpus, held] : judgedLibraries())
    for (int64_t count : {1, 19, 40000})
      for (bool copy : {false, true}) {
        expectSteps(*library, "adamw", {}, count, copy);
        expectSteps(*library, "adam", {}, count, copy);
        expectSteps(*library, "sgd", {}, count, copy);
        expectSteps(*library, "sgd", {.momentum = 0.9}, count, copy);
        expectSteps(*library, "sgd", {.decay = 0, .momentum = 0.8, .nesterov = true}, count, copy);
      }
}

/// A call with results in place, prepared once; every step has a gradient of its own, scaled by ½.
struct Stepper {
  Stepper(const Library &library, const std::string &kernel, std::vector<Attribute> attributes,
          std::vector<Tensor *> states)
      : attributes(std::move(attributes)), states(std::move(states)), grad(DType::F32, shapeOf(*this->states[0])) {
    std::vector<TensorType> in{this->states[0]->type(), grad.type()}, out{in[0]};
    for (size_t i = 1; i < this->states.size(); ++i) {
      in.push_back(this->states[i]->type());
      out.push_back(in.back());
    }
    in.push_back(scalars.type());
    out.push_back(grad.type());
    auto made = library.prepare({kernel, Attributes(this->attributes), in, out, 2});
    EXPECT_TRUE(made.isOk() && *made) << made.status().message();
    prepared = std::move(*made);
    scratch.resize(prepared->scratchBytes() + 64);
  }
  static std::vector<int64_t> shapeOf(const Tensor &tensor) {
    return {tensor.type().shape().begin(), tensor.type().shape().end()};
  }
  void step(int t, double lr) {
    scalars.set(0, lr);
    scalars.set(3, 0.5);
    scalars.set(4, t);
    std::vector<const void *> inputs{states[0]->data(), grad.data()};
    std::vector<void *> outputs{states[0]->data()};
    for (size_t i = 1; i < states.size(); ++i) {
      inputs.push_back(states[i]->data());
      outputs.push_back(states[i]->data());
    }
    inputs.push_back(scalars.data());
    outputs.push_back(grad.data());
    ASSERT_TRUE(prepared->run(inputs, outputs, scratch.data()).isOk());
    for (int64_t i = 0; i < grad.size(); ++i)
      ASSERT_EQ(grad.at(i), 0) << "the gradient is not cleared";
    for (Tensor *state : states)
      EXPECT_TRUE(state->guardsIntact());
  }

  std::vector<Attribute> attributes;
  std::vector<Tensor *> states;
  Tensor grad, scalars{DType::F32, {8}};
  std::unique_ptr<Kernel> prepared;
  std::vector<uint8_t> scratch;
};

using Matrix = std::vector<std::vector<double>>;
Matrix times(const Matrix &a, const Matrix &b) {
  Matrix y(a.size(), std::vector<double>(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      for (size_t j = 0; j < b[0].size(); ++j)
        y[i][j] += a[i][k] * b[k][j];
  return y;
}
Matrix transposed(const Matrix &a) {
  Matrix y(a[0].size(), std::vector<double>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[0].size(); ++j)
      y[j][i] = a[i][j];
  return y;
}
/// x ← 3.4445 x − 4.775 x xᵀ x + 2.0315 (x xᵀ)² x, five times, from the matrix over its norm.
Matrix orthogonal(Matrix x) {
  double squares = 0;
  for (auto &row : x)
    for (double value : row)
      squares += value * value;
  for (auto &row : x)
    for (double &value : row)
      value /= std::max(std::sqrt(squares), 1e-7);
  for (int iteration = 0; iteration < 5; ++iteration) {
    Matrix cube = times(times(x, transposed(x)), x), fifth = times(times(x, transposed(x)), cube);
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < x[0].size(); ++j)
        x[i][j] = 3.4445 * x[i][j] - 4.775 * cube[i][j] + 2.0315 * fifth[i][j];
  }
  return x;
}

void expectMuon(const Library &library, int64_t rows, int64_t columns, bool nesterov, bool matchRms, double tolerance) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << (nesterov ? " nesterov" : ""));
  Random random(3);
  Tensor param = random.floats(DType::F32, {rows, columns}), momentum(DType::F32, {rows, columns});
  Stepper stepper(library, "muon",
                  {number("momentum", 0.9), number("weight_decay", 0.1), number("eps", 1e-7),
                   flag("nesterov", nesterov), flag("match_rms_adamw", matchRms), ints("iterations", {5})},
                  {&param, &momentum});
  double lr = 0.02,
         ratio = matchRms ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, double(rows) / columns));
  Matrix exact(rows, std::vector<double>(columns)), buffer = exact, direction = exact;
  for (int64_t i = 0; i < rows * columns; ++i)
    exact[i / columns][i % columns] = param.at(i);
  for (int t = 1; t <= 3; ++t) {
    stepper.grad = random.floats(DType::F32, {rows, columns});
    for (int64_t i = 0; i < rows * columns; ++i) {
      double g = stepper.grad.at(i) * 0.5, &m = buffer[i / columns][i % columns];
      m = 0.9 * m + 0.1 * g;
      direction[i / columns][i % columns] = nesterov ? 0.9 * m + 0.1 * g : m;
    }
    Matrix update = orthogonal(direction);
    stepper.step(t, lr);
    double error = 0, size = 0;
    for (int64_t i = 0; i < rows * columns; ++i) {
      double &p = exact[i / columns][i % columns], own = update[i / columns][i % columns];
      p = p * (1 - lr * 0.1) - lr * ratio * own;
      error += (param.at(i) - p) * (param.at(i) - p);
      size += lr * ratio * own * lr * ratio * own;
      ASSERT_NEAR(momentum.at(i), buffer[i / columns][i % columns], 1e-6);
    }
    EXPECT_LT(std::sqrt(error / size), tolerance) << "step " << t;
  }
}

TEST(Optimizer, MuonMakesMatricesNearlyOrthogonal) {
  for (const auto &[library, isOfGpus, held] : judgedLibraries())
    for (auto [rows, columns] : {std::pair{24, 96}, {80, 16}, {32, 32}, {1, 40}, {40, 1}})
      for (bool nesterov :
           {false, true}) // On a GPU in bf16, as PyTorch's own: a square's small singular values are noise.
        expectMuon(*library, rows, columns, nesterov, nesterov, !isOfGpus ? 1e-4 : rows == columns ? 0.5 : 0.1);
}

/// Rows and columns are the last two dims; of fewer dims, `second` is the second moment.
void expectAdafactor(const Library &library, std::vector<int64_t> shape) {
  SCOPED_TRACE(testing::PrintToString(shape));
  Random random(5);
  Tensor param = random.floats(DType::F32, shape), first, second(DType::F32, shape);
  bool factored = shape.size() >= 2;
  int64_t columns = factored ? shape.back() : 1, rows = factored ? shape[shape.size() - 2] : param.size();
  int64_t matrices = param.size() / (rows * columns);
  if (factored) {
    first = Tensor(DType::F32, {matrices, rows, 1});
    second = Tensor(DType::F32, {matrices, 1, columns});
  }
  double lr = 0.3, eps1 = 1e-7, eps2 = 1e-3;
  Stepper stepper(library, "adafactor",
                  {number("beta2_decay", -0.8), number("weight_decay", 0.1), number("eps1", eps1), number("eps2", eps2),
                   number("clip", 0.5)},
                  {&param, &first, &second});
  std::vector<double> exact = param.values(), rowMeans(matrices * rows), columnMeans(matrices * columns),
                      moments(param.size());
  for (int t = 1; t <= 3; ++t) {
    stepper.grad = random.floats(DType::F32, shape);
    std::vector<double> grad = stepper.grad.values(), update = grad;
    double weight = std::pow(t, -0.8), squares = 0, updates = 0;
    for (double &g : grad)
      g *= 0.5;
    auto average = [&](double &kept, double sum, int64_t count) { kept += weight * (sum / count - kept); };
    for (int64_t m = 0; m < matrices; ++m) {
      double meanOfRows = 0;
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < columns; ++c)
          sum += std::pow(grad[(m * rows + r) * columns + c], 2);
        average(rowMeans[m * rows + r], sum, columns);
        meanOfRows += rowMeans[m * rows + r] / rows;
      }
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r)
          sum += std::pow(grad[(m * rows + r) * columns + c], 2);
        average(columnMeans[m * columns + c], sum, rows);
      }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          int64_t i = (m * rows + r) * columns + c;
          average(moments[i], grad[i] * grad[i], 1);
          double v = factored ? rowMeans[m * rows + r] * columnMeans[m * columns + c] / std::max(meanOfRows, eps1)
                              : moments[i];
          update[i] = grad[i] / std::sqrt(std::max(v, eps1 * eps1));
        }
    }
    for (size_t i = 0; i < exact.size(); ++i) {
      squares += exact[i] * exact[i];
      updates += update[i] * update[i];
    }
    double scale = std::max(eps2, std::sqrt(squares / exact.size())) * std::min(lr, 1 / std::sqrt(t));
    double excess = std::max(1.0, std::sqrt(updates / exact.size()) / 0.5);
    stepper.step(t, lr);
    for (size_t i = 0; i < exact.size(); ++i) {
      exact[i] = exact[i] * (1 - lr * 0.1) - scale / excess * update[i];
      ASSERT_NEAR(param.at(i), exact[i], 1e-5) << "step " << t << ", element " << i;
    }
  }
}

TEST(Optimizer, AdafactorKeepsMeansOfRowsAndColumns) {
  for (const auto &[library, isOfGpus, held] : judgedLibraries())
    for (const std::vector<int64_t> &shape : std::vector<std::vector<int64_t>>{
             {}, {1}, {37}, {9001}, {1, 1}, {5, 300}, {530, 7}, {600, 40}, {3, 20, 33}, {2, 2, 3, 3}})
      expectAdafactor(*library, shape);
}

TEST(Optimizer, AveragesStartWithTheFirstValue) {
  for (const auto &[library, isOfGpus, held] : judgedLibraries())
    for (int64_t count : {1, 40000}) {
      Random random(9);
      Tensor average = random.floats(DType::F32, {count}), scalars(DType::F32, {8}), param;
      std::vector<double> exact(count);
      std::vector<Attribute> attributes{number("decay", 0.75)};
      TensorType in[] = {average.type(), average.type(), scalars.type()}, out[] = {average.type()};
      auto prepared = library->prepare({"average", Attributes(attributes), in, out, 2});
      ASSERT_TRUE(prepared.isOk() && *prepared) << prepared.status().message();
      for (int t = 1; t <= 3; ++t) {
        param = random.floats(DType::F32, {count});
        scalars.set(4, t);
        const void *inputs[] = {param.data(), average.data(), scalars.data()};
        void *outputs[] = {average.data()};
        ASSERT_TRUE((*prepared)->run(inputs, outputs, nullptr).isOk());
        for (int64_t i = 0; i < count; ++i) {
          exact[i] = t == 1 ? param.at(i) : 0.75 * exact[i] + 0.25 * param.at(i);
          ASSERT_NEAR(average.at(i), exact[i], 1e-6);
        }
      }
    }
}

TEST(Optimizer, WrongCallsAreRefused) {
  auto library = createReferenceLibrary();
  Tensor cube(DType::F32, {2, 3, 4}), matrix(DType::F32, {3, 4}), scalars(DType::F32, {8});
  auto refuse = [&](const char *kernel, std::vector<TensorType> in, std::vector<TensorType> out, const char *why) {
    auto prepared = library->prepare({kernel, Attributes(), in, out, 1});
    ASSERT_FALSE(prepared.isOk()) << kernel;
    EXPECT_NE(prepared.status().message().find(why), std::string::npos) << prepared.status().message();
  };
  TensorType c = cube.type(), m = matrix.type(), s = scalars.type();
  refuse("muon", {c, c, c, s}, {c, c, c}, "it updates matrices");
  refuse("adafactor", {m, m, m, m, s}, {m, m, m, m}, "12 elements, expected 3");
  refuse("adafactor", {m, m, TensorType(), m, s}, {m, TensorType(), m, m}, "operand 2 is missing");
  refuse("average", {m, c, s}, {m}, "24 elements, expected 12");
  refuse("muon", {}, {}, "0 operands");
}

} // namespace
} // namespace maestro::kernels::test
