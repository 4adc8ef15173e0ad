#include <filesystem>

#include "tests/passes/lowered.h"

namespace parallax::passes {
namespace {

using namespace ::parallax::testing;  // NOLINT

using Names = std::vector<std::string>;

TEST(NameLayerNorm, PowSqrtDivScaleBias) {
  const std::string text = R"(g (float[2,3,8] x, float[8] scale, float[1,1,8] bias)
                               => (float[2,3,8] y) {
    two = Constant<value = float {2.0}>()
    epsilon = Constant<value = float {0.001}>()
    m = ReduceMean<axes = [-1]>(x)  d = Sub(x, m)  p = Pow(d, two)
    v = ReduceMean<axes = [-1]>(p)  e = Add(v, epsilon)  s = Sqrt(e)
    n = Div(d, s)  a = Mul(scale, n)  y = Add(a, bias) })";
  const Graph g = Lowered(FromText(text));
  ASSERT_EQ(Ops(g), Names{"LayerNormalization"});
  EXPECT_EQ(g.nodes[0].inputs, g.inputs);
  EXPECT_EQ(g.nodes[0].attributes.Float("epsilon", 0), 0.001f);
  ExpectSameResults(text);
}

// Other spellings: two axes, axes as an input, squares by Mul, the inverse root; no scale.
TEST(NameLayerNorm, OtherSpellings) {
  const std::string two_axes = R"(g (float[2,3,8] x, float[3,8] bias) => (float[2,3,8] y) {
    epsilon = Constant<value = float {0.001}>()
    axes = Constant<value = int64[2] {1, 2}>()
    m = ReduceMean(x, axes)  d = Sub(x, m)  p = Mul(d, d)
    v = ReduceMean(p, axes)  e = Add(epsilon, v)  s = Sqrt(e)  i = Reciprocal(s)
    n = Mul(i, d)  y = Add(n, bias) })";
  EXPECT_EQ(Ops(Lowered(FromText(two_axes, 18))), Names{"LayerNormalization"});
  ExpectSameResults(two_axes, 18);
  const std::string power = R"(g (float[2,8] x) => (float[2,8] y) {
    epsilon = Constant<value = float {0.001}>()
    half = Constant<value = float {-0.5}>()
    m = ReduceMean<axes = [1]>(x)  d = Sub(x, m)  p = Mul(d, d)
    v = ReduceMean<axes = [1]>(p)  e = Add(v, epsilon)  i = Pow(e, half)  y = Mul(d, i) })";
  EXPECT_EQ(Ops(Lowered(FromText(power))), Names{"LayerNormalization"});
  ExpectSameResults(power);
}

// Means over the first axis, over different axes, an inner value that is an output, a factor that
// is no parameter.
TEST(NameLayerNorm, LeavesWhatIsSomethingElse) {
  const auto counts = [](const std::string& outputs, int first, int second) {
    const std::string text = "g (float[8,8] x) => (" + outputs + R"() {
      epsilon = Constant<value = float {0.001}>()
      m = ReduceMean<axes = [)" +
                             std::to_string(first) + R"(]>(x)  d = Sub(x, m)  p = Mul(d, d)
      v = ReduceMean<axes = [)" +
                             std::to_string(second) + R"(]>(p)  e = Add(v, epsilon)
      s = Sqrt(e)  y = Div(d, s) })";
    return OpCounts(Lowered(FromText(text)))["LayerNormalization"];
  };
  EXPECT_EQ(counts("float[8,8] y", 1, 1), 1);
  EXPECT_EQ(counts("float[8,8] y", 0, 0), 0);
  EXPECT_EQ(counts("float[8,8] y", 1, 0), 0);
  EXPECT_EQ(counts("float[8,8] y, float[8,8] d", 1, 1), 0);
  const std::string rows = R"(g (float[8,8] x, float[8,1] f) => (float[8,8] y) {
    epsilon = Constant<value = float {0.001}>()
    m = ReduceMean<axes = [1]>(x)  d = Sub(x, m)  p = Mul(d, d)
    v = ReduceMean<axes = [1]>(p)  e = Add(v, epsilon)  s = Sqrt(e)
    n = Div(d, s)  y = Mul(n, f) })";
  EXPECT_EQ(Ops(Lowered(FromText(rows))), (Names{"LayerNormalization", "Mul"}));
  ExpectSameResults(rows);
}

TEST(NameLayerNorm, TextRecognition) {
  const std::string path = PARALLAX_MODELS "/generated/ppocr_rec.onnx";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "run ./dev models";
  Model model = MustImport(ImportModelFile(path));
  Graph g = Lowered(model, {1, 3, 48, 320});
  EXPECT_EQ(OpCounts(g)["LayerNormalization"], 5);
  EXPECT_EQ(OpCounts(g)["Sqrt"], 0);
  for (const Node& n : g.nodes) {
    if (n.op != "LayerNormalization") continue;
    EXPECT_EQ(n.inputs.size(), 3u);  // scale and bias taken in
  }
}

}  // namespace
}  // namespace parallax::passes
