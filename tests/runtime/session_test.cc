// Graphs that runtimes are known to get wrong, and what a caller may do to a session.
#include "runtime/session.h"

#include <cmath>
#include <thread>

#include <gtest/gtest.h>

#include "tests/ops/runner/compare.h"
#include "tests/ops/runner/failing_allocator.h"
#include "tests/ops/runner/text_model.h"

namespace parallax::runtime {
namespace {

using ::parallax::testing::FailingAllocator;
using ::parallax::testing::ImportText;
using ::parallax::testing::SameBits;

std::string Text(const std::string& body, int opset = 17) {
  return "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + body;
}

std::unique_ptr<Session> Load(const std::string& text, const SessionOptions& options = {}) {
  Result<Model> model = ImportText(text);
  EXPECT_TRUE(model.ok()) << model.error().message();
  if (!model.ok()) return nullptr;
  Result<std::unique_ptr<Session>> session = Session::Create(std::move(*model), options);
  EXPECT_TRUE(session.ok());
  return session.ok() ? std::move(*session) : nullptr;
}

template <class T = float>
Tensor Make(const Shape& shape, std::type_identity_t<std::initializer_list<T>> values) {
  Result<Tensor> t = Tensor::From<T>(shape, {values.begin(), values.size()});
  EXPECT_TRUE(t.ok());
  return *t;
}
Tensor Make(const Shape& shape, const std::vector<float>& values) {
  Result<Tensor> t = Tensor::From<float>(shape, values);
  EXPECT_TRUE(t.ok());
  return *t;
}

template <class T = float>
std::vector<T> Values(const Tensor& t) {
  return std::vector<T>(t.data<T>(), t.data<T>() + t.elements());
}

std::vector<Tensor> MustRun(Session* session, std::vector<Tensor> inputs) {
  Result<std::vector<Tensor>> outputs = session->Run(inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message();
  return outputs.ok() ? *outputs : std::vector<Tensor>();
}

// Subnormal weights cost a hundred times as much as others, and are taken as 0, unless that is unwanted.
TEST(Session, SubnormalWeights) {
  const std::string text = Text(R"(g (float[2,2] x) => (float[2,2] y)
    <float[2,2] a = {1e-20, 2.0, 3.0, -1e-20}, float[2,2] b = {1e-19, 1.0, 1.0, 1e-20}> {
    w = Mul(a, b)  y = MatMul(x, w) })");
  const Tensor x = Make({2, 2}, {1e30f, 0.0f, 0.0f, 1e30f});
  const float kept = 1e30f * (1e-20f * 1e-19f), other = 1e30f * (-1e-20f * 1e-20f);
  EXPECT_EQ(Values(MustRun(Load(text).get(), {x})[0]),
            (std::vector<float>{0.0f, 2 * 1e30f, 3 * 1e30f, 0.0f}));
  EXPECT_EQ(Values(MustRun(Load(text, {.execution = {.precise = true}}).get(), {x})[0]),
            (std::vector<float>{kept, 2 * 1e30f, 3 * 1e30f, other}));
}

// Two readers of one value: neither may write over it.
TEST(Session, InPlaceWithASecondReader) {
  auto session = Load(Text(R"(g (float[4] x) => (float[8] y) {
    a = Add(x, x)  b = Relu(a)  c = Neg(a)  y = Concat<axis = 0>(b, c) })"));
  for (int i = 0; i < 100; ++i) {
    const auto y = MustRun(session.get(), {Make(Shape{4}, {1, -2, 3, -4})});
    EXPECT_EQ(Values(y[0]), (std::vector<float>{2, 0, 6, 0, -2, 4, -6, 8}));
  }
}

// Several views of one value, read on different paths.
TEST(Session, ViewsKeepTheirRootAlive) {
  auto session = Load(Text(R"(g (float[2,3] x) => (float[3,2] y) {
    two = Constant<value = float {2.0}>()
    s6 = Constant<value = int64[1] {6}>()
    s32 = Constant<value = int64[2] {3, 2}>()
    d = Div(x, two)  r1 = Reshape(d, s6)  r2 = Reshape(d, s32)
    n = Relu(r1)  m = Neg(n)  a3 = Exp(m)  a4 = Reshape(a3, s32)
    b1 = Neg(r2)  p = Add(a4, b1)  y = Add(p, r2) })",
                           13));
  const auto y = MustRun(session.get(), {Make(Shape{2, 3}, {2, -4, 6, -8, 10, -12})});
  const std::vector<float> want = {0.3678794f, 1, 0.0497870f, 1, 0.0067379f, 1};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(Values(y[0])[i], want[i], 1e-6f);
}

// Every view finds its root at once, however many lie between.
TEST(Session, LongChainOfViews) {
  constexpr int kViews = 50'000;
  std::string body =
      "g (float[2,3] x) => (float[2,3] y) {\ns = Constant<value = int64[2] {2, 3}>()\n";
  for (int i = 0; i < kViews; ++i) {
    body += fmt::format("v{} = Reshape({}, s)\n", i, i == 0 ? "x" : fmt::format("v{}", i - 1));
  }
  auto session = Load(Text(fmt::format("{}y = Neg(v{}) }}", body, kViews - 1)));
  const auto y = MustRun(session.get(), {Make(Shape{2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(Values(y[0]), (std::vector<float>{-1, -2, -3, -4, -5, -6}));
}

TEST(Session, ViewsOfViews) {
  auto session = Load(Text(R"(g (float[4] x) => (float[4] y) {
    two = Constant<value = float {2.0}>()
    zero = Constant<value = float {0.0}>()
    axis = Constant<value = int64[1] {0}>()
    d = Mul(x, two)  u = Unsqueeze(d, axis)  v = Squeeze(u, axis)
    k1 = Neg(x) k2 = Neg(k1) k3 = Neg(k2) k4 = Neg(k3) k5 = Neg(k4) k6 = Neg(k5)
    z = Add(k6, v)  t = Exp(d)  t2 = Mul(t, zero)  y = Add(z, t2) })"));
  const auto y = MustRun(session.get(), {Make(Shape{4}, {1, 2, 3, 4})});
  EXPECT_EQ(Values(y[0]), (std::vector<float>{3, 6, 9, 12}));
}

// What is wrong in a branch is wrong only when the branch is taken.
TEST(Session, ErrorInABranchNotTaken) {
  auto session = Load(Text(R"(g (bool c) => (int64[1] y) {
    y = If (c) <
      then_branch = t () => (int64[1] a) {
        d = Constant<value = int64[2] {1, 2}>()
        i = Constant<value = int64[1] {9}>()
        a = Gather(d, i) },
      else_branch = e () => (int64[1] b) { b = Constant<value = int64[1] {1}>() }
    > })"));
  ASSERT_NE(session, nullptr);
  const auto y = MustRun(session.get(), {Make<bool>(Shape{}, {false})});
  EXPECT_EQ(Values<int64_t>(y[0]), std::vector<int64_t>{1});
  Result<std::vector<Tensor>> taken = session->Run({{Make<bool>(Shape{}, {true})}});
  ASSERT_FALSE(taken.ok());
  EXPECT_NE(taken.error().message().find("index 9"), std::string::npos) << taken.error().message();
}

// Each level changes a carried shape, so that its types settle in the second round. Were the rounds
// of the levels to multiply, this would not end.
TEST(Session, DeeplyNestedLoops) {
  constexpr int kLevels = 25;
  std::string body, end;
  for (int i = 0; i < kLevels; ++i) {
    const std::string outer = i == 0 ? "y" : fmt::format("r{}", i - 1);
    body += fmt::format(
        "{0} = Loop (m, c, k) <body = b{1} (int64 i{1}, bool p{1}, float[n{1}] v{1}) => "
        "(bool q{1}, float[w{1}] o{1}) {{ q{1} = Identity(p{1}) w{1} = Concat<axis = 0>(v{1}, "
        "v{1})\n",
        outer, i);
    const std::string inner = i + 1 == kLevels ? "Neg(w" : "Concat<axis = 0>(r";
    end = fmt::format("o{} = {}{}{}) }} >\n", i, inner, i,
                      i + 1 == kLevels ? "" : fmt::format(", w{}", i)) +
          end;
  }
  auto session =
      Load(Text("g (int64 m, bool c, float[2] k) => (float[z] y) {\n" + body + end + "}"));
  ASSERT_NE(session, nullptr);
  const Tensor none = Make<int64_t>(Shape{}, {0}), k = Make(Shape{2}, {1, 2});
  const auto y = MustRun(session.get(), {none, Make<bool>(Shape{}, {true}), k});
  EXPECT_EQ(Values(y[0]), (std::vector<float>{1, 2}));
}

// A view whose shape is known says nothing of what it looks at: that arrives with the run.
TEST(Session, ViewOfAnUnknownCount) {
  auto session = Load(Text(R"(g (bool[6] x) => (int64[2,2] y) {
    shape = Constant<value = int64[2] {2, 2}>()
    n = NonZero(x)  y = Reshape(n, shape) })"));
  const auto y = MustRun(session.get(), {Make<bool>(Shape{6}, {0, 1, 0, 1, 1, 1})});
  EXPECT_EQ(Values<int64_t>(y[0]), (std::vector<int64_t>{1, 3, 4, 5}));
  const Tensor few = Make<bool>(Shape{6}, {0, 0, 0, 0, 0, 1});
  Result<std::vector<Tensor>> wrong = session->Run({{few}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find("cannot reshape"), std::string::npos)
      << wrong.error().message();
}

// Values that could be dimensions, of a type that dimensions never have, in a sum too large to be
// folded.
TEST(Session, ManySmallBytesAreNotDimensions) {
  std::string body =
      "g (float[1] x) => (uint8[400000] y, float[1] z) {\n  z = Neg(x)\n"
      "n = Constant<value = int64[1] {4000}>()\n";
  std::string names;
  for (int i = 0; i < 100; ++i) {
    body += fmt::format("c{} = ConstantOfShape<value = uint8[1] {{{}}}>(n)\n", i, i);
    names += fmt::format("{}c{}", i == 0 ? "" : ", ", i);
  }
  body += fmt::format("y = Concat<axis = 0>({}) }}", names);
  auto session = Load(Text(body));
  const auto y = MustRun(session.get(), {Make(Shape{1}, {1})});
  const std::vector<uint8_t> bytes = Values<uint8_t>(y[0]);
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], i / 4000);
}

// An output nobody reads still needs its own memory while it is written.
TEST(Session, UnreadOutput) {
  auto session = Load(Text(R"(g (float[4] x) => (float[2] y) {
    k = Constant<value = int64[1] {2}>()
    values, indices = TopK(x, k)
    c = Cast<to = 1>(indices)
    y = Add(c, c) })"));
  const auto y = MustRun(session.get(), {Make(Shape{4}, {1, 9, 3, 7})});
  EXPECT_EQ(Values(y[0]), (std::vector<float>{2, 6}));
}

// Outputs are the caller's: feeding one back must not be overwritten by the next run.
TEST(Session, OutputsFedBack) {
  auto session = Load(Text(R"(g (float[1] x, float[1] h) => (float[1] h1, float[1] y) {
    h1 = Add(h, x)  y = Mul(h1, h1) })"));
  Tensor h = Make(Shape{1}, {0});
  const Tensor x = Make(Shape{1}, {1});
  std::vector<Tensor> kept;
  for (float step : {1.0f, 2.0f, 3.0f}) {
    const auto out = MustRun(session.get(), {x, h});
    EXPECT_EQ(Values(out[0])[0], step);
    EXPECT_EQ(Values(out[1])[0], step * step);
    h = out[0];
    kept.push_back(h);
  }
  EXPECT_EQ(Values(kept[0])[0], 1.0f);
}

TEST(Session, OutputsThatAreInputsAndConstants) {
  auto session = Load(Text(R"(g (float x) => (float v, float x, float w) {
    v = Constant<value = float {0.0}>()
    w = Identity(v) })"));
  const auto out = MustRun(session.get(), {Make(Shape{}, {2.3f})});
  EXPECT_EQ(Values(out[0])[0], 0.0f);
  EXPECT_EQ(Values(out[1])[0], 2.3f);
  EXPECT_EQ(Values(out[2])[0], 0.0f);
  EXPECT_EQ(session->model().graph.output_names, (std::vector<std::string>{"v", "x", "w"}));
}

TEST(Session, AViewAsOutput) {
  auto session = Load(Text(R"(g (float[2,3] x) => (float[6] y, float[2,3] z) {
    s = Constant<value = int64[1] {6}>()
    a = Neg(x)  y = Reshape(a, s)  z = Relu(a) })"));
  const auto out = MustRun(session.get(), {Make(Shape{2, 3}, {1, 2, 3, -4, -5, -6})});
  EXPECT_EQ(Values(out[0]), (std::vector<float>{-1, -2, -3, 4, 5, 6}));
  EXPECT_EQ(Values(out[1]), (std::vector<float>{0, 0, 0, 4, 5, 6}));
}

// Extents that only a run can tell, and what follows from them.
TEST(Session, DataDependentShapes) {
  auto session = Load(Text(R"(g (float[N] x) => (int64[1,K] nz, float[K] picked, float[M] twice) {
    nz = NonZero(x)
    axis = Constant<value = int64[1] {0}>()
    i = Squeeze(nz, axis)
    picked = Gather<axis = 0>(x, i)
    s = Add(picked, picked)
    twice = Concat<axis = 0>(s, picked) })"));
  for (const std::vector<float>& x :
       {std::vector<float>{0, 5, 0, 7}, std::vector<float>{1, 2, 3, 4},
        std::vector<float>{0, 0, 0, 0}}) {
    const auto out = MustRun(session.get(), {Make(Shape{4}, x)});
    std::vector<float> want;
    for (float v : x) {
      if (v != 0) want.push_back(v);
    }
    EXPECT_EQ(Values(out[1]), want);
    std::vector<float> doubled;
    for (float v : want) doubled.push_back(2 * v);
    doubled.insert(doubled.end(), want.begin(), want.end());
    EXPECT_EQ(Values(out[2]), doubled);
    EXPECT_EQ(out[0].shape().ToString(), Shape({1, static_cast<int64_t>(want.size())}).ToString());
  }
}

// Shapes that arithmetic on symbolic extents makes: static once the input is there.
TEST(Session, SymbolicShapes) {
  auto session = Load(Text(R"(g (float[batch,seq,6] x) => (float[batch,seq,2,3] y) {
    s = Shape(x)
    zero = Constant<value = int64 {0}>()
    one = Constant<value = int64 {1}>()
    axis = Constant<value = int64[1] {0}>()
    tail = Constant<value = int64[2] {2, 3}>()
    b = Gather(s, zero)  n = Gather(s, one)
    bu = Unsqueeze(b, axis)  nu = Unsqueeze(n, axis)
    shape = Concat<axis = 0>(bu, nu, tail)
    y = Reshape(x, shape) })"));
  EXPECT_EQ(ToString(session->model().graph.value(session->model().graph.outputs[0]).type,
                     session->model().symbols),
            "f32[batch,seq,2,3]");
  for (int64_t b : {1, 3}) {
    std::vector<float> values(static_cast<size_t>(b * 5 * 6), 1.0f);
    const auto out = MustRun(session.get(), {Make(Shape{b, 5, 6}, values)});
    EXPECT_EQ(out[0].shape().ToString(), Shape({b, 5, 2, 3}).ToString());
  }
}

TEST(Session, WrongInputs) {
  auto session = Load(Text(R"(g (float[batch,3] x, int64[2] i) => (float[batch,3] y) {
    f = Cast<to = 1>(i)  s = ReduceSum<keepdims = 0>(f)  y = Add(x, s) })"));
  const Tensor x = Make(Shape{2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor i = Make<int64_t>(Shape{2}, {1, 2});
  const auto message = [&](std::vector<Tensor> inputs) {
    Result<std::vector<Tensor>> r = session->Run(inputs);
    EXPECT_FALSE(r.ok());
    if (r.ok()) return std::string();
    EXPECT_EQ(r.error().code(), ErrorCode::kInvalidArgument);
    return r.error().message();
  };
  EXPECT_EQ(message({x}), "the model takes 2 inputs, 1 are given");
  EXPECT_EQ(message({x, Tensor()}), "input 'i' (i64[2]) is missing");
  EXPECT_EQ(message({i, i}), "input 'x': wanted f32[batch,3], found i64[2]");
  EXPECT_EQ(message({Make(Shape{2, 4}, std::vector<float>(8)), i}),
            "input 'x': wanted f32[batch,3], found f32[2,4]");
  EXPECT_EQ(message({Make(Shape{3}, {1, 2, 3}), i}),
            "input 'x': wanted f32[batch,3], found f32[3]");
  // The session still works.
  EXPECT_EQ(Values(MustRun(session.get(), {x, i})[0])[0], 4.0f);
}

// What only data can show is reported with the node, and harms nothing.
TEST(Session, RunTimeErrorsNameTheNode) {
  auto session = Load(Text(R"(g (float[3] x, int64[1] i) => (float[1] y) {
    y = Gather<axis = 0>(x, i) })"));
  const Tensor x = Make(Shape{3}, {1, 2, 3});
  std::vector<Tensor> bad = {x, Make<int64_t>(Shape{1}, {3})};
  Result<std::vector<Tensor>> r = session->Run(bad);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message().find("'y' (Gather): index 3"), std::string::npos)
      << r.error().message();
  EXPECT_EQ(Values(MustRun(session.get(), {x, Make<int64_t>(Shape{1}, {-1})})[0])[0], 3.0f);
}

// However a node is run (kernel, view, bound only when shapes are known, body), its name stands in
// the message once.
TEST(Session, ErrorsNameTheNodeOnce) {
  const auto message = [](const std::string& text, std::vector<Tensor> inputs) {
    auto session = Load(Text(text));
    Result<std::vector<Tensor>> r = session->Run(inputs);
    EXPECT_FALSE(r.ok());
    return r.ok() ? "" : r.error().message();
  };
  const Tensor x = Make(Shape{3}, {1, 2, 3}), two = Make<int64_t>(Shape{1}, {2});
  EXPECT_EQ(
      message(R"(g (float[3] x, int64[1] s) => (float[n] y) { y = Reshape(x, s) })", {x, two}),
      "node producing 'y' (Reshape): cannot reshape [3] (3 elements) to [2] (2)");
  EXPECT_EQ(message(R"(g (float[3] x, int64[1] s) => (float[n] y) { y = Expand(x, s) })", {x, two}),
            "node producing 'y' (Expand): shapes [3] and [2] do not broadcast");
  EXPECT_EQ(message(R"(g (float[3] x, int64[1] i, bool[1] c) => (float[1] y) {
              y = If (c) <then_branch = t () => (float[1] u) { u = Gather(x, i) },
                          else_branch = e () => (float[1] v) { v = Gather(x, i) }> })",
                    {x, Make<int64_t>(Shape{1}, {9}), Make<bool>(Shape{1}, {true})}),
            "node producing 'y' (If): node producing 'u' (Gather): index 9 (at position 0) is "
            "outside an axis of 3");
}

constexpr const char* kMixed = R"(g (float[N,8] x) => (float[N,8] y, int64[2,K] nz) {
    w = Constant<value = float[8,8] {
      1,2,3,4,5,6,7,8, 2,3,4,5,6,7,8,1, 3,4,5,6,7,8,1,2, 4,5,6,7,8,1,2,3,
      5,6,7,8,1,2,3,4, 6,7,8,1,2,3,4,5, 7,8,1,2,3,4,5,6, 8,1,2,3,4,5,6,7}>()
    a = MatMul(x, w)  b = Softmax<axis = 1>(a)  c = Tanh(a)  d = Mul(b, c)
    e = Transpose<perm = [1, 0]>(d)  f = Transpose<perm = [1, 0]>(e)  y = Add(f, x)
    r = Relu(x)  nz = NonZero(r) })";

std::vector<float> Ramp(int64_t rows) {
  std::vector<float> v;
  for (int64_t i = 0; i < rows * 8; ++i)
    v.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 0.7)));
  return v;
}

