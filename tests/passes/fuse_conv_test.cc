#include "tests/passes/lowered.h"

namespace parallax::passes {
namespace {

using namespace ::parallax::testing;  // NOLINT

using Names = std::vector<std::string>;

// A convolution of four channels, and what follows it.
std::string Net(const std::string& rest, const std::string& inputs = "",
                const std::string& outputs = "float[1,4,6,5] y") {
  return "g (float[1,2,6,5] x, float[4,2,3,3] w" + inputs + ") => (" + outputs +
         R"() { b = Constant<value = float[4] {0.5, -0.5, 1, 2}>()
    c = Conv<pads = [1,1,1,1]>(x, w, b) )" +
         rest + " }";
}

TEST(FuseConv, BiasActivationResidual) {
  const std::string text = Net(R"(
    per = Constant<value = float[4,1,1] {1, 2, 3, 4}>()
    d = Conv<pads = [1,1,1,1]>(x, w)
    s = Add(per, d)  a = Relu(s)  y = Add(a, c))");
  const Graph g = Lowered(FromText(text));
  const Node* last = nullptr;
  for (const Node& n : g.nodes) {
    if (n.op == "FusedConv" && n.attributes.Has("activation")) last = &n;
  }
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(OpCounts(g).at("FusedConv"), 2);
  EXPECT_EQ(OpCounts(g).count("Add"), 0u);
  EXPECT_EQ(last->attributes.Int("residual_last", 0), 1);
  ExpectSameResults(text, 17, 1e-5);
}

TEST(FuseConv, ResidualThenActivation) {
  const std::string with =
      Net("lo = Constant<value = float {-0.5}>() hi = Constant<value = float {0.5}>() "
          "s = Add(r, c)  y = Clip(s, lo, hi)",
          ", float[1,4,6,5] r");
  const Graph g = Lowered(FromText(with));
  const Node* n = FindNode(g, "FusedConv");
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->attributes.String("activation", ""), "Clip");
  EXPECT_EQ(n->attributes.Float("activation_alpha", 0), -0.5f);
  EXPECT_EQ(n->attributes.Int("residual_last", 0), 0);
  EXPECT_EQ(OpCounts(g).count("Add"), 0u);
  ExpectSameResults(with, 17, 1e-5);
}

TEST(FuseConv, LeavesWhatOthersRead) {
  // The sum before the activation is an output, and the other operand broadcasts.
  const Graph shown =
      Lowered(FromText(Net("y = Relu(c)", "", "float[1,4,6,5] y, float[1,4,6,5] c")));
  EXPECT_EQ(OpCounts(shown).at("Relu"), 1);
  const std::string text = Net("y = Add(c, r)", ", float[1,1,6,5] r");
  EXPECT_EQ(OpCounts(Lowered(FromText(text))).at("Add"), 1);
  ExpectSameResults(text, 17, 1e-5);
}

TEST(FoldAffine, NormalisationAndArithmetic) {
  const std::string text = R"(g (float[1,2,4,4] x) => (float[1,2,2,2] y) {
    w = Constant<value = float[2,2,3,3] {1,2,3,4,5,6,7,8,9, 9,8,7,6,5,4,3,2,1,
                                         1,0,1,0,1,0,1,0,1, 2,1,2,1,2,1,2,1,2}>()
    s = Constant<value = float[2] {0.5, 2}>()
    t = Constant<value = float[2] {1, -1}>()
    m = Constant<value = float[2] {3, 4}>()
    v = Constant<value = float[2] {4, 0.25}>()
    two = Constant<value = float[1] {2}>()
    per = Constant<value = float[1,2,1,1] {3, 5}>()
    c = Conv(x, w)
    n = BatchNormalization<epsilon = 0.0>(c, s, t, m, v)
    p = Mul(two, n)
    q = Sub(p, per)
    y = Div(q, two) })";
  Model model = FromText(text);
  ASSERT_TRUE(FoldAffine(&model.graph).ok());
  ASSERT_EQ(Ops(model.graph), Names{"Conv"});
  // Channel 0: ((w x - 3) / 2 * 0.5 + 1) * 2 / 2 - 3 / 2 = w x / 4 - 1.25.
  const Node& conv = model.graph.nodes[0];
  EXPECT_FLOAT_EQ(model.graph.value(conv.inputs[1]).constant.data<float>()[0], 0.25f);
  EXPECT_FLOAT_EQ(model.graph.value(conv.inputs[2]).constant.data<float>()[0], -1.25f);
  // Channel 1: ((w x - 4) / 0.5 * 2 - 1) - 5 / 2 = 4 w x - 19.5.
  EXPECT_FLOAT_EQ(model.graph.value(conv.inputs[1]).constant.data<float>()[18], 4.0f);
  EXPECT_FLOAT_EQ(model.graph.value(conv.inputs[2]).constant.data<float>()[1], -19.5f);
  ExpectSameResults(text, 17, 1e-5);
}

