// What conformance.cpp leaves out because the CPU library leaves it to the reference, and what the CUDA library does
// not cover.
#include "test/kernels/harness.h"
#include "test/kernels/subject.h"

#include "kernels/cuda/library.h"
#include "kernels/signature_checker.h"

#include <set>

namespace maestro::kernels::test {
namespace {

/// Against the reference, in both orders of a block's threads.
void check(const std::string &kernel, const std::vector<Attribute> &attributes, const std::vector<Tensor> &inputs,
           const std::vector<Tensor> &outputs, double tolerance = 2e-6) {
  SCOPED_TRACE(kernel);
  static auto reference = createReferenceLibrary();
  std::vector<Tensor> expected = outputs, forward = outputs, reverse = outputs;
  CallResult oracle = call(*reference, kernel, attributes, inputs, expected);
  ASSERT_TRUE(oracle.supported && oracle.status.isOk()) << oracle.status.message();
  CallResult one = call(subject(), kernel, attributes, inputs, forward, 1);
  ASSERT_TRUE(one.supported) << "not covered";
  ASSERT_TRUE(one.status.isOk()) << one.status.message();
  ASSERT_TRUE(call(subject(), kernel, attributes, inputs, reverse, 2).status.isOk());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(closeToScale(forward[i], expected[i], tolerance)) << "result " << i;
    EXPECT_TRUE(close(reverse[i], forward[i], 0, 0)) << "the order of threads changes result " << i;
  }
}

const DType kFloats[] = {DType::F32, DType::BF16, DType::F16};
double toleranceOf(DType dtype) { return dtype == DType::F32 ? 2e-6 : dtype == DType::BF16 ? 1.2e-2 : 2e-3; }

/// The catalogue's names that the library has no entry for; what is not empty falls back to the CPU.
TEST(Cuda, CoversTheCatalogue) {
  auto covered = cuda::coveredKernels();
  std::set<std::string_view> missing;
  for (auto rules : {elementwiseRules(), movementRules(), productRules(), trainingRules()})
    for (const SignatureRule &rule : rules)
      if (std::ranges::find(covered, rule.name) == covered.end())
        missing.insert(rule.name);
  EXPECT_EQ(missing, std::set<std::string_view>());
}

TEST(Cuda, UnaryOfEveryNumber) {
  Random random(41);
  for (const char *kernel : {"neg", "abs", "relu", "sign", "isnan", "isinf", "floor", "ceil", "not"})
    for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::I64, DType::I32, DType::I8}) {
      bool tests = std::string(kernel).starts_with("is") || std::string(kernel) == "not";
      Tensor x = isFloat(dtype) ? random.floats(dtype, {77}, 3) : random.integers(dtype, {77}, -9, 9);
      if (isFloat(dtype)) {
        x.set(3, INFINITY);
        x.set(4, -INFINITY);
        x.set(5, NAN);
        x.set(6, 0);
      }
      check(kernel, {}, {x}, {Tensor(tests ? DType::Bool : dtype, {77})}, 0);
    }
}

TEST(Cuda, SineOfLargeArguments) {
  Tensor x(DType::F32, {4000});
  for (int64_t i = 0; i < x.size(); ++i) // 2⁻²⁰ to 2¹²⁷, signs in turn.
    x.set(i, (i % 2 ? -1.7 : 1.3) * std::exp2(-20 + 147.0 * static_cast<double>(i) / 4000));
  for (const char *kernel : {"sin", "cos"})
    check(kernel, {}, {x}, {x}, 2e-7);
}

