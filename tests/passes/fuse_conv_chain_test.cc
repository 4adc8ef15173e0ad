#include "tests/passes/lowered.h"

namespace parallax::passes {
namespace {

using namespace ::parallax::testing;  // NOLINT

// A block of a mobile network on a picture of `size` x `size`; `rest` makes y from p.
std::string Block(int size, const std::string& rest, const std::string& outputs = "") {
  const std::string side = std::to_string(size);
  return "g (float[1,8," + side + "," + side + "] x, float[24,8,1,1] w, float[24,1,3,3] v," +
         " float[8,24,1,1] u) => (float[1,8," + side + "," + side + "] y" + outputs + R"() {
    e = Conv(x, w)  r = Relu(e)
    d = Conv<pads = [1,1,1,1], group = 24>(r, v)  s = Relu(d)
    p = Conv(s, u) )" +
         rest + " }";
}

TEST(FuseConvChain, Block) {
  const std::string text = Block(64, "q = Add(p, x)  y = Relu(q)");
  const Graph g = Lowered(FromText(text));
  const Node* chain = FindNode(g, "FusedConvChain");
  ASSERT_NE(chain, nullptr);
  EXPECT_EQ(OpCounts(g).count("FusedConv"), 0u);
  EXPECT_EQ(chain->inputs.size(), 8u);
  ExpectSameResults(text, 17, 1e-5);
}

// Two stages each way.
TEST(FuseConvChain, Pairs) {
  const char* expand = R"(g (float[1,8,64,64] x, float[24,8,1,1] w, float[24,1,3,3] v)
      => (float[1,24,32,32] y) { e = Conv(x, w)  r = Relu(e)
      y = Conv<pads = [1,1,1,1], strides = [2,2], group = 24>(r, v) })";
  EXPECT_EQ(OpCounts(Lowered(FromText(expand))).at("FusedConvChain"), 1);
  ExpectSameResults(expand, 17, 1e-5);
  const char* project = R"(g (float[1,24,64,64] x, float[24,1,3,3] v, float[8,24,1,1] u)
      => (float[1,8,64,64] y) { d = Conv<pads = [1,1,1,1], group = 24>(x, v)  y = Conv(d, u) })";
  EXPECT_EQ(OpCounts(Lowered(FromText(project))).at("FusedConvChain"), 1);
  ExpectSameResults(project, 17, 1e-5);
}

TEST(FuseConvChain, LeavesWhatOthersReadAndWhatIsSmall) {
  const Graph shown = Lowered(FromText(Block(64, "y = Relu(p)", ", float[1,24,64,64] s")));
  EXPECT_EQ(OpCounts(shown).at("FusedConvChain"), 1);  // the first two
  EXPECT_EQ(OpCounts(shown).at("FusedConv"), 1);
  const Graph small = Lowered(FromText(Block(16, "y = Relu(p)")));
  EXPECT_EQ(OpCounts(small).count("FusedConvChain"), 0u);
  EXPECT_EQ(OpCounts(small).at("FusedConv"), 3);
}

// MobileNetV2's first seven blocks: six of three stages, one of two.
TEST(FuseConvChain, RealGraph) {
  const Model model =
      MustImport(ImportModelFile(std::string(PARALLAX_MODELS "/mobilenetv2.graph.onnx")));
  const Graph g = Lowered(model, {1, 3, 224, 224});
  EXPECT_EQ(OpCounts(g).at("FusedConvChain"), 7);
  EXPECT_EQ(OpCounts(g).at("FusedConv"), 52 - 6 * 3 - 2);
}

}  // namespace
}  // namespace parallax::passes
