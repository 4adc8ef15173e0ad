// Random graphs compute the same with and without lowering: what a pass takes for its pattern may stand
// in any surroundings.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/passes/lowered.h"

namespace parallax::passes {
namespace {

// Writes a graph of convolutions, products and what stands between them, as text.
class Writer {
 public:
  explicit Writer(uint32_t seed) : random_(seed) {}

  std::string Write() {
    const std::vector<int64_t> x = {Pick(1, 2), Pick(1, 6), Pick(1, 8), Pick(1, 8)};
    values_.push_back({"x", x});
    if (Chance(3)) values_.push_back({"z", x});
    const size_t inputs = values_.size();
    for (int64_t steps = Pick(2, 12); steps > 0; --steps) Step();
    if (values_.size() == inputs) Unary(values_[0]);
    std::string outputs = Type(values_.back());
    if (Chance(3)) {  // something in the middle
      const Entry& middle = values_[static_cast<size_t>(
          Pick(static_cast<int64_t>(inputs), static_cast<int64_t>(values_.size()) - 1))];
      if (middle.name != values_.back().name) outputs += ", " + Type(middle);
    }
    std::string text = "g (" + Type(values_[0]);
    if (inputs > 1) text += ", " + Type(values_[1]);
    text += fmt::format(") => ({})", outputs);
    if (!constants_.empty()) text += fmt::format(" <{}>", fmt::join(constants_, ", "));
    return text + " {\n" + body_ + "}";
  }

 private:
  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
  };

