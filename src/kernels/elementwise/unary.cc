#include "kernels/elementwise/unary.h"

#include <cstddef>
#include <limits>

#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/split.h"
#include "kernels/elementwise/unary_f32.h"
#include "kernels/elementwise/unary_scalar.h"

namespace parallax::kernels {
namespace {

bool IsPredicate(UnaryOp op) { return op == UnaryOp::kIsNaN || op == UnaryOp::kIsInf; }

template <class T>
void Predicate(UnaryOp op, const T* in, bool* out, int64_t n, const UnaryParams& params) {
  if (op == UnaryOp::kIsNaN) {
    for (int64_t i = 0; i < n; ++i) {
      const T x = in[i];
      out[i] = x != x;
    }
    return;
  }
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const bool negative = params.alpha != 0;
  const bool positive = params.beta != 0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = (negative && in[i] == -kInf) || (positive && in[i] == kInf);
  }
}

void RunF32(UnaryOp op, const float* in, float* out, int64_t n, const UnaryParams& params) {
  if (!UnaryF32(op, in, out, n, params)) {
    UnaryFloat<float>(op, in, out, n, params.alpha, params.beta);
  }
}

// f16 and bf16, block by block through f32.
void RunHalf(UnaryOp op, DType dtype, const uint16_t* in, void* out, int64_t n,
             const UnaryParams& params) {
  float block[kHalfBlock];
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t count = std::min(kHalfBlock, n - i);
    ToF32Block(dtype, in + i, block, count);
    if (IsPredicate(op)) {
      Predicate<float>(op, block, static_cast<bool*>(out) + i, count, params);
    } else {
      RunF32(op, block, block, count, params);
      FromF32Block(dtype, block, static_cast<uint16_t*>(out) + i, count);
    }
  }
}

// The bounds of Clip, in T.
template <class T>
struct Bounds {
  T lo;
  T hi;
};

template <class T>
Bounds<T> LoadBounds(const void* lo, const void* hi) {
  using L = std::numeric_limits<T>;
  constexpr T kLow = L::has_infinity ? -L::infinity() : L::lowest();
  constexpr T kHigh = L::has_infinity ? L::infinity() : L::max();
  return {lo == nullptr ? kLow : *static_cast<const T*>(lo),
          hi == nullptr ? kHigh : *static_cast<const T*>(hi)};
}

template <class T>
void ClipLoop(const T* in, T* out, int64_t n, Bounds<T> bounds) {
  for (int64_t i = 0; i < n; ++i) {
    const T low = in[i] < bounds.lo ? bounds.lo : in[i];
    out[i] = low > bounds.hi ? bounds.hi : low;
  }
}

void ClipHalf(DType dtype, const uint16_t* in, uint16_t* out, int64_t n, const void* lo,
              const void* hi) {
  Bounds<float> bounds = LoadBounds<float>(nullptr, nullptr);
  if (lo != nullptr) ToF32Block(dtype, lo, &bounds.lo, 1);
  if (hi != nullptr) ToF32Block(dtype, hi, &bounds.hi, 1);
  float block[kHalfBlock];
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t count = std::min(kHalfBlock, n - i);
    ToF32Block(dtype, in + i, block, count);
    ClipF32(block, block, count, bounds.lo, bounds.hi);
    FromF32Block(dtype, block, out + i, count);
  }
}

template <class F>
void SplitTyped(DType dtype, const void* in, void* out, int64_t n, size_t out_size, Team& team,
                F&& serial) {
  const size_t in_size = SizeOf(dtype);
  ForRanges(n, kTaskElements, team, [&](int64_t begin, int64_t end) {
    serial(static_cast<const std::byte*>(in) + static_cast<size_t>(begin) * in_size,
           static_cast<std::byte*>(out) + static_cast<size_t>(begin) * out_size, end - begin);
  });
}

}  // namespace

bool UnarySupports(UnaryOp op, DType dtype) {
  if (op <= UnaryOp::kSquare) return IsFloat(dtype) || IsInteger(dtype);
  if (op <= UnaryOp::kIsInf) return IsFloat(dtype);
  if (op == UnaryOp::kNot) return dtype == DType::kBool;
  return IsInteger(dtype);
}

void UnarySerial(UnaryOp op, DType dtype, const void* in, void* out, int64_t n,
                 const UnaryParams& params) {
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    return RunHalf(op, dtype, static_cast<const uint16_t*>(in), out, n, params);
  }
  DispatchType(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(in);
    if constexpr (std::is_floating_point_v<T>) {
      if (IsPredicate(op)) return Predicate<T>(op, x, static_cast<bool*>(out), n, params);
    }
    T* y = static_cast<T*>(out);
    if constexpr (std::is_same_v<T, float>) {
      RunF32(op, x, y, n, params);
    } else if constexpr (std::is_same_v<T, double>) {
      UnaryFloat<double>(op, x, y, n, static_cast<double>(params.alpha),
                         static_cast<double>(params.beta));
    } else if constexpr (std::is_same_v<T, bool>) {
      for (int64_t i = 0; i < n; ++i) y[i] = !x[i];
    } else if constexpr (std::is_integral_v<T>) {
      UnaryInteger<T>(op, x, y, n);
    }
  });
}

void Unary(UnaryOp op, DType dtype, const void* in, void* out, int64_t n, const UnaryParams& params,
           Team& team) {
  SplitTyped(
      dtype, in, out, n, IsPredicate(op) ? 1 : SizeOf(dtype), team,
      [&](const void* x, void* y, int64_t count) { UnarySerial(op, dtype, x, y, count, params); });
}

void Clip(DType dtype, const void* in, void* out, int64_t n, const void* lo, const void* hi,
          Team& team) {
  SplitTyped(dtype, in, out, n, SizeOf(dtype), team, [&](const void* x, void* y, int64_t count) {
    if (dtype == DType::kF16 || dtype == DType::kBF16) {
      return ClipHalf(dtype, static_cast<const uint16_t*>(x), static_cast<uint16_t*>(y), count, lo,
                      hi);
    }
    DispatchType(dtype, [&]<class T>() {
      if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
        const Bounds<T> bounds = LoadBounds<T>(lo, hi);
        if constexpr (std::is_same_v<T, float>) {
          ClipF32(static_cast<const T*>(x), static_cast<T*>(y), count, bounds.lo, bounds.hi);
        } else {
          ClipLoop<T>(static_cast<const T*>(x), static_cast<T*>(y), count, bounds);
        }
      }
    });
  });
}

}  // namespace parallax::kernels
