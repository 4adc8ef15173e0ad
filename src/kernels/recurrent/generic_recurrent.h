// GenericRecurrent: the layers of recurrent.h for any float type, in portable C++.
//
// Role:       f64 (Acc double), f16 and bf16 (Acc float: everything but inputs and outputs is f32,
//             rounded once); the reference that tests hold the f32 path against (Acc double).
// Ownership:  borrows every pointer for the call.
// Threads:    pure apart from outputs and workspace; one task a sequence and direction.
// Cost:       reads W and R once a step of every sequence; allocates nothing.
// Invariants: those of recurrent.h.
// Example:
//   GenericRecurrent<double, double>(shape, tensors, workspace, team);
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/recurrent/rows.h"

namespace parallax::kernels {

namespace internal {

// Eight sums, so that the compiler may use vectors.
template <class Acc, class A, class B>
Acc Dot(const A* a, const B* b, int64_t n) {
  constexpr int64_t kSums = 8;
  Acc sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int64_t j = 0; j < kSums; ++j) {
      sums[j] += static_cast<Acc>(a[i + j]) * static_cast<Acc>(b[i + j]);
    }
  }
  for (; i < n; ++i) sums[i % kSums] += static_cast<Acc>(a[i]) * static_cast<Acc>(b[i]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// One sequence in one direction.
template <class Acc, class T>
class GenericSequence {
 public:
  GenericSequence(const RecurrentShape& s, const RecurrentTensors<T>& t, int d, int64_t b,
                  Acc* memory)
      : s_(s),
        t_(t),
        rows_{s, t.sequence_lens},
        d_(d),
        b_(b),
        n_(s.hidden),
        gates_(GatesOf(s.cell)),
        h_(memory),
        c_(h_ + n_),
        x_(c_ + n_),
        r_(x_ + gates_ * n_) {}

  static int64_t Elements(const RecurrentShape& s) { return (2 + 2 * GatesOf(s.cell)) * s.hidden; }

  void Run() {
    const int64_t state = rows_.State(d_, b_) * n_, length = rows_.Length(b_);
    for (int64_t k = 0; k < n_; ++k) {
      h_[k] = t_.initial_h == nullptr ? Acc(0) : static_cast<Acc>(t_.initial_h[state + k]);
      c_[k] = t_.initial_c == nullptr ? Acc(0) : static_cast<Acc>(t_.initial_c[state + k]);
    }
    for (int64_t step = 0; step < length; ++step) {
      const int64_t time = rows_.Time(d_, b_, step);
      Step(t_.x + rows_.X(time, b_) * s_.input);
      if (t_.y != nullptr) Store(h_, t_.y + rows_.Y(time, d_, b_) * n_);
    }
    for (int64_t time = length; t_.y != nullptr && time < s_.sequence; ++time) {
      std::fill_n(t_.y + rows_.Y(time, d_, b_) * n_, n_, T{});
    }
    if (length == 0) std::fill_n(h_, 2 * n_, Acc(0));
    if (t_.y_h != nullptr) Store(h_, t_.y_h + state);
    if (t_.y_c != nullptr) Store(c_, t_.y_c + state);
  }

 private:
  void Store(const Acc* values, T* out) const {
    for (int64_t k = 0; k < n_; ++k) out[k] = static_cast<T>(values[k]);
  }

  // Rows [begin, end) of W x and R h, each with its bias.
  void Products(const T* x, const Acc* h, int64_t begin, int64_t end) {
    const int64_t all = gates_ * n_;
    const T* bias = t_.b == nullptr ? nullptr : t_.b + d_ * 2 * all;
    for (int64_t g = begin; g < end; ++g) {
      x_[g] = Dot<Acc>(t_.w + (d_ * all + g) * s_.input, x, s_.input);
      r_[g] = Dot<Acc>(t_.r + (d_ * all + g) * n_, h, n_);
      if (bias != nullptr) {
        x_[g] += static_cast<Acc>(bias[g]);
        r_[g] += static_cast<Acc>(bias[all + g]);
      }
    }
  }

  Acc Gate(int function, Acc v) const {
    const Acc bound = static_cast<Acc>(s_.clip);
    v = v < -bound ? -bound : v > bound ? bound : v;
    return CellValue(s_.functions[d_][function], v);
  }

  void Step(const T* x) {
    switch (s_.cell) {
      case CellKind::kRnn:
        Products(x, h_, 0, n_);
        for (int64_t k = 0; k < n_; ++k) h_[k] = Gate(0, x_[k] + r_[k]);
        break;
      case CellKind::kGru:
        GruStep(x);
        break;
      case CellKind::kLstm:
        LstmStep(x);
        break;
    }
  }

  void GruStep(const T* x) {
    Products(x, h_, 0, 2 * n_);
    Acc* reset = r_ + n_;
    for (int64_t k = 0; k < n_; ++k) {
      x_[k] = Gate(0, x_[k] + r_[k]);
      reset[k] = Gate(0, x_[n_ + k] + reset[k]);
    }
    if (s_.linear_before_reset) {
      Products(x, h_, 2 * n_, 3 * n_);
      for (int64_t k = 0; k < n_; ++k) r_[2 * n_ + k] *= reset[k];
    } else {
      Acc* scaled = c_;  // GRU has no cell state
      for (int64_t k = 0; k < n_; ++k) scaled[k] = reset[k] * h_[k];
      Products(x, scaled, 2 * n_, 3 * n_);
    }
    for (int64_t k = 0; k < n_; ++k) {
      const Acc z = x_[k], candidate = Gate(1, x_[2 * n_ + k] + r_[2 * n_ + k]);
      h_[k] = (1 - z) * candidate + z * h_[k];
    }
  }

  void LstmStep(const T* x) {
    Products(x, h_, 0, 4 * n_);
    const T* p = t_.p == nullptr ? nullptr : t_.p + d_ * 3 * n_;
    const auto peephole = [&](int64_t gate, int64_t k, Acc c) {
      return p == nullptr ? Acc(0) : static_cast<Acc>(p[gate * n_ + k]) * c;
    };
    const auto sum = [&](int64_t gate, int64_t k) { return x_[gate * n_ + k] + r_[gate * n_ + k]; };
    for (int64_t k = 0; k < n_; ++k) {
      const Acc i = Gate(0, sum(0, k) + peephole(0, k, c_[k]));
      const Acc f = s_.input_forget ? 1 - i : Gate(0, sum(2, k) + peephole(2, k, c_[k]));
      c_[k] = f * c_[k] + i * Gate(1, sum(3, k));
      const Acc o = Gate(0, sum(1, k) + peephole(1, k, c_[k]));
      h_[k] = o * CellValue(s_.functions[d_][2], c_[k]);
    }
  }

  const RecurrentShape& s_;
  const RecurrentTensors<T>& t_;
  const RecurrentRows rows_;
  const int d_;
  const int64_t b_, n_, gates_;
  Acc* h_;  // [hidden]
  Acc* c_;  // [hidden], right after h_
  Acc* x_;  // [gates hidden]
  Acc* r_;  // [gates hidden]
};

}  // namespace internal

// Bytes of workspace, aligned for Acc.
template <class Acc>
size_t GenericRecurrentBytes(const RecurrentShape& s) {
  const int64_t each = internal::GenericSequence<Acc, Acc>::Elements(s);
  return static_cast<size_t>(s.directions * s.batch * each) * sizeof(Acc);
}

template <class Acc, class T>
void GenericRecurrent(const RecurrentShape& s, const RecurrentTensors<T>& t, void* workspace,
                      Team& team) {
  const int64_t each = internal::GenericSequence<Acc, T>::Elements(s);
  team.Run(s.directions * s.batch, [&](int64_t task, int) {
    internal::GenericSequence<Acc, T>(s, t, static_cast<int>(task / s.batch), task % s.batch,
                                      static_cast<Acc*>(workspace) + task * each)
        .Run();
  });
}

}  // namespace parallax::kernels
