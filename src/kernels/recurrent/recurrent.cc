#include "kernels/recurrent/recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "kernels/elementwise/unary_f32.h"
#include "kernels/recurrent/cell_f32.h"
#include "kernels/recurrent/rows.h"

namespace parallax::kernels {
namespace {

constexpr int64_t kAlign = 64;
// Rows of x W^T computed together: enough for GEMM's own blocks (128 rows), few enough that the
// result stays in L2 or L3 until its steps read it.
constexpr int64_t kChunkRows = 256;
// Hidden values of one task of cells: about five transcendental functions each, some microseconds.
constexpr int64_t kTaskCells = 1024;

// GRU needs r before it can multiply by R_h, unless linear_before_reset.
bool TwoProducts(const RecurrentShape& s) {
  return s.cell == CellKind::kGru && !s.linear_before_reset;
}
// Columns of the step's first product with R.
int64_t FirstColumns(const RecurrentShape& s) {
  return (TwoProducts(s) ? 2 : GatesOf(s.cell)) * s.hidden;
}
// Floats of one direction's R packed: its first product's operand, then the second one's.
int64_t PackedFirst(const RecurrentShape& s) {
  return static_cast<int64_t>(PackedBBytes(s.hidden, FirstColumns(s)) / sizeof(float));
}
int64_t PackedDirection(const RecurrentShape& s) {
  const size_t second = TwoProducts(s) ? PackedBBytes(s.hidden, s.hidden) : 0;
  return PackedFirst(s) + static_cast<int64_t>(second / sizeof(float));
}
int64_t PackedInputDirection(const RecurrentShape& s) {
  return static_cast<int64_t>(PackedBBytes(s.input, GatesOf(s.cell) * s.hidden) / sizeof(float));
}

// The rows of x that direction d reads in some steps lie together, in the order of the steps or
// against it.
bool InputContiguous(const RecurrentShape& s, int d) {
  const bool time_major =
      s.layout == RecurrentLayout::kSequenceFirst || s.batch == 1 || s.sequence == 1;
  return time_major && !(s.has_sequence_lens && (d == 1 || s.first_is_reverse));
}

// One product for all directions: [batch, hidden] x [hidden, n] each.
GemmPlan PlanStep(const RecurrentShape& s, int64_t n, bool packed) {
  GemmShape g{.m = s.batch, .n = n, .k = s.hidden, .trans_b = Transpose::kYes};
  if (packed) g.packed = PackedOperand::kB;
  g.batch.rank = 1;
  g.batch.extents[0] = s.directions;
  g.batch.a_strides[0] = s.batch * s.hidden;
  g.batch.b_strides[0] = packed ? PackedDirection(s) : GatesOf(s.cell) * s.hidden * s.hidden;
  g.batch.c_strides[0] = s.batch * n;
  return PlanGemm(g);
}

GemmPlan PlanInput(const RecurrentShape& s, int64_t steps, bool packed) {
  GemmShape g{.m = steps * s.batch,
              .n = GatesOf(s.cell) * s.hidden,
              .k = s.input,
              .trans_b = Transpose::kYes};
  if (packed) g.packed = PackedOperand::kB;
  return PlanGemm(g);
}

// One call.
class Layer {
 public:
  Layer(const RecurrentPlan& plan, const RecurrentTensors<float>& t, std::byte* workspace,
        Team& team)
      : plan_(plan),
        s_(plan.shape),
        t_(t),
        at_{s_, t.sequence_lens},
        team_(team),
        bias_(reinterpret_cast<float*>(workspace + plan.bias)),
        x_rows_(reinterpret_cast<float*>(workspace + plan.rows)),
        xw_(reinterpret_cast<float*>(workspace + plan.xw)),
        gates_(reinterpret_cast<float*>(workspace + plan.gates)),
        reset_(reinterpret_cast<float*>(workspace + plan.reset)),
        h_(reinterpret_cast<float*>(workspace + plan.h)),
        c_(reinterpret_cast<float*>(workspace + plan.c)),
        r_(t.r),
        scratch_(workspace + plan.scratch) {
    if (plan.packs_r) {
      float* packed = reinterpret_cast<float*>(workspace + plan.r);
      PackRecurrenceWeights(s_, t.r, packed);
      r_ = packed;
    }
  }

