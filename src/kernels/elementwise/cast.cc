#include "kernels/elementwise/cast.h"

#include <cstddef>
#include <cstring>

#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/split.h"

namespace parallax::kernels {
namespace {

bool IsHalf(DType d) { return d == DType::kF16 || d == DType::kBF16; }

template <class From, class To>
void ConvertLoop(const void* in, void* out, int64_t n) {
  const From* x = static_cast<const From*>(in);
  To* y = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = Convert<To>(x[i]);
}

// Calls f<T>() for the types that have loops of their own: no halves, and bool as the byte it is.
template <class F>
void DispatchNative(DType dtype, F&& f) {
  if (dtype == DType::kBool) return f.template operator()<uint8_t>();
  DispatchType(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) f.template operator()<T>();
  });
}

void CastNative(DType from, DType to, const void* in, void* out, int64_t n) {
  DispatchNative(from, [&]<class From>() {
    if (to == DType::kBool) return ConvertLoop<From, bool>(in, out, n);
    DispatchNative(to, [&]<class To>() {
      if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        // The low bits do not depend on the sign of the target: half the loops suffice.
        ConvertLoop<From, std::make_unsigned_t<To>>(in, out, n);
      } else {
        ConvertLoop<From, To>(in, out, n);
      }
    });
  });
}

template <class Half>
void FromF64(const double* in, Half* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = Half(in[i]);
}

}  // namespace

void CastSerial(DType from, DType to, const void* in, void* out, int64_t n) {
  if (n <= 0) return;
  const size_t from_size = SizeOf(from);
  const size_t to_size = SizeOf(to);
  if (from == to) {
    if (in != out) std::memcpy(out, in, static_cast<size_t>(n) * from_size);
    return;
  }
  if (from == DType::kF64 && to == DType::kF16) {
    return FromF64(static_cast<const double*>(in), static_cast<F16*>(out), n);
  }
  if (from == DType::kF64 && to == DType::kBF16) {
    return FromF64(static_cast<const double*>(in), static_cast<BF16*>(out), n);
  }
  if (!IsHalf(from) && !IsHalf(to)) return CastNative(from, to, in, out, n);
  if (IsHalf(from) && to == DType::kF32) {
    return ToF32Block(from, in, static_cast<float*>(out), n);
  }
  if (from == DType::kF32 && IsHalf(to)) {
    return FromF32Block(to, static_cast<const float*>(in), out, n);
  }
  // Halves to and from anything else meet in f32: exact for every half, and integers that f32
  // would round are past the range of f16.
  float block[kHalfBlock];
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t count = std::min(kHalfBlock, n - i);
    const std::byte* x = static_cast<const std::byte*>(in) + static_cast<size_t>(i) * from_size;
    std::byte* y = static_cast<std::byte*>(out) + static_cast<size_t>(i) * to_size;
    CastSerial(from, DType::kF32, x, block, count);
    CastSerial(DType::kF32, to, block, y, count);
  }
}

void Cast(DType from, DType to, const void* in, void* out, int64_t n, Team& team) {
  ForRanges(n, kTaskElements, team, [&](int64_t begin, int64_t end) {
    CastSerial(from, to,
               static_cast<const std::byte*>(in) + static_cast<size_t>(begin) * SizeOf(from),
               static_cast<std::byte*>(out) + static_cast<size_t>(begin) * SizeOf(to), end - begin);
  });
}

}  // namespace parallax::kernels
