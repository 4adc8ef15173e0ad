#include "tests/passes/lowered.h"

namespace parallax::passes {
namespace {

using namespace ::parallax::testing;  // NOLINT

// Two pictures of 16 channels by a convolution each, `a` and `b`, and what follows.
std::string TwoPictures(const std::string& rest, const std::string& outputs = "float[1,8,6,6] y") {
  return "g (float[1,16,6,6] x, float[16,16,1,1] u, float[16,16,3,3] v, float[8,32,1,1] w,"
         " float[8,32,3,3] t, float[8,16,3,3] s) => (" +
         outputs + R"() {
    a = Conv(x, u)  p = Conv<pads = [1,1,1,1]>(x, v)  b = Relu(p) )" +
         rest + " }";
}

int Count(const Graph& g, const std::string& op) {
  const auto counts = OpCounts(g);
  return counts.count(op) > 0 ? counts.at(op) : 0;
}
int WithSources(const Graph& g) {
  int n = 0;
  for (const Node& node : g.nodes) n += node.attributes.Has("source_first");
  return n;
}

TEST(JoinSources, ConcatBeforeAConvolution) {
  for (const char* conv : {"y = Conv(c, w)", "y = Conv<pads = [1,1,1,1]>(c, t)"}) {
    const std::string text = TwoPictures(std::string("c = Concat<axis = 1>(a, b) ") + conv);
    const Graph g = Lowered(FromText(text));
    EXPECT_EQ(Count(g, "Concat"), 0) << conv;
    EXPECT_EQ(WithSources(g), 1);
    ExpectSameResults(text, 17, 1e-4);
  }
}

// With a residual, an activation, and a stride.
TEST(JoinSources, KeepsTheRestOfTheNode) {
  const std::string text = TwoPictures(
      "c = Concat<axis = 1>(b, a) q = Conv(c, w) e = Conv<pads = [1,1,1,1]>(x, s)"
      " z = Add(q, e) y = Relu(z)");
  const Graph g = Lowered(FromText(text));
  EXPECT_EQ(Count(g, "Concat"), 0);
  EXPECT_EQ(Count(g, "Add"), 0);
  ExpectSameResults(text, 17, 1e-4);
  const std::string strided =
      TwoPictures("c = Concat<axis = 1>(b, a) y = Conv<pads = [1,1,1,1], strides = [2,2]>(c, t)",
                  "float[1,8,3,3] y");
  EXPECT_EQ(Count(Lowered(FromText(strided)), "Concat"), 0);
  ExpectSameResults(strided, 17, 1e-4);
}

TEST(JoinSources, OnePictureTwice) {
  const std::string text = TwoPictures("c = Concat<axis = 1>(a, a) y = Conv(c, w)");
  EXPECT_EQ(Count(Lowered(FromText(text)), "Concat"), 0);
  ExpectSameResults(text, 17, 1e-4);
}

// What a convolution reads of a Split is not copied; what others read is.
TEST(JoinSources, Split) {
  const std::string head = R"(g (float[1,16,6,6] x, float[32,16,1,1] u, float[16,16,3,3] v,
      float[8,48,1,1] w, float[16,16,1,1] r) => (float[1,8,6,6] y) {
    a = Conv(x, u) h, l = Split<axis = 1, num_outputs = 2>(a) )";
  // The block of YOLOv8, without and with the sum inside.
  const std::string plain =
      head + "m = Conv<pads = [1,1,1,1]>(l, v) c = Concat<axis = 1>(h, l, m) y = Conv(c, w) }";
  const Graph g = Lowered(FromText(plain, 18));
  EXPECT_EQ(Count(g, "Split") + Count(g, "Concat"), 0);
  EXPECT_EQ(WithSources(g), 2);
  ExpectSameResults(plain, 18, 1e-4);
  const std::string sum = head +
                          "k = Conv<pads = [1,1,1,1]>(l, v) m = Relu(k) n = Add(m, l)"
                          " c = Concat<axis = 1>(h, l, n) y = Conv(c, w) }";
  const Graph with_sum = Lowered(FromText(sum, 18));
  EXPECT_EQ(Count(with_sum, "Concat"), 0);
  const Node* split = FindNode(with_sum, "Split");
  ASSERT_NE(split, nullptr) << "the sum reads its second half";
  EXPECT_EQ(split->outputs[0], kNoValue);
  EXPECT_NE(split->outputs[1], kNoValue);
  ExpectSameResults(sum, 18, 1e-4);
}

