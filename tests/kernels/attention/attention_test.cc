// Attention against its definition in f64, on every SIMD target and with teams of 1 to 4.
//
// The bound. Scores carry e = (gamma(depth + 8) + gamma(4)) |scale| sum |q k| and a rounding for each
// mask, the weights' exponents |s - max| u more from the subtraction, and ExpNeg one step of the
// result (math_test.cc): a relative error D of each weight, which enters numerator and denominator.
// Sums over n keys, in blocks whose factors are exponentials themselves, add gamma(2 n + 8).
#include "kernels/attention/attention.h"

#include <limits>

#include "base/checked.h"
#include "tests/kernels/dense_testing.h"

namespace parallax::kernels {
namespace {

using testing::ForEachTarget;
using testing::Gamma;
using testing::GuardedBytes;
using testing::RandomFloats;
using testing::TeamOf;

constexpr float kInf = std::numeric_limits<float>::infinity();

// Memory orders of [batch, heads, sequence, depth].
enum class Order { kBatchHeads, kBatchSequence, kTransposed };
enum class MaskKind { kNone, kFull, kKeys, kRows, kPacked };

struct Case {
  int64_t batch = 1, heads = 1, m = 1, n = 1, depth = 1, value_depth = 1;
  Order q = Order::kBatchHeads, k = Order::kBatchHeads, v = Order::kBatchHeads,
        y = Order::kBatchHeads;
  MaskKind masks[2] = {MaskKind::kNone, MaskKind::kNone};
  bool normalize = false;
  bool scales = false;  // one factor a head
  float size = 1;       // of queries and keys
  RowsOfNaN rows_of_nan = RowsOfNaN::kNaN;
};

struct Layout {
  int64_t batch, head;
  AttentionOperand operand;
};
Layout LayoutOf(Order order, int64_t heads, int64_t rows, int64_t depth) {
  switch (order) {
    case Order::kBatchSequence:
      return {rows * heads * depth, depth, {heads * depth, 1}};
    case Order::kTransposed:
      return {heads * rows * depth, rows * depth, {1, rows}};
    case Order::kBatchHeads:
      break;
  }
  return {heads * rows * depth, rows * depth, {depth, 1}};
}

class Problem {
 public:
  explicit Problem(const Case& c) : c_(c) {
    s_.m = c.m;
    s_.n = c.n;
    s_.depth = c.depth;
    s_.value_depth = c.value_depth;
    s_.scale = 0.37f;
    s_.normalize = c.normalize;
    s_.epsilon = 1e-12f;
    s_.rows_of_nan = c.rows_of_nan;
    lq_ = LayoutOf(c.q, c.heads, c.m, c.depth);
    lk_ = LayoutOf(c.k, c.heads, c.n, c.depth);
    lv_ = LayoutOf(c.v, c.heads, c.n, c.value_depth);
    ly_ = LayoutOf(c.y, c.heads, c.m, c.value_depth);
    s_.q = lq_.operand;
    s_.k = lk_.operand;
    s_.v = lv_.operand;
    s_.y = ly_.operand;
    s_.batch.rank = 2;
    s_.batch.extents[0] = c.batch;
    s_.batch.extents[1] = c.heads;
    Put(s_.batch.q, lq_);
    Put(s_.batch.k, lk_);
    Put(s_.batch.v, lv_);
    Put(s_.batch.y, ly_);
    q = RandomFloats(c.batch * c.heads * c.m * c.depth, 1);
    k = RandomFloats(c.batch * c.heads * c.n * c.depth, 2);
    v = RandomFloats(c.batch * c.heads * c.n * c.value_depth, 3);
    for (float& x : q) x *= c.size;
    for (float& x : k) x *= c.size;
    for (int i = 0; i < 2; ++i) SetMask(i);
    if (c.scales) {
      scales = RandomFloats(c.heads, 7);
      s_.batch.scales[1] = 1;
    }
  }

  AttentionShape& shape() { return s_; }
  int64_t outputs() const { return c_.batch * c_.heads * c_.m * c_.value_depth; }

