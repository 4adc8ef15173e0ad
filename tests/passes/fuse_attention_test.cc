// Which graphs become FusedAttention, what it then says, and that results stay.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "onnx/import.h"
#include "passes/passes.h"
#include "runtime/session.h"
#include "tests/ops/runner/text_model.h"

namespace parallax::passes {
namespace {

using ::parallax::testing::ImportText;

Model Import(const std::string& body) {
  Result<Model> model = ImportText("<ir_version: 8, opset_import: [\"\" : 17]>\n" + body);
  EXPECT_TRUE(model.ok()) << model.error().message();
  return model.ok() ? std::move(*model) : Model();
}

Graph Lowered(const Graph& graph, std::span<const ops::InferInput> inputs,
              std::span<const ops::InferInput> captures = {}) {
  Graph lowered = graph.Clone();
  const Result<ops::Inference> known = ops::InferGraph(graph, inputs, captures);
  EXPECT_TRUE(known.ok()) << known.error().message();
  if (known.ok()) {
    const Result<void> done = Lower(&lowered, *known);
    EXPECT_TRUE(done.ok()) << done.error().message();
  }
  return lowered;
}

Graph Lowered(const std::string& body) {
  const Model m = Import(body);
  return Lowered(m.graph, ops::DeclaredInputs(m.graph));
}

std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& n : graph.nodes) ops.push_back(n.op);
  return ops;
}

int64_t Count(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& n) { return n.op == op; });
}

std::string Layouts(const Node& n) {
  std::string all;
  for (const char* name : {"q_layout", "k_layout", "v_layout", "y_layout"}) {
    all.append(n.attributes.String(name, "?")).append(" ");
  }
  return all;
}

std::vector<float> Run(const std::string& body, bool lower) {
  runtime::SessionOptions options;
  options.execution.lower = lower;
  Result<std::unique_ptr<runtime::Session>> session =
      runtime::Session::Create(Import(body), options);
  EXPECT_TRUE(session.ok());
  if (!session.ok()) return {};
  std::vector<Tensor> inputs;
  uint32_t seed = 1;
  for (ValueId v : (*session)->model().graph.inputs) {
    const Shape shape = *(*session)->model().graph.value(v).type.shape();
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (float& x : values) {  // [-1, 1)
      seed = seed * 1664525u + 1013904223u;
      x = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
    }
    inputs.push_back(*Tensor::From<float>(shape, values));
  }
  const Result<std::vector<Tensor>> outputs = (*session)->Run(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message();
  if (!outputs.ok()) return {};
  const Tensor& y = (*outputs)[0];
  return std::vector<float>(y.data<float>(), y.data<float>() + y.elements());
}

// Values are below 1, scores below 16 with sums of at most 16 products, and rows have at most 16
// keys: (2 * 16 * 24 + 2 * 16 + 16) u for each side.
void ExpectSameResults(const std::string& body) {
  const std::vector<float> want = Run(body, false), got = Run(body, true);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_LE(std::abs(want[i] - got[i]), 2 * 816 * 0x1p-24) << i;
  }
}

constexpr const char* kHeads = R"(g (float[2,5,3,8] q, float[2,6,3,8] k, float[2,6,3,4] v,
    float[2,1,1,6] m) => (float[2,5,12] y) {
  qt = Transpose<perm = [0,2,1,3]>(q)
  kt = Transpose<perm = [0,2,3,1]>(k)
  vt = Transpose<perm = [0,2,1,3]>(v)
  c = Constant<value = float {0.35}>()
  s = MatMul(qt, kt)  t = Mul(s, c)  u = Add(t, m)
  p = Softmax<axis = -1>(u)
  o = MatMul(p, vt)
  r = Transpose<perm = [0,2,1,3]>(o)
  d = Constant<value = int64[3] {2, 5, 12}>()
  y = Reshape(r, d) })";

TEST(FuseAttention, HeadsAndMask) {
  const Graph g = Lowered(kHeads);
  ASSERT_EQ(Ops(g), (std::vector<std::string>{"FusedAttention", "Reshape"}));
  EXPECT_EQ(Layouts(g.nodes[0]), "bshd bshd bshd bshd ");
  EXPECT_FLOAT_EQ(g.nodes[0].attributes.Float("scale", 0), 0.35f);
  EXPECT_EQ(g.nodes[0].inputs,
            (std::vector<ValueId>{g.inputs[0], g.inputs[1], g.inputs[2], g.inputs[3]}));
  ExpectSameResults(kHeads);
}