  void Run() {
    AddBiases();
    LoadStates();
    const int64_t steps = at_.LongestLength();
    for (int64_t first = 0; first < steps; first += plan_.chunk_steps) {
      const int64_t count = std::min(plan_.chunk_steps, s_.sequence - first);
      MultiplyInputs(first, count);
      for (int64_t step = first; step < std::min(steps, first + count); ++step) Step(step);
    }
    StoreStates();
  }

 private:
  int64_t Gates() const { return GatesOf(s_.cell) * s_.hidden; }
  const float* InputBias(int d) const { return t_.b + d * 2 * Gates(); }
  const float* RecurrenceBias(int d) const { return t_.b + (d * 2 + 1) * Gates(); }

  // bias_[directions, gates hidden]: all that is added outside of R_h h's product with r.
  void AddBiases() {
    if (t_.b == nullptr) return;
    const int64_t both =
        s_.cell == CellKind::kGru && s_.linear_before_reset ? 2 * s_.hidden : Gates();
    for (int d = 0; d < s_.directions; ++d) {
      float* out = bias_ + d * Gates();
      CellAdd(InputBias(d), RecurrenceBias(d), out, both);
      std::copy_n(InputBias(d) + both, Gates() - both, out + both);
    }
  }

  void LoadStates() {
    ForStates([&](int d, int64_t b) {
      Load(t_.initial_h, d, b, h_);
      if (s_.cell == CellKind::kLstm) Load(t_.initial_c, d, b, c_);
    });
  }
  void Load(const float* initial, int d, int64_t b, float* states) {
    float* state = states + (d * s_.batch + b) * s_.hidden;
    if (initial == nullptr) {
      std::fill_n(state, s_.hidden, 0.0f);
    } else {
      std::copy_n(initial + at_.State(d, b) * s_.hidden, s_.hidden, state);
    }
  }

  // Final states, and zeros past each sequence's end.
  void StoreStates() {
    ForStates([&](int d, int64_t b) {
      const int64_t length = at_.Length(b);
      for (int64_t time = length; t_.y != nullptr && time < s_.sequence; ++time) {
        std::fill_n(t_.y + at_.Y(time, d, b) * s_.hidden, s_.hidden, 0.0f);
      }
      Store(h_, length, d, b, t_.y_h);
      if (s_.cell == CellKind::kLstm) Store(c_, length, d, b, t_.y_c);
    });
  }
  void Store(const float* states, int64_t length, int d, int64_t b, float* out) {
    if (out == nullptr) return;
    float* row = out + at_.State(d, b) * s_.hidden;
    if (length == 0) {
      std::fill_n(row, s_.hidden, 0.0f);
    } else {
      std::copy_n(states + (d * s_.batch + b) * s_.hidden, s_.hidden, row);
    }
  }
  template <class F>
  void ForStates(F&& f) {
    for (int d = 0; d < s_.directions; ++d) {
      for (int64_t b = 0; b < s_.batch; ++b) f(d, b);
    }
  }

  bool Contiguous(int d) const { return InputContiguous(s_, d); }

