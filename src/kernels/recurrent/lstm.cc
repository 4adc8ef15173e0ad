#include "kernels/recurrent/lstm.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/generic_gemm.h"

namespace parallax::kernels {
namespace {

constexpr int64_t kAlign = 64;

// out[m, n] = addend + a[m, k] * w[n, k]^T with w plain or packed.
GemmShape ProductShape(int64_t m, int64_t n, int64_t k, bool packed) {
  GemmShape s{.m = m, .n = n, .k = k};
  s.trans_b = Transpose::kYes;
  if (packed) s.packed = PackedOperand::kB;
  return s;
}

// Slices of the workspace, in elements.
struct Layout {
  int64_t all_gates = 0;  // [sequence * batch, 4 hidden] of one direction
  int64_t gates = 0;      // [batch, 4 hidden] of one step
  int64_t h = 0, c = 0;   // [batch, hidden]: state
  int64_t squashed = 0;   // [hidden]
  int64_t total = 0;

  Layout(const LstmShape& s, size_t element_size) {
    const int64_t unit = kAlign / static_cast<int64_t>(element_size);
    int64_t at = 0;
    const auto take = [&](int64_t n) {
      const int64_t begin = at;
      at += RoundUp(n, unit);
      return begin;
    };
    all_gates = take(s.sequence * s.batch * 4 * s.hidden);
    gates = take(s.batch * 4 * s.hidden);
    h = take(s.batch * s.hidden);
    c = take(s.batch * s.hidden);
    squashed = take(s.hidden);
    total = at;
  }
};

template <class T>
class Layer {
 public:
  Layer(const LstmShape& s, const LstmTensors<T>& t, void* workspace, Team& team)
      : s_(s), t_(t), team_(team), layout_(s, sizeof(T)) {
    T* base = static_cast<T*>(workspace);
    all_gates_ = base + layout_.all_gates;
    gates_ = base + layout_.gates;
    h_ = base + layout_.h;
    c_ = base + layout_.c;
    squashed_ = base + layout_.squashed;
    scratch_ = static_cast<std::byte*>(workspace) + static_cast<size_t>(layout_.total) * sizeof(T);
  }

  void Run() {
    if (t_.y != nullptr) {
      std::memset(
          t_.y, 0,
          static_cast<size_t>(s_.sequence * s_.directions * s_.batch * s_.hidden) * sizeof(T));
    }
    for (int d = 0; d < s_.directions; ++d) RunDirection(d);
  }

 private:
  bool BatchFirst() const { return s_.layout == RecurrentLayout::kBatchFirst; }
  int64_t XRow(int64_t t, int64_t b) const {
    return BatchFirst() ? b * s_.sequence + t : t * s_.batch + b;
  }
  int64_t YRow(int64_t t, int d, int64_t b) const {
    return BatchFirst() ? (b * s_.sequence + t) * s_.directions + d
                        : (t * s_.directions + d) * s_.batch + b;
  }
  int64_t StateRow(int d, int64_t b) const {
    return BatchFirst() ? b * s_.directions + d : d * s_.batch + b;
  }
  int64_t Length(int64_t b) const {
    return t_.sequence_lens == nullptr ? s_.sequence
                                       : std::clamp<int64_t>(t_.sequence_lens[b], 0, s_.sequence);
  }

  // out += a * w^T for one direction's rows of w.
  void Multiply(const T* a, const T* w, const void* packed, int64_t m, int64_t k, int d, T* out) {
    const int64_t n = 4 * s_.hidden;
    if constexpr (std::is_same_v<T, float>) {
      const GemmPlan plan = PlanGemm(ProductShape(m, n, k, packed != nullptr));
      GemmEpilogue epilogue;
      epilogue.then.residual = out;
      const float* b =
          packed == nullptr
              ? w + d * n * k
              : reinterpret_cast<const float*>(static_cast<const std::byte*>(packed) +
                                               static_cast<size_t>(d) * PackedBBytes(k, n));
      Gemm(plan, a, b, out, epilogue, scratch_, team_);
    } else {
      GenericGemmArgs<T, T, T, T> args;
      args.addend = out;
      args.addend_row = n;
      args.addend_column = 1;
      GenericGemm<T>(ProductShape(m, n, k, false), a, w + d * n * k, out, args, team_);
    }
  }

