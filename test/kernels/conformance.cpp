// Every kernel of a library against the reference kernel of the same name, over shapes and element types. Which
// library: subject.h.
//
// Tolerances are relative to the largest element of the expected result: 2e-6 for f32 (a few units in
// the last place after a sum), 1.2e-2 for bf16 (three bits of 2⁻⁸). Each case also runs with 1 and 2
// threads (kernels of a GPU: in both orders of a block's threads), which must agree bitwise, and with `accumulate`
// where the catalogue allows it.
#include "test/kernels/harness.h"
#include "test/kernels/subject.h"

#include <cstring>

namespace maestro::kernels::test {
namespace {

const Library &reference() {
  static auto library = createReferenceLibrary();
  return *library;
}

enum class Expect { Own, Either }; ///< Own: the library must not have fallen back.

struct Case {
  std::string kernel;
  std::vector<Attribute> attributes;
  std::vector<Tensor> inputs, outputs;
  double tolerance = 2e-6;
  Expect expect = Expect::Own;
};

double toleranceOf(DType dtype) { return dtype == DType::BF16 ? 1.2e-2 : 2e-6; }

/// Of those in f32 the small ones.
bool isOwnProduct(const Case &c) {
  const TensorType a = c.inputs[0].type(), result = c.outputs[0].type();
  int64_t columns = result.dims[result.rank - 1];
  return a.dtype == DType::F32 && a.elements() * columns <= int64_t{1} << 25;
}

void check(const Case &c) {
  std::string shapes = c.kernel;
  for (const Tensor &t : c.inputs) {
    shapes.append(" ").append(name(t.type().dtype)).append("[");
    for (int64_t d : t.type().shape())
      shapes.append(std::to_string(d)).append(",");
    shapes.append("]");
  }
  SCOPED_TRACE(shapes);
  std::vector<Tensor> expected = c.outputs, one = c.outputs, two = c.outputs;
  CallResult oracle = call(reference(), c.kernel, c.attributes, c.inputs, expected);
  ASSERT_TRUE(oracle.supported && oracle.status.isOk()) << oracle.status.message();
  CallResult serial = call(subject(), c.kernel, c.attributes, c.inputs, one, 1);
  CallResult parallel = call(subject(), c.kernel, c.attributes, c.inputs, two, 2);
  ASSERT_TRUE(serial.status.isOk() && parallel.status.isOk()) << serial.status.message();
  if (c.expect == Expect::Own) {
    EXPECT_NE(serial.implementation, oracle.implementation) << "the library fell back";
  }
  bool primitive = c.kernel.starts_with("conv") || (c.kernel == "matmul" && !isOwnProduct(c));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(closeToScale(one[i], expected[i], c.tolerance)) << "result " << i;
    if (!primitive) { // oneDNN divides its work by the number of threads.
      EXPECT_TRUE(close(two[i], one[i], 0, 0)) << "threads change result " << i;
    } else {
      EXPECT_TRUE(closeToScale(two[i], expected[i], c.tolerance)) << "result " << i;
    }
  }
}

/// Also with old contents in the results and the mask set.
void checkAccumulating(Case c, Random &random) {
  check(c);
  uint64_t mask = 0;
  for (size_t i = 0; i < c.outputs.size(); ++i)
    if (c.outputs[i].type().present && c.outputs[i].type().dtype == DType::F32) {
      c.outputs[i] =
          random.floats(DType::F32, {c.outputs[i].type().shape().begin(), c.outputs[i].type().shape().end()});
      mask |= uint64_t{1} << i;
    }
  c.attributes.push_back(ints("accumulate", {static_cast<int64_t>(mask)}));
  c.expect = Expect::Either; // The kernel class around both libraries' kernels may be the same.
  check(c);
}

const DType kFloats[] = {DType::F32, DType::BF16};

TEST(Elementwise, Unary) {
  Random random(1);
  for (DType dtype : kFloats)
    for (int64_t n : {1, 15, 16, 17, 1000, 70001})
      for (const char *kernel :
           {"neg",  "abs", "exp", "sqrt", "rsqrt", "reciprocal", "tanh",  "sigmoid", "erf",  "relu", "silu", "softplus",
            "gelu", "log", "sin", "cos",  "floor", "ceil",       "round", "isnan",   "asin", "acos", "atan"}) {
        std::string k = kernel;
        bool positive = k == "sqrt" || k == "rsqrt" || k == "log" || k == "reciprocal";
        Tensor x = random.floats(dtype, {n}, 2);
        for (int64_t i = 0; positive && i < n; ++i)
          x.set(i, 0.1 + std::abs(x.at(i)));
        for (int64_t i = 0; (k == "asin" || k == "acos") && i < n; ++i)
          x.set(i, std::tanh(x.at(i)));
        // 1 + erf(x) cancels for negative x: the error is relative to x, not to the result.
        double tolerance = toleranceOf(dtype) * (k == "gelu" ? 30 : 1);
        check({k, {}, {x}, {Tensor(k == "isnan" ? DType::Bool : dtype, {n})}, tolerance});
        if (k == "gelu")
          check({k, {text("approximate", "tanh")}, {x}, {Tensor(dtype, {n})}, tolerance});
      }
}

TEST(Elementwise, GatedLinearUnits) {
  Random random(5);
  for (DType dtype : kFloats)
    for (const char *activation : {"silu", "gelu", "gelu_tanh"})
      for (int64_t n : {1, 8, 17, 1000, 70001}) {
        Tensor gate = random.floats(dtype, {n}, 2), up = random.floats(dtype, {n}), dy = random.floats(dtype, {n});
        std::vector<Attribute> attributes{text("activation", activation)};
        check({"glu", attributes, {gate, up}, {Tensor(dtype, {n})}, 2 * toleranceOf(dtype)});
        Tensor like(dtype, {n});
        check({"glu_grad", attributes, {dy, gate, up}, {like, like}, 2 * toleranceOf(dtype)});
        // Over their operands, any of them.
        std::vector<Tensor> apart{like, like};
        ASSERT_TRUE(call(subject(), "glu_grad", attributes, {dy, gate, up}, apart, 1).status.isOk());
        for (size_t over : {0, 1, 2}) {
          std::vector<Tensor> operands{dy, gate, up};
          ASSERT_TRUE(callOver(subject(), "glu_grad", attributes, operands, {over, (over + 1) % 3}).isOk());
          EXPECT_TRUE(close(operands[over], apart[0], 0, 0));
          EXPECT_TRUE(close(operands[(over + 1) % 3], apart[1], 0, 0));
        }
      }
}

/// The largest distance in units in the last place of f32 over a dense sweep of arguments.
double worstUlp(const char *kernel, double low, double high) {
  constexpr int64_t kCount = 200000;
  Tensor x(DType::F32, {kCount}), exact(DType::F64, {kCount});
  for (int64_t i = 0; i < kCount; ++i)
    x.set(i, low + (high - low) * static_cast<double>(i) / kCount);
  Tensor wide(DType::F64, {kCount});
  for (int64_t i = 0; i < kCount; ++i)
    wide.set(i, x.at(i));
  std::vector<Tensor> fast{Tensor(DType::F32, {kCount})}, slow{exact};
  EXPECT_TRUE(call(subject(), kernel, {}, {x}, fast).status.isOk());
  EXPECT_TRUE(call(reference(), kernel, {}, {wide}, slow).status.isOk());
  double worst = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    float rounded = static_cast<float>(slow[0].at(i));
    double ulp = std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded);
    worst = std::max(worst, std::abs(fast[0].at(i) - slow[0].at(i)) / ulp);
  }
  return worst;
}