// The scale of Q before its heads are told apart, that of K behind, and rows of NaN made 0.
constexpr const char* kScaledOperands = R"(g (float[1,5,24] x, float[1,3,7,8] k, float[1,3,7,4] v,
    float[5,7] m) => (float[1,3,5,4] y) {
  c = Constant<value = float {0.5}>()
  xs = Mul(x, c)
  d = Constant<value = int64[4] {1, 5, 3, 8}>()
  q = Reshape(xs, d)  qt = Transpose<perm = [0,2,1,3]>(q)
  kt = Transpose<perm = [0,1,3,2]>(k)
  e = Constant<value = float {4.0}>()
  ks = Div(kt, e)
  s = MatMul(qt, ks)  l = Log(m)  u = Add(s, l)
  p = Softmax<axis = -1>(u)
  n = IsNaN(p)  z = Constant<value = float {0.0}>()
  w = Where(n, z, p)
  y = MatMul(w, v) })";

TEST(FuseAttention, ScaledOperandsAndRowsOfNaN) {
  const Graph g = Lowered(kScaledOperands);
  ASSERT_EQ(Ops(g), (std::vector<std::string>{"Reshape", "Log", "FusedAttention"}));
  const Node& n = g.nodes[2];
  EXPECT_EQ(Layouts(n), "bshd bhsd bhsd bhsd ");
  EXPECT_FLOAT_EQ(n.attributes.Float("scale", 0), 0.125f);
  EXPECT_EQ(n.attributes.Int("nan_rows_to_zero", 0), 1);
  EXPECT_EQ(g.nodes[0].inputs[0], g.inputs[0]);
  ExpectSameResults(kScaledOperands);
}

// Swin: parts of a joint projection, cosine attention, a factor and a bias for each head, and masks
// of the windows of which the batch has two sets.
constexpr const char* kWindows = R"(g (float[4,5,3,2,8] x) => (float[4,5,16] y) {
  t = Transpose<perm = [2,0,3,1,4]>(x)
  qp, kp, vp = Split<axis = 0>(t)
  zero = Constant<value = int64[1] {0}>()
  q = Squeeze(qp, zero)  k = Squeeze(kp, zero)  v = Squeeze(vp, zero)
  least = Constant<value = float {0.000001}>()
  qn = ReduceL2<axes = [-1], keepdims = 1>(q)  qc = Clip(qn, least)
  qd = Constant<value = int64[4] {4, 2, 5, 8}>()
  qe = Expand(qc, qd)  qq = Div(q, qe)
  kn = ReduceL2<axes = [-1], keepdims = 1>(k)  kc = Clip(kn, least)
  kk = Div(k, kc)  kt = Transpose<perm = [0,1,3,2]>(kk)
  s = MatMul(qq, kt)
  f = Constant<value = float[2,1,1] {3, 7}>()
  sf = Mul(s, f)
  b = Constant<value = float[1,2,1,5] {1,2,3,4,5,5,4,3,2,1}>()
  sb = Add(sf, b)
  cut = Constant<value = int64[5] {2, 2, 2, 5, 5}>()
  s5 = Reshape(sb, cut)
  m = Constant<value = float[1,2,1,1,5] {0,0,-100,0,0,-100,0,0,0,0}>()
  sm = Add(s5, m)
  joined = Constant<value = int64[4] {4, 2, 5, 5}>()
  s4 = Reshape(sm, joined)
  p = Softmax<axis = 3>(s4)
  o = MatMul(p, v)
  r = Transpose<perm = [0,2,1,3]>(o)
  d = Constant<value = int64[3] {4, 5, 16}>()
  y = Reshape(r, d) })";

TEST(FuseAttention, Windows) {
  const Graph g = Lowered(kWindows);
  ASSERT_EQ(Ops(g), (std::vector<std::string>{"FusedAttention", "Reshape"}));
  const Node& n = g.nodes[0];
  EXPECT_EQ(Layouts(n), "bsphd bsphd bsphd bshd ");
  EXPECT_EQ(n.attributes.Int("v_part", 0), 2);
  EXPECT_EQ(n.attributes.Int("normalize", 0), 1);
  EXPECT_EQ(n.inputs.size(), 6u);
  EXPECT_EQ(*g.value(n.inputs[3]).type.shape(), (Shape{2, 1, 1, 5}));  // met first: the windows
  ExpectSameResults(kWindows);
}

