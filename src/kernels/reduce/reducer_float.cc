// Reducers of f32 on SIMD, and of f16 and bf16 through blocks of f32.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/split.h"
#include "kernels/reduce/log_sum_exp.h"
#include "kernels/reduce/reduce_f32.h"
#include "kernels/reduce/reducer.h"

namespace parallax::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

enum class After : uint8_t { kNothing, kDivide, kSqrt, kLog };

template <SumTerm kTerm, After kAfter>
struct Sum32 {
  using In = float;
  using Out = float;
  using Acc = double;
  static Acc Identity() { return 0; }
  static void Run(const float* x, int64_t n, Acc& acc) { acc += SumF32(kTerm, x, n); }
  static void Rows(const float* x, int64_t stride, int64_t rows, int64_t cols, Acc* acc) {
    SumRowsF32(kTerm, x, stride, rows, cols, acc);
  }
  static void Merge(Acc& a, Acc b) { a += b; }
  static float Finish(Acc acc, int64_t count) {
    if constexpr (kAfter == After::kDivide) acc /= static_cast<double>(count);
    if constexpr (kAfter == After::kSqrt) acc = std::sqrt(acc);
    if constexpr (kAfter == After::kLog) acc = std::log(acc);
    return static_cast<float>(acc);
  }
};

template <Extreme kExtreme>
struct Extreme32 {
  using In = float;
  using Out = float;
  using Acc = float;
  static Acc Identity() { return kExtreme == Extreme::kMax ? -kInf : kInf; }
  static void Run(const float* x, int64_t n, Acc& acc) { acc = ExtremeF32(kExtreme, x, n, acc); }
  static void Rows(const float* x, int64_t stride, int64_t rows, int64_t cols, Acc* acc) {
    ExtremeRowsF32(kExtreme, x, stride, rows, cols, acc);
  }
  static void Merge(Acc& a, Acc b) { a = ExtremeF32(kExtreme, &b, 1, a); }
  static float Finish(Acc acc, int64_t) { return acc; }
};

// Products are kept in f64: no overflow or underflow on the way to a result that has neither.
struct Prod32 {
  using In = float;
  using Out = float;
  using Acc = double;
  static Acc Identity() { return 1; }
  static void Run(const float* x, int64_t n, Acc& acc) {
    for (int64_t i = 0; i < n; ++i) acc *= static_cast<double>(x[i]);
  }
  static void Rows(const float* x, int64_t stride, int64_t rows, int64_t cols, Acc* acc) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) acc[c] *= static_cast<double>(x[r * stride + c]);
    }
  }
  static void Merge(Acc& a, Acc b) { a *= b; }
  static float Finish(Acc acc, int64_t) { return static_cast<float>(acc); }
};

struct LogSumExp32 {
  using In = float;
  using Out = float;
  using Acc = ShiftedSum;
  static Acc Identity() { return {}; }
  static void Run(const float* x, int64_t n, Acc& acc) {
    constexpr int64_t kBlock = 4096;  // read twice from L1
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      const double shift = ShiftedSum::SafeShift(
          static_cast<double>(ExtremeF32(Extreme::kMax, x + i, count, -kInf)));
      acc.Merge({shift, SumExpF32(x + i, count, static_cast<float>(shift))});
    }
  }
  static void Rows(const float* x, int64_t stride, int64_t rows, int64_t cols, Acc* acc) {
    for (int64_t c = 0; c < cols; ++c) {
      float max = -kInf;
      for (int64_t r = 0; r < rows; ++r) {
        const float v = x[r * stride + c];
        max = v > max ? v : max;
      }
      ShiftedSum part{ShiftedSum::SafeShift(static_cast<double>(max)), 0};
      for (int64_t r = 0; r < rows; ++r) {
        part.sum += std::exp(static_cast<double>(x[r * stride + c]) - part.shift);
      }
      acc[c].Merge(part);
    }
  }
  static void Merge(Acc& a, const Acc& b) { a.Merge(b); }
  static float Finish(const Acc& acc, int64_t) { return static_cast<float>(acc.Log()); }
};

// P on f16 or bf16.
template <class P, class Half>
struct ThroughF32 {
  using In = Half;
  using Out = Half;
  using Acc = typename P::Acc;
  static Acc Identity() { return P::Identity(); }
  static void Run(const Half* x, int64_t n, Acc& acc) {
    float block[kHalfBlock];
    for (int64_t i = 0; i < n; i += kHalfBlock) {
      const int64_t count = std::min(kHalfBlock, n - i);
      ToF32Block(kDTypeOf<Half>, x + i, block, count);
      P::Run(block, count, acc);
    }
  }
  static void Rows(const Half* x, int64_t stride, int64_t rows, int64_t cols, Acc* acc) {
    float block[kHalfBlock];
    const int64_t width = std::min(cols, kHalfBlock);
    const int64_t height = kHalfBlock / width;
    for (int64_t c = 0; c < cols; c += width) {
      const int64_t w = std::min(width, cols - c);
      for (int64_t r = 0; r < rows; r += height) {
        const int64_t h = std::min(height, rows - r);
        for (int64_t k = 0; k < h; ++k) {
          ToF32Block(kDTypeOf<Half>, x + (r + k) * stride + c, block + k * w, w);
        }
        P::Rows(block, w, h, w, acc + c);
      }
    }
  }
  static void Merge(Acc& a, const Acc& b) { P::Merge(a, b); }
  static Half Finish(const Acc& acc, int64_t count) { return Half(P::Finish(acc, count)); }
};

template <class P>
Reducer Pick(DType dtype) {
  if (dtype == DType::kF16) return ReducerOf<ThroughF32<P, F16>>();
  if (dtype == DType::kBF16) return ReducerOf<ThroughF32<P, BF16>>();
  return ReducerOf<P>();
}

}  // namespace

Reducer FindFloatReducer(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kSum:
      return Pick<Sum32<SumTerm::kValue, After::kNothing>>(dtype);
    case ReduceOp::kMean:
      return Pick<Sum32<SumTerm::kValue, After::kDivide>>(dtype);
    case ReduceOp::kMax:
      return Pick<Extreme32<Extreme::kMax>>(dtype);
    case ReduceOp::kMin:
      return Pick<Extreme32<Extreme::kMin>>(dtype);
    case ReduceOp::kProd:
      return Pick<Prod32>(dtype);
    case ReduceOp::kL1:
      return Pick<Sum32<SumTerm::kAbs, After::kNothing>>(dtype);
    case ReduceOp::kL2:
      return Pick<Sum32<SumTerm::kSquare, After::kSqrt>>(dtype);
    case ReduceOp::kLogSum:
      return Pick<Sum32<SumTerm::kValue, After::kLog>>(dtype);
    case ReduceOp::kLogSumExp:
      return Pick<LogSumExp32>(dtype);
    case ReduceOp::kSumSquare:
      return Pick<Sum32<SumTerm::kSquare, After::kNothing>>(dtype);
  }
  return {};
}

}  // namespace parallax::kernels