  std::vector<float> Run(int team) {
    AttentionShape s = s_;
    AttentionArgs args;
    std::vector<float> packed[2];
    for (int i = 0; i < 2; ++i) {
      args.masks[i] = masks[i].data();
      if (c_.masks[i] != MaskKind::kPacked) continue;
      const int64_t floats = PackedAttentionMaskFloats(c_.m, c_.n);
      packed[i].resize(static_cast<size_t>(floats * c_.heads));
      PackAttentionMask(c_.heads, c_.m, c_.n, masks[i].data(), packed[i].data());
      args.masks[i] = packed[i].data();
      s.masks[i].packed = true;
      s.batch.masks[i][1] = floats;
    }
    const AttentionPlan plan = PlanAttention(s);
    GuardedBytes workspace(AttentionWorkspaceBytes(plan, team));
    GuardedBytes out(static_cast<size_t>(outputs()) * 4, 4);
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.y = out.floats();
    if (c_.scales) args.scales = scales.data();
    Attention(plan, args, workspace.get(), TeamOf(team));
    workspace.CheckGuards();
    out.CheckGuards();
    return std::vector<float>(out.floats(), out.floats() + outputs());
  }

  // Runs with every team, and compares with the definition.
  void Check() {
    const std::vector<float> got = Run(1);
    for (int team : {2, 3, 4}) {
      const std::vector<float> again = Run(team);
      if (got.empty()) continue;
      ASSERT_EQ(memcmp(got.data(), again.data(), got.size() * 4), 0) << "team of " << team;
    }
    for (int64_t b = 0; b < c_.batch; ++b) {
      for (int64_t h = 0; h < c_.heads; ++h) {
        for (int64_t m = 0; m < c_.m; ++m) CheckRow(got, b, h, m);
      }
    }
  }

  std::vector<float> q, k, v, masks[2], scales;

 private:
  static void Put(int64_t* strides, const Layout& layout) {
    strides[0] = layout.batch;
    strides[1] = layout.head;
  }
  static size_t At(const Layout& l, int64_t b, int64_t h, int64_t row, int64_t depth) {
    return static_cast<size_t>(b * l.batch + h * l.head + row * l.operand.row +
                               depth * l.operand.depth);
  }
  void SetMask(int i) {
    AttentionMask& mask = s_.masks[i];
    mask.present = c_.masks[i] != MaskKind::kNone;
    int64_t size = 0;
    if (c_.masks[i] == MaskKind::kFull || c_.masks[i] == MaskKind::kPacked) {  // [heads, m, n]
      mask.row = c_.n;
      mask.key = 1;
      s_.batch.masks[i][1] = c_.m * c_.n;
      size = c_.heads * c_.m * c_.n;
    } else if (c_.masks[i] == MaskKind::kKeys) {  // [batch, 1, 1, n]
      mask.key = 1;
      s_.batch.masks[i][0] = c_.n;
      size = c_.batch * c_.n;
    } else if (c_.masks[i] == MaskKind::kRows) {  // [m, 1]
      mask.row = 1;
      size = c_.m;
    }
    masks[i] = RandomFloats(size, static_cast<uint32_t>(4 + i));
  }
  double MaskAt(int i, int64_t b, int64_t h, int64_t m, int64_t n) const {
    if (!s_.masks[i].present) return 0;
    return masks[i][static_cast<size_t>(b * s_.batch.masks[i][0] + h * s_.batch.masks[i][1] +
                                        m * s_.masks[i].row + n * s_.masks[i].key)];
  }

