#include "tests/passes/lowered.h"

namespace parallax::passes {
namespace {

using namespace ::parallax::testing;  // NOLINT

using Names = std::vector<std::string>;

TEST(SimplifyMoves, ViewsOfViews) {
  const std::string text = R"(g (float[2,3,4] x) => (float[4,6] y, float[2,3,4] z) {
    a = Constant<value = int64[1] {0}>()
    s = Constant<value = int64[2] {4, 6}>()
    t = Constant<value = int64[3] {2, 3, 4}>()
    u = Unsqueeze(x, a)  f = Flatten<axis = 2>(u)  r = Reshape(f, s)  q = Squeeze(u, a)
    y = Neg(r)  b = Reshape(r, t)  z = Mul(b, q) })";
  const Graph g = Lowered(FromText(text));
  EXPECT_EQ(Ops(g), (Names{"Reshape", "Neg", "Mul"}));
  EXPECT_EQ(FindNode(g, "Mul")->inputs, (std::vector<ValueId>{g.inputs[0], g.inputs[0]}));
  ExpectSameResults(text, 17, 0);
}

TEST(SimplifyMoves, Transposes) {
  const std::string text = R"(g (float[2,3,4] x) => (float[4,2,3] y, float[2,3,4] z) {
    a = Transpose<perm = [1, 2, 0]>(x)  b = Transpose<perm = [1, 2, 0]>(a)
    c = Transpose<perm = [1, 2, 0]>(b)  y = Neg(b)  z = Neg(c) })";
  const Graph g = Lowered(FromText(text));
  EXPECT_EQ(Ops(g), (Names{"Transpose", "Neg", "Neg"}));
  EXPECT_EQ(g.nodes[2].inputs[0], g.inputs[0]);
  ExpectSameResults(text, 17, 0);
}

TEST(SimplifyMoves, TransposeOfExtentsOfOne) {
  const std::string text = R"(g (float[1,1,6,4] x) => (float[6,1,4] y, float[1,1,6,4] z) {
    a = Constant<value = int64[1] {3}>()
    t = Transpose<perm = [0, 2, 3, 1]>(x)  s = Squeeze(t, a)
    q = Transpose<perm = [1, 0, 2]>(s)  y = Neg(q)
    w = Transpose<perm = [1, 0, 2, 3]>(x)  z = Neg(w) })";
  const Graph g = Lowered(FromText(text));
  EXPECT_EQ(Ops(g), (Names{"Reshape", "Neg", "Neg"}));
  ExpectSameResults(text, 17, 0);
}

TEST(SimplifyMoves, MovesOfNothing) {
  const std::string text = R"(g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
    none = Constant<value = int64[4] {0, 0, 0, 0}>()
    zero = Constant<value = int64[1] {0}>()
    last = Constant<value = int64[1] {-1}>()
    many = Constant<value = int64[1] {99}>()
    less = Constant<value = int64[1] {-99}>()
    axis = Constant<value = int64[1] {1}>()
    shape = Constant<value = int64[2] {2, 1}>()
    a = Pad(x, none)  b = Slice(a, zero, many, axis)  c = Expand(b, shape)  d = Concat<axis = 0>(c)
    y = Neg(d)
    flipped = Slice(x, last, less, axis, last)  z = Neg(flipped) })";
  EXPECT_EQ(Ops(Lowered(FromText(text))), (Names{"Neg", "Slice", "Neg"}));
  ExpectSameResults(text, 17, 0);
}

TEST(SimplifyMoves, ExpandBeforeBroadcasting) {
  const std::string text = R"(g (float[2,3] x, float[2,1] n) => (float[2,3] y, float[2,3] z) {
    shape = Constant<value = int64[2] {2, 3}>()
    e = Expand(n, shape)  y = Div(x, e)  z = Mul(e, e) })";
  EXPECT_EQ(Ops(Lowered(FromText(text))), (Names{"Expand", "Div", "Mul"}));
  ExpectSameResults(text, 17, 0);
}

// Bounds that only a run knows may be wrong: the node stays, to say so.
TEST(SimplifyMoves, LeavesWhatARunDecides) {
  EXPECT_EQ(Ops(Lowered(FromText(R"(g (float x, int64[1] s, int64[1] e) => (float y) {
    a = Slice(x, s, e)  y = Neg(a) })"))),
            (Names{"Slice", "Neg"}));
}

// An output keeps its name when it is another value, an input even.
TEST(SimplifyMoves, Outputs) {
  const std::string text = R"(g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
    a = Transpose(x)  y = Transpose(a)  n = Neg(x)  b = Transpose(n)  z = Transpose(b) })";
  const Graph g = Lowered(FromText(text));
  EXPECT_EQ(Ops(g), Names{"Neg"});
  EXPECT_EQ(g.outputs[0], g.inputs[0]);
  EXPECT_EQ(g.output_names, (std::vector<std::string>{"y", "z"}));
  ExpectSameResults(text, 17, 0);
}

// What shifted windows leave behind when nothing is shifted, and normalisation spelled with Expand.
TEST(SimplifyMoves, SwinTransformer) {
  const Graph g = Lowered(MustImport(ImportModelFile(PARALLAX_MODELS "/swinv2_tiny.graph.onnx")));
  std::map<std::string, int> counts = OpCounts(g);
  EXPECT_EQ(counts["Pad"], 0);
  EXPECT_EQ(counts["Expand"], 0);
  EXPECT_LT(counts["Reshape"], 110);  // of 136
}

}  // namespace
}  // namespace parallax::passes