TEST(Elementwise, AccuracyInUnitsOfTheLastPlace) {
  EXPECT_LT(worstUlp("exp", -87, 88.7), 2);
  EXPECT_LT(worstUlp("tanh", -10, 10), 2.5);
  EXPECT_LT(worstUlp("erf", -4, 4), 2.5);
  EXPECT_LT(worstUlp("sigmoid", -80, 80), 3);
  EXPECT_LT(worstUlp("silu", -80, 80), 4);
  EXPECT_LT(worstUlp("log", 1e-3, 100), 2);
  EXPECT_LT(worstUlp("softplus", -60, 60), 4);
}

TEST(Elementwise, SpecialValues) {
  const double inf = INFINITY, nan = NAN;
  Tensor x = Tensor::of(DType::F32, {8}, {inf, -inf, nan, 0.0, 1000, -1000, 1e-30, -1e-30});
  for (const char *kernel : {"exp", "tanh", "erf", "sigmoid", "relu", "abs", "neg", "isnan", "sqrt", "log"}) {
    SCOPED_TRACE(kernel);
    DType out = std::string(kernel) == "isnan" ? DType::Bool : DType::F32;
    std::vector<Tensor> expected{Tensor(out, {8})}, fast{Tensor(out, {8})};
    EXPECT_TRUE(call(reference(), kernel, {}, {x}, expected).status.isOk());
    EXPECT_TRUE(call(subject(), kernel, {}, {x}, fast).status.isOk());
    EXPECT_TRUE(close(fast[0], expected[0], 1e-6, 1e-37));
  }
}

TEST(Elementwise, BinaryBroadcasts) {
  Random random(2);
  struct Shapes {
    std::vector<int64_t> a, b, result;
  };
  const Shapes shapes[] = {{{5, 7}, {5, 7}, {5, 7}},
                           {{5, 70}, {70}, {5, 70}},
                           {{70}, {5, 70}, {5, 70}},
                           {{5, 70}, {5, 1}, {5, 70}},
                           {{5, 1}, {1, 70}, {5, 70}},
                           {{}, {3, 4}, {3, 4}},
                           {{3, 4}, {}, {3, 4}},
                           {{2, 1, 5, 1}, {3, 1, 16}, {2, 3, 5, 16}},
                           {{0, 4}, {4}, {0, 4}},
                           {{300, 100}, {300, 100}, {300, 100}},
                           {{}, {}, {}},
                           {{1, 1}, {1}, {1, 1}}};
  for (DType dtype : kFloats)
    for (const Shapes &s : shapes)
      for (const char *kernel :
           {"add", "sub", "mul", "div", "maximum", "minimum", "pow", "equal", "less", "less_equal", "greater",
            "greater_equal", "tanh_grad", "sigmoid_grad", "relu_grad", "silu_grad", "gelu_grad"}) {
        std::string k = kernel;
        bool grad = k.ends_with("_grad"), compares = k.starts_with("less") || k.starts_with("greater") || k == "equal";
        if (grad && s.a != s.b)
          continue;
        Tensor a = random.floats(dtype, s.a, k == "tanh_grad" || k == "sigmoid_grad" ? 0.3 : 1);
        Tensor b = random.floats(dtype, s.b);
        for (int64_t i = 0; i < b.size(); ++i)
          if (k == "div")
            b.set(i, b.at(i) < 0 ? b.at(i) - 0.5 : b.at(i) + 0.5);
        for (int64_t i = 0; i < a.size(); ++i)
          if (k == "pow")
            a.set(i, 0.1 + std::abs(a.at(i)));
        Tensor out(compares ? DType::Bool : dtype, s.result);
        check({k, {}, {a, b}, {out}, toleranceOf(dtype)});
        if (k == "gelu_grad")
          check({k, {text("approximate", "tanh")}, {a, b}, {out}, toleranceOf(dtype)});
      }
}

TEST(Elementwise, IntegersAndBooleans) {
  Random random(3);
  for (const char *kernel : {"add", "sub", "mul", "equal", "less", "greater_equal"}) {
    std::string k = kernel;
    bool compares = k != "add" && k != "sub" && k != "mul";
    Tensor a = random.integers(DType::I64, {9, 11}, -50, 50), b = random.integers(DType::I64, {11}, -50, 50);
    check({k, {}, {a, b}, {Tensor(compares ? DType::Bool : DType::I64, {9, 11})}});
  }
  for (const char *kernel : {"and", "or", "xor"})
    check({kernel, {}, {random.booleans({6, 33}), random.booleans({6, 1})}, {Tensor(DType::Bool, {6, 33})}});
  check({"not", {}, {random.booleans({65})}, {Tensor(DType::Bool, {65})}});
}

TEST(Elementwise, ResultsOverAnOperand) {
  Random random(4);
  const Library *library = &subject();
  for (const char *name : {"and", "or", "xor", "add"}) {
    bool counts = std::string(name) == "add";
    Tensor a = counts ? random.integers(DType::I64, {300, 101}, -50, 50) : random.booleans({300, 101}), b = a;
    for (int64_t i = 0; i < b.size(); ++i)
      b.set(i, a.at((i * 7 + 3) % a.size()));
    std::vector<Tensor> apart{a};
    ASSERT_TRUE(call(*library, name, {}, {a, b}, apart).status.isOk());
    std::vector<TensorType> inputs{a.type(), b.type()}, outputs{a.type()};
    auto kernel = library->prepare({name, {}, inputs, outputs, 2});
    ASSERT_TRUE(kernel.isOk() && *kernel);
    const void *from[] = {a.data(), b.data()};
    void *to[] = {a.data()};
    ASSERT_TRUE((*kernel)->run(from, to, nullptr).isOk());
    EXPECT_EQ(a.values(), apart[0].values()) << name;
  }
}