TEST(FoldAffine, LeavesWhatIsNotPerChannel) {
  for (const std::string rest :
       {"k = Constant<value = float[5] {1,2,3,4,5}>() y = Mul(c, k)",  // along columns
        "y = Mul(c, x2)", "k = Constant<value = float {2}>() y = Sub(k, c)",
        "k = Constant<value = float {2}>() y = Div(k, c)"}) {
    const std::string text =
        R"(g (float[1,2,6,5] x, float[1,4,6,5] x2) => (float[1,4,6,5] y) {
      w = Constant<value = float[4,2,1,1] {1,2,3,4,5,6,7,8}>()
      c = Conv(x, w) )" +
        rest + " }";
    Model model = FromText(text);
    ASSERT_TRUE(FoldAffine(&model.graph).ok());
    EXPECT_EQ(model.graph.nodes.size(), 2u) << rest;
    ExpectSameResults(text, 17, 1e-5);
  }
}

TEST(NameActivations, SpelledOut) {
  const std::string constants = R"(
    one = Constant<value = float {1}>() half = Constant<value = float {0.5}>()
    three = Constant<value = float {3}>() six = Constant<value = float {6}>()
    nought = Constant<value = float {0}>() root = Constant<value = float {1.41421356}>()
    k = Constant<value = float {1.702}>() two = Constant<value = float {2}>()
    tan = Constant<value = float {0.7978845608}>() cube = Constant<value = float {0.044715}>() )";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"s = Sigmoid(x) y = Mul(x, s)", "Swish"},
      {"a = Mul(k, x) s = Sigmoid(a) y = Mul(s, x)", "Swish"},
      {"a = Add(x, three) c = Clip(a, nought, six) m = Mul(x, c) y = Div(m, six)", "HardSwish"},
      {"a = Add(three, x) c = Clip(a, nought, six) d = Div(c, six) y = Mul(x, d)", "HardSwish"},
      {"h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(h, x)", "HardSwish"},
      {"d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)", "Gelu"},
      {"d = Div(x, root) e = Erf(d) a = Add(one, e) m = Mul(x, half) y = Mul(m, a)", "Gelu"},
      {"d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(half, a) y = Mul(x, m)", "Gelu"},
      // As JAX exports it, as transformers with Pow do, and with the cube's factor in its midst.
      {"a = Mul(cube, x) b = Mul(x, a) c = Mul(x, b) s = Add(x, c) t = Mul(tan, s) h = Tanh(t)"
       " g = Add(one, h) m = Mul(half, g) y = Mul(x, m)",
       "Gelu"},
      {"p = Pow(x, three) c = Mul(cube, p) s = Add(x, c) t = Mul(s, tan) h = Tanh(t) g = Add(h, "
       "one)"
       " m = Mul(x, half) y = Mul(m, g)",
       "Gelu"},
      {"q = Pow(x, two) a = Mul(q, cube) c = Mul(a, x) s = Add(c, x) t = Mul(s, tan) h = Tanh(t)"
       " g = Add(h, one) m = Mul(x, g) y = Mul(m, half)",
       "Gelu"},
      {"q = Mul(x, x) c = Mul(cube, q) s = Add(x, c) t = Mul(tan, s) h = Tanh(t) g = Add(one, h)"
       " m = Mul(half, g) y = Mul(x, m)",
       ""},  // a square
      {"a = Mul(cube, x) b = Mul(x, a) c = Mul(z, b) s = Add(x, c) t = Mul(tan, s) h = Tanh(t)"
       " g = Add(one, h) m = Mul(half, g) y = Mul(x, m)",
       ""},  // of two values
      {"s = Sigmoid(x) y = Mul(z, s)", ""},
      {"a = Add(x, three) c = Clip(a, nought, three) m = Mul(x, c) y = Div(m, six)", ""},
      {"d = Div(x, three) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)", ""},
  };
  for (const auto& [body, name] : cases) {
    const std::string text =
        "g (float[3,4] x, float[3,4] z) => (float[3,4] y) {" + constants + body + " }";
    const std::vector<std::string> ops = Ops(Lowered(FromText(text)));
    if (name.empty()) {
      EXPECT_GT(ops.size(), 1u) << body;
    } else {
      EXPECT_EQ(ops, Names{name}) << body;
    }
    ExpectSameResults(text, 17, 1e-6);
  }
}