  void CheckRow(const std::vector<float>& got, int64_t b, int64_t h, int64_t m) const {
    const size_t n = static_cast<size_t>(c_.n);
    std::vector<double> scores(n), errors(n);
    double scale = static_cast<double>(s_.scale);
    if (c_.scales) scale *= static_cast<double>(scales[static_cast<size_t>(h)]);
    double max = -HUGE_VAL;
    for (int64_t j = 0; j < c_.n; ++j) {
      double dot = 0, norm = 0, qq = 0, kk = 0;
      for (int64_t i = 0; i < c_.depth; ++i) {
        const double x = static_cast<double>(q[At(lq_, b, h, m, i)]);
        const double y = static_cast<double>(k[At(lk_, b, h, j, i)]);
        dot += x * y;
        norm += std::abs(x * y);
        qq += x * x;
        kk += y * y;
      }
      double factor = scale;
      if (c_.normalize) factor /= std::max(std::sqrt(qq), 1e-12) * std::max(std::sqrt(kk), 1e-12);
      double score = factor * dot;
      // Norms are sums and square roots themselves: another gamma.
      double error =
          (Gamma(c_.depth + 8) + Gamma(c_.normalize ? c_.depth + 8 : 4)) * std::abs(factor) * norm;
      for (int i = 0; i < 2; ++i) {
        score += MaskAt(i, b, h, m, j);
        if (std::isfinite(score)) error += 0x1p-24 * std::abs(score);
      }
      scores[static_cast<size_t>(j)] = score;
      errors[static_cast<size_t>(j)] = error;
      max = std::isnan(score) || std::isnan(max) ? NAN : std::max(max, score);
    }
    double sum = 0, mean_error = 0;
    for (size_t j = 0; j < n; ++j) {
      errors[j] += 0x1p-24 * std::min(std::abs(scores[j] - max), 87.0) + Gamma(4);
      scores[j] = std::exp(scores[j] - max);
      sum += scores[j];
      mean_error += scores[j] * errors[j];
    }
    mean_error /= sum;
    for (int64_t e = 0; e < c_.value_depth; ++e) {
      double want = 0, bound = 0x1p-126 * static_cast<double>(c_.n);
      for (int64_t j = 0; j < c_.n; ++j) {
        const double value = static_cast<double>(v[At(lv_, b, h, j, e)]);
        const double weight = scores[static_cast<size_t>(j)] / sum;
        want += weight * value;
        bound += weight * std::abs(value) *
                 (errors[static_cast<size_t>(j)] + mean_error + Gamma(2 * c_.n + 8));
      }
      if (std::isnan(want) && c_.rows_of_nan == RowsOfNaN::kZero) want = bound = 0;
      const double value = static_cast<double>(got[At(ly_, b, h, m, e)]);
      const std::string where = "batch " + std::to_string(b) + " head " + std::to_string(h) +
                                " row " + std::to_string(m) + " column " + std::to_string(e);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(value)) << where << ": " << value;
      } else {
        ASSERT_LE(std::abs(value - want), bound) << where << ": " << value << " for " << want;
      }
    }
  }

  Case c_;
  AttentionShape s_;
  Layout lq_, lk_, lv_, ly_;
};

