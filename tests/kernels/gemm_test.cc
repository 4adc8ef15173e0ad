#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/checked.h"
#include "kernels/gemm/panel.h"
#include "tests/kernels/dense_testing.h"

namespace parallax::kernels {
namespace {

using testing::ForEachTarget;
using testing::GuardedBytes;
using testing::RandomFloats;
using testing::Sum;
using testing::TeamOf;

struct Case {
  GemmShape shape;
  GemmEpilogue epilogue;  // pointers are filled in by the case
  bool bias = false;
  bool residual = false;
};

int64_t Entries(const GemmBatch& batch) {
  int64_t n = 1;
  for (int i = 0; i < batch.rank; ++i) n *= batch.extents[i];
  return n;
}

// Offset of a batch entry, written independently of the kernel.
int64_t EntryOffset(const GemmBatch& batch, const int64_t* strides, int64_t entry) {
  int64_t offset = 0, below = 1;
  for (int i = batch.rank - 1; i >= 0; --i) {
    offset += entry / below % batch.extents[i] * strides[i];
    below *= batch.extents[i];
  }
  return offset;
}

// One past the largest element offset used by `entries` matrices of rows x columns.
int64_t Span(const GemmBatch& batch, const int64_t* strides, int64_t rows, int64_t columns,
             int64_t ld) {
  int64_t last = 0;
  for (int64_t e = 0; e < Entries(batch); ++e) {
    last = std::max(last, EntryOffset(batch, strides, e));
  }
  return rows == 0 || columns == 0 ? 0 : last + (rows - 1) * ld + columns;
}

void Check(Case c, const std::string& what) {
  SCOPED_TRACE(what);
  GemmShape& s = c.shape;
  const bool ta = s.trans_a == Transpose::kYes, tb = s.trans_b == Transpose::kYes;
  const int64_t lda = s.lda != 0 ? s.lda : ta ? s.m : s.k;
  const int64_t ldb = s.ldb != 0 ? s.ldb : tb ? s.k : s.n;
  const int64_t ldc = s.ldc != 0 ? s.ldc : s.n;
  const GemmBatch& batch = s.batch;
  const int64_t a_size = Span(batch, batch.a_strides, ta ? s.k : s.m, ta ? s.m : s.k, lda);
  const int64_t b_size = Span(batch, batch.b_strides, tb ? s.n : s.k, tb ? s.k : s.n, ldb);
  const int64_t c_size = Span(batch, batch.c_strides, s.m, s.n, ldc);
  const std::vector<float> a = RandomFloats(a_size, 1), b = RandomFloats(b_size, 2);
  const std::vector<float> bias = RandomFloats(std::max(s.m, s.n) + 1, 3);
  const std::vector<float> residual = RandomFloats(c_size, 4);
  GemmEpilogue e = c.epilogue;
  if (c.bias) e.bias = bias.data();
  if (c.residual) e.then.residual = residual.data();

  // Everything C does not cover must keep its bytes: untouched elements are NaN patterns.
  std::vector<double> want(static_cast<size_t>(c_size), std::nan(""));
  std::vector<double> bound(static_cast<size_t>(c_size), 0.0);
  for (int64_t entry = 0; entry < Entries(batch); ++entry) {
    const float* pa = a.data() + EntryOffset(batch, batch.a_strides, entry);
    const float* pb = b.data() + EntryOffset(batch, batch.b_strides, entry);
    const int64_t co = EntryOffset(batch, batch.c_strides, entry);
    for (int64_t m = 0; m < s.m; ++m) {
      for (int64_t n = 0; n < s.n; ++n) {
        const int64_t at = co + m * ldc + n;
        Sum sum;
        for (int64_t k = 0; k < s.k; ++k) {
          sum.Add(double{e.alpha} * pa[ta ? k * lda + m : m * lda + k] *
                  pb[tb ? n * ldb + k : k * ldb + n]);
        }
        if (c.bias) {
          sum.Add(double{e.beta} *
                  bias[static_cast<size_t>(e.bias_axis == BiasAxis::kRow      ? m
                                           : e.bias_axis == BiasAxis::kColumn ? n
                                                                              : 0)]);
        }
        if (c.residual) sum.Add(double{e.beta} * residual[static_cast<size_t>(at)]);
        double v = sum.value;
        if (e.then.activation == Activation::kRelu) v = std::max(v, 0.0);
        if (e.then.activation == Activation::kClip) {
          v = std::min<double>(std::max<double>(v, e.then.lo), e.then.hi);
        }
        want[static_cast<size_t>(at)] = v;
        bound[static_cast<size_t>(at)] = sum.Bound();
      }
    }
  }

  ForEachTarget([&](const char*) {
    GuardedBytes packed_a(PackedABytes(s.m, s.k)), packed_b(PackedBBytes(s.k, s.n));
    const float* pa = a.data();
    const float* pb = b.data();
    if (s.packed == PackedOperand::kA) {
      GuardedBytes source(static_cast<size_t>(a_size) * 4, 1);  // as misaligned as a file can be
      if (a_size > 0) memcpy(source.get(), a.data(), static_cast<size_t>(a_size) * 4);
      PackA(s.m, s.k, s.trans_a, s.lda, source.get(), packed_a.get());
      packed_a.CheckGuards();
      pa = packed_a.floats();
    }
    if (s.packed == PackedOperand::kB) {
      GuardedBytes source(static_cast<size_t>(b_size) * 4, 3);
      if (b_size > 0) memcpy(source.get(), b.data(), static_cast<size_t>(b_size) * 4);
      PackB(s.k, s.n, s.trans_b, s.ldb, source.get(), packed_b.get());
      packed_b.CheckGuards();
      pb = packed_b.floats();
    }
    const GemmPlan plan = PlanGemm(s);
    SCOPED_TRACE(plan.name());
    std::vector<float> first;
    for (int threads = 1; threads <= 4; ++threads) {
      SCOPED_TRACE(threads);
      GuardedBytes workspace(GemmWorkspaceBytes(plan, threads));
      GuardedBytes out(static_cast<size_t>(c_size) * 4, 4);  // only element-aligned
      Gemm(plan, pa, pb, out.floats(), e, workspace.get(), TeamOf(threads));
      workspace.CheckGuards();
      out.CheckGuards();
      if (threads == 1) {
        first.assign(out.floats(), out.floats() + c_size);
        for (int64_t i = 0; i < c_size; ++i) {
          const auto at = static_cast<size_t>(i);
          if (std::isnan(want[at])) {
            ASSERT_TRUE(std::isnan(first[at])) << "wrote between rows, at " << i;
          } else {
            ASSERT_LE(std::abs(first[at] - want[at]), bound[at])
                << "at " << i << ", got " << first[at] << ", want " << want[at];
          }
        }
      } else if (c_size > 0) {
        ASSERT_EQ(memcmp(first.data(), out.get(), first.size() * 4), 0) << "team changes bits";
      }
    }
  });
}

std::string Describe(const GemmShape& s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
         (s.trans_a == Transpose::kYes ? " At" : "") + (s.trans_b == Transpose::kYes ? " Bt" : "") +
         " packed " + std::to_string(static_cast<int>(s.packed));
}

constexpr Transpose kTransposes[] = {Transpose::kNo, Transpose::kYes};
constexpr PackedOperand kPackings[] = {PackedOperand::kNone, PackedOperand::kA, PackedOperand::kB};

// Every tail of the tiles (up to 8 rows by 48 columns), every path, one block of k.
TEST(Gemm, AllTails) {
  for (const PackedOperand packed : kPackings) {
    for (const Transpose ta : kTransposes) {
      for (const Transpose tb : kTransposes) {
        for (const int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 17, 25}) {
          for (const int64_t n : {1, 3, 4, 5, 8, 15, 16, 17, 31, 33, 47, 48, 49, 97}) {
            const int64_t k = 1 + (m * 7 + n) % 19;
            GemmShape s{.m = m, .n = n, .k = k, .trans_a = ta, .trans_b = tb, .packed = packed};
            Case c{s, {}};
            c.epilogue.then.activation = (m + n) % 2 == 0 ? Activation::kRelu : Activation::kNone;
            c.bias = n % 2 == 0;
            c.epilogue.bias_axis = m % 2 == 0 ? BiasAxis::kRow : BiasAxis::kColumn;
            Check(c, Describe(s));
          }
        }
      }
    }
  }
}

// Several blocks of k, of rows and of columns; rows apart in memory.
// The last panels share what is left, and no task's columns begin inside one: every width around
// them, also so many that there are several tasks, and rows that are taken alone.
TEST(Gemm, LastPanels) {
  for (const PackedOperand packed : {PackedOperand::kB, PackedOperand::kNone}) {
    for (const int64_t m : {1, 7, 200}) {
      for (const int64_t n :
           {63, 64, 65, 112, 160, 161, 196, 208, 256, 400, 401, 832, 1000, 1300}) {
        const GemmShape s{.m = m, .n = n, .k = 70, .packed = packed};
        Check({s, {}}, Describe(s));
      }
    }
  }
}

// Tasks begin where panels begin, whichever part of the columns is theirs.
TEST(Gemm, CutsBetweenPanels) {
  ForEachTarget([](const char*) {
    const TileGeometry tile = GetTileGeometry();
    for (int64_t n = 1; n < 40 * tile.columns; n += 1 + n / 7) {
      std::vector<int64_t> begins = {0};
      while (begins.back() < n) {
        const int64_t columns = NextPanel(tile, n - begins.back());
        ASSERT_GT(columns, 0);
        ASSERT_LE(columns, tile.columns);
        begins.push_back(begins.back() + columns);
      }
      ASSERT_EQ(begins.back(), n);
      const auto panels = static_cast<int64_t>(begins.size()) - 1;
      ASSERT_EQ(panels, CeilDiv(n, tile.columns));
      for (const int64_t tasks : {1, 2, 3, 5, 8, 64}) {
        for (const int64_t step : {1, 4}) {
          const std::vector<int64_t> cuts = CutPanels(tile, n, tasks, step);
          ASSERT_LE(static_cast<int64_t>(cuts.size()), tasks + 1);
          ASSERT_EQ(cuts.front(), 0);
          ASSERT_EQ(cuts.back(), n);
          int64_t least = panels, most = 0;  // panels of a task
          for (size_t i = 1; i < cuts.size(); ++i) {
            const auto at = std::lower_bound(begins.begin(), begins.end(), cuts[i]);
            ASSERT_EQ(*at, cuts[i]);
            const auto before = std::lower_bound(begins.begin(), begins.end(), cuts[i - 1]);
            least = std::min(least, static_cast<int64_t>(at - before));
            most = std::max(most, static_cast<int64_t>(at - before));
            ASSERT_GT(cuts[i], cuts[i - 1]);
            if (i + 1 < cuts.size()) {
              ASSERT_EQ((at - begins.begin()) % step, 0);
            }
          }
          ASSERT_LT(most - least, 2 * step);
        }
      }
    }
  });
}

TEST(Gemm, BlocksAndStrides) {
  struct Extents {
    int64_t m, n, k;
  };
  for (const Extents x : {Extents{130, 201, 300},
                          {33, 400, 513},
                          {261, 50, 257},
                          {100, 100, 1},
                          {1, 700, 600},
                          {700, 1, 600},
                          {2, 1000, 40},
                          {300, 7, 520}}) {
    for (const PackedOperand packed : kPackings) {
      for (const Transpose ta : kTransposes) {
        for (const Transpose tb : kTransposes) {
          GemmShape s{.m = x.m, .n = x.n, .k = x.k, .trans_a = ta, .trans_b = tb};
          s.packed = packed;
          s.lda = (ta == Transpose::kYes ? x.m : x.k) + 3;
          s.ldb = (tb == Transpose::kYes ? x.k : x.n) + 5;
          s.ldc = x.n + 2;
          Case c{s, {}};
          c.epilogue.then = {.activation = Activation::kClip, .lo = -2.0f, .hi = 3.0f};
          c.bias = true;
          c.residual = true;
          Check(c, Describe(s));
        }
      }
    }
  }
}

TEST(Gemm, EpilogueScalesAndAxes) {
  for (const GemmShape& s :
       {GemmShape{.m = 19, .n = 53, .k = 270}, GemmShape{.m = 1, .n = 53, .k = 27},
        GemmShape{.m = 19, .n = 1, .k = 27}, GemmShape{.m = 1, .n = 1, .k = 5},
        GemmShape{.m = 70, .n = 90, .k = 300, .packed = PackedOperand::kB}}) {
    for (const BiasAxis axis : {BiasAxis::kRow, BiasAxis::kColumn, BiasAxis::kScalar}) {
      for (const float beta : {0.0f, 1.0f, -0.75f}) {
        Case c{s, {.alpha = 0.5f, .beta = beta, .bias_axis = axis}};
        c.bias = true;
        c.residual = axis == BiasAxis::kRow;
        Check(c, Describe(s) + " beta " + std::to_string(beta));
      }
    }
  }
}

// MatMul's broadcasting: A [3,1,m,k], B [4,k,n]; and many tiny products.
TEST(Gemm, Batches) {
  for (const Transpose tb : kTransposes) {
    for (const int64_t m : {1, 5, 40}) {
      for (const int64_t n : {1, 9, 50}) {
        GemmShape s{.m = m, .n = n, .k = 12, .trans_b = tb};
        s.batch = {.rank = 2,
                   .extents = {3, 4},
                   .a_strides = {m * 12, 0},
                   .b_strides = {0, 12 * n},
                   .c_strides = {4 * m * n, m * n}};
        Case c{s, {}};
        c.residual = m == 5;
        Check(c, "broadcast " + Describe(s));
      }
    }
  }
  GemmShape tiny{.m = 2, .n = 3, .k = 2};
  tiny.batch = {.rank = 1, .extents = {5000}, .a_strides = {4}, .b_strides = {6}, .c_strides = {6}};
  Check({tiny, {}}, "tiny");
  GemmShape shared{.m = 49, .n = 49, .k = 32, .packed = PackedOperand::kB};
  shared.batch = {
      .rank = 1, .extents = {9}, .a_strides = {49 * 32}, .b_strides = {0}, .c_strides = {49 * 49}};
  Check({shared, {}}, "shared packed B");
}

TEST(Gemm, ZeroExtents) {
  for (const PackedOperand packed : kPackings) {
    for (const GemmShape& base :
         {GemmShape{.m = 0, .n = 5, .k = 3}, GemmShape{.m = 5, .n = 0, .k = 3},
          GemmShape{.m = 9, .n = 50, .k = 0}, GemmShape{.m = 1, .n = 5, .k = 0},
          GemmShape{.m = 0, .n = 0, .k = 0}}) {
      GemmShape s = base;
      s.packed = packed;
      Case c{s, {.beta = 2.0f}};
      c.bias = true;
      c.epilogue.then.activation = Activation::kRelu;
      Check(c, Describe(s));
    }
  }
  GemmShape none{.m = 3, .n = 3, .k = 3};
  none.batch.rank = 2;
  none.batch.extents[0] = 4;
  Team team(2);
  float c[9] = {7};
  const GemmPlan plan = PlanGemm(none);
  Gemm(plan, nullptr, nullptr, c, {}, nullptr, team);
  EXPECT_EQ(c[0], 7.0f);
}

// beta == 0 must not read: NaN in the bias and residual stays out. Elsewhere NaN and infinity pass
// through, also through the activations.
TEST(Gemm, NanAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t m : {1, 9}) {
    for (const int64_t n : {1, 20, 49}) {
      const int64_t k = 6;
      ForEachTarget([&](const char*) {
        Team team(1);
        std::vector<float> a(static_cast<size_t>(m * k), 1.0f), b(static_cast<size_t>(k * n), 1.0f);
        std::vector<float> c(static_cast<size_t>(m * n)), poison(static_cast<size_t>(m * n), nan);
        const GemmPlan plan = PlanGemm({.m = m, .n = n, .k = k});
        GuardedBytes workspace(GemmWorkspaceBytes(plan, 1));
        GemmEpilogue e{.beta = 0.0f, .bias = poison.data(), .bias_axis = BiasAxis::kScalar};
        e.then.residual = poison.data();
        Gemm(plan, a.data(), b.data(), c.data(), e, workspace.get(), team);
        for (const float v : c) ASSERT_EQ(v, 6.0f);

        for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kClip}) {
          e = {};
          e.then = {.activation = act, .lo = -1.0f, .hi = 1.0f};
          a[static_cast<size_t>((m - 1) * k + 2)] = nan;  // the last row
          Gemm(plan, a.data(), b.data(), c.data(), e, workspace.get(), team);
          for (int64_t j = 0; j < n; ++j) {
            ASSERT_TRUE(std::isnan(c[static_cast<size_t>((m - 1) * n + j)]));
            const float others = act == Activation::kClip ? 1.0f : 6.0f;
            ASSERT_TRUE(m == 1 || c[static_cast<size_t>(j)] == others);
          }
          a[static_cast<size_t>((m - 1) * k + 2)] = -inf;
          Gemm(plan, a.data(), b.data(), c.data(), e, workspace.get(), team);
          const float want = act == Activation::kNone   ? -inf
                             : act == Activation::kRelu ? 0.0f
                                                        : -1.0f;
          for (int64_t j = 0; j < n; ++j) {
            ASSERT_EQ(c[static_cast<size_t>((m - 1) * n + j)], want);
          }
          a[static_cast<size_t>((m - 1) * k + 2)] = 1.0f;
        }
      });
    }
  }
}

