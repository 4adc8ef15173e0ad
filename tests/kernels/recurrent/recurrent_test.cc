// Recurrent on f32 against the portable layers in f64, on every SIMD target, for every kind of
// cell, direction, layout and packing; the same bits for every team.
#include "kernels/recurrent/recurrent.h"

#include <optional>

#include "kernels/recurrent/generic_recurrent.h"
#include "tests/kernels/dense_testing.h"

namespace parallax::kernels {
namespace {

using parallax::testing::ForEachTarget;
using parallax::testing::Gamma;
using parallax::testing::GuardedBytes;
using parallax::testing::RandomFloats;
using parallax::testing::TeamOf;

// A layer with data. Rows of R sum to at most kRowR in magnitude, those of W times x to kRowW.
// Small enough that errors die out from step to step: see Bound.
constexpr double kRowW = 0.25, kRowR = 0.05, kBias = 0.1, kPeephole = 0.05;

struct Case {
  RecurrentShape s;
  std::vector<float> x, w, r, b, h, c, p;
  std::vector<int32_t> lens;
  bool has_bias = true, has_states = true, has_peepholes = false;

  explicit Case(const RecurrentShape& shape, uint32_t seed) : s(shape) {
    const CellActivation f = CellActivation::kSigmoid, g = CellActivation::kTanh;
    for (auto& functions : s.functions) {
      functions[0].kind = s.cell == CellKind::kRnn ? g : f;
      functions[1].kind = functions[2].kind = g;
    }
    const int64_t rows = s.directions * GatesOf(s.cell) * s.hidden;
    const int64_t states = s.directions * s.batch * s.hidden;
    const auto scaled = [&seed](int64_t n, double scale) {
      std::vector<float> v = RandomFloats(n, ++seed);
      for (float& e : v) e *= static_cast<float>(scale);
      return v;
    };
    x = scaled(s.sequence * s.batch * s.input, 1);
    w = scaled(rows * s.input, kRowW / static_cast<double>(std::max<int64_t>(1, s.input)));
    r = scaled(rows * s.hidden, kRowR / static_cast<double>(s.hidden));
    b = scaled(rows * 2, kBias);
    h = scaled(states, 1);
    c = scaled(states, 1);
    p = scaled(s.directions * 3 * s.hidden, kPeephole);
    if (s.has_sequence_lens) {
      for (int64_t i = 0; i < s.batch; ++i) {
        lens.push_back(static_cast<int32_t>((s.sequence * (2 * i + 1) / 3) % (s.sequence + 1)));
      }
    }
  }

  RecurrentTensors<float> Tensors() const {
    RecurrentTensors<float> t;
    t.x = x.data();
    t.w = w.data();
    t.r = r.data();
    if (has_bias) t.b = b.data();
    if (s.has_sequence_lens) t.sequence_lens = lens.data();
    if (has_states) t.initial_h = h.data();
    if (has_states && s.cell == CellKind::kLstm) t.initial_c = c.data();
    if (has_peepholes) t.p = p.data();
    return t;
  }