TEST(JoinSources, LeavesWhatOthersRead) {
  const std::string two =
      TwoPictures("c = Concat<axis = 1>(a, b) y = Conv(c, w) z = Conv<pads = [1,1,1,1]>(c, t)",
                  "float[1,8,6,6] y, float[1,8,6,6] z");
  EXPECT_EQ(Count(Lowered(FromText(two)), "Concat"), 1);
  ExpectSameResults(two, 17, 1e-4);
  const std::string shown = TwoPictures("c = Concat<axis = 1>(a, b) y = Conv(c, w)",
                                        "float[1,8,6,6] y, float[1,32,6,6] c");
  EXPECT_EQ(Count(Lowered(FromText(shown)), "Concat"), 1);
  ExpectSameResults(shown, 17, 1e-4);
  const std::string rows = TwoPictures(
      "c = Concat<axis = 2>(a, b) y = Conv<pads = [1,1,1,1]>(c, s)", "float[1,8,12,6] y");
  EXPECT_EQ(Count(Lowered(FromText(rows)), "Concat"), 1);
  ExpectSameResults(rows, 17, 1e-4);
}

// Parts whose channels have too little in common, and more parts than a node takes.
TEST(JoinSources, LeavesWhatDoesNotPay) {
  const std::string few = R"(g (float[1,16,6,6] x, float[12,16,1,1] u, float[8,28,1,1] w)
      => (float[1,8,6,6] y) {
    a = Conv(x, u) p = Sigmoid(x) c = Concat<axis = 1>(a, p) y = Conv(c, w) })";
  EXPECT_EQ(Count(Lowered(FromText(few)), "Concat"), 1);
  ExpectSameResults(few, 17, 1e-4);
  for (const int parts : {16, 17}) {
    std::string list = "a";
    for (int i = 1; i < parts; ++i) list += i % 2 == 0 ? ", a" : ", b";
    const std::string text = R"(g (float[1,16,4,4] x, float[16,16,1,1] u, float[16,16,3,3] v,
        float[8,)" + std::to_string(16 * parts) +
                             R"(,1,1] w) => (float[1,8,4,4] y) {
      a = Conv(x, u) b = Conv<pads = [1,1,1,1]>(x, v) c = Concat<axis = 1>()" +
                             list + ") y = Conv(c, w) }";
    EXPECT_EQ(Count(Lowered(FromText(text)), "Concat"), parts > 16 ? 1 : 0);
    ExpectSameResults(text, 17, 1e-4);
  }
}

// YOLOv8n: thirteen of its nineteen Concats join channels for a convolution, the others join what the
// heads give. Four of its eight Splits feed a sum as well.
TEST(JoinSources, RealGraph) {
  const Model model =
      MustImport(ImportModelFile(std::string(PARALLAX_MODELS "/yolov8n.graph.onnx")));
  const Graph g = Lowered(model, {1, 3, 640, 640});
  EXPECT_EQ(Count(g, "Concat"), 6);
  EXPECT_EQ(Count(g, "Split"), 4);
  for (const Node& concat : g.nodes) {
    if (concat.op != "Concat") continue;
    for (const Node& n : g.nodes) {
      if (n.op != "FusedConv" && n.op != "FusedConvChain") continue;
      EXPECT_EQ(std::count(n.inputs.begin(), n.inputs.end(), concat.outputs[0]), 0) << n.name;
    }
  }
}

}  // namespace
}  // namespace parallax::passes