  int64_t Pick(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  bool Chance(int64_t of) { return Pick(1, of) == 1; }
  Entry Any() {
    return values_[static_cast<size_t>(Pick(0, static_cast<int64_t>(values_.size()) - 1))];
  }
  // Most often the newest: chains are what passes look for.
  Entry Recent() { return Chance(3) ? Any() : values_.back(); }

  static std::string Type(const Entry& e) {
    return fmt::format("float[{}] {}", fmt::join(e.shape, ","), e.name);
  }
  std::string Constant(const std::vector<int64_t>& shape, double size) {
    int64_t elements = 1;
    for (int64_t d : shape) elements *= d;
    std::vector<std::string> numbers;
    std::normal_distribution<double> normal(0, size);
    for (int64_t i = 0; i < elements; ++i)
      numbers.push_back(fmt::format("{:.4f}", normal(random_)));
    const std::string name = fmt::format("c{}", constants_.size());
    constants_.push_back(fmt::format("float[{}] {} = {{{}}}", fmt::join(shape, ","), name,
                                     fmt::join(numbers, ", ")));
    return name;
  }
  Entry Make(const std::string& expression, std::vector<int64_t> shape) {
    Entry e{fmt::format("v{}", made_++), std::move(shape)};
    body_ += fmt::format("  {} = {}\n", e.name, expression);
    values_.push_back(e);
    return e;
  }

  void Step() {
    const Entry v = Recent();
    if (v.shape.size() != 4) return Flat(v);
    switch (Pick(0, 11)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Conv(v);
      case 4:
        return Unary(v);
      case 5: {  // SiLU, as it is exported
        const Entry s = Make(fmt::format("Sigmoid({})", v.name), v.shape);
        Make(fmt::format("Mul({}, {})", v.name, s.name), v.shape);
        return;
      }
      case 6:
      case 7:
        return Binary(v);
      case 8:
        Make(fmt::format("GlobalAveragePool({})", v.name), {v.shape[0], v.shape[1], 1, 1});
        return;
      case 9:
        return Join(v);
      case 10: {
        const Entry t = Make(fmt::format("Transpose<perm = [0, 2, 3, 1]>({})", v.name),
                             {v.shape[0], v.shape[2], v.shape[3], v.shape[1]});
        Make(fmt::format("Transpose<perm = [0, 3, 1, 2]>({})", t.name), v.shape);
        return;
      }
      default:
        Make(fmt::format("Flatten({})", v.name),
             {v.shape[0], v.shape[1] * v.shape[2] * v.shape[3]});
    }
  }

  void Conv(const Entry& v) {
    const int64_t channels = v.shape[1], stride = Pick(1, 2), kernel = Chance(2) ? 1 : 3;
    std::vector<int64_t> out = {v.shape[0], Pick(1, 8), (v.shape[2] + stride - 1) / stride,
                                (v.shape[3] + stride - 1) / stride};
    std::string weights;
    int64_t groups = 1;
    if (Chance(8)) {  // computed ones
      for (const Entry& w : values_) {
        if (w.shape.size() == 4 && w.shape[1] == channels) weights = w.name, out[1] = w.shape[0];
      }
    }
    if (weights.empty()) {
      if (Chance(3)) groups = out[1] = channels;
      weights = Constant({out[1], channels / groups, kernel, kernel}, 0.4);
    }
    const std::string bias = Chance(2) ? ", " + Constant({out[1]}, 0.5) : "";
    Make(fmt::format("Conv<auto_pad = \"SAME_UPPER\", strides = [{}, {}], group = {}>({}, {}{})",
                     stride, stride, groups, v.name, weights, bias),
         out);
  }

  void Unary(const Entry& v) {
    static constexpr const char* kOps[] = {"Relu", "Sigmoid", "Tanh", "HardSwish", "Neg", "Abs"};
    Make(fmt::format("{}({})", kOps[Pick(0, 5)], v.name), v.shape);
  }

  // With itself, another value, one that spreads over it, or a constant; either way round.
  void Binary(const Entry& v) {
    static constexpr const char* kOps[] = {"Add", "Add", "Mul", "Sub", "Max"};
    std::string other;
    if (Chance(4)) {
      other = v.name;
    } else if (Chance(3)) {
      const bool channel = v.shape.size() == 4 && Chance(2);
      std::vector<int64_t> shape = {1};
      if (channel) shape = {v.shape[1], 1, 1};
      if (v.shape.size() == 2 && Chance(2)) shape = {v.shape[1]};
      other = Constant(shape, 1);
    } else {
      std::vector<std::string> fitting;
      for (const Entry& e : values_) {
        bool fits = e.shape.size() == v.shape.size() && e.name != v.name;
        for (size_t i = 0; fits && i < v.shape.size(); ++i) {
          fits = e.shape[i] == v.shape[i] || e.shape[i] == 1;
        }
        if (fits) fitting.push_back(e.name);
      }
      if (fitting.empty()) return;
      other = fitting[static_cast<size_t>(Pick(0, static_cast<int64_t>(fitting.size()) - 1))];
    }
    const bool turned = Chance(2);
    Make(fmt::format("{}({}, {})", kOps[Pick(0, 4)], turned ? other : v.name,
                     turned ? v.name : other),
         v.shape);
  }

  void Join(const Entry& v) {
    const Entry other = Any();
    if (other.shape.size() != 4 || other.shape[0] != v.shape[0] || other.shape[2] != v.shape[2] ||
        other.shape[3] != v.shape[3]) {
      return;
    }
    std::vector<int64_t> shape = v.shape;
    shape[1] += other.shape[1];
    if (shape[1] > 16) return;
    Make(fmt::format("Concat<axis = 1>({}, {})", v.name, other.name), shape);
  }

  void Flat(const Entry& v) {
    switch (Pick(0, 3)) {
      case 0:
        return Unary(v);
      case 1:
        return Binary(v);
      default:
        break;
    }
    const std::vector<int64_t> out = {v.shape[0], Pick(1, 5)};
    const std::string weights = Constant({v.shape[1], out[1]}, 0.3);
    if (Chance(2)) {
      Make(fmt::format("MatMul({}, {})", v.name, weights), out);
      return;
    }
    std::string attributes;
    if (Chance(2)) attributes = "<alpha = 1.0, beta = 1.0>";
    if (Chance(4)) attributes = "<alpha = 0.5, beta = 2.0>";
    std::string c;
    if (Chance(2)) c = ", " + Constant({out[1]}, 1);
    Make(fmt::format("Gemm{}({}, {}{})", attributes, v.name, weights, c), out);
  }

  std::mt19937 random_;
  std::vector<Entry> values_;
  std::vector<std::string> constants_;
  std::string body_;
  int made_ = 0;
};

// Graphs that passes once took apart wrongly.
TEST(RandomGraphs, FoundBefore) {
  const auto check = [](const std::string& text) {
    SCOPED_TRACE(text);
    testing::ExpectSameResults(text);
  };
  // beta belongs to C, which the fused product adds otherwise.
  const std::string gemm =
      "g (float[2,3] x, float[3,4] w, float[4] c, float[2,4] d) => (float[2,4] y) { p = Gemm";
  check(gemm + "<alpha = 1.0, beta = 1.0>(x, w, c) y = Relu(p) }");
  check(gemm + "<alpha = 0.5, beta = 3.0>(x, w) y = Relu(p) }");
  check(gemm + "<beta = 2.0>(x, w, c) y = Relu(p) }");
  check(gemm + "<beta = 1.0>(x, w, d) y = Sigmoid(p) }");
  check(gemm + "<beta = 1.0>(x, w) y = Add(p, d) }");
  // A result that is added to itself.
  for (const std::string made :
       {"v = Conv(x, w)", "u = Conv(x, w) v = Relu(u)", "u = MatMul(x, s) v = Reshape(u, n)"}) {
    check(
        "g (float[1,2,2,2] x, float[2,2,1,1] w, float[2,2] s) => (float[1,2,2,2] y) "
        "<int64[4] n = {1, 2, 2, 2}> { " +
        made + " y = Add(v, v) }");
  }
  check("g (float[3,2] x, float[2,4] w) => (float[3,4] y) { v = MatMul(x, w) y = Add(v, v) }");
  check("g (float[1,2] x, float[2,4] w) => (float[1,4] y) { v = MatMul(x, w) y = Add(v, v) }");
  // One number made with channels last, and weights made so.
  check(R"(g (float[1,2,3,3] x, float[4,2,1,1] w, float[1,4,1,1] k) => (float[1,4,3,3] y) {
    v = Conv(x, w) p = GlobalAveragePool(v) h = Conv(p, k) y = Mul(v, h) })");
  check(R"(g (float[1,2,5,5] x, float[4,2,3,3] z, float[2,2,1,1] k) => (float[1,4,3,3] y) {
    w = Conv(z, k) y = Conv(x, w) })");
}

