// StridedCopy through every plan builder, against index arithmetic; Pad.
#include <numeric>
#include <vector>

#include "kernels/move/pad.h"
#include "kernels/move/strided_copy.h"
#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

using Ints = std::vector<int64_t>;

Ints Coordinates(const Shape& shape, int64_t flat) {
  Ints at(static_cast<size_t>(shape.rank()));
  for (int k = shape.rank(); k-- > 0;) {
    at[static_cast<size_t>(k)] = flat % shape[k];
    flat /= shape[k];
  }
  return at;
}

int64_t Flat(const Shape& shape, const Ints& at) {
  int64_t flat = 0;
  for (int k = 0; k < shape.rank(); ++k) flat = flat * shape[k] + at[static_cast<size_t>(k)];
  return flat;
}

// Runs the plan for every element size and team, and compares out[i] with in[source(i)].
template <class F>
void Check(const CopyPlan& plan, const Shape& in, const Shape& out, F source) {
  ASSERT_EQ(plan.elements, out.elements());
  const auto sized = [&]<class T>() {
    const Shifted<T> x(RandomValues<T>(static_cast<size_t>(in.elements()), 3, true));
    const size_t n = static_cast<size_t>(out.elements());
    const std::vector<T> y =
        RunTeams<T>(n, [&](Team& team, T* to) { StridedCopy(plan, sizeof(T), x.data, to, team); });
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(y[i], x.data[source(static_cast<int64_t>(i))]) << sizeof(T) << " bytes, at " << i;
    }
  };
  sized.template operator()<uint8_t>();
  sized.template operator()<uint16_t>();
  sized.template operator()<uint32_t>();
  sized.template operator()<uint64_t>();
}

void CheckTranspose(const Shape& in, const Ints& perm) {
  SCOPED_TRACE(in.ToString());
  Shape out;
  for (int64_t p : perm) out.Append(in[static_cast<int>(p)]);
  Check(TransposePlan(in, perm), in, out, [&](int64_t i) {
    const Ints at = Coordinates(out, i);
    Ints from(at.size());
    for (size_t k = 0; k < at.size(); ++k) from[static_cast<size_t>(perm[k])] = at[k];
    return Flat(in, from);
  });
}

