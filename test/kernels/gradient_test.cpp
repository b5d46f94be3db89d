// The reference gradients against central differences of the reference operators, in f64.
//
// For each operator f and a random dy, the gradient kernel must give d/dx Σ dy·f(x). With f64 and a step
// of 1e-5 the differences are exact to about 1e-9 of the largest element; the tolerance is 1e-6.
#include "test/kernels/harness.h"

#include <functional>

namespace maestro::kernels::test {
namespace {

const Library &reference() {
  static auto library = createReferenceLibrary();
  return *library;
}

std::vector<int64_t> shapeOf(const Tensor &t) { return {t.type().shape().begin(), t.type().shape().end()}; }

struct Operator {
  std::string kernel;
  std::vector<Attribute> attributes;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

std::vector<Tensor> run(const Operator &op) {
  std::vector<Tensor> outputs = op.outputs;
  CallResult result = call(reference(), op.kernel, op.attributes, op.inputs, outputs);
  EXPECT_TRUE(result.supported && result.status.isOk()) << op.kernel << ": " << result.status.message();
  return outputs;
}

/// Σ dy·f(x), with f's first result.
double weightedSum(const Operator &op, const Tensor &dy) {
  Tensor y = run(op)[0];
  double sum = 0;
  for (int64_t i = 0; i < y.size(); ++i)
    sum += y.at(i) * dy.at(i);
  return sum;
}

Tensor differences(Operator op, size_t input, const Tensor &dy) {
  constexpr double kStep = 1e-5;
  Tensor gradient(DType::F64, shapeOf(op.inputs[input]));
  for (int64_t i = 0; i < gradient.size(); ++i) {
    double x = op.inputs[input].at(i);
    op.inputs[input].set(i, x + kStep);
    double above = weightedSum(op, dy);
    op.inputs[input].set(i, x - kStep);
    double below = weightedSum(op, dy);
    op.inputs[input].set(i, x);
    gradient.set(i, (above - below) / (2 * kStep));
  }
  return gradient;
}

void expectGradient(const Operator &op, size_t input, const Tensor &dy, const Tensor &gradient) {
  EXPECT_TRUE(closeToScale(gradient, differences(op, input, dy), 1e-6)) << op.kernel << ", operand " << input;
}

const DType d = DType::F64;

TEST(Gradient, Elementwise) {
  Random random(1);
  Tensor x = random.floats(d, {20}), dy = random.floats(d, {20}), out(d, {20});
  for (std::string kernel : {"silu", "gelu", "gelu:tanh", "tanh", "sigmoid", "relu"}) {
    std::vector<Attribute> attributes;
    std::string name = kernel.substr(0, kernel.find(':'));
    if (name != kernel)
      attributes.push_back(text("approximate", "tanh"));
    Operator op{name, attributes, {x}, {out}};
    bool fromResult = name == "tanh" || name == "sigmoid" || name == "relu";
    Tensor saved = fromResult ? run(op)[0] : x;
    expectGradient(op, 0, dy, run({name + "_grad", attributes, {saved, dy}, {out}})[0]);
  }
}

TEST(Gradient, GatedLinearUnits) {
  Random random(6);
  Tensor gate = random.floats(d, {20}), up = random.floats(d, {20}), dy = random.floats(d, {20}), out(d, {20});
  for (const char *activation : {"silu", "gelu", "gelu_tanh"}) {
    std::vector<Attribute> attributes{text("activation", activation)};
    Operator op{"glu", attributes, {gate, up}, {out}};
    std::vector<Tensor> gradients = run({"glu_grad", attributes, {dy, gate, up}, {out, out}});
    for (size_t i = 0; i < 2; ++i)
      expectGradient(op, i, dy, gradients[i]);
  }
}

TEST(Gradient, Softmax) {
  Random random(2);
  Tensor x = random.floats(d, {3, 5, 2}), dy = random.floats(d, {3, 5, 2});
  for (std::string kernel : {"softmax", "log_softmax"})
    for (int64_t axis : {0, 1, 2}) {
      Operator op{kernel, {ints("axis", {axis})}, {x}, {x}};
      expectGradient(op, 0, dy, run({kernel + "_grad", {ints("axis", {axis})}, {run(op)[0], dy}, {x}})[0]);
    }
}

TEST(Gradient, Norms) {
  Random random(3);
  Tensor x = random.floats(d, {4, 6}), dy = random.floats(d, {4, 6}), scale = random.floats(d, {6}),
         bias = random.floats(d, {6});
  Tensor rows(d, {4});
  std::vector<Attribute> attributes{ints("axis", {1}), number("epsilon", 1e-5)};
  Operator layer{"layer_norm", attributes, {x, scale, bias}, {x, rows, rows}};
  std::vector<Tensor> saved = run(layer);
  std::vector<Tensor> gradients =
      run({"layer_norm_grad", attributes, {dy, x, saved[1], saved[2], scale}, {x, scale, bias}});
  for (size_t i = 0; i < 3; ++i)
    expectGradient(layer, i, dy, gradients[i]);
  Operator rms{"rms_norm", attributes, {x, scale}, {x, rows}};
  gradients = run({"rms_norm_grad", attributes, {dy, x, run(rms)[1], scale}, {x, scale}});
  for (size_t i = 0; i < 2; ++i)
    expectGradient(rms, i, dy, gradients[i]);
}

TEST(Gradient, Attention) {
  Random random(4);
  for (bool sequenceMajor : {false, true})
    for (double softcap : {0.0, 1.5}) {
      std::vector<int64_t> qShape{2, 4, 3, 5}, kShape{2, 2, 4, 5}, vShape{2, 2, 4, 6}, oShape{2, 4, 3, 6};
      if (sequenceMajor)
        for (auto *shape : {&qShape, &kShape, &vShape, &oShape})
          std::swap((*shape)[1], (*shape)[2]);
      std::vector<Attribute> attributes{number("scale", 0.4), number("softcap", softcap), flag("causal"),
                                        ints("causal_offset", {1}), flag("sequence_major", sequenceMajor)};
      Tensor mask = random.floats(d, {2, 1, 3, 4});
      Operator op{"attention",
                  attributes,
                  {random.floats(d, qShape), random.floats(d, kShape), random.floats(d, vShape), mask},
                  {Tensor(d, oShape), Tensor(d, {2, 4, 3})}};
      Tensor dy = random.floats(d, oShape);
      std::vector<Tensor> saved = run(op);
      std::vector<Tensor> gradients = run({"attention_grad",
                                           attributes,
                                           {dy, op.inputs[0], op.inputs[1], op.inputs[2], saved[0], saved[1], mask},
                                           {op.inputs[0], op.inputs[1], op.inputs[2]}});
      for (size_t i = 0; i < 3; ++i)
        expectGradient(op, i, dy, gradients[i]);
    }
}

TEST(Gradient, Rope) {
  Random random(5);
  for (bool interleaved : {false, true}) {
    Tensor x = random.floats(d, {2, 3, 6}), dy = random.floats(d, {2, 3, 6}), cos = random.floats(d, {3, 6}),
           sin = random.floats(d, {3, 6});
    Operator op{"rope", {flag("interleaved", interleaved)}, {x, cos, sin}, {x}};
    expectGradient(op, 0, dy,
                   run({"rope", {flag("interleaved", interleaved), flag("adjoint")}, {dy, cos, sin}, {x}})[0]);
  }
}

TEST(Gradient, Losses) {
  Random random(6);
  Tensor logits = random.floats(d, {4, 7}), teacher = random.floats(d, {4, 7}), rows(d, {4}),
         dloss = random.floats(d, {4});
  Tensor labels = Tensor::of(DType::I64, {4}, {3, -100, 0, 6});
  Operator ce{"cross_entropy", {}, {logits, labels}, {rows, rows}};
  expectGradient(ce, 0, dloss, run({"cross_entropy_grad", {}, {logits, labels, run(ce)[1], dloss}, {logits}})[0]);
  Operator kl{"kl_divergence", {number("temperature", 2)}, {logits, teacher}, {rows, rows, rows}};
  std::vector<Tensor> saved = run(kl);
  expectGradient(kl, 0, dloss,
                 run({"kl_divergence_grad",
                      {number("temperature", 2)},
                      {logits, teacher, saved[1], saved[2], dloss},
                      {logits}})[0]);
}

TEST(Gradient, Convolution) {
  Random random(7);
  std::vector<Attribute> attributes{ints("strides", {2, 1}), ints("pads", {1, 0, 0, 2}), ints("dilations", {1, 2}),
                                    ints("group", {2})};
  Operator op{"conv",
              attributes,
              {random.floats(d, {2, 4, 5, 6}), random.floats(d, {6, 2, 3, 2}), random.floats(d, {6})},
              {Tensor(d, {2, 6, 2, 6})}};
  Tensor dy = random.floats(d, {2, 6, 2, 6});
  expectGradient(op, 0, dy, run({"conv_grad_input", attributes, {dy, op.inputs[1]}, {op.inputs[0]}})[0]);
  expectGradient(op, 1, dy, run({"conv_grad_weight", attributes, {op.inputs[0], dy}, {op.inputs[1]}})[0]);
}

TEST(Gradient, Pooling) {
  Random random(8);
  for (bool countPadding : {false, true}) {
    std::vector<Attribute> attributes{ints("kernel", {3, 2}), ints("strides", {2, 2}), ints("pads", {1, 0, 1, 1}),
                                      ints("dilations", {1, 1}), flag("count_include_pad", countPadding)};
    Tensor x = random.floats(d, {2, 3, 5, 5}), dy = random.floats(d, {2, 3, 3, 3}), y(d, {2, 3, 3, 3});
    expectGradient({"max_pool", attributes, {x}, {y}}, 0, dy, run({"max_pool_grad", attributes, {x, dy}, {x}})[0]);
    expectGradient({"avg_pool", attributes, {x}, {y}}, 0, dy, run({"avg_pool_grad", attributes, {dy}, {x}})[0]);
  }
}

TEST(Gradient, Indexing) {
  Random random(9);
  Tensor data = random.floats(d, {3, 5, 2}), indices = Tensor::of(DType::I64, {2, 3}, {0, 4, -1, 2, 2, 4});
  Tensor gathered(d, {3, 2, 3, 2}), dy = random.floats(d, {3, 2, 3, 2});
  expectGradient({"gather", {ints("axis", {1})}, {data, indices}, {gathered}}, 0, dy,
                 run({"gather_grad", {ints("axis", {1})}, {indices, dy}, {data}})[0]);
  Tensor tuples = Tensor::of(DType::I64, {3, 2, 1}, {0, 4, 2, 2, -1, 1}), picked = random.floats(d, {3, 2, 2});
  expectGradient({"gather_nd", {ints("batch_dims", {1})}, {data, tuples}, {picked}}, 0, picked,
                 run({"gather_nd_grad", {ints("batch_dims", {1})}, {tuples, picked}, {data}})[0]);
  std::vector<Attribute> part{ints("offsets", {2, 0, 1}), ints("steps", {-2, 2, 1})};
  Tensor slice(d, {2, 3, 1}), dslice = random.floats(d, {2, 3, 1});
  expectGradient({"slice", part, {data}, {slice}}, 0, dslice, run({"slice_grad", part, {dslice}, {data}})[0]);
  Tensor mask = Tensor::of(DType::Bool, {3, 2}, {1, 0, 1, 1, 0, 0}), x = random.floats(d, {3, 2}),
         source = random.floats(d, {3});
  Tensor dx = random.floats(d, {3, 2});
  expectGradient({"masked_scatter", {}, {x, mask, source}, {x}}, 2, dx,
                 run({"masked_scatter_grad", {}, {mask, dx}, {source}})[0]);
}

} // namespace
} // namespace maestro::kernels::test