TEST(Cuda, BinaryOfIntegersAndMixedTypes) {
  Random random(42);
  for (const char *kernel : {"div", "mod", "pow", "maximum", "minimum", "less_equal", "greater"}) {
    bool compares = std::string(kernel).find("less") == 0 || std::string(kernel) == "greater";
    for (DType dtype : {DType::I64, DType::I32, DType::U8}) {
      int64_t low = dtype == DType::U8 ? 0 : -6;
      Tensor a = random.integers(dtype, {5, 31}, low, 7), b = random.integers(dtype, {31}, low, 7);
      check(kernel, {}, {a, b}, {Tensor(compares ? DType::Bool : dtype, {5, 31})}, 0);
      if (std::string(kernel) == "mod")
        check(kernel, {flag("fmod")}, {a, b}, {Tensor(dtype, {5, 31})}, 0);
    }
  }
  for (DType dtype : kFloats) {
    Tensor a = random.floats(dtype, {5, 31}, 5), b = random.floats(DType::F32, {5, 1}, 3);
    for (const char *kernel : {"add", "mul", "mod"})
      check(kernel, {}, {a, b}, {Tensor(DType::F32, {5, 31})});
    check("mod", {flag("fmod")}, {a, a}, {Tensor(dtype, {5, 31})}, toleranceOf(dtype));
  }
}

TEST(Cuda, CastsBetweenAllTypes) {
  Random random(43);
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to) {
      DType source = static_cast<DType>(from), target = static_cast<DType>(to);
      Tensor x = isFloat(source) ? random.floats(source, {37}, 20) : random.integers(source, {37}, 0, 100);
      check("cast", {}, {x}, {Tensor(target, {37})}, 0);
      if (target == DType::F32 || target == DType::I64 || target == DType::BF16)
        check("add_into", {}, {x}, {random.integers(target, {37}, 0, 9)}, toleranceOf(target));
    }
}

TEST(Cuda, Generators) {
  for (DType dtype : {DType::I64, DType::I32, DType::F32}) {
    check("iota", {ints("start", {-3}), ints("step", {7})}, {}, {Tensor(dtype, {300})}, 0);
    check("dim_values", {ints("values", {5, 6, -1})}, {}, {Tensor(dtype, {3})}, 0);
  }
  check("dim_values", {ints("values", {12})}, {}, {Tensor(DType::I64, {})}, 0);
}

TEST(Cuda, PaddingAndRunningSums) {
  Random random(44);
  for (DType dtype : {DType::F32, DType::BF16, DType::I64, DType::Bool}) {
    Tensor x = random.integers(dtype, {3, 4, 5}, 0, 2);
    for (const char *mode : {"constant", "reflect", "edge", "wrap"})
      check("pad", {ints("low", {2, 0, 3}), ints("high", {1, 2, 4}), text("mode", mode), number("value", 1)}, {x},
            {Tensor(dtype, {6, 6, 12})}, 0);
  }
  for (DType dtype : {DType::F32, DType::BF16, DType::I64})
    for (int64_t axis : {0, 1, 2})
      for (int options = 0; options < 4; ++options)
        check("cumsum", {ints("axis", {axis}), flag("exclusive", options & 1), flag("reverse", options & 2)},
              {random.integers(dtype, {3, 40, 5}, -4, 5)}, {Tensor(dtype, {3, 40, 5})}, toleranceOf(dtype));
}

TEST(Cuda, Extremes) {
  Random random(45);
  for (DType dtype : {DType::F32, DType::BF16, DType::I64})
    for (int64_t axis : {0, 1, 2})
      for (bool last : {false, true})
        for (const char *kernel : {"arg_max", "arg_min"}) {
          Tensor x = random.integers(dtype, {4, 70, 3}, -5, 5);
          if (dtype == DType::F32) {
            x.set(0, NAN);
            x.set(100, NAN);
            x.set(101, -INFINITY);
          }
          std::vector<int64_t> shape{4, 70, 3};
          shape[static_cast<size_t>(axis)] = 1;
          check(kernel, {ints("axis", {axis}), flag("select_last", last)}, {x}, {Tensor(DType::I64, shape)}, 0);
        }
  check("top_k", {ints("axis", {1})}, {random.integers(DType::I64, {3, 50, 2}, -9, 9)},
        {Tensor(DType::I64, {3, 6, 2}), Tensor(DType::I64, {3, 6, 2})}, 0);
}