TEST(Elementwise, Power) {
  Random random(4);
  for (DType dtype : kFloats)
    for (double exponent : {2.0, 3.0, 0.5, -0.5, 1.7}) {
      Tensor x = random.floats(dtype, {37});
      for (int64_t i = 0; i < x.size(); ++i)
        x.set(i, 0.2 + std::abs(x.at(i)));
      check({"pow", {}, {x, Tensor::of(dtype, {}, {exponent})}, {Tensor(dtype, {37})}, toleranceOf(dtype)});
    }
}

TEST(Elementwise, Where) {
  Random random(5);
  for (DType dtype : {DType::F32, DType::BF16, DType::I64, DType::Bool}) {
    Tensor a = random.integers(dtype, {4, 5, 33}, 0, 2), b = random.integers(dtype, {}, 0, 2);
    Tensor row = random.integers(dtype, {33}, 0, 2);
    Tensor out(dtype, {4, 5, 33});
    check({"where", {}, {random.booleans({4, 5, 33}), a, b}, {out}});
    check({"where", {}, {random.booleans({1, 5, 33}), b, a}, {out}});
    check({"where", {}, {random.booleans({4, 1, 1}), a, row}, {out}});
    check({"where", {}, {random.booleans({4, 5, 1}), row, b}, {out}});
  }
}

TEST(Elementwise, Cast) {
  Random random(6);
  const std::pair<DType, DType> pairs[] = {
      {DType::F32, DType::BF16}, {DType::BF16, DType::F32}, {DType::I64, DType::F32},
      {DType::Bool, DType::F32}, {DType::Bool, DType::I64}, {DType::I64, DType::Bool},
      {DType::I32, DType::I64},  {DType::F32, DType::Bool}, {DType::I64, DType::I32}};
  for (auto [from, to] : pairs)
    for (int64_t n : {3, 1000, 40000}) {
      Tensor x = isFloat(from) ? random.floats(from, {n}) : random.integers(from, {n}, 0, 2);
      check({"cast", {}, {x}, {Tensor(to, {n})}, 0});
    }
}

TEST(Movement, TransposeAndBroadcast) {
  Random random(7);
  for (DType dtype : {DType::F32, DType::BF16, DType::I64, DType::Bool}) {
    auto make = [&](std::vector<int64_t> shape) { return random.integers(dtype, shape, 0, 2); };
    check({"transpose", {ints("permutation", {1, 0})}, {make({37, 70})}, {Tensor(dtype, {70, 37})}});
    check({"transpose", {ints("permutation", {0, 2, 1, 3})}, {make({2, 5, 3, 16})}, {Tensor(dtype, {2, 3, 5, 16})}});
    check({"transpose", {ints("permutation", {0, 2, 3, 1})}, {make({2, 5, 3, 16})}, {Tensor(dtype, {2, 3, 16, 5})}});
    check({"transpose", {ints("permutation", {3, 0, 1, 2})}, {make({2, 5, 3, 16})}, {Tensor(dtype, {16, 2, 5, 3})}});
    check({"transpose", {ints("permutation", {2, 1, 0})}, {make({40, 1, 50})}, {Tensor(dtype, {50, 1, 40})}});
    check({"transpose", {ints("permutation", {1, 0})}, {make({0, 4})}, {Tensor(dtype, {4, 0})}});
    check({"broadcast_to", {}, {make({3, 1, 5})}, {Tensor(dtype, {2, 3, 4, 5})}});
    check({"broadcast_to", {}, {make({3, 1})}, {Tensor(dtype, {3, 200})}});
    check({"broadcast_to", {}, {make({})}, {Tensor(dtype, {7, 3})}});
    check({"copy", {}, {make({100, 3})}, {Tensor(dtype, {100, 3})}});
  }
}

TEST(Movement, SlicesConcatPadFill) {
  Random random(8);
  for (DType dtype : {DType::F32, DType::BF16, DType::I64, DType::Bool}) {
    auto make = [&](std::vector<int64_t> shape) { return random.integers(dtype, shape, 0, 2); };
    std::vector<Attribute> part{ints("offsets", {1, 6, 0}), ints("steps", {1, -2, 3})};
    check({"slice", part, {make({4, 9, 20})}, {Tensor(dtype, {2, 3, 5})}});
    check({"slice_grad", part, {make({2, 3, 5})}, {Tensor(dtype, {4, 9, 20})}});
    std::vector<Attribute> columns{ints("offsets", {0, 32}), ints("steps", {1, 1})};
    check({"slice", columns, {make({70, 96})}, {Tensor(dtype, {70, 32})}});
    check({"concat",
           {ints("axis", {1})},
           {make({3, 2, 5}), make({3, 4, 5}), make({3, 0, 5})},
           {Tensor(dtype, {3, 6, 5})}});
    check({"concat", {ints("axis", {2})}, {make({3, 2, 5}), make({3, 2, 1})}, {Tensor(dtype, {3, 2, 6})}});
    check({"pad",
           {ints("low", {1, 2}), ints("high", {0, 3}), number("value", 1)},
           {make({4, 5})},
           {Tensor(dtype, {5, 10})}});
    check({"fill", {number("value", 1)}, {}, {Tensor(dtype, {5, 10})}});
  }
}

TEST(Gather, RowsAndTheirGradient) {
  Random random(9);
  for (DType dtype : kFloats)
    for (DType indexType : {DType::I64, DType::I32})
      for (int64_t axis : {0, 1}) {
        std::vector<int64_t> shape = axis == 0 ? std::vector<int64_t>{50, 24} : std::vector<int64_t>{3, 50, 24};
        Tensor data = random.floats(dtype, shape), indices = random.integers(indexType, {4, 30}, -50, 50);
        std::vector<int64_t> result = axis == 0 ? std::vector<int64_t>{4, 30, 24} : std::vector<int64_t>{3, 4, 30, 24};
        check({"gather", {ints("axis", {axis})}, {data, indices}, {Tensor(dtype, result)}, 0});
        checkAccumulating({"gather_grad",
                           {ints("axis", {axis})},
                           {indices, random.floats(dtype, result)},
                           {Tensor(DType::F32, shape)}},
                          random);
      }
}

TEST(Gather, IndexOutOfRangeIsReported) {
  Tensor data(DType::F32, {5, 2}), indices = Tensor::of(DType::I64, {3}, {1, -5, 5});
  for (const Library *library : {&subject(), &reference()}) {
    std::vector<Tensor> out{Tensor(DType::F32, {3, 2})};
    CallResult result = call(*library, "gather", {ints("axis", {0})}, {data, indices}, out);
    EXPECT_EQ(result.status.code(), StatusCode::InvalidInput);
    EXPECT_EQ(result.status.message(), "gather: index 5 at position 2 is outside [-5, 5)");
    std::vector<Tensor> loss{Tensor(DType::F32, {3}), Tensor(DType::F32, {3})};
    CallResult ce = call(*library, "cross_entropy", {}, {Tensor(DType::F32, {3, 5}), indices}, loss);
    EXPECT_EQ(ce.status.message(), "cross_entropy: index -5 at position 1 is outside [0, 5)");
  }
}

