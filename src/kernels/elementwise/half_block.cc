// Bulk f16 and bf16 conversions on SIMD.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/elementwise/cast.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/half_block.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using D16 = hn::Rebind<uint16_t, DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;

// Bits of an f16 (in 32-bit lanes) to f32, in integer arithmetic: the exponent is rebiased by a
// multiplication, which also normalises denormals.
HWY_INLINE VF F16Bits(DF df, VU h) {
  const DU du;
  const VU magnitude = hn::ShiftLeft<13>(hn::And(h, hn::Set(du, 0x7fffu)));
  const VU sign = hn::ShiftLeft<16>(hn::And(h, hn::Set(du, 0x8000u)));
  const VF scaled = hn::Mul(hn::BitCast(df, magnitude), hn::Set(df, 0x1p112f));
  // Infinity and NaN: all exponent bits; NaN made quiet, as the hardware does.
  const VU special = hn::Or(magnitude, hn::Set(du, 0x7f800000u));
  const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x0f800000u));
  const VU quiet = hn::IfThenElse(is_nan, hn::Or(special, hn::Set(du, 0x00400000u)), special);
  const auto is_special = hn::Gt(magnitude, hn::Set(du, 0x0f7fffffu));
  const VU bits = hn::IfThenElse(is_special, quiet, hn::BitCast(du, scaled));
  return hn::BitCast(df, hn::Or(bits, sign));
}

// f32 to the bits of an f16 in 32-bit lanes, to nearest, ties to even.
HWY_INLINE VU ToF16Bits(DF df, VF v) {
  const DU du;
  const VU bits = hn::BitCast(du, v);
  const VU magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const VU sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
  // Normal results: rebias, add the rounding increment, drop 13 bits.
  const VU lsb = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  const VU rounded = hn::Add(hn::Add(magnitude, hn::Set(du, 0xc8000fffu)), lsb);
  const VU normal = hn::ShiftRight<13>(rounded);
  // Denormal results: adding 0.5 leaves the f16 denormal, rounded, in the low bits.
  const VU denormal =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5f))),
              hn::Set(du, 0x3f000000u));
  VU out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000u)), denormal, normal);
  // 65520 and above round to infinity.
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477fefffu)), hn::Set(du, 0x7c00u), out);
  const VU nan =
      hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3ffu)), hn::Set(du, 0x7e00u));
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7f800000u)), nan, out);
  return hn::Or(out, sign);
}

HWY_INLINE VF LoadF16(DF df, const uint16_t* p) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(df, hn::BitCast(d16, hn::LoadU(D16(), p)));
#else
  return F16Bits(df, hn::PromoteTo(DU(), hn::LoadU(D16(), p)));
#endif
}

HWY_INLINE void StoreF16(DF df, VF v, uint16_t* p) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, DF> d16;
  hn::StoreU(hn::BitCast(D16(), hn::DemoteTo(d16, v)), D16(), p);
#else
  // The bits fit 16 bits, which DemoteTo from signed lanes would saturate: truncate them.
  hn::StoreU(hn::TruncateTo(D16(), ToF16Bits(df, v)), D16(), p);
#endif
}

HWY_INLINE VF LoadBF16(DF df, const uint16_t* p) {
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(DU(), hn::LoadU(D16(), p))));
}

HWY_INLINE void StoreBF16(DF df, VF v, uint16_t* p) {
  const DU du;
  const VU bits = hn::BitCast(du, v);
  const VU lsb = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const VU rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), lsb));
  const VU nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
  const auto is_nan = hn::IsNaN(v);
  const VU out = hn::IfVecThenElse(hn::BitCast(du, hn::VecFromMask(df, is_nan)), nan, rounded);
  hn::StoreU(hn::TruncateTo(D16(), out), D16(), p);
}

template <bool kBrain>
HWY_NOINLINE void Widen(const uint16_t* in, float* out, size_t n) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  const auto load = [&](const uint16_t* p)
                        HWY_ATTR { return kBrain ? LoadBF16(df, p) : LoadF16(df, p); };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(load(in + i), df, out + i);
  if (i == n) return;
  HWY_ALIGN uint16_t from[hn::MaxLanes(df)] = {};
  HWY_ALIGN float to[hn::MaxLanes(df)];
  std::copy(in + i, in + n, from);
  hn::Store(load(from), df, to);
  std::copy(to, to + (n - i), out + i);
}

template <bool kBrain>
HWY_NOINLINE void Narrow(const float* in, uint16_t* out, size_t n) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  const auto store = [&](const float* from, uint16_t* to) HWY_ATTR {
    if constexpr (kBrain) {
      StoreBF16(df, hn::LoadU(df, from), to);
    } else {
      StoreF16(df, hn::LoadU(df, from), to);
    }
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(in + i, out + i);
  if (i == n) return;
  HWY_ALIGN float from[hn::MaxLanes(df)] = {};
  HWY_ALIGN uint16_t to[hn::MaxLanes(df)];
  std::copy(in + i, in + n, from);
  store(from, to);
  std::copy(to, to + (n - i), out + i);
}

void WidenF16(const uint16_t* in, float* out, size_t n) { Widen<false>(in, out, n); }
void WidenBF16(const uint16_t* in, float* out, size_t n) { Widen<true>(in, out, n); }
void NarrowF16(const float* in, uint16_t* out, size_t n) { Narrow<false>(in, out, n); }
void NarrowBF16(const float* in, uint16_t* out, size_t n) { Narrow<true>(in, out, n); }

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {

HWY_EXPORT(WidenF16);
HWY_EXPORT(WidenBF16);
HWY_EXPORT(NarrowF16);
HWY_EXPORT(NarrowBF16);

void ToF32Block(DType dtype, const void* in, float* out, int64_t n) {
  const size_t count = static_cast<size_t>(n);
  const uint16_t* half = static_cast<const uint16_t*>(in);
  if (dtype == DType::kF16) return HWY_DYNAMIC_DISPATCH(WidenF16)(half, out, count);
  if (dtype == DType::kBF16) return HWY_DYNAMIC_DISPATCH(WidenBF16)(half, out, count);
  if (in != out && n > 0) std::memcpy(out, in, count * sizeof(float));
}

void FromF32Block(DType dtype, const float* in, void* out, int64_t n) {
  const size_t count = static_cast<size_t>(n);
  uint16_t* half = static_cast<uint16_t*>(out);
  if (dtype == DType::kF16) return HWY_DYNAMIC_DISPATCH(NarrowF16)(in, half, count);
  if (dtype == DType::kBF16) return HWY_DYNAMIC_DISPATCH(NarrowBF16)(in, half, count);
  if (in != out && n > 0) std::memcpy(out, in, count * sizeof(float));
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
