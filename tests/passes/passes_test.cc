#include "passes/passes.h"

#include <gtest/gtest.h>

#include "tests/ops/runner/text_model.h"

namespace parallax::passes {
namespace {

using ::parallax::testing::ImportText;

Model Optimized(const std::string& body) {
  Result<Model> model =
      ImportText("<ir_version: 8, opset_import: [\"\" : 17]>\n" + body);  // runs all passes
  EXPECT_TRUE(model.ok()) << model.error().message();
  return model.ok() ? std::move(*model) : Model();
}

std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& n : graph.nodes) ops.push_back(n.op);
  return ops;
}

TEST(FoldConstants, ChainsOfConstants) {
  const Model m = Optimized(R"(g (float[2] x) => (float[2] y) {
    a = Constant<value = float[2] {1, 2}>()
    b = Add(a, a)  c = Mul(b, b)  y = Add(x, c) })");
  ASSERT_EQ(Ops(m.graph), std::vector<std::string>{"Add"});
  const Tensor& c = m.graph.value(m.graph.nodes[0].inputs[1]).constant;
  EXPECT_EQ(c.data<float>()[1], 16.0f);
}

TEST(FoldConstants, ShapeOfAStaticInput) {
  const Model m = Optimized(R"(g (float[2,3] x) => (float[3,2] y) {
    s = Shape(x)
    i = Constant<value = int64[2] {1, 0}>()
    r = Gather(s, i)
    y = Reshape(x, r) })");
  EXPECT_EQ(Ops(m.graph), std::vector<std::string>{"Reshape"});
}

// A large result of small inputs stays a node: folding it would only cost memory.
TEST(FoldConstants, LeavesLargeResults) {
  const Model m = Optimized(R"(g (float x) => (float[2048,2048] y) {
    s = Constant<value = int64[2] {2048, 2048}>()
    c = ConstantOfShape(s)
    y = Add(c, x) })");
  EXPECT_EQ(Ops(m.graph), (std::vector<std::string>{"ConstantOfShape", "Add"}));
}

TEST(FoldConstants, IntoBodies) {
  const Model m = Optimized(R"(g (bool[1] c, float[2] x) => (float[2] y) {
    a = Constant<value = float[2] {1, 2}>()
    b = Add(a, a)
    y = If (c) <
      then_branch = t () => (float[2] r) { d = Mul(b, b)  r = Add(x, d) },
      else_branch = e () => (float[2] s) { s = Neg(x) }
    > })");
  ASSERT_EQ(Ops(m.graph), std::vector<std::string>{"If"});
  const Graph* then_branch = m.graph.nodes[0].Body("then_branch");
  EXPECT_EQ(Ops(*then_branch), std::vector<std::string>{"Add"});
  EXPECT_EQ(then_branch->captures.size(), 1u);  // only x is left
  EXPECT_EQ(m.graph.nodes[0].inputs.size(), 3u);
}

// In a body too, whose types no inference has written down.
TEST(FoldConstants, LeavesLargeResultsInBodies) {
  const Model m = Optimized(R"(g (bool[1] c) => (float y) {
    y = If (c) <
      then_branch = t () => (float r) {
        s = Constant<value = int64[1] {1073741824}>()
        o = ConstantOfShape(s)
        r = ReduceSum<keepdims = 0>(o) },
      else_branch = e () => (float z) { z = Constant<value = float {1.0}>() }
    > })");
  ASSERT_EQ(Ops(m.graph), std::vector<std::string>{"If"});
  EXPECT_EQ(Ops(*m.graph.nodes[0].Body("then_branch")),
            (std::vector<std::string>{"ConstantOfShape", "ReduceSum"}));
}

TEST(DeadCode, DropsWhatNobodyReads) {
  const Model m = Optimized(R"(g (float[2] x) => (float[2] y) {
    a = Neg(x)  b = Exp(a)  c = Log(b)  y = Relu(x) })");
  EXPECT_EQ(Ops(m.graph), std::vector<std::string>{"Relu"});
  EXPECT_EQ(m.graph.values.size(), 2u);
}

TEST(RemoveIdentities, KeepsOutputNames) {
  const Model m = Optimized(R"(g (float[2] x) => (float[2] y, float[2] z) {
    a = Identity(x)  b = Neg(a)  y = Identity(b)  d = Dropout(x)  z = Identity(d) })");
  EXPECT_EQ(Ops(m.graph), std::vector<std::string>{"Neg"});
  EXPECT_EQ(m.graph.output_names, (std::vector<std::string>{"y", "z"}));
  EXPECT_EQ(m.graph.outputs[1], m.graph.inputs[0]);
}

}  // namespace
}  // namespace parallax::passes
