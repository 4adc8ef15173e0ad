#include "plan/cost.h"

#include <gtest/gtest.h>

#include "tests/ops/runner/text_model.h"

namespace parallax::plan {
namespace {

using ::parallax::testing::ImportText;

// The cost at declared shapes; `known` are values of the first inputs.
GraphCost Cost(const std::string& body, const std::vector<int64_t>& known = {}) {
  Result<Model> model = ImportText("<ir_version: 8, opset_import: [\"\" : 17]>\n" + body);
  EXPECT_TRUE(model.ok()) << model.error().message();
  if (!model.ok()) return {};
  std::vector<ops::InferInput> inputs = ops::DeclaredInputs(model->graph);
  std::vector<Dims> values;
  for (int64_t v : known) values.push_back({Dim(v)});
  for (size_t i = 0; i < values.size(); ++i) inputs[i].dim_values = &values[i];
  Result<GraphCost> cost = CostOf(model->graph, inputs);
  EXPECT_TRUE(cost.ok()) << cost.error().message();
  return cost.ok() ? *cost : GraphCost();
}

// A body of one product of 10 x 10 matrices: 2000 FLOPs a trip.
std::string Loop(const std::string& inputs, const std::string& given, const std::string& condition,
                 const std::string& before = "") {
  return "g (" + inputs + ", float[10,10] x) => (float[10,10] y) {" + before + " y = Loop (" +
         given + R"(, x) <body = b (int64 i, bool c, float[10,10] a) => (bool d, float[10,10] r) {
           )" +
         condition + "  r = MatMul(a, a) }> }";
}

TEST(CostOf, KnownTripsCountEachTime) {
  const std::string m = "m = Constant<value = int64 {7}>()";
  GraphCost c = Cost(Loop("bool c0", "m, c0", "d = Identity(c)", m));
  EXPECT_EQ(c.flops, 14000);
  EXPECT_EQ(c.flops_by_op.at("MatMul"), 14000);
  EXPECT_EQ(c.open_loops, 0);
  c = Cost(Loop("int64 m", "m, ", "d = Constant<value = bool {1}>()"), {100});
  EXPECT_EQ(c.flops, 200000);
  EXPECT_EQ(c.open_loops, 0);
  c = Cost(Loop("int64 m", "m, ", "d = Identity(c)"), {0});
  EXPECT_EQ(c.flops, 0);
  EXPECT_EQ(c.open_loops, 0);
}

TEST(CostOf, OpenTripsCountOnceAndAreSaid) {
  GraphCost c = Cost(Loop("int64 m, bool c0", "m, c0", "d = Identity(c)"));
  EXPECT_EQ(c.flops, 2000);
  EXPECT_EQ(c.open_loops, 1);
  // A condition of the body may end the loop before its trip count: 2^63 - 1 means "while".
  const std::string m = "m = Constant<value = int64 {9223372036854775807}>()";
  c = Cost(Loop("bool c0", "m, c0", "ten = Constant<value = int64 {10}>() d = Less(i, ten)", m));
  EXPECT_EQ(c.flops_by_op.at("MatMul"), 2000);
  EXPECT_EQ(c.open_loops, 1);
}

// A carried value that grows has no shape that holds for every trip.
TEST(CostOf, GrowingLoopIsNotGuessed) {
  const GraphCost c = Cost(R"(g (float[2] x) => (float[n] y) {
    m = Constant<value = int64 {5}>()
    y = Loop (m, , x) <body = b (int64 i, bool c, float[k] a) => (bool d, float[l] r) {
      d = Identity(c)  r = Concat<axis = 0>(a, a) }> })");
  EXPECT_EQ(c.unknown_nodes, 1);
}

TEST(CostOf, IfCountsItsCostlierSideAndSaysSo) {
  const GraphCost c = Cost(R"(g (bool c, float[10,10] x) => (float[p,q] y) {
    y = If (c) <then_branch = t () => (float[10,10] u) { u = MatMul(x, x) },
                else_branch = e () => (float[10,10] v) { v = Add(x, x) }> })");
  EXPECT_EQ(c.flops, 2000);
  EXPECT_EQ(c.open_ifs, 1);
}

TEST(CostOf, KnownConditionCountsTheSideTaken) {
  for (const int taken : {0, 1}) {
    const GraphCost c = Cost("g (float[10,10] x) => (float[p,q] y) { c = Constant<value = bool {" +
                             std::to_string(taken) + R"(}>()  y = If (c) <
        then_branch = t () => (float[10,10] u) { u = MatMul(x, x) },
        else_branch = e () => (float[10,10] v) { v = Add(x, x) }> })");
    EXPECT_EQ(c.flops, taken ? 2000 : 100);
    EXPECT_EQ(c.open_ifs, 0);
  }
}

// Exporters guard an operator by an If on the very shapes it fails for.
TEST(CostOf, ASideThatCannotBeInferredIsNotCounted) {
  const GraphCost c = Cost(R"(g (bool c, float[10,10] x, float[3] z) => (float[p,q] y) {
    y = If (c) <then_branch = t () => (float[10,10] u) { u = MatMul(x, x) },
                else_branch = e () => (float[p,q] v) { v = MatMul(x, z) }> })");
  EXPECT_EQ(c.flops, 2000);
  EXPECT_EQ(c.open_ifs, 1);
}

}  // namespace
}  // namespace parallax::plan