  // xw_[d] = x W^T + bias for `count` steps from `first` on; XwRow says where each row is.
  void MultiplyInputs(int64_t first, int64_t count) {
    first_ = first;
    count_ = count;
    const GemmPlan& plan = count == plan_.chunk_steps ? plan_.input : plan_.input_tail;
    for (int d = 0; d < s_.directions; ++d) {
      const float* rows = x_rows_;
      if (Contiguous(d)) {
        const int64_t time = at_.Reverse(d) ? s_.sequence - first - count : first;
        rows = t_.x + time * s_.batch * s_.input;
      } else {
        GatherRows(d);
      }
      GemmEpilogue epilogue;
      if (t_.b != nullptr) epilogue.bias = bias_ + d * Gates();
      const int64_t w_step = plan_.packed.w ? PackedInputDirection(s_) : Gates() * s_.input;
      Gemm(plan, rows, t_.w + d * w_step, XwDirection(d), epilogue, scratch_, team_);
    }
  }
  void GatherRows(int d) {
    team_.Run(count_, [&](int64_t i, int) {
      for (int64_t b = 0; b < s_.batch; ++b) {
        float* out = x_rows_ + (i * s_.batch + b) * s_.input;
        if (first_ + i < at_.Length(b)) {
          const int64_t time = at_.Time(d, b, first_ + i);
          std::copy_n(t_.x + at_.X(time, b) * s_.input, s_.input, out);
        } else {
          std::fill_n(out, s_.input, 0.0f);
        }
      }
    });
  }
  float* XwDirection(int d) const { return xw_ + d * plan_.chunk_steps * s_.batch * Gates(); }
  const float* XwRow(int d, int64_t b, int64_t step) const {
    const int64_t i =
        Contiguous(d) && at_.Reverse(d) ? count_ - 1 - (step - first_) : step - first_;
    return XwDirection(d) + (i * s_.batch + b) * Gates();
  }

  void Step(int64_t step) {
    Gemm(plan_.recurrence, h_, r_, gates_, {}, scratch_, team_);
    if (!TwoProducts(s_)) {
      ForCells(step, [&](const Cell& cell) {
        if (s_.cell == CellKind::kLstm) {
          LstmCell(cell);
        } else if (s_.cell == CellKind::kGru) {
          GruGates(cell, 2 * s_.hidden);
          GruLinearCell(cell);
        } else {
          RnnCell(cell);
        }
        Emit(cell, step);
      });
      return;
    }
    ForCells(step, [&](const Cell& cell) {
      GruGates(cell, 2 * s_.hidden);
      CellMul(cell.gates + s_.hidden, cell.h, reset_ + cell.index * s_.hidden, s_.hidden);
    });
    const bool packed = plan_.packed.r || plan_.packs_r;
    const float* r_h = r_ + (packed ? PackedFirst(s_) : 2 * s_.hidden * s_.hidden);
    float* products = gates_ + s_.directions * s_.batch * 2 * s_.hidden;
    Gemm(plan_.candidate, reset_, r_h, products, {}, scratch_, team_);
    ForCells(step, [&](const Cell& cell) {
      float* candidate = products + cell.index * s_.hidden;
      CellAdd(cell.xw + 2 * s_.hidden, candidate, candidate, s_.hidden);
      GruFinish(cell, candidate);
      Emit(cell, step);
    });
  }

  // One sequence and direction in this step.
  struct Cell {
    int d = 0;
    int64_t b = 0, index = 0;
    const float* xw = nullptr;  // [gates hidden]
    float* gates = nullptr;     // [FirstColumns]
    float* h = nullptr;
    float* c = nullptr;
  };
  // f for every sequence that has not ended.
  template <class F>
  void ForCells(int64_t step, F&& f) {
    const int64_t cells = s_.directions * s_.batch;
    const int64_t each = std::max<int64_t>(1, kTaskCells / std::max<int64_t>(1, s_.hidden));
    team_.Run(CeilDiv(cells, each), [&](int64_t task, int) {
      for (int64_t i = task * each; i < std::min(cells, (task + 1) * each); ++i) {
        Cell cell;
        cell.d = static_cast<int>(i / s_.batch);
        cell.b = i % s_.batch;
        if (step >= at_.Length(cell.b)) continue;
        cell.index = i;
        cell.xw = XwRow(cell.d, cell.b, step);
        cell.gates = gates_ + i * FirstColumns(s_);
        cell.h = h_ + i * s_.hidden;
        cell.c = c_ + i * s_.hidden;
        f(cell);
      }
    });
  }