TEST(Cuda, ReductionsOfOtherTypes) {
  Random random(46);
  for (const char *kernel : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}) {
    for (std::vector<int64_t> axes : {std::vector<int64_t>{1}, {0, 2}, {0, 1, 2}}) {
      std::vector<int64_t> kept;
      for (int64_t d = 0; d < 3; ++d)
        if (std::ranges::find(axes, d) == axes.end())
          kept.push_back(std::vector<int64_t>{3, 70, 5}[static_cast<size_t>(d)]);
      check(kernel, {ints("axes", axes)}, {random.integers(DType::I64, {3, 70, 5}, -3, 4)}, {Tensor(DType::I64, kept)},
            0);
      check(kernel, {ints("axes", axes)}, {random.floats(DType::F64, {3, 70, 5}, 0.1, 1)}, {Tensor(DType::F64, kept)},
            1e-13);
      check(kernel, {ints("axes", axes)}, {random.floats(DType::F32, {3, 70, 5}, 0.1, 1)}, {Tensor(DType::F32, kept)},
            1e-5);
    }
    check(kernel, {ints("axes", {1})}, {Tensor(DType::F32, {3, 0})}, {Tensor(DType::F32, {3})});
  }
}

TEST(Cuda, TuplesOfIndices) {
  Random random(47);
  for (DType dtype : {DType::F32, DType::BF16, DType::I64}) {
    auto make = [&](std::vector<int64_t> shape) {
      return isFloat(dtype) ? random.floats(dtype, shape) : random.integers(dtype, shape, -9, 9);
    };
    Tensor indices = random.integers(DType::I64, {6, 7, 2}, -4, 4);
    double tolerance = toleranceOf(dtype) * (isFloat(dtype) ? 1 : 0);
    check("gather_nd", {}, {make({4, 5, 9}), indices}, {Tensor(dtype, {6, 7, 9})}, 0);
    check("gather_nd_grad", {}, {indices, make({6, 7, 9})}, {Tensor(dtype, {4, 5, 9})}, tolerance);
    Tensor batched = random.integers(DType::I64, {3, 8, 1}, -5, 5);
    check("gather_nd", {ints("batch_dims", {1})}, {make({3, 5, 9}), batched}, {Tensor(dtype, {3, 8, 9})}, 0);
    check("gather_nd_grad", {ints("batch_dims", {1})}, {batched, make({3, 8, 9})}, {Tensor(dtype, {3, 5, 9})},
          tolerance);
    for (const char *reduction : {"none", "add", "mul", "min", "max"})
      check("scatter_nd", {text("reduction", reduction)}, {make({4, 5, 3}), indices, make({6, 7, 3})},
            {Tensor(dtype, {4, 5, 3})}, dtype == DType::BF16 ? 5e-2 : 2 * tolerance);
    for (const char *reduction : {"none", "add", "mul", "min", "max"})
      check("scatter_elements", {ints("axis", {1}), text("reduction", reduction)},
            {make({4, 5, 3}), random.integers(DType::I64, {3, 9, 3}, -5, 5), make({3, 9, 3})},
            {Tensor(dtype, {4, 5, 3})}, dtype == DType::BF16 ? 5e-2 : 2 * tolerance);
  }
}

TEST(Cuda, IndicesOutOfRange) {
  Tensor data(DType::F32, {4, 5}), one = Tensor::of(DType::I64, {3, 1}, {1, 9, -7}), zero(DType::F32, {3, 5});
  Tensor many(DType::I64, {2000}); // Over several blocks; the first in the order of data is told.
  for (int64_t i : {1999, 1200, 700})
    many.set(i, i);
  struct {
    std::string kernel;
    std::vector<Tensor> inputs, outputs;
  } const calls[] = {{"gather_nd", {data, one}, {zero}},
                     {"gather_nd_grad", {one, zero}, {data}},
                     {"scatter_nd", {data, one, zero}, {data}},
                     {"gather_grad", {many, Tensor(DType::F32, {2000, 5})}, {data}},
                     {"gather", {data, many}, {Tensor(DType::F32, {2000, 5})}}};
  auto reference = createReferenceLibrary();
  for (const auto &c : calls)
    for (int order : {1, 2}) {
      std::vector<Tensor> expected = c.outputs, own = c.outputs;
      std::string message(call(*reference, c.kernel, {}, c.inputs, expected).status.message());
      EXPECT_NE(message, "ok");
      EXPECT_EQ(call(subject(), c.kernel, {}, c.inputs, own, order).status.message(), message);
    }
}