TEST(Copy, EveryPermutationOfSmallShapes) {
  for (const Shape& in : {Shape{}, Shape{5}, Shape{3, 4}, Shape{2, 3, 4}, Shape{4, 1, 9},
                          Shape{2, 3, 5, 4}, Shape{0, 3, 2}}) {
    Ints perm(static_cast<size_t>(in.rank()));
    std::iota(perm.begin(), perm.end(), 0);
    do {
      CheckTranspose(in, perm);
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
}

// Tiles of 32 with every kind of remainder, and shapes that models use.
TEST(Copy, TransposeTiles) {
  for (int64_t rows : {4, 31, 32, 33, 45, 70}) {
    for (int64_t cols : {4, 7, 8, 32, 37, 64, 65}) CheckTranspose({rows, cols}, {1, 0});
  }
  CheckTranspose({2, 19, 37, 5}, {0, 3, 1, 2});
  CheckTranspose({2, 5, 19, 37}, {0, 2, 3, 1});
  CheckTranspose({1, 12, 7, 64}, {0, 2, 1, 3});
  CheckTranspose({3, 50, 4, 33}, {0, 2, 3, 1});
  CheckTranspose({300, 200}, {1, 0});
}

TEST(Copy, PlansMergeLoops) {
  EXPECT_TRUE(TransposePlan({2, 3, 4}, Ints{0, 1, 2}).IsContiguous());
  EXPECT_TRUE(TransposePlan({1, 3, 1, 4}, Ints{2, 1, 0, 3}).IsContiguous());
  EXPECT_EQ(TransposePlan({2, 3, 4, 5}, Ints{0, 2, 3, 1}).rank, 3);
  EXPECT_EQ(ExpandPlan({1, 8}, {4, 5, 8}).rank, 2);
  EXPECT_TRUE(SplitPlan({6, 8}, {2, 8}, 0, 4).IsContiguous());
  EXPECT_EQ(SplitPlan({6, 8}, {2, 8}, 0, 4).src_offset, 32);
  EXPECT_EQ(ConcatPlan({6, 3}, {6, 8}, 1, 5).dst_offset, 5);
}

TEST(Copy, SlicesWithAnyStep) {
  struct Row {
    Shape in;
    Ints start, step;
    Shape out;
  };
  const std::vector<Row> rows = {{{10}, {2}, {3}, {3}},
                                 {{10}, {9}, {-1}, {10}},
                                 {{10}, {8}, {-3}, {3}},
                                 {{4, 6}, {3, 1}, {-2, 2}, {2, 3}},
                                 {{4, 6}, {0, 0}, {1, 1}, {4, 6}},
                                 {{4, 6}, {1, 0}, {1, 1}, {2, 6}},
                                 {{3, 40, 33}, {0, 39, 2}, {1, -1, 1}, {3, 40, 31}},
                                 {{4, 6}, {0, 3}, {1, 1}, {4, 0}},
                                 {{5, 9, 8}, {4, 0, 7}, {-1, 4, -7}, {5, 3, 2}}};
  for (const Row& r : rows) {
    SCOPED_TRACE(r.in.ToString() + " to " + r.out.ToString());
    Check(SlicePlan(r.in, r.start, r.step, r.out), r.in, r.out, [&](int64_t i) {
      Ints at = Coordinates(r.out, i);
      for (size_t k = 0; k < at.size(); ++k) at[k] = r.start[k] + at[k] * r.step[k];
      return Flat(r.in, at);
    });
  }
}

TEST(Copy, ExpandTileReverse) {
  struct Row {
    Shape in, out;
  };
  for (const Row& r : {Row{{}, {3}}, Row{{1}, {67}}, Row{{3, 1}, {3, 50}}, Row{{1, 5}, {40, 5}},
                       Row{{2, 1, 3}, {4, 2, 5, 3}}, Row{{1, 0}, {4, 0}}}) {
    SCOPED_TRACE(r.in.ToString());
    Check(ExpandPlan(r.in, r.out), r.in, r.out, [&](int64_t i) {
      const Ints at = Coordinates(r.out, i);
      Ints from;
      for (int k = 0; k < r.in.rank(); ++k) {
        const int64_t c = at[static_cast<size_t>(k + r.out.rank() - r.in.rank())];
        from.push_back(r.in[k] == 1 ? 0 : c);
      }
      return Flat(r.in, from);
    });
  }
  const Shape in = {2, 3, 4};
  const Shape tiled = {4, 3, 12};
  Check(TilePlan(in, Ints{2, 1, 3}), in, tiled, [&](int64_t i) {
    Ints at = Coordinates(tiled, i);
    for (int k = 0; k < 3; ++k) at[static_cast<size_t>(k)] %= in[k];
    return Flat(in, at);
  });
  Check(TilePlan(in, Ints{2, 0, 3}), in, {4, 0, 12}, [](int64_t) { return 0; });
  for (int axis = 0; axis < 3; ++axis) {
    Check(ReversePlan(in, axis), in, in, [&](int64_t i) {
      Ints at = Coordinates(in, i);
      at[static_cast<size_t>(axis)] = in[axis] - 1 - at[static_cast<size_t>(axis)];
      return Flat(in, at);
    });
  }
}

TEST(Copy, ConcatAndSplit) {
  for (int axis = 0; axis < 3; ++axis) {
    Shape a = {3, 4, 5};
    Shape b = a;
    b[axis] = 7;
    Shape whole = a;
    whole[axis] += b[axis];
    const std::vector<int32_t> x = RandomValues<int32_t>(60, 1, true);
    const std::vector<int32_t> y =
        RandomValues<int32_t>(static_cast<size_t>(b.elements()), 2, true);
    const std::vector<int32_t> z =
        RunTeams<int32_t>(static_cast<size_t>(whole.elements()), [&](Team& team, int32_t* out) {
          StridedCopy(ConcatPlan(a, whole, axis, 0), 4, x.data(), out, team);
          StridedCopy(ConcatPlan(b, whole, axis, a[axis]), 4, y.data(), out, team);
        });
    for (size_t i = 0; i < z.size(); ++i) {
      Ints at = Coordinates(whole, static_cast<int64_t>(i));
      int64_t& c = at[static_cast<size_t>(axis)];
      const bool first = c < a[axis];
      if (!first) c -= a[axis];
      ASSERT_EQ(z[i],
                first ? x[static_cast<size_t>(Flat(a, at))] : y[static_cast<size_t>(Flat(b, at))]);
    }
    Team team(2);
    std::vector<int32_t> back(y.size());
    StridedCopy(SplitPlan(whole, b, axis, a[axis]), 4, z.data(), back.data(), team);
    EXPECT_EQ(back, y);
  }
}

// The examples of the ONNX specification of DepthToSpace and SpaceToDepth.
TEST(Copy, DepthAndSpace) {
  std::vector<float> x(8 * 2 * 3);
  for (size_t c = 0; c < 8; ++c) {
    for (size_t i = 0; i < 6; ++i) x[c * 6 + i] = static_cast<float>(c * 9 + i);
  }
  Team team(1);
  std::vector<float> y(48);
  StridedCopy(DepthToSpacePlan({1, 8, 2, 3}, 2, DepthOrder::kDepthColumnRow), 4, x.data(), y.data(),
              team);
  const std::vector<float> dcr = {0,  18, 1,  19, 2,  20, 36, 54, 37, 55, 38, 56, 3,  21, 4,  22,
                                  5,  23, 39, 57, 40, 58, 41, 59, 9,  27, 10, 28, 11, 29, 45, 63,
                                  46, 64, 47, 65, 12, 30, 13, 31, 14, 32, 48, 66, 49, 67, 50, 68};
  EXPECT_EQ(y, dcr);
  std::vector<float> back(48);
  StridedCopy(SpaceToDepthPlan({1, 2, 4, 6}, 2, DepthOrder::kDepthColumnRow), 4, y.data(),
              back.data(), team);
  EXPECT_EQ(back, x);
  StridedCopy(DepthToSpacePlan({1, 8, 2, 3}, 2, DepthOrder::kColumnRowDepth), 4, x.data(), y.data(),
              team);
  const std::vector<float> crd = {0,  9,  1,  10, 2,  11, 18, 27, 19, 28, 20, 29, 3,  12, 4,  13,
                                  5,  14, 21, 30, 22, 31, 23, 32, 36, 45, 37, 46, 38, 47, 54, 63,
                                  55, 64, 56, 65, 39, 48, 40, 49, 41, 50, 57, 66, 58, 67, 59, 68};
  EXPECT_EQ(y, crd);
  StridedCopy(SpaceToDepthPlan({1, 2, 4, 6}, 2, DepthOrder::kColumnRowDepth), 4, y.data(),
              back.data(), team);
  EXPECT_EQ(back, x);
}

int64_t PadSource(PadMode mode, int64_t i, int64_t n) {
  if (mode == PadMode::kConstant) return i >= 0 && i < n ? i : -1;
  if (mode == PadMode::kEdge) return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == PadMode::kWrap) return ((i % n) + n) % n;
  while (i < 0 || i >= n) {  // reflect step by step
    if (n == 1) return 0;
    i = i < 0 ? -i : 2 * (n - 1) - i;
  }
  return i;
}

TEST(Pad, EveryMode) {
  struct Row {
    Shape in;
    Ints begin, end;
  };
  const std::vector<Row> rows = {{{5}, {2}, {3}},
                                 {{4}, {-1}, {2}},
                                 {{4}, {9}, {11}},
                                 {{1}, {3}, {2}},
                                 {{3, 4}, {0, 2}, {0, 1}},
                                 {{3, 4}, {1, 0}, {2, 0}},
                                 {{2, 3, 4, 5}, {0, 0, 1, 2}, {0, 0, 3, 0}},
                                 {{2, 3, 4}, {1, 0, 0}, {0, 0, 0}},
                                 {{2, 3, 4}, {1, -1, 2}, {1, 1, -3}},
                                 {{6, 5}, {-2, -2}, {-1, -3}},
                                 {{2, 50, 70}, {0, 1, 1}, {0, 1, 1}},
                                 {{2, 3}, {0, 0}, {0, 0}},
                                 {{}, {}, {}}};
  Team team(1);
  for (const Row& r : rows) {
    Shape out;
    for (int k = 0; k < r.in.rank(); ++k) {
      out.Append(r.in[k] + r.begin[static_cast<size_t>(k)] + r.end[static_cast<size_t>(k)]);
    }
    SCOPED_TRACE(r.in.ToString() + " to " + out.ToString());
    for (PadMode mode : {PadMode::kConstant, PadMode::kReflect, PadMode::kEdge, PadMode::kWrap}) {
      const auto sized = [&]<class T>() {
        const std::vector<T> x = RandomValues<T>(static_cast<size_t>(r.in.elements()), 4, true);
        const T fill = static_cast<T>(0x7b);
        const size_t n = static_cast<size_t>(out.elements());
        const std::vector<T> y = RunTeams<T>(n, [&](Team& t, T* to) {
          Pad(mode, sizeof(T), r.in, r.begin, r.end, x.data(), &fill, to, t);
        });
        for (size_t i = 0; i < n; ++i) {
          Ints at = Coordinates(out, static_cast<int64_t>(i));
          bool constant = false;
          for (size_t k = 0; k < at.size(); ++k) {
            at[k] = PadSource(mode, at[k] - r.begin[k], r.in[static_cast<int>(k)]);
            constant |= at[k] < 0;
          }
          ASSERT_EQ(y[i], constant ? fill : x[static_cast<size_t>(Flat(r.in, at))])
              << "mode " << static_cast<int>(mode) << " at " << i;
        }
      };
      sized.template operator()<uint8_t>();
      sized.template operator()<uint32_t>();
      sized.template operator()<uint64_t>();
    }
  }
}

TEST(Pad, DocumentedCorners) {
  Team team(1);
  const float x[4] = {0, 1, 2, 3};
  float y[4];
  Pad(PadMode::kReflect, 4, {4}, Ints{-3}, Ints{3}, x, nullptr, y, team);
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{3, 2, 1, 0}));
  const float m[6] = {1, 1.2f, 2.3f, 3.4f, 4.5f, 5.7f};
  float wide[12];
  Pad(PadMode::kReflect, 4, {3, 2}, Ints{0, 2}, Ints{0, 0}, m, nullptr, wide, team);
  EXPECT_EQ(std::vector<float>(wide, wide + 12),
            (std::vector<float>{1, 1.2f, 1, 1.2f, 2.3f, 3.4f, 2.3f, 3.4f, 4.5f, 5.7f, 4.5f, 5.7f}));
  // An empty tensor grows into the constant; null means zero.
  float grown[2] = {5, 5};
  Pad(PadMode::kConstant, 4, {0}, Ints{1}, Ints{1}, nullptr, nullptr, grown, team);
  EXPECT_EQ(grown[0], 0.0f);
  EXPECT_EQ(grown[1], 0.0f);
}

}  // namespace
}  // namespace parallax::kernels