// The residual may be C: accumulation in place, also over several blocks of k.
TEST(Gemm, AccumulatesInPlace) {
  for (const GemmShape& s :
       {GemmShape{.m = 20, .n = 50, .k = 600}, GemmShape{.m = 1, .n = 50, .k = 6},
        GemmShape{.m = 20, .n = 1, .k = 6}}) {
    ForEachTarget([&](const char*) {
      Team team(2);
      const std::vector<float> a = RandomFloats(s.m * s.k, 1), b = RandomFloats(s.k * s.n, 2);
      const std::vector<float> start = RandomFloats(s.m * s.n, 3);
      std::vector<float> c = start;
      const GemmPlan plan = PlanGemm(s);
      GuardedBytes workspace(GemmWorkspaceBytes(plan, 2));
      GemmEpilogue e;
      e.then.residual = c.data();
      Gemm(plan, a.data(), b.data(), c.data(), e, workspace.get(), team);
      for (int64_t m = 0; m < s.m; ++m) {
        for (int64_t n = 0; n < s.n; ++n) {
          Sum sum;
          for (int64_t k = 0; k < s.k; ++k) {
            sum.Add(double{a[static_cast<size_t>(m * s.k + k)]} *
                    b[static_cast<size_t>(k * s.n + n)]);
          }
          const auto at = static_cast<size_t>(m * s.n + n);
          sum.Add(start[at]);
          ASSERT_LE(std::abs(c[at] - sum.value), sum.Bound());
        }
      }
    });
  }
}

}  // namespace
}  // namespace parallax::kernels