constexpr const char* kParts = R"(g (float[1,6,3,2,4] x) => (float[1,2,6,4] y) {
  t = Transpose<perm = [2,0,3,1,4]>(x)
  i = Constant<value = int64 {0}>()  j = Constant<value = int64 {1}>()
  q = Gather<axis = 0>(t, i)  k = Gather<axis = 0>(t, j)
  b = Constant<value = int64[1] {-1}>()  e = Constant<value = int64[1] {100}>()
  z = Constant<value = int64[1] {0}>()
  vp = Slice(t, b, e, z)  v = Squeeze(vp, z)
  kt = Transpose<perm = [0,1,3,2]>(k)
  s = MatMul(q, kt)
  p = Softmax<axis = -1>(s)
  y = MatMul(p, v) })";

TEST(FuseAttention, PartsByGatherAndSlice) {
  const Graph g = Lowered(kParts);
  ASSERT_EQ(Ops(g), std::vector<std::string>{"FusedAttention"});
  EXPECT_EQ(Layouts(g.nodes[0]), "bsphd bsphd bsphd bhsd ");
  EXPECT_EQ(g.nodes[0].attributes.Int("k_part", 0), 1);
  EXPECT_EQ(g.nodes[0].attributes.Int("v_part", 0), 2);
  ExpectSameResults(kParts);
}

// The scores of some keys replaced, of others than a bias is added to.
constexpr const char* kChosen = R"(g (float[2,3,5,8] q, float[2,3,8,6] k, float[2,3,6,4] v,
    float[2,1,1,6] m, float[5,6] b) => (float[2,3,5,4] y) {
  s = MatMul(q, k)
  a = Add(s, b)
  z = Constant<value = float {0.5}>()  least = Constant<value = float {-3.4e38}>()
  keep = Less(m, z)
  w = Where(keep, a, least)
  p = Softmax<axis = -1>(w)
  y = MatMul(p, v) })";

TEST(FuseAttention, ChosenScores) {
  const Graph g = Lowered(kChosen);
  ASSERT_EQ(Ops(g), (std::vector<std::string>{"Less", "Where", "FusedAttention"}));
  EXPECT_EQ(*g.value(g.nodes[1].outputs[0]).type.shape(), (Shape{2, 1, 1, 6}));
  ExpectSameResults(kChosen);
}

// An operand that is an output too is read where it is written.
TEST(FuseAttention, OutputsStay) {
  const Graph g = Lowered(R"(g (float[1,5,2,8] q, float[1,6,2,8] v) =>
      (float[1,2,5,8] y, float[1,2,6,8] vt) {
    qt = Transpose<perm = [0,2,1,3]>(q)
    vt = Transpose<perm = [0,2,1,3]>(v)
    kt = Transpose<perm = [0,1,3,2]>(vt)
    s = MatMul(qt, kt)
    p = Softmax<axis = -1>(s)
    y = MatMul(p, vt) })");
  ASSERT_EQ(Ops(g), (std::vector<std::string>{"Transpose", "FusedAttention"}));
  EXPECT_EQ(Layouts(g.nodes[1]), "bshd bshd bhsd bhsd ");
}

TEST(FuseAttention, LeavesWhatIsNone) {
  const auto untouched = [](const std::string& middle, const std::string& outputs = "") {
    const Graph g = Lowered(
        "g (float[1,2,5,8] q, float[1,2,8,5] k, float[1,2,5,4] v, float[5,5] m)"
        " => (float[1,2,5,4] y" +
        outputs +
        ") { c = Constant<value = float {2.0}>() "
        "s = MatMul(q, k) " +
        middle + " y = MatMul(p, v) }");
    return Count(g, "FusedAttention") == 0 && Count(g, "MatMul") + Count(g, "FusedMatMul") == 2;
  };
  EXPECT_FALSE(untouched("p = Softmax<axis = -1>(s)"));
  EXPECT_TRUE(untouched("p = Softmax<axis = 2>(s)"));
  EXPECT_TRUE(untouched("p = Softmax<axis = -1>(s)", ", float[1,2,5,5] p"));
  EXPECT_TRUE(untouched("p = Softmax<axis = -1>(s)", ", float[1,2,5,5] s"));
  EXPECT_TRUE(untouched("z = Less(m, c) t = Where(z, s, c) p = Softmax<axis = -1>(t)"));
  // The mask is scaled too.
  EXPECT_TRUE(untouched("a = Add(s, m) t = Mul(a, c) p = Softmax<axis = -1>(t)"));
  EXPECT_TRUE(untouched("a = Add(s, m) b = Add(a, m) t = Add(b, m) p = Softmax<axis = -1>(t)"));
  EXPECT_TRUE(untouched("t = Div(c, s) p = Softmax<axis = -1>(t)"));
  EXPECT_TRUE(untouched("t = Mul(s, m) p = Softmax<axis = -1>(t)"));
  EXPECT_TRUE(untouched("t = Tanh(s) p = Softmax<axis = -1>(t)"));
}