void CheckAll(const std::vector<Case>& cases) {
  ForEachTarget([&](const char*) {
    for (const Case& c : cases) {
      SCOPED_TRACE(::testing::Message() << "m " << c.m << " n " << c.n << " depth " << c.depth
                                        << " value depth " << c.value_depth);
      Problem(c).Check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Attention, Extents) {
  std::vector<Case> cases;
  for (int64_t m : {1, 2, 4, 7, 16, 17, 33, 49, 64, 65, 77, 130}) {
    cases.push_back({.heads = 2, .m = m, .n = 37, .depth = 32, .value_depth = 32});
  }
  for (int64_t n : {1, 2, 3, 5, 49, 77, 127, 128, 129, 257, 400}) {
    cases.push_back({.m = 21, .n = n, .depth = 16, .value_depth = 24});
    cases.push_back({.m = 1, .n = n, .depth = 16, .value_depth = 24});
  }
  for (int64_t depth : {1, 3, 15, 16, 20, 40, 64, 80, 96, 130}) {
    cases.push_back({.m = 19, .n = 23, .depth = depth, .value_depth = depth});
    cases.push_back({.m = 2, .n = 23, .depth = depth, .value_depth = depth});
    cases.push_back({.m = 5, .n = 23, .depth = depth, .value_depth = depth});
  }
  CheckAll(cases);
}

TEST(Attention, Orders) {
  std::vector<Case> cases;
  for (int64_t m : {1, 3, 37}) {
    for (Order q : {Order::kBatchHeads, Order::kBatchSequence, Order::kTransposed}) {
      for (Order k : {Order::kBatchHeads, Order::kBatchSequence, Order::kTransposed}) {
        for (Order v : {Order::kBatchHeads, Order::kBatchSequence}) {
          cases.push_back({.batch = 2,
                           .heads = 3,
                           .m = m,
                           .n = 29,
                           .depth = 12,
                           .value_depth = 18,
                           .q = q,
                           .k = k,
                           .v = v,
                           .y = v});
        }
      }
    }
  }
  CheckAll(cases);
}

TEST(Attention, Masks) {
  std::vector<Case> cases;
  for (int64_t m : {1, 6, 50}) {
    for (MaskKind a : {MaskKind::kFull, MaskKind::kKeys, MaskKind::kRows, MaskKind::kPacked}) {
      for (MaskKind b : {MaskKind::kNone, MaskKind::kKeys, MaskKind::kPacked}) {
        cases.push_back({.batch = 2,
                         .heads = 2,
                         .m = m,
                         .n = 141,
                         .depth = 8,
                         .value_depth = 16,
                         .masks = {a, b}});
      }
    }
  }
  CheckAll(cases);
}

TEST(Attention, CosineOfPackedHeads) {
  CheckAll({{.heads = 3,
             .m = 49,
             .n = 49,
             .depth = 32,
             .value_depth = 32,
             .masks = {MaskKind::kPacked, MaskKind::kNone},
             .normalize = true,
             .scales = true},
            {.m = 2, .n = 5, .depth = 19, .value_depth = 3, .normalize = true, .size = 1e-6f},
            {.m = 20, .n = 150, .depth = 20, .value_depth = 3, .normalize = true, .size = 100}});
}

// Weights from 1 down to where they vanish.
TEST(Attention, LargeScores) {
  CheckAll({{.m = 33, .n = 300, .depth = 64, .value_depth = 8, .size = 8},
            {.m = 1, .n = 300, .depth = 64, .value_depth = 8, .size = 8}});
}

// Masked keys anywhere, whole rows among them, by -infinity and by the largest negative number.
TEST(Attention, MaskedRows) {
  ForEachTarget([&](const char*) {
    for (const float off : {-kInf, -std::numeric_limits<float>::max(), -1e9f}) {
      for (const RowsOfNaN rule : {RowsOfNaN::kNaN, RowsOfNaN::kZero}) {
        for (int64_t m : {2, 3, 40}) {
          Problem p({.m = m,
                     .n = 300,
                     .depth = 8,
                     .value_depth = 20,
                     .masks = {MaskKind::kFull, MaskKind::kNone},
                     .rows_of_nan = rule});
          for (int64_t row = 0; row < m; ++row) {
            float* mask = p.masks[0].data() + row * 300;
            if (row % 3 == 0) std::fill(mask, mask + 300, off);        // all
            if (row % 3 == 1) std::fill(mask, mask + 200, off);        // whole blocks, then some
            if (row % 3 == 2) std::fill(mask + row, mask + 300, off);  // causal
          }
          p.Check();
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(Attention, NaNAndInfinityStayInTheirRows) {
  ForEachTarget([&](const char*) {
    for (int64_t m : {2, 3, 40}) {
      Problem p({.m = m, .n = 200, .depth = 8, .value_depth = 20});
      p.q[0] = NAN;
      p.q[8] = kInf;
      const std::vector<float> y = p.Run(1);
      for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i < 40) << i;
    }
  });
}

// One key's weight against another of score 0 is e^x / (1 + e^x): the exponential to 1.5 steps, and
// two roundings.
TEST(Attention, ExponentialOfNegativeNumbers) {
  ForEachTarget([&](const char*) {
    constexpr int64_t kQueries = 60000;
    Problem p({.m = kQueries, .n = 2, .depth = 1, .value_depth = 1});
    p.shape().scale = 1;
    p.k = {0, 1};
    p.v = {0, 1};
    for (int64_t i = 0; i < kQueries; ++i) {
      p.q[static_cast<size_t>(i)] = -static_cast<float>(i) * (100.0f / kQueries);
    }
    const std::vector<float> y = p.Run(1);
    for (size_t i = 0; i < y.size(); ++i) {
      const double x = static_cast<double>(p.q[i]);
      const double want = x < -87 ? 0 : std::exp(x) / (1 + std::exp(x));
      ASSERT_LE(std::abs(static_cast<double>(y[i]) - want), want * 3.5 * 0x1p-23) << x;
    }
  });
}

TEST(Attention, Empty) {
  ForEachTarget([&](const char*) {
    for (float y : Problem({.heads = 2, .m = 3, .n = 0, .depth = 4, .value_depth = 5}).Run(1)) {
      EXPECT_EQ(y, 0.0f);
    }
    Problem({.m = 0, .n = 3, .depth = 4, .value_depth = 5}).Run(1);
    Problem({.heads = 0, .m = 2, .n = 3, .depth = 4, .value_depth = 5}).Run(1);
    Problem({.m = 2, .n = 3, .depth = 4, .value_depth = 0}).Run(1);
  });
  CheckAll({{.m = 5, .n = 7, .depth = 0, .value_depth = 3}});
}

}  // namespace
}  // namespace parallax::kernels