TEST(Select, LargestOfRows) {
  Random random(31);
  for (int64_t k : {1, 5, 40})
    for (bool largest : {true, false}) {
      Tensor x = random.floats(DType::F32, {7, 3, 40}), ties = random.integers(DType::F32, {5, 40}, -3, 4);
      ties.set(17, NAN);
      ties.set(25, NAN);
      std::vector<Attribute> last = {ints("axis", {2}), flag("largest", largest)},
                             one = {ints("axis", {1}), flag("largest", largest)};
      check({"top_k", last, {x}, {Tensor(DType::F32, {7, 3, k}), Tensor(DType::I64, {7, 3, k})}, 0});
      check({"top_k", one, {ties}, {Tensor(DType::F32, {5, k}), Tensor(DType::I64, {5, k})}, 0});
    }
}

TEST(Select, ElementsOfRowsAndBack) {
  Random random(32);
  for (DType indexType : {DType::I64, DType::I32}) {
    Tensor data = random.floats(DType::F32, {6, 7, 50}), indices = random.integers(indexType, {6, 7, 9}, -50, 50);
    Tensor updates = random.floats(DType::F32, {6, 7, 9});
    check({"gather_elements", {ints("axis", {2})}, {data, indices}, {Tensor(DType::F32, {6, 7, 9})}, 0});
    for (const char *reduction : {"none", "add"})
      checkAccumulating({"scatter_elements",
                         {ints("axis", {2}), text("reduction", reduction)},
                         {data, indices, updates},
                         {Tensor(DType::F32, {6, 7, 50})}},
                        random);
  }
  Tensor data(DType::F32, {2, 5}), wrong = Tensor::of(DType::I64, {2, 1}, {1, 5});
  for (const Library *library : {&subject(), &reference()}) {
    std::vector<Tensor> out{Tensor(DType::F32, {2, 1})};
    EXPECT_EQ(call(*library, "gather_elements", {ints("axis", {1})}, {data, wrong}, out).status.message(),
              "gather_elements: index 5 at position 1 is outside [-5, 5)");
  }
}

TEST(Masked, FeaturesInOrderAndTheirGradient) {
  Random random(31);
  constexpr int64_t kRows = 50, kWidth = 7;
  for (int every : {1, 2, 9, 60}) { // Rows of features: all, in turn, few, none but the first.
    Tensor mask(DType::Bool, {kRows, kWidth});
    int64_t rows = 0;
    for (int64_t row = 0; row < kRows; ++row)
      if (row % every == 0) {
        std::memset(static_cast<char *>(mask.data()) + row * kWidth, 1, kWidth);
        ++rows;
      }
    for (DType dtype : kFloats) {
      Tensor x = random.floats(dtype, {kRows, kWidth}), source = random.floats(dtype, {rows, kWidth});
      check({"masked_scatter", {}, {x, mask, source}, {x}, 0, Expect::Own});
      check({"masked_scatter_grad", {}, {mask, x}, {source}, 0, Expect::Own});
      Tensor more = random.floats(dtype, {rows + 2, kWidth});
      check({"masked_scatter_grad", {}, {mask, x}, {more}, 0, Expect::Own}); // Zeros behind.
      for (int64_t wrong : {rows - 1, rows + 1}) {
        Tensor other = random.floats(dtype, {wrong, kWidth});
        std::vector<Tensor> out{x};
        std::string own(call(subject(), "masked_scatter", {}, {x, mask, other}, out).status.message());
        EXPECT_EQ(own, call(reference(), "masked_scatter", {}, {x, mask, other}, out).status.message());
        EXPECT_NE(own, "");
      }
    }
  }
}

TEST(Reduce, SumMeanMaxMin) {
  Random random(10);
  struct Shape {
    std::vector<int64_t> x, axes, y;
    bool ownExtremes;
  };
  const Shape shapes[] = {
      {{7, 33}, {1}, {7}, true},        {{700, 33}, {0}, {33}, false},           {{5, 6, 7}, {0, 1}, {7}, false},
      {{5, 6, 7}, {1, 2}, {5}, true},   {{5, 60, 17}, {1}, {5, 17}, false},      {{200000}, {0}, {}, true},
      {{4, 5}, {0, 1}, {}, true},       {{3, 1, 40}, {1}, {3, 40}, true},        {{1, 3000}, {1}, {1}, true},
      {{4, 6, 32}, {0, 2}, {6}, false}, {{3, 40, 2, 5}, {0, 2, 3}, {40}, false}, {{2, 150, 264}, {0, 1}, {264}, false},
      {{300, 8}, {0}, {8}, false}};
  for (DType dtype : kFloats)
    for (const Shape &s : shapes)
      for (const char *kernel : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
        std::string k = kernel;
        Expect expect = (k == "reduce_max" || k == "reduce_min") && !s.ownExtremes ? Expect::Either : Expect::Own;
        Case c{k,
               {ints("axes", s.axes)},
               {random.floats(dtype, s.x, 1, 0.5)},
               {Tensor(dtype, s.y)},
               toleranceOf(dtype),
               expect};
        if (k == "reduce_sum" && dtype == DType::F32)
          checkAccumulating(c, random);
        else
          check(c);
      }
}

TEST(Matmul, ShapesAndTransposes) {
  Random random(11), addends(19);
  struct Shape {
    std::vector<int64_t> a, b, c;
  };
  const Shape shapes[] = {{{5, 7}, {7, 9}, {5, 9}},
                          {{64, 48}, {48, 80}, {64, 80}},
                          {{2, 3, 5, 7}, {7, 9}, {2, 3, 5, 9}},
                          {{2, 3, 5, 7}, {2, 3, 7, 9}, {2, 3, 5, 9}},
                          {{2, 3, 5, 7}, {3, 7, 9}, {2, 3, 5, 9}},
                          {{2, 1, 5, 7}, {1, 3, 7, 9}, {2, 3, 5, 9}},
                          {{1, 7}, {7, 1}, {1, 1}},
                          {{2, 5, 7}, {1, 7, 9}, {2, 5, 9}},
                          {{133, 50}, {50, 150}, {133, 150}},
                          {{50, 800}, {800, 70}, {50, 70}},
                          {{3, 40, 64}, {64, 258}, {3, 40, 258}}};
  for (DType dtype : kFloats)
    for (const Shape &s : shapes)
      for (int transposes = 0; transposes < 4; ++transposes)
        for (bool biased : {false, true}) {
          bool ta = transposes & 1, tb = transposes & 2;
          auto flipped = [](std::vector<int64_t> shape, bool flip) {
            if (flip)
              std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
            return shape;
          };
          std::vector<Tensor> inputs{random.floats(dtype, flipped(s.a, ta)), random.floats(dtype, flipped(s.b, tb))};
          inputs.push_back(biased ? random.floats(dtype, {s.c.back()}) : Tensor());
          std::vector<Attribute> attributes{flag("transpose_a", ta), flag("transpose_b", tb)};
          check({"matmul", attributes, inputs, {Tensor(dtype, s.c)}, toleranceOf(dtype)});
          auto adding = inputs;
          adding.push_back(addends.floats(dtype, s.c, 1, 3));
          check({"matmul", attributes, adding, {Tensor(dtype, s.c)}, toleranceOf(dtype), Expect::Own});
          adding.back() = addends.floats(DType::F32, s.c, 1, 3);
          check({"matmul", attributes, adding, {Tensor(DType::F32, s.c)}, toleranceOf(DType::F32)});
          attributes.push_back(flag("f32_result"));
          checkAccumulating({"matmul", attributes, inputs, {Tensor(DType::F32, s.c)}, toleranceOf(DType::F32)}, random);
        }
}