  void Emit(const Cell& cell, int64_t step) {
    if (t_.y == nullptr) return;
    const int64_t time = at_.Time(cell.d, cell.b, step);
    std::copy_n(cell.h, s_.hidden, t_.y + at_.Y(time, cell.d, cell.b) * s_.hidden);
  }

  // Clip, then the direction's f (0), g (1).
  void Activate(int d, int function, float* x, int64_t n) const {
    if (s_.clip < std::numeric_limits<float>::infinity()) ClipF32(x, x, n, -s_.clip, s_.clip);
    ApplyCellFunction(s_.functions[d][function], x, n);
  }

  void RnnCell(const Cell& cell) {
    CellAdd(cell.xw, cell.gates, cell.h, s_.hidden);
    Activate(cell.d, 0, cell.h, s_.hidden);
  }

  // z and r, the first `n` gates.
  void GruGates(const Cell& cell, int64_t n) {
    CellAdd(cell.xw, cell.gates, cell.gates, n);
    Activate(cell.d, 0, cell.gates, n);
  }
  void GruLinearCell(const Cell& cell) {
    const int64_t n = s_.hidden;
    float* candidate = cell.gates + 2 * n;
    const float* bias = t_.b == nullptr ? nullptr : RecurrenceBias(cell.d) + 2 * n;
    CellGruLinear(cell.xw + 2 * n, cell.gates + n, candidate, bias, candidate, n);
    GruFinish(cell, candidate);
  }
  void GruFinish(const Cell& cell, float* candidate) {
    Activate(cell.d, 1, candidate, s_.hidden);
    CellGruBlend(cell.gates, candidate, cell.h, s_.hidden);
  }

  void LstmCell(const Cell& cell) {
    const int64_t n = s_.hidden;
    float* i = cell.gates;
    float* o = i + n;
    float* f = i + 2 * n;
    float* g = i + 3 * n;
    const float* p = t_.p == nullptr ? nullptr : t_.p + cell.d * 3 * n;
    CellAdd(cell.xw, cell.gates, cell.gates, 4 * n);
    if (p != nullptr) {
      CellMulAdd(p, cell.c, i, n);
      CellMulAdd(p + 2 * n, cell.c, f, n);
    }
    if (p == nullptr && !s_.input_forget) {
      Activate(cell.d, 0, i, 3 * n);  // i, o and f lie together
    } else {
      Activate(cell.d, 0, i, n);
      if (s_.input_forget) {
        CellOneMinus(i, f, n);
      } else {
        Activate(cell.d, 0, f, n);
      }
    }
    Activate(cell.d, 1, g, n);
    CellLstmState(i, f, g, cell.c, n);
    if (p != nullptr) CellMulAdd(p + n, cell.c, o, n);
    if (p != nullptr || s_.input_forget) Activate(cell.d, 0, o, n);
    std::copy_n(cell.c, n, g);
    ApplyCellFunction(s_.functions[cell.d][2], g, n);
    CellMul(o, g, cell.h, n);
  }

