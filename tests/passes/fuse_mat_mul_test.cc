#include "tests/passes/lowered.h"

namespace parallax::passes {
namespace {

using namespace ::parallax::testing;  // NOLINT

using Names = std::vector<std::string>;

const char kFirstOrder[] = R"(g (float[3,4] x, float[3,2] r) => (float[3,2] y) {
  w = Constant<value = float[4,2] {1, 2, 3, 4, 5, 6, 7, 8}>()
  b = Constant<value = float[2] {0.5, -0.5}>()
  p = MatMul(x, w)  s = Add(b, p)  a = Sigmoid(s)  y = Add(r, a) })";

TEST(FuseMatMul, BiasActivationResidual) {
  const Graph g = Lowered(FromText(kFirstOrder));
  ASSERT_EQ(Ops(g), Names{"FusedMatMul"});
  EXPECT_EQ(g.nodes[0].inputs.size(), 4u);
  EXPECT_EQ(g.nodes[0].attributes.String("activation", ""), "Sigmoid");
  EXPECT_EQ(g.nodes[0].attributes.Int("residual_last", 0), 1);
  ExpectSameResults(kFirstOrder);
}

TEST(FuseMatMul, BiasResidualActivation) {
  const std::string text = R"(g (float[2,3,4] x, float[2,3,2] r) => (float[2,3,2] y) {
    w = Constant<value = float[4,2] {1, 2, 3, 4, 5, 6, 7, 8}>()
    b = Constant<value = float[1,1,2] {0.5, -0.5}>()
    p = MatMul(x, w)  s = Add(p, b)  t = Add(s, r)  y = Relu(t) })";
  const Graph g = Lowered(FromText(text));
  ASSERT_EQ(Ops(g), Names{"FusedMatMul"});
  EXPECT_EQ(g.nodes[0].attributes.Int("residual_last", 0), 0);
  ExpectSameResults(text);
}

// Attention's scaling, on either side of the product, with a dynamic right side.
TEST(FuseMatMul, ScalarsBecomeAlpha) {
  const std::string text = R"(g (float[2,3,4] x, float[2,4,3] z) => (float[2,3,3] y) {
    eight = Constant<value = float {8.0}>()
    half = Constant<value = float {0.5}>()
    t = Constant<value = float[1] {0.25}>()
    a = Mul(x, half)  b = Mul(t, z)  p = MatMul(a, b)  y = Div(p, eight) })";
  const Graph g = Lowered(FromText(text));
  ASSERT_EQ(Ops(g), Names{"FusedMatMul"});
  EXPECT_EQ(g.nodes[0].attributes.Float("alpha", 1), 0.015625f);
  EXPECT_EQ(g.nodes[0].inputs, g.inputs);
  ExpectSameResults(text, 17, 0);  // powers of two: the same bits
}

TEST(FuseMatMul, ScaledBias) {
  const std::string text = R"(g (float[3,4] x) => (float[3,2] y) {
    w = Constant<value = float[4,2] {1, 2, 3, 4, 5, 6, 7, 8}>()
    b = Constant<value = float[2] {0.5, -0.5}>()
    s = Constant<value = float {0.3}>()
    p = MatMul(x, w)  q = Add(p, b)  y = Mul(q, s) })";
  EXPECT_EQ(Ops(Lowered(FromText(text))), Names{"FusedMatMul"});
  ExpectSameResults(text);
}

TEST(FuseMatMul, Gemm) {
  const std::string text = R"(g (float[4,3] x, float[2,4] w, float[3,2] c) => (float[3,2] y) {
    p = Gemm<transA = 1, transB = 1, alpha = 0.5>(x, w, c)  y = Tanh(p) })";
  const Graph g = Lowered(FromText(text));
  ASSERT_EQ(Ops(g), Names{"FusedMatMul"});
  EXPECT_EQ(g.nodes[0].inputs[3], g.inputs[2]);  // a whole matrix is a residual
  ExpectSameResults(text);
}

// A second reader, an output, another shape, a beta: each keeps its part outside.
TEST(FuseMatMul, LeavesWhatOthersRead) {
  EXPECT_EQ(Ops(Lowered(FromText(R"(g (float[3,4] x, float[4,2] w) => (float[3,2] y, float[3,2] p) {
    p = MatMul(x, w)  y = Relu(p) })"))),
            (Names{"MatMul", "Relu"}));
  EXPECT_EQ(Ops(Lowered(FromText(R"(g (float[3,4] x, float[4,2] w) => (float[3,2] y) {
    p = MatMul(x, w)  a = Neg(p)  y = Add(p, a) })"))),
            (Names{"MatMul", "Neg", "Add"}));
  EXPECT_EQ(Ops(Lowered(FromText(R"(g (float[3,4] x, float[4,2] w, float[3,1] c) => (float[3,2] y) {
    p = MatMul(x, w)  y = Add(p, c) })"))),
            (Names{"MatMul", "Add"}));
  EXPECT_EQ(Ops(Lowered(FromText(R"(g (float[3,4] x, float[4,2] w, float[2] c) => (float[3,2] y) {
    p = Gemm<beta = 2.0>(x, w, c)  y = Relu(p) })"))),
            (Names{"Gemm", "Relu"}));
}

// Every linear layer of a transformer takes its bias in, and two of three what follows.
TEST(FuseMatMul, WhisperEncoder) {
  const Model model =
      MustImport(ImportModelFile(PARALLAX_MODELS "/whisper_tiny_encoder.graph.onnx"));
  const Graph g = Lowered(model);
  int biased = 0, activated = 0, residual = 0;
  for (const Node& n : g.nodes) {
    if (n.op != "FusedMatMul") continue;
    biased += n.inputs.size() > 2 && n.inputs[2] != kNoValue;
    residual += n.inputs.size() > 3;
    activated += n.attributes.String("activation", "") == "Gelu";
  }
  EXPECT_EQ(biased, 20);    // 4 layers of q, v, out, fc1, fc2; k has none
  EXPECT_EQ(activated, 4);  // fc1
  EXPECT_EQ(residual, 8);   // out, fc2
}

}  // namespace
}  // namespace parallax::passes
