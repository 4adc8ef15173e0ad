// Gathers and scatters against index arithmetic; index checks.
#include <map>
#include <vector>

#include "kernels/move/gather.h"
#include "kernels/move/scatter.h"
#include "tests/kernels/kernel_testing.h"

namespace parallax::kernels {
namespace {

// n indices in [-bound, bound), as I.
template <class I>
std::vector<I> Indices(size_t n, int64_t bound, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<I> v(n);
  for (I& i : v)
    i = static_cast<I>(static_cast<int64_t>(rng() % (2 * static_cast<uint64_t>(bound))) - bound);
  return v;
}

int64_t Wrap(int64_t i, int64_t bound) { return i < 0 ? i + bound : i; }

TEST(Index, FirstBad) {
  const std::vector<int64_t> x = {0, -3, 2, 3, -4};
  EXPECT_EQ(FirstBadIndex(DType::kI64, x.data(), 3, 3), -1);
  EXPECT_EQ(FirstBadIndex(DType::kI64, x.data(), 5, 3), 3);
  EXPECT_EQ(FirstBadIndex(DType::kI64, x.data(), 5, 4), -1);
  EXPECT_EQ(FirstBadIndex(DType::kI64, x.data(), 1, 0), 0);
  EXPECT_EQ(FirstBadIndex(DType::kI64, x.data(), 0, 0), -1);
  const std::vector<int32_t> y = {1, 4, 0, -5, 1, -6};
  const std::vector<int64_t> bounds = {2, 5};
  EXPECT_EQ(FirstBadTuple(DType::kI32, y.data(), 2, 2, bounds.data()), -1);
  EXPECT_EQ(FirstBadTuple(DType::kI32, y.data(), 3, 2, bounds.data()), 5);
  EXPECT_EQ(IndexAt(DType::kI32, y.data(), 3, 5), 0);
  const int64_t extreme = INT64_MIN;
  EXPECT_EQ(FirstBadIndex(DType::kI64, &extreme, 1, 10), 0);
}

template <class T, class I>
void CheckGather(int64_t outer, int64_t axis, int64_t inner, int64_t n) {
  const std::vector<I> idx = Indices<I>(static_cast<size_t>(n), axis, 7);
  const Shifted<T> x(RandomValues<T>(static_cast<size_t>(outer * axis * inner), 8, true));
  const std::vector<T> y =
      RunTeams<T>(static_cast<size_t>(outer * n * inner), [&](Team& team, T* to) {
        Gather(sizeof(T), outer, axis, inner, kDTypeOf<I>, idx.data(), n, x.data, to, team);
      });
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t from = (o * axis + Wrap(idx[static_cast<size_t>(j)], axis)) * inner + i;
        ASSERT_EQ(y[static_cast<size_t>((o * n + j) * inner + i)], x.data[from]);
      }
    }
  }
}

TEST(Gather, EverySize) {
  for (const auto& s : std::vector<std::array<int64_t, 4>>{{1, 5, 1, 7},
                                                           {3, 4, 5, 2},
                                                           {1, 100, 768, 60},
                                                           {2, 3, 33, 0},
                                                           {0, 3, 4, 5},
                                                           {2, 6, 1, 9000}}) {
    CheckGather<uint8_t, int64_t>(s[0], s[1], s[2], s[3]);
    CheckGather<uint16_t, int32_t>(s[0], s[1], s[2], s[3]);
    CheckGather<uint32_t, int32_t>(s[0], s[1], s[2], s[3]);
    CheckGather<uint64_t, int64_t>(s[0], s[1], s[2], s[3]);
  }
}

// Flat index of the element that `i` (in `index`'s shape) names in `data` along `axis`.
int64_t ElementSource(const Shape& data, const Shape& index, int axis, int64_t i, int64_t value) {
  int64_t flat = 0;
  int64_t stride = 1;
  for (int k = index.rank(); k-- > 0;) {
    const int64_t at = k == axis ? Wrap(value, data[axis]) : i % index[k];
    i /= index[k];
    flat += at * stride;
    stride *= data[k];
  }
  return flat;
}

struct Elements {
  Shape data, index;
};

std::vector<Elements> ElementShapes() {
  return {{{6}, {9}},
          {{3, 4}, {3, 4}},
          {{3, 4}, {2, 7}},
          {{4, 5, 6}, {4, 3, 2}},
          {{50, 80}, {50, 80}},
          {{3, 4}, {0, 4}},
          {{40, 3, 700}, {40, 2, 700}}};
}