/// A result over the addend is the result elsewhere, bit by bit.
TEST(Matmul, WritesOverItsAddend) {
  Random random(16);
  for (DType dtype : kFloats)
    for (DType sum : {dtype, DType::F32}) {
      Tensor a = random.floats(dtype, {33, 40}), b = random.floats(dtype, {40, 17}),
             addend = random.floats(sum, {33, 17});
      std::vector<Tensor> apart{Tensor(sum, {33, 17})};
      ASSERT_TRUE(call(subject(), "matmul", {}, {a, b, Tensor(), addend}, apart, 1).status.isOk());
      std::vector<Tensor> operands{a, b, Tensor(), addend};
      ASSERT_TRUE(callOver(subject(), "matmul", {}, operands, {3}).isOk());
      EXPECT_TRUE(close(operands[3], apart[0], 0, 0));
    }
}

TEST(Matmul, RefusesAnAddendOfAnotherShape) {
  Tensor a(DType::F32, {3, 4}), b(DType::F32, {4, 5});
  for (const Tensor &addend : {Tensor(DType::F32, {5}), Tensor(DType::BF16, {3, 5})}) {
    std::vector<Tensor> result{Tensor(DType::F32, {3, 5})};
    EXPECT_FALSE(call(subject(), "matmul", {}, {a, b, Tensor(), addend}, result, 1).status.isOk());
  }
}

TEST(Matmul, LargeOnesArePrepared) {
  Random random(13);
  Tensor a = random.floats(DType::F32, {512, 256}), b = random.floats(DType::F32, {300, 256}),
         row = random.floats(DType::F32, {300});
  checkAccumulating({"matmul", {flag("transpose_b")}, {a, b, row}, {Tensor(DType::F32, {512, 300})}}, random);
}

/// What stands beside a row in its micro-batch does not change it.
TEST(Matmul, RowsOfSmallOnesAreTheirOwn) {
  Random random(14);
  Tensor b = random.floats(DType::F32, {70, 500}), a = random.floats(DType::F32, {23, 500});
  std::vector<Tensor> whole{Tensor(DType::F32, {23, 70})}, first{Tensor(DType::F32, {5, 70})};
  Tensor part(DType::F32, {5, 500});
  std::memcpy(part.data(), a.data(), 5 * 500 * sizeof(float));
  ASSERT_TRUE(call(subject(), "matmul", {flag("transpose_b")}, {a, b, Tensor()}, whole, 1).status.isOk());
  ASSERT_TRUE(call(subject(), "matmul", {flag("transpose_b")}, {part, b, Tensor()}, first, 1).status.isOk());
  EXPECT_EQ(std::memcmp(whole[0].data(), first[0].data(), 5 * 70 * sizeof(float)), 0);
}

TEST(Conv, ForwardAndGradients) {
  Random random(12);
  struct Shape {
    std::vector<int64_t> x, w, y, strides, pads, dilations;
    int64_t group;
  };
  const Shape shapes[] = {
      {{2, 3, 8, 9}, {4, 3, 3, 3}, {2, 4, 8, 9}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
      {{2, 3, 16, 16}, {8, 3, 4, 4}, {2, 8, 4, 4}, {4, 4}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 4, 9, 9}, {6, 2, 3, 3}, {1, 6, 3, 3}, {2, 2}, {0, 1, 1, 0}, {2, 2}, 2},
      {{2, 6, 20}, {5, 6, 3}, {2, 5, 10}, {2}, {1, 1}, {1}, 1},
      {{1, 2, 4, 5, 6}, {3, 2, 2, 2, 2}, {1, 3, 3, 4, 5}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}, 1}};
  for (DType dtype : kFloats)
    for (const Shape &s : shapes) {
      std::vector<Attribute> attributes{ints("strides", s.strides), ints("pads", s.pads),
                                        ints("dilations", s.dilations), ints("group", {s.group})};
      Tensor x = random.floats(dtype, s.x), w = random.floats(dtype, s.w), dy = random.floats(dtype, s.y);
      Tensor bias = random.floats(dtype, {s.w[0]});
      Expect expect = dtype == DType::F32 ? Expect::Own : Expect::Either;
      double tolerance = toleranceOf(dtype);
      check({"conv", attributes, {x, w, bias}, {Tensor(dtype, s.y)}, tolerance, expect});
      check({"conv", attributes, {x, w, Tensor()}, {Tensor(dtype, s.y)}, tolerance, expect});
      check({"conv_grad_input", attributes, {dy, w}, {Tensor(dtype, s.x)}, tolerance, expect});
      checkAccumulating({"conv_grad_weight", attributes, {x, dy}, {Tensor(DType::F32, s.w)}, 1e-5, expect}, random);
    }
}

TEST(Rows, SoftmaxAndGradients) {
  Random random(13);
  for (DType dtype : kFloats)
    for (int64_t width : {1, 5, 16, 100, 1000, 5000}) {
      std::vector<int64_t> shape{3, 7, width};
      Tensor x = random.floats(dtype, shape, 3), dy = random.floats(dtype, shape), out(dtype, shape);
      std::vector<Attribute> axis{ints("axis", {2})};
      for (const char *kernel : {"softmax", "log_softmax"}) {
        check({kernel, axis, {x}, {out}, toleranceOf(dtype)});
        std::vector<Tensor> y{out};
        ASSERT_TRUE(call(reference(), kernel, axis, {x}, y).status.isOk());
        check({std::string(kernel) + "_grad", axis, {y[0], dy}, {out}, toleranceOf(dtype)});
      }
    }
  check({"softmax",
         {ints("axis", {0})},
         {random.floats(DType::F32, {4, 3})},
         {Tensor(DType::F32, {4, 3})},
         2e-6,
         Expect::Either});
}