// The real graphs at the shapes that they are timed with.
struct Real {
  const char* name;
  std::vector<std::pair<const char*, Shape>> inputs;
  int64_t attentions;
  int64_t transposes;  // that are left at most; -1: any number
};

TEST(FuseAttention, RealGraphs) {
  const std::vector<Real> graphs = {
      {"distilbert", {{"input_ids", {1, 128}}, {"attention_mask", {1, 128}}}, 6, 0},
      {"clip_text", {{"input_ids", {1, 77}}, {"attention_mask", {1, 77}}}, 12, 0},
      {"whisper_tiny_encoder", {{"input_features", {1, 80, 3000}}}, 4, 1},
      {"swinv2_tiny", {{"input", {1, 3, 256, 256}}}, 12, 23},  // cutting windows and joining them
      {"ppocr_rec", {{"x", {1, 3, 48, 320}}}, 2, -1},
  };
  int found = 0;
  for (const Real& real : graphs) {
    const std::string path = std::string(PARALLAX_MODELS_DIR "/") + real.name + ".onnx";
    if (!std::filesystem::exists(path)) continue;
    ++found;
    Result<Model> model = onnx_import::ImportFile(path, {});
    ASSERT_TRUE(model.ok()) << model.error().message();
    ASSERT_TRUE(Optimize(&*model).ok());
    std::vector<ops::InferInput> inputs = ops::DeclaredInputs(model->graph);
    for (const auto& [name, shape] : real.inputs) {
      const int i = model->graph.FindInput(name);
      ASSERT_GE(i, 0) << name;
      TensorType& type = inputs[static_cast<size_t>(i)].type;
      type = TensorType::Of(type.dtype, shape);
    }
    const Graph g = Lowered(model->graph, inputs);
    EXPECT_EQ(Count(g, "FusedAttention"), real.attentions) << real.name;
    if (real.transposes >= 0) {
      EXPECT_LE(Count(g, "Transpose"), real.transposes) << real.name;
    }
  }
  if (found == 0) GTEST_SKIP() << "no models in " PARALLAX_MODELS_DIR;
}

// Both sides of the decoder's If: self and cross attention, of a prompt and of one more token.
TEST(FuseAttention, RealBodies) {
  const std::string path = PARALLAX_MODELS_DIR "/whisper_tiny_decoder_merged.onnx";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  Result<Model> model = onnx_import::ImportFile(path, {});
  ASSERT_TRUE(model.ok()) << model.error().message();
  ASSERT_TRUE(Optimize(&*model).ok());
  const Graph& graph = model->graph;
  std::vector<ops::InferInput> inputs = ops::DeclaredInputs(graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = graph.value(graph.inputs[i]).name;
    TensorType& type = inputs[i].type;
    const bool past = name.starts_with("past"), self = name.find(".decoder.") != std::string::npos;
    if (past) type = TensorType::Of(type.dtype, Shape{1, 6, self ? 9 : 1500, 64});
    if (name == "input_ids") type = TensorType::Of(type.dtype, Shape{1, 4});
    if (name == "encoder_hidden_states") type = TensorType::Of(type.dtype, Shape{1, 1500, 384});
  }
  const Result<ops::Inference> known = ops::InferGraph(graph, inputs);
  ASSERT_TRUE(known.ok()) << known.error().message();
  int bodies = 0;
  for (const Node& n : graph.nodes) {
    size_t at = static_cast<size_t>(n.explicit_inputs);
    for (const Subgraph& s : n.subgraphs) {
      std::vector<ops::InferInput> captures;
      for (size_t i = 0; i < s.graph->captures.size(); ++i, ++at) {
        const size_t v = static_cast<size_t>(n.inputs[at]);
        const Tensor& constant = known->constants[v];
        captures.push_back({known->types[v], constant.defined() ? &constant : nullptr, nullptr});
      }
      const Graph g = Lowered(*s.graph, {}, captures);
      EXPECT_EQ(Count(g, "FusedAttention"), 8) << s.attribute;
      EXPECT_EQ(Count(g, "Softmax"), 0) << s.attribute;
      ++bodies;
    }
  }
  EXPECT_EQ(bodies, 2);
}

}  // namespace
}  // namespace parallax::passes