  void RunDirection(int d) {
    const int64_t hidden = s_.hidden, gates = 4 * hidden;
    const bool reverse = d == 1 || s_.first_is_reverse;
    // Both biases first, then the whole sequence times W.
    for (int64_t row = 0; row < s_.sequence * s_.batch; ++row) {
      T* out = all_gates_ + row * gates;
      for (int64_t i = 0; i < gates; ++i) {
        out[i] = t_.b == nullptr ? T(0) : t_.b[d * 2 * gates + i] + t_.b[d * 2 * gates + gates + i];
      }
    }
    Multiply(t_.x, t_.w, t_.packed_w, s_.sequence * s_.batch, s_.input, d, all_gates_);
    for (int64_t b = 0; b < s_.batch; ++b) {
      const int64_t row = StateRow(d, b) * hidden;
      for (int64_t i = 0; i < hidden; ++i) {
        h_[b * hidden + i] = t_.initial_h == nullptr ? T(0) : t_.initial_h[row + i];
        c_[b * hidden + i] = t_.initial_c == nullptr ? T(0) : t_.initial_c[row + i];
      }
    }
    for (int64_t step = 0; step < s_.sequence; ++step) {
      for (int64_t b = 0; b < s_.batch; ++b) {
        const int64_t t = TimeOf(step, b, reverse);
        T* out = gates_ + b * gates;
        if (t < 0) {
          std::fill_n(out, gates, T(0));
        } else {
          std::copy_n(all_gates_ + XRow(t, b) * gates, gates, out);
        }
      }
      Multiply(h_, t_.r, t_.packed_r, s_.batch, hidden, d, gates_);
      for (int64_t b = 0; b < s_.batch; ++b) {
        const int64_t t = TimeOf(step, b, reverse);
        if (t < 0) continue;  // this sequence has ended
        Cell(d, gates_ + b * gates, h_ + b * hidden, c_ + b * hidden);
        if (t_.y != nullptr) {
          std::copy_n(h_ + b * hidden, hidden, t_.y + YRow(t, d, b) * hidden);
        }
      }
    }
    for (int64_t b = 0; b < s_.batch; ++b) {
      const int64_t row = StateRow(d, b) * hidden;
      if (t_.y_h != nullptr) std::copy_n(h_ + b * hidden, hidden, t_.y_h + row);
      if (t_.y_c != nullptr) std::copy_n(c_ + b * hidden, hidden, t_.y_c + row);
    }
  }

  // The position that sequence b is at in this step, or -1.
  int64_t TimeOf(int64_t step, int64_t b, bool reverse) const {
    const int64_t length = Length(b);
    if (step >= length) return -1;
    return reverse ? length - 1 - step : step;
  }

  void Clip(T* x, int64_t n) const {
    if (s_.clip <= 0) return;
    const T bound = static_cast<T>(s_.clip);
    for (int64_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], -bound, bound);
  }

  // One step of one sequence: `g` holds the gates i o f c before their activations.
  void Cell(int d, T* g, T* h, T* c) {
    const int64_t n = s_.hidden;
    T* i = g;
    T* o = g + n;
    T* f = g + 2 * n;
    T* z = g + 3 * n;
    const T* p = t_.p == nullptr ? nullptr : t_.p + d * 3 * n;
    if (p != nullptr) {
      for (int64_t k = 0; k < n; ++k) {
        i[k] += p[k] * c[k];
        f[k] += p[2 * n + k] * c[k];
      }
    }
    const CellFunction* fn = s_.functions[d];
    Clip(i, n);
    ApplyAll(fn[0], i, n);
    if (s_.input_forget) {
      for (int64_t k = 0; k < n; ++k) f[k] = T(1) - i[k];
    } else {
      Clip(f, n);
      ApplyAll(fn[0], f, n);
    }
    Clip(z, n);
    ApplyAll(fn[1], z, n);
    for (int64_t k = 0; k < n; ++k) c[k] = f[k] * c[k] + i[k] * z[k];
    if (p != nullptr) {
      for (int64_t k = 0; k < n; ++k) o[k] += p[n + k] * c[k];
    }
    Clip(o, n);
    ApplyAll(fn[0], o, n);
    std::copy_n(c, n, squashed_);
    ApplyAll(fn[2], squashed_, n);
    for (int64_t k = 0; k < n; ++k) h[k] = o[k] * squashed_[k];
  }

  const LstmShape& s_;
  const LstmTensors<T>& t_;
  Team& team_;
  const Layout layout_;
  T* all_gates_;
  T* gates_;
  T* h_;
  T* c_;
  T* squashed_;
  std::byte* scratch_;
};

}  // namespace

size_t LstmWorkspaceBytes(const LstmShape& s, size_t element_size, int team_size) {
  const size_t slices = static_cast<size_t>(Layout(s, element_size).total) * element_size;
  if (element_size != sizeof(float)) return slices;
  size_t scratch = 0;
  for (bool packed : {false, true}) {
    const GemmPlan whole =
        PlanGemm(ProductShape(s.sequence * s.batch, 4 * s.hidden, s.input, packed));
    const GemmPlan step = PlanGemm(ProductShape(s.batch, 4 * s.hidden, s.hidden, packed));
    scratch = std::max(
        {scratch, GemmWorkspaceBytes(whole, team_size), GemmWorkspaceBytes(step, team_size)});
  }
  return slices + scratch;
}

size_t PackedLstmWeightBytes(const LstmShape& s, int64_t columns) {
  return static_cast<size_t>(s.directions) * PackedBBytes(columns, 4 * s.hidden);
}

void PackLstmWeights(const LstmShape& s, int64_t columns, const void* weights, void* packed) {
  const int64_t rows = 4 * s.hidden;
  const size_t source = static_cast<size_t>(rows * columns) * sizeof(float);
  const size_t bytes = PackedBBytes(columns, rows);
  for (int d = 0; d < s.directions; ++d) {
    const size_t i = static_cast<size_t>(d);
    PackB(columns, rows, Transpose::kYes, 0, static_cast<const std::byte*>(weights) + i * source,
          static_cast<std::byte*>(packed) + i * bytes);
  }
}

template <class T>
void Lstm(const LstmShape& shape, const LstmTensors<T>& tensors, void* workspace, Team& team) {
  Layer<T>(shape, tensors, workspace, team).Run();
}
template void Lstm<float>(const LstmShape&, const LstmTensors<float>&, void*, Team&);
template void Lstm<double>(const LstmShape&, const LstmTensors<double>&, void*, Team&);

}  // namespace parallax::kernels