TEST(Rows, SoftmaxOfMaskedRow) {
  Tensor x = Tensor::of(DType::F32, {1, 3}, {-INFINITY, 1, -INFINITY});
  check({"softmax", {ints("axis", {1})}, {x}, {Tensor(DType::F32, {1, 3})}});
}

TEST(Rows, Rope) {
  Random random(14);
  for (DType dtype : kFloats)
    for (DType table : {dtype, DType::F32})
      for (int64_t width : {2, 8, 32, 64, 80})
        for (bool interleaved : {false, true})
          for (bool adjoint : {false, true}) {
            Tensor x = random.floats(dtype, {2, 3, 5, width});
            Tensor cos = random.floats(table, {1, 1, 5, width}), sin = random.floats(table, {2, 1, 5, width});
            check({"rope",
                   {flag("interleaved", interleaved), flag("adjoint", adjoint)},
                   {x, cos, sin},
                   {Tensor(dtype, {2, 3, 5, width})},
                   toleranceOf(dtype)});
          }
}

/// f32 in, bf16 out, and its gradient back: what stands around products in bf16.
TEST(Norm, NarrowResults) {
  Random random(17);
  for (DType weights : kFloats)
    for (int64_t rows : {1, 70, 450})
      for (int64_t width : {8, 77, 1000, 1030, 2056}) {
        if (rows > 70 && width > 100 && width != 1030)
          continue;
        Tensor x = random.floats(DType::F32, {rows, width}, 2, 0.5), dy = random.floats(DType::BF16, {rows, width});
        Tensor scale = random.floats(weights, {width}, 1, 1), bias = random.floats(weights, {width});
        Tensor column(DType::F32, {rows}), sums(DType::F32, {width}), y(DType::BF16, {rows, width}),
            dx(DType::F32, {rows, width});
        std::vector<Attribute> attributes{ints("axis", {1}), number("epsilon", 1e-5), flag("bf16_result")};
        double narrow = toleranceOf(DType::BF16), wide = toleranceOf(DType::F32) * 4;
        check({"layer_norm", attributes, {x, scale, bias}, {y, column, column}, narrow});
        check({"rms_norm", attributes, {x, scale}, {y, column}, narrow});
        std::vector<Tensor> layer{y, column, column}, rms{y, column};
        ASSERT_TRUE(call(reference(), "layer_norm", attributes, {x, scale, bias}, layer).status.isOk());
        ASSERT_TRUE(call(reference(), "rms_norm", attributes, {x, scale}, rms).status.isOk());
        check({"layer_norm_grad", {ints("axis", {1})}, {dy, x, layer[1], layer[2], scale}, {dx, sums, sums}, wide});
        check({"rms_norm_grad",
               {ints("axis", {1}), ints("accumulate", {2})},
               {dy, x, rms[1], scale},
               {dx, random.floats(DType::F32, {width})},
               wide});
      }
}

/// Each way in which kernels of a GPU cut rows.
TEST(Norm, WidthsOfRows) {
  Random random(18);
  for (int64_t width : {250, 1024, 2048, 4096, 5000, 8192, 8200}) {
    int64_t rows = width > 1024 ? 3 : 40;
    Tensor x = random.floats(DType::F32, {rows, width}, 2, 0.5), dy = random.floats(DType::F32, {rows, width});
    Tensor scale = random.floats(DType::F32, {width}, 1, 1), sums(DType::F32, {width}), out(DType::F32, {rows, width});
    std::vector<Tensor> layer{out, Tensor(DType::F32, {rows}), Tensor(DType::F32, {rows})};
    std::vector<Attribute> attributes{ints("axis", {1}), number("epsilon", 1e-5)};
    ASSERT_TRUE(call(reference(), "layer_norm", attributes, {x, scale, Tensor()}, layer).status.isOk());
    check({"layer_norm_grad", attributes, {dy, x, layer[1], layer[2], scale}, {out, sums, sums}, 8e-6});
    check({"rms_norm_grad", attributes, {dy, x, layer[2], scale}, {out, sums}, 8e-6});
  }
}

TEST(Norm, LayerAndRms) {
  Random random(15);
  for (DType dtype : kFloats)
    for (DType weights : {dtype, DType::F32})
      for (int64_t rows : {1, 5, 300})
        for (int64_t width : {1, 7, 64, 100, 771}) {
          Tensor x = random.floats(dtype, {rows, width}, 2, 0.5), dy = random.floats(dtype, {rows, width});
          Tensor scale = random.floats(weights, {width}, 1, 1), bias = random.floats(weights, {width});
          Tensor column(DType::F32, {rows}), sums(DType::F32, {width}), out(dtype, {rows, width});
          std::vector<Attribute> attributes{ints("axis", {1}), number("epsilon", 1e-5)};
          double tolerance = toleranceOf(dtype) * 4;
          check({"layer_norm", attributes, {x, scale, bias}, {out, column, column}, tolerance});
          check({"layer_norm", attributes, {x, Tensor(), Tensor()}, {out, column, column}, tolerance});
          check({"rms_norm", attributes, {x, scale}, {out, column}, tolerance});
          std::vector<Tensor> layer{out, column, column}, rms{out, column};
          ASSERT_TRUE(call(reference(), "layer_norm", attributes, {x, scale, bias}, layer).status.isOk());
          ASSERT_TRUE(call(reference(), "rms_norm", attributes, {x, scale}, rms).status.isOk());
          if (width == 1)
            continue; // Normalising one element leaves rounding alone.
          check({"layer_norm_grad", attributes, {dy, x, layer[1], layer[2], scale}, {out, sums, sums}, tolerance});
          check(
              {"layer_norm_grad", attributes, {dy, x, layer[1], layer[2], Tensor()}, {out, Tensor(), sums}, tolerance});
          check({"rms_norm_grad", attributes, {dy, x, rms[1], scale}, {out, sums}, tolerance});
          std::vector<Attribute> adding = attributes;
          adding.push_back(ints("accumulate", {2}));
          Tensor old = random.floats(DType::F32, {width});
          check({"layer_norm_grad", adding, {dy, x, layer[1], layer[2], scale}, {out, old, sums}, tolerance});
          check({"rms_norm_grad", adding, {dy, x, rms[1], scale}, {out, old}, tolerance});
        }
}

struct AttentionCase {
  int64_t batch, heads, keyHeads, queries, keys, depth, valueDepth;
  bool causal = false, sequenceMajor = false;
  int64_t offset = 0;
  double softcap = 0;
  std::vector<int64_t> mask = {};
  DType maskType = DType::Bool;
};