// Scales and shifts by one number each after an activation; what widens the result stays.
TEST(FuseConv, ScalesAfterAnActivation) {
  const std::string head = R"(g (float[1,2,4,4] x, float[4,2,1,1] w, float[1,4,4,4] z)
      => (float[1,4,4,4] y) {
    two = Constant<value = float[1] {2}>() half = Constant<value = float {-0.5}>()
    c = Conv(x, w) )";
  const auto fused = [&](const std::string& rest) {
    const std::string text = head + rest + " }";
    ExpectSameResults(text, 17, 1e-5);
    return Lowered(FromText(text));
  };
  // ((r 2 - 0.5) 2) + z
  const Graph all =
      fused("r = HardSwish(c) m = Mul(two, r) a = Add(m, half) n = Mul(a, two) y = Add(n, z)");
  EXPECT_EQ(OpCounts(all).count("Mul") + OpCounts(all).count("Add"), 0u);
  const Node* conv = FindNode(all, "FusedConv");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->attributes.Float("output_scale", 1), 4.0f);
  EXPECT_EQ(conv->attributes.Float("output_shift", 0), -1.0f);
  EXPECT_EQ(conv->attributes.Int("residual_last", 0), 1);
  // A clamp, which is done in registers.
  EXPECT_EQ(OpCounts(fused("r = Relu(c) m = Mul(r, two) y = Add(m, half)")).count("Mul"), 0u);
  // What was added after the activation is not scaled by what follows.
  EXPECT_EQ(OpCounts(fused("r = Relu(c) a = Add(r, z) y = Mul(a, two)")).at("Mul"), 1);
  const std::string wide = R"(g (float[1,2,4,4] x, float[4,2,1,1] w) => (float[1,1,4,4,4] y) {
    k = Constant<value = float[1,1,1,1,1] {2}>() c = Conv(x, w) r = Relu(c) y = Mul(r, k) })";
  EXPECT_EQ(OpCounts(Lowered(FromText(wide))).at("Mul"), 1);
  ExpectSameResults(wide, 17, 1e-5);
}

TEST(UseChannelsLast, MovesOnlyAtTheBorders) {
  // An image comes in as planes; pools, resizes, concatenations and sums stay inside; a Transpose
  // that asks for channels last gets them for nothing.
  const std::string text = R"(g (float[1,3,8,8] x, float[8,3,3,3] w, float[8,8,3,3] v,
                                 float[8,1,3,3] dw) => (float[1,4,4,16] y, float[1,8] z) {
    scales = Constant<value = float[4] {1, 1, 2, 2}>()
    a = Conv<pads = [1,1,1,1], strides = [2,2]>(x, w)
    b = Conv<pads = [1,1,1,1]>(a, v)
    c = Conv<pads = [1,1,1,1], group = 8>(b, dw)
    d = MaxPool<kernel_shape = [2,2], strides = [2,2]>(c)
    e = Resize<mode = "nearest", nearest_mode = "floor",
               coordinate_transformation_mode = "asymmetric">(d, , scales)
    f = Concat<axis = 1>(e, b)
    y = Transpose<perm = [0,2,3,1]>(f)
    g1 = GlobalAveragePool(b)
    z = Flatten(g1) })";
  const Graph g = Lowered(FromText(text));
  EXPECT_EQ(OpCounts(g).count("Transpose"), 0u);
  for (const Node& n : g.nodes) {
    if (n.op == "FusedConv") {
      EXPECT_EQ(n.attributes.Int("channels_last", 0), 1) << n.name;
    }
    if (n.op == "Concat") {
      EXPECT_EQ(n.attributes.Int("axis", 0), 3);
    }
  }
  EXPECT_EQ(OpCounts(g).at("PoolLast"), 1);
  ExpectSameResults(text, 17, 1e-5);
}

TEST(UseChannelsLast, GivesBackWhatOthersWant) {
  const std::string text = R"(g (float[2,3,5,7] x, float[8,3,1,1] w) => (float[2,280] y,
                                                                        float[2,8,5,7] a) {
    a = Conv(x, w)
    y = Flatten(a) })";
  const Graph g = Lowered(FromText(text));
  EXPECT_EQ(OpCounts(g).at("Transpose"), 1) << "both read the same";
  ExpectSameResults(text, 17, 1e-5);
}

// The evaluation graphs: every convolution is fused and none is left with channels first.
TEST(FuseConv, RealGraphs) {
  struct Real {
    const char* name;
    std::vector<int64_t> input;
    int convolutions, activations, residuals, transposes;
  };
  // yolov8n: six Transposes bring its six maps of boxes and classes to the heads. The pictures
  // are so small that nothing is made a chain.
  for (const Real& real : {Real{"yolov8n", {1, 3, 64, 64}, 63, 57, 6, 6},
                           Real{"mobilenetv2", {1, 3, 32, 32}, 52, 35, 10, 0}}) {
    const Model model =
        MustImport(ImportModelFile(std::string(PARALLAX_MODELS "/") + real.name + ".graph.onnx"));
    const Graph g = Lowered(model, real.input);
    int activations = 0, residuals = 0, last = 0;
    for (const Node& n : g.nodes) {
      if (n.op != "FusedConv") continue;
      activations += n.attributes.Has("activation");
      residuals += n.inputs.size() > 3 && n.inputs[3] != kNoValue;
      last += n.attributes.Int("channels_last", 0) != 0;
    }
    EXPECT_EQ(OpCounts(g).at("FusedConv"), real.convolutions) << real.name;
    EXPECT_EQ(last, real.convolutions) << real.name;
    EXPECT_EQ(activations, real.activations) << real.name;
    EXPECT_EQ(residuals, real.residuals) << real.name;
    const auto counts = OpCounts(g);
    const auto transposes = counts.find("Transpose");
    EXPECT_EQ(transposes == counts.end() ? 0 : transposes->second, real.transposes) << real.name;
  }
}

}  // namespace
}  // namespace parallax::passes