TEST(Cuda, Pools) {
  Random random(48);
  struct Shape {
    std::vector<int64_t> x, y, kernel, strides, pads, dilations;
  };
  const Shape shapes[] = {{{2, 3, 9, 8}, {2, 3, 4, 4}, {3, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
                          {{1, 2, 11}, {1, 2, 6}, {3}, {2}, {1, 1}, {1}},
                          {{1, 1, 7, 7}, {1, 1, 5, 5}, {2, 2}, {1, 1}, {0, 0, 0, 0}, {2, 2}},
                          {{2, 2, 4, 5, 6}, {2, 2, 3, 3, 3}, {2, 3, 2}, {1, 1, 2}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}},
                          {{1, 2, 8}, {1, 2, 4}, {3}, {2}, {0, 0}, {1}}}; // ceil_mode: the last window hangs over.
  for (DType dtype : {DType::F32, DType::BF16})
    for (const Shape &s : shapes)
      for (bool countPadding : {false, true}) {
        std::vector<Attribute> attributes{ints("kernel", s.kernel), ints("strides", s.strides), ints("pads", s.pads),
                                          ints("dilations", s.dilations), flag("count_include_pad", countPadding)};
        Tensor x = random.floats(dtype, s.x), dy = random.floats(dtype, s.y);
        for (const char *kernel : {"max_pool", "avg_pool"})
          check(kernel, attributes, {x}, {Tensor(dtype, s.y)}, toleranceOf(dtype));
        check("max_pool_grad", attributes, {x, dy}, {Tensor(dtype, s.x)}, toleranceOf(dtype));
        check("avg_pool_grad", attributes, {dy}, {Tensor(dtype, s.x)}, toleranceOf(dtype));
      }
}

TEST(Cuda, RowsAlongOtherAxes) {
  Random random(49);
  for (DType dtype : {DType::F32, DType::BF16})
    for (int64_t axis : {0, 1})
      for (const char *kernel : {"softmax", "log_softmax"}) {
        std::vector<int64_t> shape{4, 30, 7};
        Tensor x = random.floats(dtype, shape, 2), dy = random.floats(dtype, shape), out(dtype, shape);
        check(kernel, {ints("axis", {axis})}, {x}, {out}, toleranceOf(dtype));
        check(std::string(kernel) + "_grad", {ints("axis", {axis})}, {out, dy}, {out}, toleranceOf(dtype));
      }
}

TEST(Cuda, MatricesOfOtherTypes) {
  Random random(50);
  check("matmul", {},
        {random.integers(DType::I64, {2, 5, 7}, -9, 9), random.integers(DType::I64, {7, 4}, -9, 9), Tensor()},
        {Tensor(DType::I64, {2, 5, 4})}, 0);
  check("matmul", {}, {random.floats(DType::F64, {5, 7}), random.floats(DType::F64, {7, 4}), Tensor()},
        {Tensor(DType::F64, {5, 4})}, 1e-14);
}

TEST(Cuda, AttentionOfLongRows) {
  Random random(51);
  for (DType dtype : {DType::F32, DType::BF16}) {
    Tensor q = random.floats(dtype, {1, 2, 40, 200}), k = random.floats(dtype, {1, 1, 50, 200});
    Tensor v = random.floats(dtype, {1, 1, 50, 130}), o(dtype, {1, 2, 40, 130}), lse(DType::F32, {1, 2, 40});
    std::vector<Attribute> attributes{number("scale", 0.07), flag("causal"), ints("causal_offset", {10})};
    double tolerance = dtype == DType::BF16 ? 1.5e-2 : 5e-6;
    check("attention", attributes, {q, k, v, Tensor()}, {o, lse}, tolerance);
    std::vector<Tensor> results{o, lse};
    ASSERT_TRUE(call(*createReferenceLibrary(), "attention", attributes, {q, k, v, Tensor()}, results).status.isOk());
    check("attention_grad", attributes,
          {random.floats(dtype, {1, 2, 40, 130}), q, k, v, results[0], results[1], Tensor()}, {q, k, v}, tolerance);
  }
}

} // namespace
} // namespace maestro::kernels::test