void checkAttention(const AttentionCase &c, DType dtype, Random &random) {
  auto shape = [&](int64_t heads, int64_t length, int64_t width) {
    return c.sequenceMajor ? std::vector<int64_t>{c.batch, length, heads, width}
                           : std::vector<int64_t>{c.batch, heads, length, width};
  };
  Tensor q = random.floats(dtype, shape(c.heads, c.queries, c.depth));
  Tensor k = random.floats(dtype, shape(c.keyHeads, c.keys, c.depth));
  Tensor v = random.floats(dtype, shape(c.keyHeads, c.keys, c.valueDepth));
  Tensor grad = random.floats(dtype, shape(c.heads, c.queries, c.valueDepth));
  Tensor mask;
  if (!c.mask.empty())
    mask = c.maskType == DType::Bool ? random.booleans(c.mask) : random.floats(c.maskType, c.mask);
  Tensor o(dtype, shape(c.heads, c.queries, c.valueDepth)), lse(DType::F32, {c.batch, c.heads, c.queries});
  std::vector<Attribute> attributes{number("scale", 1 / std::sqrt(static_cast<double>(c.depth))),
                                    flag("causal", c.causal), ints("causal_offset", {c.offset}),
                                    flag("sequence_major", c.sequenceMajor), number("softcap", c.softcap)};
  double tolerance = dtype == DType::BF16 ? 1.5e-2 : 5e-6;
  check({"attention", attributes, {q, k, v, mask}, {o, lse}, tolerance});
  std::vector<Tensor> results{o, lse};
  ASSERT_TRUE(call(reference(), "attention", attributes, {q, k, v, mask}, results).status.isOk());
  check({"attention_grad", attributes, {grad, q, k, v, results[0], results[1], mask}, {q, k, v}, tolerance});
}

TEST(Attention, ForwardAndGradient) {
  Random random(16);
  const AttentionCase cases[] = {
      {2, 3, 3, 5, 7, 8, 8},
      {1, 2, 2, 64, 64, 64, 64},
      {1, 2, 1, 130, 130, 32, 32, true},
      {2, 4, 2, 70, 70, 16, 48, true, true},
      {1, 1, 1, 1, 200, 20, 12},
      {1, 2, 2, 65, 129, 80, 80, true, false, 64},
      {1, 2, 2, 66, 40, 16, 16, true, false, -3},
      {1, 2, 2, 33, 65, 64, 64, false, false, 0, 2.0},
      {1, 2, 2, 100, 100, 16, 16, true, true, 0, 5.0},
      {2, 2, 1, 20, 70, 16, 16, false, false, 0, 0, {2, 1, 1, 70}},
      {2, 2, 2, 20, 70, 16, 16, true, false, 50, 0, {2, 1, 20, 70}},
      {2, 2, 2, 20, 70, 16, 16, false, true, 0, 0, {2, 20, 70}, DType::F32},
      {1, 2, 2, 70, 70, 16, 16, false, true, 0, 1.5, {1, 2, 70, 70}, DType::F32},
  };
  for (DType dtype : kFloats)
    for (const AttentionCase &c : cases)
      checkAttention(c, dtype, random);
}

/// The result and gradients under an explicit causal mask are bitwise those of the attribute, whether the mask
/// is boolean or adds `hidden`.
void expectCausal(DType dtype, const Tensor &mask, Random &random) {
  std::vector<int64_t> shape{1, 200, 2, 32};
  Tensor q = random.floats(dtype, shape), k = random.floats(dtype, shape), v = random.floats(dtype, shape);
  Tensor lse(DType::F32, {1, 2, 200});
  std::vector<Attribute> attributes{number("scale", 0.2), flag("sequence_major")}, causal = attributes;
  causal.push_back(flag("causal"));
  std::vector<Tensor> spelt{q, lse}, named{q, lse}, dSpelt{q, q, q}, dNamed{q, q, q};
  ASSERT_TRUE(call(subject(), "attention", attributes, {q, k, v, mask}, spelt).status.isOk());
  ASSERT_TRUE(call(subject(), "attention", causal, {q, k, v, Tensor()}, named).status.isOk());
  EXPECT_TRUE(close(spelt[0], named[0], 0, 0) && close(spelt[1], named[1], 0, 0));
  ASSERT_TRUE(
      call(subject(), "attention_grad", attributes, {v, q, k, v, spelt[0], spelt[1], mask}, dSpelt).status.isOk());
  ASSERT_TRUE(
      call(subject(), "attention_grad", causal, {v, q, k, v, named[0], named[1], Tensor()}, dNamed).status.isOk());
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(close(dSpelt[i], dNamed[i], 0, 0)) << i;
}

TEST(Attention, MaskThatSpellsOutCausality) {
  Random random(21);
  Tensor flags(DType::Bool, {1, 1, 200, 200}), added(DType::F32, {1, 1, 200, 200});
  for (int64_t i = 0; i < 200; ++i)
    for (int64_t j = 0; j < 200; ++j) {
      flags.set(i * 200 + j, j <= i);
      added.set(i * 200 + j, j <= i ? 0 : -3.4028235e38);
    }
  for (DType dtype : kFloats) {
    expectCausal(dtype, flags, random);
    expectCausal(dtype, added, random);
  }
}

TEST(Attention, RowHiddenByLargeNumbersIsUniform) {
  Random random(22);
  for (DType dtype : kFloats) {
    Tensor q = random.floats(dtype, {1, 1, 100, 16}), lse(DType::F32, {1, 1, 100}), mask(DType::F32, {100, 100});
    for (int64_t i = 0; i < 100; ++i)
      for (int64_t j = 0; j < 100; ++j)
        mask.set(i * 100 + j, i == 7 || j > i ? -3.4028235e38 : 0);
    double tolerance = dtype == DType::BF16 ? 1.5e-2 : 5e-6;
    check({"attention", {number("scale", 0.25)}, {q, q, q, mask}, {q, lse}, tolerance});
    std::vector<Tensor> out{q, lse};
    ASSERT_TRUE(call(reference(), "attention", {number("scale", 0.25)}, {q, q, q, mask}, out).status.isOk());
    double mean = 0;
    for (int64_t j = 0; j < 100; ++j)
      mean += q.at(j * 16) / 100;
    EXPECT_NEAR(out[0].at(7 * 16), mean, 1e-2);
  }
}