TEST(GatherElements, EveryAxis) {
  for (const Elements& s : ElementShapes()) {
    for (int axis = 0; axis < s.data.rank(); ++axis) {
      bool fits = true;
      for (int k = 0; k < s.data.rank(); ++k) fits &= k == axis || s.index[k] <= s.data[k];
      if (!fits) continue;
      const size_t n = static_cast<size_t>(s.index.elements());
      const std::vector<int64_t> idx = Indices<int64_t>(n, s.data[axis], 9);
      const std::vector<uint32_t> x =
          RandomValues<uint32_t>(static_cast<size_t>(s.data.elements()), 10, true);
      const std::vector<uint32_t> y = RunTeams<uint32_t>(n, [&](Team& team, uint32_t* to) {
        GatherElements(4, s.data, s.index, axis, DType::kI64, idx.data(), x.data(), to, team);
      });
      for (size_t i = 0; i < n; ++i) {
        const int64_t from = ElementSource(s.data, s.index, axis, static_cast<int64_t>(i), idx[i]);
        ASSERT_EQ(y[i], x[static_cast<size_t>(from)]) << s.data.ToString() << " axis " << axis;
      }
    }
  }
}

TEST(GatherNd, BatchesAndSlices) {
  const std::vector<int64_t> bounds = {3, 4};
  for (int64_t batch : {1, 2}) {
    for (int64_t inner : {1, 5, 40}) {
      const int64_t n = 33;
      std::vector<int32_t> idx;
      std::mt19937 rng(3);
      for (int64_t k = 0; k < batch * n; ++k) {
        idx.push_back(static_cast<int32_t>(rng() % 6) - 3);
        idx.push_back(static_cast<int32_t>(rng() % 8) - 4);
      }
      const std::vector<uint16_t> x =
          RandomValues<uint16_t>(static_cast<size_t>(batch * 12 * inner), 11, true);
      const std::vector<uint16_t> y =
          RunTeams<uint16_t>(static_cast<size_t>(batch * n * inner), [&](Team& team, uint16_t* to) {
            GatherNd(2, batch, n, 2, bounds.data(), inner, DType::kI32, idx.data(), x.data(), to,
                     team);
          });
      for (int64_t r = 0; r < batch * n; ++r) {
        const int64_t a = Wrap(idx[static_cast<size_t>(2 * r)], 3);
        const int64_t b = Wrap(idx[static_cast<size_t>(2 * r + 1)], 4);
        for (int64_t i = 0; i < inner; ++i) {
          ASSERT_EQ(y[static_cast<size_t>(r * inner + i)],
                    x[static_cast<size_t>(((r / n * 3 + a) * 4 + b) * inner + i)]);
        }
      }
    }
  }
}

template <class T>
T Combine(ScatterReduction r, T a, T b) {
  switch (r) {
    case ScatterReduction::kNone:
      return b;
    case ScatterReduction::kAdd:
      return static_cast<T>(a + b);
    case ScatterReduction::kMul:
      return static_cast<T>(a * b);
    case ScatterReduction::kMax:
      return a > b ? a : b;
    case ScatterReduction::kMin:
      return a < b ? a : b;
  }
  return a;
}

constexpr ScatterReduction kReductions[] = {ScatterReduction::kNone, ScatterReduction::kAdd,
                                            ScatterReduction::kMul, ScatterReduction::kMax,
                                            ScatterReduction::kMin};

TEST(ScatterElements, EveryAxisReductionAndType) {
  for (const Elements& s : ElementShapes()) {
    for (int axis = 0; axis < s.data.rank(); ++axis) {
      bool fits = true;
      for (int k = 0; k < s.data.rank(); ++k) fits &= k == axis || s.index[k] <= s.data[k];
      if (!fits) continue;
      const size_t n = static_cast<size_t>(s.index.elements());
      const std::vector<int32_t> idx = Indices<int32_t>(n, s.data[axis], 12);
      const auto typed = [&]<class T>() {
        const std::vector<T> data = RandomValues<T>(static_cast<size_t>(s.data.elements()), 13);
        const std::vector<T> updates = RandomValues<T>(n, 14);
        for (ScatterReduction r : kReductions) {
          std::vector<T> want = data;
          for (size_t i = 0; i < n; ++i) {
            T& to = want[static_cast<size_t>(
                ElementSource(s.data, s.index, axis, static_cast<int64_t>(i), idx[i]))];
            to = Combine(r, to, updates[i]);
          }
          const std::vector<T> got = RunTeams<T>(data.size(), [&](Team& team, T* out) {
            std::memcpy(out, data.data(), data.size() * sizeof(T));
            ScatterElements(r, kDTypeOf<T>, s.data, s.index, axis, DType::kI32, idx.data(),
                            updates.data(), out, team);
          });
          ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(T)), 0)
              << s.data.ToString() << " axis " << axis << " reduction " << static_cast<int>(r);
        }
      };
      typed.template operator()<float>();
      typed.template operator()<double>();
      typed.template operator()<int64_t>();
      typed.template operator()<uint8_t>();
    }
  }
}