  const RecurrentPlan& plan_;
  const RecurrentShape& s_;
  const RecurrentTensors<float>& t_;
  const RecurrentRows at_;
  Team& team_;
  float* bias_;
  float* x_rows_;  // [chunk_steps batch, input], of one direction
  float* xw_;      // [directions, chunk_steps batch, gates hidden]
  // [directions, batch, FirstColumns], and for two products [directions, batch, hidden] after that.
  float* gates_;
  float* reset_;    // [directions, batch, hidden]: r h
  float* h_;        // [directions, batch, hidden]
  float* c_;        // [directions, batch, hidden]
  const float* r_;  // plain or packed
  std::byte* scratch_;
  int64_t first_ = 0, count_ = 0;  // steps that xw_ holds
};

}  // namespace

size_t PackedInputBytes(const RecurrentShape& s) {
  return static_cast<size_t>(s.directions * PackedInputDirection(s)) * sizeof(float);
}

void PackInputWeights(const RecurrentShape& s, const void* w, void* packed) {
  const int64_t n = GatesOf(s.cell) * s.hidden;
  for (int d = 0; d < s.directions; ++d) {
    PackB(s.input, n, Transpose::kYes, 0,
          static_cast<const std::byte*>(w) + static_cast<size_t>(d * n * s.input) * sizeof(float),
          static_cast<float*>(packed) + d * PackedInputDirection(s));
  }
}

size_t PackedRecurrenceBytes(const RecurrentShape& s) {
  return static_cast<size_t>(s.directions * PackedDirection(s)) * sizeof(float);
}

void PackRecurrenceWeights(const RecurrentShape& s, const void* r, void* packed) {
  const int64_t k = s.hidden, first = FirstColumns(s);
  for (int d = 0; d < s.directions; ++d) {
    const auto* source = static_cast<const std::byte*>(r) +
                         static_cast<size_t>(d * GatesOf(s.cell) * k * k) * sizeof(float);
    float* out = static_cast<float*>(packed) + d * PackedDirection(s);
    PackB(k, first, Transpose::kYes, 0, source, out);
    if (TwoProducts(s)) {
      PackB(k, k, Transpose::kYes, 0, source + static_cast<size_t>(first * k) * sizeof(float),
            out + PackedFirst(s));
    }
  }
}

RecurrentPlan PlanRecurrent(const RecurrentShape& shape, RecurrentPacking packed) {
  RecurrentPlan plan;
  plan.shape = shape;
  plan.packed = packed;
  const RecurrentShape& s = plan.shape;
  plan.packs_r = !packed.r && s.sequence > 1;
  const bool packed_r = packed.r || plan.packs_r;
  plan.chunk_steps =
      std::min(s.sequence, std::max<int64_t>(1, kChunkRows / std::max<int64_t>(1, s.batch)));
  plan.input = PlanInput(s, plan.chunk_steps, packed.w);
  if (plan.chunk_steps > 0 && s.sequence % plan.chunk_steps != 0) {
    plan.input_tail = PlanInput(s, s.sequence % plan.chunk_steps, packed.w);
  }
  plan.recurrence = PlanStep(s, FirstColumns(s), packed_r);
  if (TwoProducts(s)) plan.candidate = PlanStep(s, s.hidden, packed_r);

  size_t at = 0;
  const auto take = [&at](int64_t floats) {
    const size_t offset = at;
    at += static_cast<size_t>(RoundUp(floats * static_cast<int64_t>(sizeof(float)), kAlign));
    return offset;
  };
  const int64_t chunk_rows = plan.chunk_steps * s.batch, states = s.directions * s.batch * s.hidden;
  plan.bias = take(s.directions * GatesOf(s.cell) * s.hidden);
  const bool gathers = !InputContiguous(s, 0) || !InputContiguous(s, s.directions - 1);
  plan.rows = take(gathers ? chunk_rows * s.input : 0);
  plan.xw = take(s.directions * chunk_rows * GatesOf(s.cell) * s.hidden);
  plan.gates = take(states * GatesOf(s.cell));
  plan.reset = take(TwoProducts(s) ? states : 0);
  plan.h = take(states);
  plan.c = take(s.cell == CellKind::kLstm ? states : 0);
  plan.r = take(plan.packs_r ? s.directions * PackedDirection(s) : 0);
  plan.scratch = at;
  return plan;
}

size_t RecurrentWorkspaceBytes(const RecurrentPlan& plan, int team_size) {
  size_t scratch = 0;
  for (const GemmPlan* p : {&plan.input, &plan.input_tail, &plan.recurrence, &plan.candidate}) {
    scratch = std::max(scratch, GemmWorkspaceBytes(*p, team_size));
  }
  return plan.scratch + scratch;
}

void Recurrent(const RecurrentPlan& plan, const RecurrentTensors<float>& tensors, void* workspace,
               Team& team) {
  Layer(plan, tensors, static_cast<std::byte*>(workspace), team).Run();
}

}  // namespace parallax::kernels