// Numbers that are not what folding would make of them: overflow, division by zero.
TEST(RandomGraphs, FarNumbers) {
  for (const std::string body :
       {"a = Mul(v, big) y = Mul(a, big)", "y = Div(v, zero)", "y = Mul(v, inf)",
        "s = Sigmoid(v) a = Mul(s, big) b = Mul(a, big) c = Mul(b, small) y = Mul(c, small)",
        "r = Relu(v) y = Mul(r, inf)",
        "s = Sigmoid(v) a = Mul(s, small) b = Mul(a, small) y = Mul(b, big)"}) {
    SCOPED_TRACE(body);
    testing::ExpectSameResults(
        "g (float[1,2,3,3] x) => (float[1,2,3,3] y) <float[2,2,1,1] w = {0.25, -0.5, 1.0, 2.0}, "
        "float big = {1e20}, float small = {1e-20}, float zero = {0.0}, float one = {1.0}> { "
        "v = Conv(x, w) inf = Div(one, zero) " +
        body + " }");
  }
}

TEST(RandomGraphs, SameResultsWithAndWithoutLowering) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const std::string text = Writer(seed).Write();
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, text));
    testing::ExpectSameResults(text, 17, 2e-4);
    if (HasFailure()) return;  // one graph is enough to read
  }
}

}  // namespace
}  // namespace parallax::passes