TEST(ScatterNd, SlicesRepeatsAndTypes) {
  const std::vector<int64_t> bounds = {3, 4};
  for (int64_t inner : {1, 7, 3000}) {
    const std::vector<int64_t> idx = {0, 0, -1, 3, 0, -4, 2, 3, 1, 1};  // two places hit twice
    const auto typed = [&]<class T>() {
      const std::vector<T> data = RandomValues<T>(static_cast<size_t>(12 * inner), 15);
      const std::vector<T> updates = RandomValues<T>(static_cast<size_t>(5 * inner), 16);
      for (ScatterReduction r : kReductions) {
        std::vector<T> want = data;
        for (int64_t j = 0; j < 5; ++j) {
          const int64_t at = Wrap(idx[static_cast<size_t>(2 * j)], 3) * 4 +
                             Wrap(idx[static_cast<size_t>(2 * j + 1)], 4);
          for (int64_t i = 0; i < inner; ++i) {
            T& to = want[static_cast<size_t>(at * inner + i)];
            to = Combine(r, to, updates[static_cast<size_t>(j * inner + i)]);
          }
        }
        const std::vector<T> got = RunTeams<T>(data.size(), [&](Team& team, T* out) {
          std::memcpy(out, data.data(), data.size() * sizeof(T));
          ScatterNd(r, kDTypeOf<T>, 5, 2, bounds.data(), inner, DType::kI64, idx.data(),
                    updates.data(), out, team);
        });
        ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(T)), 0)
            << "inner " << inner << " reduction " << static_cast<int>(r);
      }
    };
    typed.template operator()<float>();
    typed.template operator()<int32_t>();
    typed.template operator()<int16_t>();
  }
}

TEST(Scatter, HalvesBoolsAndNaN) {
  Team team(1);
  const int64_t bound = 2;
  const int64_t idx[3] = {0, 0, 1};
  F16 h[2] = {F16(2048.0f), F16(1.0f)};
  const F16 up[3] = {F16(1.0f), F16(1.0f), F16(0.5f)};
  ScatterNd(ScatterReduction::kAdd, DType::kF16, 3, 1, &bound, 1, DType::kI64, idx, up, h, team);
  EXPECT_EQ(static_cast<float>(h[0]), 2048.0f);  // every step rounds: 2049 ties to 2048
  EXPECT_EQ(static_cast<float>(h[1]), 1.5f);
  bool b[2] = {false, true};
  const bool ub[3] = {true, false, false};
  ScatterNd(ScatterReduction::kAdd, DType::kBool, 3, 1, &bound, 1, DType::kI64, idx, ub, b, team);
  EXPECT_TRUE(b[0] && b[1]);
  ScatterNd(ScatterReduction::kMin, DType::kBool, 3, 1, &bound, 1, DType::kI64, idx, ub, b, team);
  EXPECT_FALSE(b[0] || b[1]);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float f[2] = {1, nan};
  const float uf[3] = {nan, 5, 3};
  ScatterNd(ScatterReduction::kMax, DType::kF32, 3, 1, &bound, 1, DType::kI64, idx, uf, f, team);
  EXPECT_TRUE(std::isnan(f[0]) && std::isnan(f[1]));
  int8_t i[2] = {127, -128};
  const int8_t ui[3] = {1, 0, 2};
  ScatterNd(ScatterReduction::kAdd, DType::kI8, 3, 1, &bound, 1, DType::kI64, idx, ui, i, team);
  EXPECT_EQ(i[0], -128);
  EXPECT_EQ(i[1], -126);
}

}  // namespace
}  // namespace parallax::kernels