TEST(Session, SameBitsForEveryThreadCountAndRun) {
  const Tensor x = Make(Shape{50, 8}, Ramp(50));
  std::vector<Tensor> base;
  for (int threads : {1, 2, 3, 7}) {
    auto session = Load(Text(kMixed), {.threads = threads});
    for (int run = 0; run < 3; ++run) {
      const auto out = MustRun(session.get(), {x});
      if (base.empty()) base = out;
      for (size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(SameBits(out[i], base[i]));
    }
  }
}

TEST(Session, ChangingShapesStayRight) {
  auto session = Load(Text(kMixed));
  for (int64_t rows : {50, 3, 1, 50, 7, 9, 11, 13, 15, 17, 19, 3, 50, 0}) {
    auto fresh = Load(Text(kMixed));
    const Tensor x = Make(Shape{rows, 8}, Ramp(rows));
    const auto a = MustRun(session.get(), {x}), b = MustRun(fresh.get(), {x});
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(SameBits(a[i], b[i])) << rows;
  }
}

TEST(Session, ManyCallers) {
  auto session = Load(Text(kMixed), {.threads = 2});
  const auto want = MustRun(session.get(), {Make(Shape{20, 8}, Ramp(20))});
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        std::vector<Tensor> inputs = {Make(Shape{20, 8}, Ramp(20))};
        Result<std::vector<Tensor>> out = session->Run(inputs);
        if (!out.ok() || !SameBits((*out)[0], want[0])) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

// Every allocation fails in turn: a clean error, nothing leaked, and the session recovers.
TEST(Session, EveryFailedAllocation) {
  const Tensor x = Make(Shape{6, 8}, Ramp(6));
  for (int64_t n = 0;; ++n) {
    FailingAllocator allocator(n);
    bool done = false;
    {
      auto session = Load(Text(kMixed), {.allocator = &allocator});
      std::vector<Tensor> inputs = {x};
      Result<std::vector<Tensor>> out = session->Run(inputs);
      done = out.ok();
      if (!done) {
        EXPECT_EQ(out.error().code(), ErrorCode::kOutOfMemory) << out.error().message();
      }
    }
    EXPECT_EQ(allocator.live(), 0) << n;
    if (done) break;
    ASSERT_LT(n, 200);
  }
}

// The caller's memory is read only: run on a copy and compare.
TEST(Session, InputsAreNeverWritten) {
  auto session = Load(Text(R"(g (float[4] x) => (float[4] y) {
    a = Relu(x)  b = Neg(a)  y = Add(b, x) })"));
  const Tensor x = Make(Shape{4}, {1, -2, 3, -4});
  const Tensor copy = Make(Shape{4}, {1, -2, 3, -4});
  MustRun(session.get(), {x});
  EXPECT_TRUE(SameBits(x, copy));
}

// A body that reads values of two enclosing graphs, and hands one on.
TEST(Session, NestedIf) {
  auto session = Load(Text(R"(g (bool[1] p, bool[1] q, float[2] x) => (float[2] y) {
    a = Neg(x)
    y = If (p) <
      then_branch = t () => (float[2] r) {
        m = Mul(a, a)
        r = If (q) <
          then_branch = tt () => (float[2] u) { u = Add(m, x) },
          else_branch = te () => (float[2] m) { }
        >
      },
      else_branch = e () => (float[2] a) { }
    > })"));
  const auto run = [&](bool p, bool q) {
    return Values(MustRun(session.get(), {Make<bool>(Shape{1}, {p}), Make<bool>(Shape{1}, {q}),
                                          Make(Shape{2}, {2, -3})})[0]);
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(true, true), (std::vector<float>{6, 6}));
    EXPECT_EQ(run(true, false), (std::vector<float>{4, 9}));
    EXPECT_EQ(run(false, true), (std::vector<float>{-2, 3}));
  }
}

}  // namespace
}  // namespace parallax::runtime
