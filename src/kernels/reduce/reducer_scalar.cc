// Reducers of f64, integers and bool as plain loops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/convert.h"
#include "kernels/reduce/log_sum_exp.h"
#include "kernels/reduce/reducer.h"

namespace parallax::kernels {
namespace {

// A reducer from Identity(), Take(Acc&, In) and Merge, with four accumulators along memory so that
// the chain of additions is not the limit.
template <class Self, class T, class A>
struct Loops {
  using In = T;
  using Out = T;
  using Acc = A;
  static void Run(const T* x, int64_t n, A& acc) {
    A part[4] = {acc, Self::Identity(), Self::Identity(), Self::Identity()};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      for (int64_t k = 0; k < 4; ++k) Self::Take(part[k], x[i + k]);
    }
    for (; i < n; ++i) Self::Take(part[0], x[i]);
    Self::Merge(part[0], part[1]);
    Self::Merge(part[2], part[3]);
    Self::Merge(part[0], part[2]);
    acc = part[0];
  }
  static void Rows(const T* x, int64_t stride, int64_t rows, int64_t cols, A* acc) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) Self::Take(acc[c], x[r * stride + c]);
    }
  }
};

// Sums of terms. Integer sums are modulo 2^64, which agrees with every narrower type's own wrap.
template <class T, ReduceOp kOp>
struct SumOf
    : Loops<SumOf<T, kOp>, T, std::conditional_t<std::is_integral_v<T>, uint64_t, double>> {
  using Acc = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  static Acc Identity() { return kOp == ReduceOp::kProd ? 1 : 0; }
  static void Take(Acc& acc, T x) {
    const Acc v = static_cast<Acc>(x);  // sign-extended
    if constexpr (kOp == ReduceOp::kProd) {
      acc *= v;
    } else if constexpr (kOp == ReduceOp::kL1) {
      acc += x < 0 ? Acc(0) - v : v;
    } else if constexpr (kOp == ReduceOp::kSumSquare) {
      acc += v * v;
    } else {
      acc += v;
    }
  }
  static void Merge(Acc& a, Acc b) {
    if constexpr (kOp == ReduceOp::kProd) {
      a *= b;
    } else {
      a += b;
    }
  }
  static T Finish(Acc acc, int64_t count) {
    if constexpr (kOp == ReduceOp::kMean) {
      if constexpr (std::is_same_v<T, double>) {
        return acc / static_cast<double>(count);
      } else if constexpr (std::is_signed_v<T>) {
        return static_cast<T>(count == 0 ? 0 : static_cast<int64_t>(acc) / count);
      } else {
        return static_cast<T>(count == 0 ? 0 : acc / static_cast<uint64_t>(count));
      }
    } else {
      return static_cast<T>(acc);
    }
  }
};

// Roots and logarithms of sums: in f64 for every type.
template <class T, ReduceOp kOp>
struct RootOf : Loops<RootOf<T, kOp>, T, double> {
  using Acc = double;
  static Acc Identity() { return 0; }
  static void Take(Acc& acc, T x) {
    const double v = static_cast<double>(x);
    acc += kOp == ReduceOp::kL2 ? v * v : v;
  }
  static void Merge(Acc& a, Acc b) { a += b; }
  static T Finish(Acc acc, int64_t) {
    return Convert<T>(kOp == ReduceOp::kL2 ? std::sqrt(acc) : std::log(acc));
  }
};

template <class T, ReduceOp kOp>
struct ExtremeOf : Loops<ExtremeOf<T, kOp>, T, T> {
  using L = std::numeric_limits<T>;
  static T Identity() {
    if constexpr (kOp == ReduceOp::kMax) return L::has_infinity ? -L::infinity() : L::lowest();
    return L::has_infinity ? L::infinity() : L::max();
  }
  static void Take(T& acc, T x) {
    if constexpr (std::is_floating_point_v<T>) {
      if (acc != acc) return;
      if (x != x) acc = x;
    }
    if constexpr (kOp == ReduceOp::kMax) {
      acc = acc < x ? x : acc;
    } else {
      acc = x < acc ? x : acc;
    }
  }
  static void Merge(T& a, T b) { Take(a, b); }
  static T Finish(T acc, int64_t) { return acc; }
};

template <class T>
struct LogSumExpOf {
  using In = T;
  using Out = T;
  using Acc = ShiftedSum;
  static Acc Identity() { return {}; }
  static void Run(const T* x, int64_t n, Acc& acc) { Column(x, 1, n, acc); }
  static void Rows(const T* x, int64_t stride, int64_t rows, int64_t cols, Acc* acc) {
    for (int64_t c = 0; c < cols; ++c) Column(x + c, stride, rows, acc[c]);
  }
  static void Merge(Acc& a, const Acc& b) { a.Merge(b); }
  static T Finish(const Acc& acc, int64_t) { return Convert<T>(acc.Log()); }

 private:
  static void Column(const T* x, int64_t stride, int64_t n, Acc& acc) {
    double max = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < n; ++i) max = std::max(max, static_cast<double>(x[i * stride]));
    ShiftedSum part{ShiftedSum::SafeShift(max), 0};
    for (int64_t i = 0; i < n; ++i) {
      part.sum += std::exp(static_cast<double>(x[i * stride]) - part.shift);
    }
    acc.Merge(part);
  }
};

template <class T>
Reducer Find(ReduceOp op) {
  using R = ReduceOp;
  switch (op) {
    case R::kSum:
      return ReducerOf<SumOf<T, R::kSum>>();
    case R::kMean:
      return ReducerOf<SumOf<T, R::kMean>>();
    case R::kMax:
      return ReducerOf<ExtremeOf<T, R::kMax>>();
    case R::kMin:
      return ReducerOf<ExtremeOf<T, R::kMin>>();
    case R::kProd:
      return ReducerOf<SumOf<T, R::kProd>>();
    case R::kL1:
      return ReducerOf<SumOf<T, R::kL1>>();
    case R::kL2:
      return ReducerOf<RootOf<T, R::kL2>>();
    case R::kLogSum:
      return ReducerOf<RootOf<T, R::kLogSum>>();
    case R::kLogSumExp:
      return ReducerOf<LogSumExpOf<T>>();
    case R::kSumSquare:
      return ReducerOf<SumOf<T, R::kSumSquare>>();
  }
  return {};
}

}  // namespace

Reducer FindScalarReducer(ReduceOp op, DType dtype) {
  Reducer r;
  if (dtype == DType::kBool) {
    return op == ReduceOp::kMax ? ReducerOf<ExtremeOf<bool, ReduceOp::kMax>>()
                                : ReducerOf<ExtremeOf<bool, ReduceOp::kMin>>();
  }
  DispatchType(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool> &&
                  !std::is_same_v<T, float>) {
      r = Find<T>(op);
    }
  });
  return r;
}

}  // namespace parallax::kernels