TEST(Attention, NothingAttendedGivesZero) {
  Random random(17);
  Tensor q = random.floats(DType::F32, {1, 1, 3, 16}), mask(DType::Bool, {1, 1, 3, 3});
  mask.set(0, 1); // Query 0 attends key 0; queries 1 and 2 attend nothing.
  Tensor lse(DType::F32, {1, 1, 3});
  std::vector<Tensor> out{q, lse};
  ASSERT_TRUE(call(subject(), "attention", {number("scale", 1)}, {q, q, q, mask}, out).status.isOk());
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(out[0].at(i), q.at(i), 1e-6);
    EXPECT_EQ(out[0].at(16 + i), 0);
  }
  EXPECT_EQ(out[1].at(2), -INFINITY);
  check({"attention_grad", {number("scale", 1)}, {q, q, q, q, out[0], out[1], mask}, {q, q, q}, 5e-6});
}

struct RecurrenceCase {
  const char *cell;
  int64_t inputs, states, gates; ///< Blocks.
};
constexpr RecurrenceCase kCells[] = {{"lstm", 4, 2, 4}, {"gru", 3, 1, 4}, {"rnn_tanh", 1, 1, 1}, {"rnn_relu", 1, 1, 1}};

void checkRecurrence(const RecurrenceCase &c, DType dtype, std::array<int64_t, 3> sizes, bool reverse, bool ragged,
                     Random &random) {
  auto [rows, length, hidden] = sizes;
  SCOPED_TRACE(std::string(c.cell) + (reverse ? ", reverse" : "") + (ragged ? ", of different lengths" : ""));
  double scale = 1 / std::sqrt(static_cast<double>(hidden));
  Tensor x = random.floats(dtype, {rows, length, c.inputs * hidden});
  Tensor weight = random.floats(dtype, {c.inputs * hidden, hidden}, scale);
  Tensor initial = random.floats(dtype, {rows, c.states * hidden});
  Tensor bias = std::string(c.cell) == "gru" && !reverse ? random.floats(dtype, {hidden}) : Tensor();
  Tensor lengths = ragged ? random.integers(DType::I64, {rows}, 0, length + 2) : Tensor();
  Tensor states(dtype, {rows, length, c.states * hidden}), gates(dtype, {rows, length, c.gates * hidden});
  std::vector<Attribute> attributes{text("cell", c.cell), flag("reverse", reverse)};
  // Rounding is carried on from position to position.
  double tolerance = dtype == DType::BF16 ? 4e-2 : 1e-5;
  Expect expect = dtype == DType::F32 ? Expect::Own : Expect::Either;
  check({"recurrence", attributes, {x, weight, initial, bias, lengths}, {states, gates}, tolerance, expect});
  std::vector<Tensor> results{states, gates};
  ASSERT_TRUE(call(reference(), "recurrence", attributes, {x, weight, initial, bias, lengths}, results).status.isOk());
  Tensor dstates = random.floats(dtype, {rows, length, c.states * hidden});
  check({"recurrence_grad",
         attributes,
         {dstates, weight, initial, results[0], results[1], lengths},
         {x, initial},
         tolerance,
         expect});
}

TEST(Recurrence, EveryCell) {
  Random random(23);
  for (DType dtype : kFloats)
    for (const RecurrenceCase &c : kCells)
      for (bool reverse : {false, true})
        for (std::array<int64_t, 3> sizes : {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7}, {5, 4, 33}, {2, 3, 80}}) {
          checkRecurrence(c, dtype, sizes, reverse, false, random);
          checkRecurrence(c, dtype, sizes, reverse, true, random);
        }
}

TEST(Recurrence, RowsOnSeveralThreads) {
  Random random(24);
  for (const RecurrenceCase &c : kCells)
    checkRecurrence(c, DType::F32, {9, 6, 200}, false, true, random);
}

TEST(Loss, CrossEntropyAndKl) {
  Random random(18);
  for (DType dtype : kFloats)
    for (int64_t width : {2, 17, 256, 1000, 5003}) {
      Tensor logits = random.floats(dtype, {3, 4, width}, 3), teacher = random.floats(dtype, {3, 4, width}, 3);
      Tensor labels = random.integers(DType::I64, {3, 4}, 0, width), row(DType::F32, {3, 4});
      labels.set(5, -100);
      double tolerance = toleranceOf(dtype);
      check({"cross_entropy", {}, {logits, labels}, {row, row}, 2e-6});
      std::vector<Tensor> ce{row, row}, kl{row, row, row};
      ASSERT_TRUE(call(reference(), "cross_entropy", {}, {logits, labels}, ce).status.isOk());
      for (std::vector<int64_t> shape : {std::vector<int64_t>{}, std::vector<int64_t>{3, 4}})
        check(
            {"cross_entropy_grad", {}, {logits, labels, ce[1], random.floats(DType::F32, shape)}, {logits}, tolerance});
      check({"kl_divergence", {number("temperature", 2)}, {logits, teacher}, {row, row, row}, 1e-5});
      ASSERT_TRUE(call(reference(), "kl_divergence", {number("temperature", 2)}, {logits, teacher}, kl).status.isOk());
      check({"kl_divergence_grad",
             {number("temperature", 2)},
             {logits, teacher, kl[1], kl[2], random.floats(DType::F32, {})},
             {logits},
             tolerance});
    }
}

TEST(Loss, MaskedLogits) {
  Tensor logits(DType::F32, {1, 600}), row(DType::F32, {1}), labels = Tensor::of(DType::I64, {1}, {599});
  for (int64_t i = 0; i < 598; ++i)
    logits.set(i, -INFINITY);
  check({"cross_entropy", {}, {logits, labels}, {row, row}});
}

TEST(Dropout, SameElementsAsTheReference) {
  Random random(19);
  for (DType dtype : kFloats)
    for (auto [width, stride] : {std::pair<int64_t, int64_t>{16, 16}, {7, 9}, {1, 1}}) {
      Tensor state = Tensor::of(DType::I64, {2}, {1234, 7}), ids = Tensor::of(DType::I64, {2}, {40, 17});
      std::vector<Attribute> attributes{number("ratio", 0.3), ints("stream", {5}), ints("strides", {stride, 1})};
      check({"dropout",
             attributes,
             {random.floats(dtype, {6, 5, width}), state, ids},
             {Tensor(dtype, {6, 5, width})},
             toleranceOf(dtype)});
    }
}

TEST(Update, SumsAndAdding) {
  Random random(20);
  for (int64_t n : {0, 1, 100, 100003}) {
    Tensor x = random.floats(DType::F32, {n});
    check({"sum_squares", {}, {x}, {Tensor(DType::F64, {1})}, 1e-12});
    check({"sum_squares", {ints("accumulate", {1})}, {x}, {Tensor::of(DType::F64, {1}, {3})}, 1e-12});
    check({"add_into", {}, {x}, {random.floats(DType::F32, {n})}, 1e-7});
    check({"add_into", {}, {random.floats(DType::BF16, {n})}, {random.floats(DType::F32, {n})}, 1e-7});
  }
}

} // namespace
} // namespace maestro::kernels::test
