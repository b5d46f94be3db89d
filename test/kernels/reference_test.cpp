// Values of reference kernels worked out by hand, one or two per operator without a gradient test.
#include "test/kernels/harness.h"

namespace maestro::kernels::test {
namespace {

const Library &reference() {
  static auto library = createReferenceLibrary();
  return *library;
}

using Values = std::vector<double>;

Values valuesOf(std::string kernel, std::vector<Attribute> attributes, std::vector<Tensor> inputs, Tensor output) {
  std::vector<Tensor> outputs{output};
  CallResult result = call(reference(), kernel, attributes, inputs, outputs);
  EXPECT_TRUE(result.supported && result.status.isOk()) << kernel << ": " << result.status.message();
  return outputs[0].values();
}

Tensor floats(std::vector<int64_t> shape, Values values) { return Tensor::of(DType::F32, shape, values); }
Tensor longs(std::vector<int64_t> shape, Values values) { return Tensor::of(DType::I64, shape, values); }
Tensor bools(std::vector<int64_t> shape, Values values) { return Tensor::of(DType::Bool, shape, values); }

TEST(Reference, IntegerArithmetic) {
  Tensor a = longs({4}, {7, -7, 7, 5}), b = longs({4}, {2, 2, -2, 0}), out(DType::I64, {4});
  EXPECT_EQ(valuesOf("div", {}, {a, b}, out), (Values{3, -3, -3, 0}));
  EXPECT_EQ(valuesOf("mod", {}, {a, b}, out), (Values{1, 1, -1, 0}));
  EXPECT_EQ(valuesOf("mod", {flag("fmod")}, {a, b}, out), (Values{1, -1, 1, 0}));
  EXPECT_EQ(valuesOf("pow", {}, {longs({3}, {2, -1, 3}), longs({3}, {10, -3, -1})}, Tensor(DType::I64, {3})),
            (Values{1024, -1, 0}));
  EXPECT_EQ(valuesOf("add", {}, {Tensor::of(DType::U8, {1}, {250}), Tensor::of(DType::U8, {1}, {10})},
                     Tensor(DType::U8, {1})),
            (Values{4}));
}

TEST(Reference, FloatEdges) {
  Tensor a = floats({4}, {-5.5, 5.5, NAN, 1}), b = floats({4}, {2, -2, 1, NAN}), out(DType::F32, {4});
  Values mod = valuesOf("mod", {}, {a, b}, out);
  EXPECT_EQ(mod[0], 0.5);
  EXPECT_EQ(mod[1], -0.5);
  Values larger = valuesOf("maximum", {}, {a, b}, out);
  EXPECT_EQ(larger[0], 2);
  EXPECT_TRUE(std::isnan(larger[2]) && std::isnan(larger[3]));
  EXPECT_EQ(valuesOf("round", {}, {floats({4}, {0.5, 1.5, -0.5, 2.4})}, out), (Values{0, 2, 0, 2}));
  EXPECT_EQ(valuesOf("sign", {}, {floats({4}, {-3, 0, 2, 5})}, out), (Values{-1, 0, 1, 1}));
  EXPECT_EQ(valuesOf("isinf", {}, {floats({4}, {INFINITY, -INFINITY, 0, NAN})}, Tensor(DType::Bool, {4})),
            (Values{1, 1, 0, 0}));
}

TEST(Reference, Cast) {
  Tensor x = floats({5}, {-1.9, 1.9, NAN, 1e30, 0});
  EXPECT_EQ(valuesOf("cast", {}, {x}, Tensor(DType::I32, {5}))[0], -1);
  EXPECT_EQ(valuesOf("cast", {}, {x}, Tensor(DType::Bool, {5})), (Values{1, 1, 1, 1, 0}));
  Tensor big = Tensor(DType::I64, {1});
  *static_cast<int64_t *>(big.data()) = (int64_t{1} << 53) + 1;
  std::vector<Tensor> out{Tensor(DType::I64, {1})};
  EXPECT_TRUE(call(reference(), "cast", {}, {big}, out).status.isOk());
  EXPECT_EQ(*static_cast<int64_t *>(out[0].data()), (int64_t{1} << 53) + 1);
}

TEST(Reference, Generators) {
  EXPECT_EQ(valuesOf("fill", {number("value", 2.5)}, {}, Tensor(DType::F32, {2})), (Values{2.5, 2.5}));
  EXPECT_EQ(valuesOf("iota", {ints("start", {3}), ints("step", {-2})}, {}, Tensor(DType::I64, {3})),
            (Values{3, 1, -1}));
  EXPECT_EQ(valuesOf("dim_values", {ints("values", {4, 7})}, {}, Tensor(DType::I64, {2})), (Values{4, 7}));
}

TEST(Reference, Movement) {
  Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(valuesOf("transpose", {ints("permutation", {1, 0})}, {x}, Tensor(DType::F32, {3, 2})),
            (Values{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(valuesOf("slice", {ints("offsets", {1, 2}), ints("steps", {-1, -2})}, {x}, Tensor(DType::F32, {2, 2})),
            (Values{6, 4, 3, 1}));
  EXPECT_EQ(valuesOf("concat", {ints("axis", {1})}, {x, floats({2, 1}, {9, 8})}, Tensor(DType::F32, {2, 4})),
            (Values{1, 2, 3, 9, 4, 5, 6, 8}));
  std::vector<Attribute> pads{ints("low", {2}), ints("high", {3})};
  auto padded = [&](const char *mode) {
    auto attributes = pads;
    attributes.push_back(text("mode", mode));
    return valuesOf("pad", attributes, {floats({3}, {1, 2, 3})}, Tensor(DType::F32, {8}));
  };
  EXPECT_EQ(padded("constant"), (Values{0, 0, 1, 2, 3, 0, 0, 0}));
  EXPECT_EQ(padded("edge"), (Values{1, 1, 1, 2, 3, 3, 3, 3}));
  EXPECT_EQ(padded("wrap"), (Values{2, 3, 1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(padded("reflect"), (Values{3, 2, 1, 2, 3, 2, 1, 2}));
  EXPECT_EQ(valuesOf("cumsum", {ints("axis", {1})}, {x}, Tensor(DType::F32, {2, 3})), (Values{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(
      valuesOf("cumsum", {ints("axis", {1}), flag("exclusive"), flag("reverse")}, {x}, Tensor(DType::F32, {2, 3})),
      (Values{5, 3, 0, 11, 6, 0}));
}

TEST(Reference, GatherAndScatter) {
  Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(
      valuesOf("gather_elements", {ints("axis", {0})}, {x, longs({2, 2}, {2, 0, -2, 1})}, Tensor(DType::F32, {2, 2})),
      (Values{5, 2, 3, 4}));
  EXPECT_EQ(valuesOf("gather_nd", {}, {x, longs({2, 2}, {0, 1, -1, 0})}, Tensor(DType::F32, {2})), (Values{2, 5}));
  Tensor indices = longs({2, 2}, {1, 1, 1, 2}), updates = floats({2, 2}, {10, 20, 30, 40});
  EXPECT_EQ(valuesOf("scatter_elements", {ints("axis", {0})}, {x, indices, updates}, x), (Values{1, 2, 30, 20, 5, 40}));
  EXPECT_EQ(valuesOf("scatter_elements", {ints("axis", {0}), text("reduction", "add")}, {x, indices, updates}, x),
            (Values{1, 2, 43, 24, 5, 46}));
  EXPECT_EQ(
      valuesOf("scatter_nd", {text("reduction", "max")}, {x, longs({2, 1}, {0, 2}), floats({2, 2}, {0, 9, 9, 0})}, x),
      (Values{1, 9, 3, 4, 9, 6}));
  EXPECT_EQ(valuesOf("masked_scatter", {}, {x, bools({3, 2}, {1, 0, 0, 1, 0, 0}), floats({2}, {7, 8})}, x),
            (Values{7, 2, 3, 8, 5, 6}));
  std::vector<Tensor> out{x};
  Tensor two = bools({3, 2}, {1, 1, 0, 0, 0, 0});
  for (const Tensor &source : {floats({1}, {7}), floats({3}, {7, 8, 9})})
    EXPECT_EQ(call(reference(), "masked_scatter", {}, {x, two, source}, out).status.code(), StatusCode::InvalidInput);
  Tensor none = bools({3, 2}, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(valuesOf("masked_scatter", {}, {x, none, floats({0}, {})}, x), (Values{1, 2, 3, 4, 5, 6}));
}

TEST(Reference, Selection) {
  Tensor x = floats({2, 4}, {3, 1, 3, 2, -1, NAN, 5, 5});
  std::vector<Tensor> out{Tensor(DType::F32, {2, 2}), Tensor(DType::I64, {2, 2})};
  EXPECT_TRUE(call(reference(), "top_k", {ints("axis", {1})}, {x}, out).status.isOk());
  EXPECT_EQ(out[1].values(), (Values{0, 2, 1, 2}));
  EXPECT_TRUE(call(reference(), "top_k", {ints("axis", {1}), flag("largest", false)}, {x}, out).status.isOk());
  EXPECT_EQ(out[1].values(), (Values{1, 3, 0, 2}));
  Tensor y = floats({1, 4}, {3, 1, 3, 1});
  EXPECT_EQ(valuesOf("arg_max", {ints("axis", {1})}, {y}, Tensor(DType::I64, {1, 1})), (Values{0}));
  EXPECT_EQ(valuesOf("arg_max", {ints("axis", {1}), flag("select_last")}, {y}, Tensor(DType::I64, {1, 1})),
            (Values{2}));
  EXPECT_EQ(valuesOf("arg_min", {ints("axis", {1})}, {y}, Tensor(DType::I64, {1, 1})), (Values{1}));
}

TEST(Reference, Reductions) {
  Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(valuesOf("reduce_sum", {ints("axes", {0})}, {x}, Tensor(DType::F32, {3})), (Values{5, 7, 9}));
  EXPECT_EQ(valuesOf("reduce_mean", {ints("axes", {0, 1}), flag("keepdims")}, {x}, Tensor(DType::F32, {1, 1})),
            (Values{3.5}));
  EXPECT_EQ(valuesOf("reduce_prod", {ints("axes", {1})}, {x}, Tensor(DType::F32, {2})), (Values{6, 120}));
  EXPECT_EQ(valuesOf("reduce_max", {ints("axes", {1})}, {x}, Tensor(DType::F32, {2})), (Values{3, 6}));
  EXPECT_EQ(valuesOf("reduce_sum", {ints("axes", {1}), ints("accumulate", {1})}, {x}, floats({2}, {100, 200})),
            (Values{106, 215}));
  EXPECT_EQ(valuesOf("reduce_min", {ints("axes", {0})}, {Tensor(DType::I64, {0})}, Tensor(DType::I64, {}))[0],
            std::ldexp(1.0, 63));
}

TEST(Reference, Pooling) {
  Tensor x = floats({1, 1, 5}, {1, 2, 3, 4, 5});
  std::vector<Attribute> attributes{ints("kernel", {2}), ints("strides", {2}), ints("pads", {1, 1}),
                                    ints("dilations", {1}), flag("ceil_mode")};
  EXPECT_EQ(valuesOf("max_pool", attributes, {x}, Tensor(DType::F32, {1, 1, 4})), (Values{1, 3, 5, -INFINITY}));
  attributes[2] = ints("pads", {1, 0});
  EXPECT_EQ(valuesOf("avg_pool", attributes, {x}, Tensor(DType::F32, {1, 1, 3})), (Values{1, 2.5, 4.5}));
  attributes.push_back(flag("count_include_pad"));
  EXPECT_EQ(valuesOf("avg_pool", attributes, {x}, Tensor(DType::F32, {1, 1, 3})), (Values{0.5, 2.5, 4.5}));
}

TEST(Reference, DropoutKeepsTheMeanAndIgnoresTheLayout) {
  Tensor x(DType::F32, {4, 1000});
  for (int64_t i = 0; i < x.size(); ++i)
    x.set(i, 1);
  Tensor state = longs({2}, {11, 3});
  std::vector<Attribute> attributes{number("ratio", 0.25), ints("stream", {2}), ints("strides", {1})};
  Values all = valuesOf("dropout", attributes, {x, state, longs({4}, {5, 6, 7, 8})}, x);
  double sum = 0;
  for (double v : all)
    sum += v;
  EXPECT_NEAR(sum / 4000, 1, 0.03);
  // Samples 7 and 5 alone, in another order, drop the same elements.
  Values two =
      valuesOf("dropout", attributes, {Tensor::of(DType::F32, {2, 1000}, Values(2000, 1)), state, longs({2}, {7, 5})},
               Tensor(DType::F32, {2, 1000}));
  EXPECT_TRUE(std::equal(two.begin(), two.begin() + 1000, all.begin() + 2000));
  EXPECT_TRUE(std::equal(two.begin() + 1000, two.end(), all.begin()));
}

TEST(Reference, UnknownNamesAndWrongShapes) {
  std::vector<Tensor> out{Tensor(DType::F32, {3})};
  EXPECT_FALSE(call(reference(), "no_such_kernel", {}, {floats({3}, {1, 2, 3})}, out).supported);
  struct Bad {
    std::string kernel;
    std::vector<Attribute> attributes;
    std::vector<Tensor> inputs, outputs;
    std::string message;
  };
  Tensor two = floats({2}, {1, 2}), three = floats({3}, {1, 2, 3}), matrix(DType::F32, {2, 3});
  const Bad cases[] = {
      {"exp", {}, {two}, {three}, "exp: the result has shape [3], expected [2]"},
      {"add", {}, {two, three}, {three}, "add: an operand [2] does not broadcast to [3]"},
      {"add", {}, {two, Tensor()}, {two}, "add: operand 1 is missing"},
      {"slice",
       {ints("offsets", {2}), ints("steps", {1})},
       {three},
       {two},
       "slice: dim 0: 2 elements from 2 by 1 leave [0, 3)"},
      {"matmul", {}, {matrix, matrix}, {matrix}, "matmul: inner dims differ: 3 and 2"},
      {"transpose", {ints("permutation", {0, 0})}, {matrix}, {matrix}, "transpose: [0, 0] is no permutation of 2 dims"},
      {"softmax", {ints("axis", {2})}, {matrix}, {matrix}, "softmax: axis 2 is outside [0, 2)"},
  };
  auto fast = createCpuLibrary();
  for (const Bad &bad : cases)
    for (const Library *library : {&reference(), static_cast<const Library *>(fast.get())}) {
      std::vector<Tensor> outputs = bad.outputs;
      CallResult result = call(*library, bad.kernel, bad.attributes, bad.inputs, outputs);
      EXPECT_EQ(result.status.code(), StatusCode::InvalidInput);
      EXPECT_EQ(result.status.message(), bad.message);
    }
}

} // namespace
} // namespace maestro::kernels::test