  // The largest error of any output: what one step may add, and what it hands on, in the maximum
  // norm. delta bounds the rounding of a sum of input + hidden products and some additions
  // (Gamma, with |x|, |h| <= 1); 4 u that of an activation (math-inl.h: 2.2 last places of a
  // result of at most 1). Sigmoid's slope is 1/4 at most, tanh's 1; clipping has slope 1.
  double Bound() const {
    const double u = 0x1p-24, size = kRowW + kRowR + 2 * kBias;
    // No gate is above `open`: sigmoid of the largest argument, in which |c| has the largest value
    // that open * c + 1 allows (a fixed point, reached in some steps).
    double open = 0, cell = 1;
    for (int i = 0; i < 50; ++i) {
      open = 1 / (1 + std::exp(-size - (has_peepholes ? kPeephole * cell : 0)));
      cell = 1 / (1 - open);
    }
    const double delta = Gamma(s.input + s.hidden + 8) * (size + kPeephole * cell);
    double e = 0, e_c = 0;
    for (int64_t t = 0; t < s.sequence; ++t) {
      const double peephole = has_peepholes ? kPeephole : 0;
      const double gate = (kRowR * e + peephole * e_c + delta) / 4 + 4 * u;
      switch (s.cell) {
        case CellKind::kRnn:
          e = kRowR * e + delta + 4 * u;
          break;
        case CellKind::kGru: {
          // r h, then R; or R h + b, then r: |R h + b| <= 1 here.
          const double candidate = kRowR * e + gate + delta + 8 * u;
          e = open * std::max(candidate, e) + (1 - open) * candidate + 2 * gate + 4 * u;
          break;
        }
        case CellKind::kLstm: {
          const double candidate = kRowR * e + delta + 4 * u;
          e_c = open * e_c + cell * gate + gate + candidate + 4 * u * cell;
          const double output = (kRowR * e + peephole * e_c + delta) / 4 + 4 * u;
          e = e_c + output + 8 * u;
          break;
        }
      }
    }
    return std::max(e, e_c);
  }
};

struct Outputs {
  std::vector<float> y, h, c;
};

Outputs MakeOutputs(const RecurrentShape& s) {
  const size_t states = static_cast<size_t>(s.directions * s.batch * s.hidden);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {std::vector<float>(states * static_cast<size_t>(s.sequence), nan),
          std::vector<float>(states, nan), std::vector<float>(states, nan)};
}

template <class T>
RecurrentTensors<T> WithOutputs(RecurrentTensors<T> t, const RecurrentShape& s, Outputs* out) {
  t.y = out->y.data();
  t.y_h = out->h.data();
  if (s.cell == CellKind::kLstm) t.y_c = out->c.data();
  return t;
}

Outputs Reference(const Case& k) {
  Outputs out = MakeOutputs(k.s);
  std::vector<double> workspace(GenericRecurrentBytes<double>(k.s) / sizeof(double));
  GenericRecurrent<double, float>(k.s, WithOutputs(k.Tensors(), k.s, &out), workspace.data(),
                                  TeamOf(1));
  return out;
}

Outputs Fast(const Case& k, RecurrentPacking packing, int team) {
  Outputs out = MakeOutputs(k.s);
  RecurrentTensors<float> t = WithOutputs(k.Tensors(), k.s, &out);
  GuardedBytes w(PackedInputBytes(k.s)), r(PackedRecurrenceBytes(k.s));
  if (packing.w) {
    PackInputWeights(k.s, k.w.data(), w.get());
    t.w = w.floats();
  }
  if (packing.r) {
    PackRecurrenceWeights(k.s, k.r.data(), r.get());
    t.r = r.floats();
  }
  const RecurrentPlan plan = PlanRecurrent(k.s, packing);
  GuardedBytes workspace(RecurrentWorkspaceBytes(plan, team));
  Recurrent(plan, t, workspace.get(), TeamOf(team));
  workspace.CheckGuards();
  w.CheckGuards();
  r.CheckGuards();
  return out;
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    // The reference is rounded once more.
    ASSERT_NEAR(got[i], want[i], bound + std::abs(static_cast<double>(want[i])) * 0x1p-24)
        << "element " << i;
  }
}

void Check(const Case& k) {
  const Outputs want = Reference(k);
  const double bound = k.Bound();
  ASSERT_LT(bound, 1e-4) << "the bound would not see a wrong formula";
  for (const RecurrentPacking packing :
       {RecurrentPacking{}, RecurrentPacking{.w = true, .r = true}, RecurrentPacking{.w = true}}) {
    SCOPED_TRACE(::testing::Message() << "packed " << packing.w << packing.r);
    const Outputs one = Fast(k, packing, 1);
    ExpectNear(one.y, want.y, bound);
    ExpectNear(one.h, want.h, bound);
    if (k.s.cell == CellKind::kLstm) ExpectNear(one.c, want.c, bound);
    for (int team : {2, 3, 4}) {
      const Outputs other = Fast(k, packing, team);
      ASSERT_EQ(memcmp(one.y.data(), other.y.data(), one.y.size() * sizeof(float)), 0) << team;
      ASSERT_EQ(memcmp(one.h.data(), other.h.data(), one.h.size() * sizeof(float)), 0) << team;
      ASSERT_EQ(memcmp(one.c.data(), other.c.data(), one.c.size() * sizeof(float)), 0) << team;
    }
  }
}

class RecurrentTest : public ::testing::TestWithParam<CellKind> {
 protected:
  RecurrentShape Shape(int64_t sequence, int64_t batch, int64_t input, int64_t hidden) const {
    RecurrentShape s;
    s.cell = GetParam();
    s.sequence = sequence;
    s.batch = batch;
    s.input = input;
    s.hidden = hidden;
    return s;
  }
};

TEST_P(RecurrentTest, DirectionsLayoutsAndLengths) {
  ForEachTarget([&](const char*) {
    for (int direction = 0; direction < 3; ++direction) {
      for (const RecurrentLayout layout :
           {RecurrentLayout::kSequenceFirst, RecurrentLayout::kBatchFirst}) {
        for (bool lens : {false, true}) {
          RecurrentShape s = Shape(7, 3, 5, 9);
          s.directions = direction == 2 ? 2 : 1;
          s.first_is_reverse = direction == 1;
          s.layout = layout;
          s.has_sequence_lens = lens;
          SCOPED_TRACE(::testing::Message() << "direction " << direction << ", layout "
                                            << static_cast<int>(layout) << ", lengths " << lens);
          Check(Case(s, 1));
        }
      }
    }
  });
}

TEST_P(RecurrentTest, Sizes) {
  ForEachTarget([&](const char*) {
    for (const auto& [sequence, batch, input, hidden] : {std::array<int64_t, 4>{1, 1, 1, 1},
                                                         {1, 1, 64, 130},
                                                         {1, 4, 3, 17},
                                                         {2, 33, 0, 8},
                                                         {5, 1, 200, 31},
                                                         {3, 300, 2, 3}}) {
      RecurrentShape s = Shape(sequence, batch, input, hidden);
      s.directions = 2;
      SCOPED_TRACE(::testing::Message()
                   << sequence << 'x' << batch << 'x' << input << ", hidden " << hidden);
      Check(Case(s, 2));
    }
  });
}

TEST_P(RecurrentTest, LongSequencesInBlocks) {
  for (int64_t sequence : {256, 257, 530}) {
    for (bool lens : {false, true}) {
      RecurrentShape s = Shape(sequence, lens ? 2 : 1, 3, 4);
      s.directions = 2;
      s.has_sequence_lens = lens;
      SCOPED_TRACE(::testing::Message() << sequence << " steps, lengths " << lens);
      Check(Case(s, 3));
    }
  }
}

TEST_P(RecurrentTest, OptionsOfCells) {
  ForEachTarget([&](const char*) {
    for (int bits = 0; bits < 16; ++bits) {
      RecurrentShape s = Shape(4, 2, 6, 11);
      s.directions = 2;
      const bool option = (bits & 1) != 0;
      s.linear_before_reset = option;
      s.input_forget = option;
      if ((bits & 2) != 0) s.clip = 0.3f;
      Case k(s, 4);
      k.has_bias = (bits & 4) != 0;
      k.has_states = (bits & 8) != 0;
      k.has_peepholes = s.cell == CellKind::kLstm && (bits & 8) != 0;
      SCOPED_TRACE(::testing::Message() << "options " << bits);
      Check(k);
    }
  });
}

TEST_P(RecurrentTest, NothingToDo) {
  for (const auto& [sequence, batch] : {std::array<int64_t, 2>{0, 2}, {3, 0}}) {
    const Case k(Shape(sequence, batch, 4, 5), 5);
    const Outputs out = Fast(k, {}, 2);
    for (float v : out.h) EXPECT_EQ(v, 0);  // no step was run: ONNX Runtime's answer
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, RecurrentTest,
                         ::testing::Values(CellKind::kRnn, CellKind::kGru, CellKind::kLstm),
                         [](const auto& param) {
                           return param.param == CellKind::kRnn   ? "Rnn"
                                  : param.param == CellKind::kGru ? "Gru"
                                                                  : "Lstm";
                         });

// f32 on SIMD against f64, in last places of the result: Softplus and Sigmoid 2.2, the others less;
// two scalings of ScaledTanh and the product of Elu add one each; Affine and HardSigmoid cancel.
TEST(CellFunctionTest, EveryFunction) {
  const int64_t n = 4003;
  ForEachTarget([&](const char*) {
    for (int kind = 0; kind <= static_cast<int>(CellActivation::kSoftplus); ++kind) {
      const CellFunction f{static_cast<CellActivation>(kind), 0.75f, 0.5f};
      std::vector<float> x = RandomFloats(n, 7), y;
      for (float& v : x) v *= 8;
      x[0] = 0.75f;  // ThresholdedRelu keeps alpha itself
      x[1] = std::numeric_limits<float>::quiet_NaN();
      y = x;
      ApplyCellFunction(f, y.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const size_t at = static_cast<size_t>(i);
        const double want = CellValue(f, static_cast<double>(x[at]));
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(y[at])) << "function " << kind;
          continue;
        }
        // Absolute part: one rounding of alpha x (at most 6), where the sum cancels.
        ASSERT_NEAR(y[at], want, std::abs(want) * 4 * 0x1p-23 + 6 * 0x1p-24)
            << "function " << kind << " of " << x[at];
      }
    }
  });
}

}  // namespace
}  // namespace parallax::kernels
