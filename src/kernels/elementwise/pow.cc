// Pow with separate types of base and exponent.
//
// Rows are cut into blocks; the exponents of a block are brought to one of three types (f32, f64,
// i64), halves of the base to f32, so that few loops serve all pairs of types.
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/binary.h"
#include "kernels/elementwise/binary_row.h"
#include "kernels/elementwise/broadcast_run.h"
#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/convert.h"

namespace parallax::kernels {
namespace {

bool IsHalf(DType d) { return d == DType::kF16 || d == DType::kBF16; }

// out[i] = a[i]^e for the exponents that models use, each at least as exact as pow; false for
// others.
template <class T>
bool PowSpecial(const T* a, T e, T* out, int64_t n) {
  const auto map = [=](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
    return true;
  };
  constexpr T kInf = std::numeric_limits<T>::infinity();
  if (e == 2) return map([](T x) { return x * x; });
  if (e == 1) return map([](T x) { return x; });
  if (e == -1) return map([](T x) { return 1 / x; });
  // pow differs from sqrt at -0 and -infinity.
  if (e == T(0.5)) return map([](T x) { return x == -kInf ? kInf : std::sqrt(x) + T(0); });
  return false;
}

template <class T, class E>
void PowFloats(const T* a, bool step_a, const E* b, bool step_b, T* out, int64_t n) {
  using Wide = std::common_type_t<T, E>;
  if (step_a && !step_b && static_cast<E>(static_cast<T>(*b)) == *b &&
      PowSpecial(a, static_cast<T>(*b), out, n)) {
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<T>(
        std::pow(static_cast<Wide>(a[step_a ? i : 0]), static_cast<Wide>(b[step_b ? i : 0])));
  }
}

struct Operand {
  DType dtype;
  const void* data;
  bool step;
};

// A block of n <= kHalfBlock elements; the base is f32, f64 or an integer.
void PowBlock(Operand base, Operand exponent, void* out, int64_t n) {
  const int64_t exponents = exponent.step ? n : 1;
  union {
    float f32[kHalfBlock];
    double f64[kHalfBlock];
    int64_t i64[kHalfBlock];
  } e;
  if (IsInteger(base.dtype)) {
    if (IsInteger(exponent.dtype)) {
      CastSerial(exponent.dtype, DType::kI64, exponent.data, e.i64, exponents);
      return PowRowInteger(base.dtype, base.data, base.step, e.i64, exponent.step,
                           exponent.dtype == DType::kU64, out, n);
    }
    CastSerial(exponent.dtype, DType::kF64, exponent.data, e.f64, exponents);
    DispatchType(base.dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        const T* x = static_cast<const T*>(base.data);
        T* z = static_cast<T*>(out);
        for (int64_t i = 0; i < n; ++i) {
          z[i] = Convert<T>(
              std::pow(static_cast<double>(x[base.step ? i : 0]), e.f64[exponent.step ? i : 0]));
        }
      }
    });
    return;
  }
  if (base.dtype == DType::kF64) {
    CastSerial(exponent.dtype, DType::kF64, exponent.data, e.f64, exponents);
    return PowFloats(static_cast<const double*>(base.data), base.step, e.f64, exponent.step,
                     static_cast<double*>(out), n);
  }
  const float* x = static_cast<const float*>(base.data);
  float* z = static_cast<float*>(out);
  if (IsFloat(exponent.dtype) && exponent.dtype != DType::kF64) {
    CastSerial(exponent.dtype, DType::kF32, exponent.data, e.f32, exponents);
    return PowFloats(x, base.step, e.f32, exponent.step, z, n);
  }
  CastSerial(exponent.dtype, DType::kF64, exponent.data, e.f64, exponents);
  PowFloats(x, base.step, e.f64, exponent.step, z, n);
}

}  // namespace

void Pow(DType base, DType exponent, const BroadcastPlan& plan, const void* a, const void* b,
         void* out, Team& team) {
  const size_t last = static_cast<size_t>(plan.rank) - 1;
  const bool step_a = plan.stride[0][last] != 0;
  const bool step_b = plan.stride[1][last] != 0;
  const size_t size_a = SizeOf(base);
  const size_t size_b = SizeOf(exponent);
  ForBroadcastRows(plan, team, [&](int64_t at, const std::array<int64_t, 2>& offset, int64_t n) {
    const std::byte* x = static_cast<const std::byte*>(a) + static_cast<size_t>(offset[0]) * size_a;
    const std::byte* y = static_cast<const std::byte*>(b) + static_cast<size_t>(offset[1]) * size_b;
    std::byte* z = static_cast<std::byte*>(out) + static_cast<size_t>(at) * size_a;
    for (int64_t i = 0; i < n; i += kHalfBlock) {
      const int64_t count = std::min(kHalfBlock, n - i);
      const size_t start = static_cast<size_t>(i);
      const std::byte* xi = step_a ? x + start * size_a : x;
      const Operand e{exponent, step_b ? y + start * size_b : y, step_b};
      if (!IsHalf(base)) {
        PowBlock({base, xi, step_a}, e, z + start * size_a, count);
        continue;
      }
      float block[kHalfBlock];
      float result[kHalfBlock];
      ToF32Block(base, xi, block, step_a ? count : 1);
      PowBlock({DType::kF32, block, step_a}, e, result, count);
      FromF32Block(base, result, z + start * size_a, count);
    }
  });
}

}  // namespace parallax::kernels
