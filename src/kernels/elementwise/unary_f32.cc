// f32 unary functions on SIMD.
#include "kernels/elementwise/unary_f32.h"

#include <algorithm>
#include <cstring>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/unary_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/elementwise/map-inl.h"
#include "kernels/elementwise/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

// Sine or cosine past kTrigLimit, infinities and NaN.
float LargeTrig(float x, double quarter) {
  const double v = static_cast<double>(x);
  return static_cast<float>(quarter == 0 ? std::sin(v) : std::cos(v));
}

// Sine (quarter 0) or cosine (quarter 1) of `n` floats, a multiple of the f64 vector length.
HWY_NOINLINE void TrigVectors(const float* in, float* out, size_t n, double quarter) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  for (size_t i = 0; i < n; i += hn::Lanes(dd)) {
    const auto x = hn::LoadU(df, in + i);
    const auto inside = hn::Le(hn::Abs(x), hn::Set(df, kTrigLimit));
    const auto y =
        hn::DemoteTo(df, SinF64(dd, hn::PromoteTo(dd, hn::IfThenElseZero(inside, x)), quarter));
    if (HWY_LIKELY(hn::AllTrue(df, inside))) {
      hn::StoreU(y, df, out + i);
      continue;
    }
    HWY_ALIGN float lanes[hn::MaxLanes(df)];
    hn::Store(y, df, lanes);
    for (size_t k = 0; k < hn::Lanes(df); ++k) {
      const float v = in[i + k];
      if (!(std::abs(v) <= kTrigLimit)) lanes[k] = LargeTrig(v, quarter);
    }
    hn::StoreU(hn::Load(df, lanes), df, out + i);
  }
}

HWY_NOINLINE void Trig(const float* in, float* out, size_t n, double quarter) {
  const hn::ScalableTag<double> dd;
  const size_t lanes = hn::Lanes(dd);
  const size_t body = n - n % lanes;
  TrigVectors(in, out, body, quarter);
  if (body == n) return;
  HWY_ALIGN float buffer[hn::MaxLanes(dd)] = {};
  std::copy(in + body, in + n, buffer);
  TrigVectors(buffer, buffer, lanes, quarter);
  std::copy(buffer, buffer + (n - body), out + body);
}

template <class D, class V>
HWY_INLINE V HardSwish(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V v = hn::MulAdd(x, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f));
  const V low = hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
  return hn::Mul(x, hn::IfThenElse(hn::Gt(v, one), one, low));
}

// Functions of a few instructions.
HWY_NOINLINE bool Cheap(UnaryOp op, const float* in, float* out, size_t n, float a, float b) {
  switch (op) {
    case UnaryOp::kAbs:
      Map(in, out, n, [](auto, auto x) HWY_ATTR { return hn::Abs(x); });
      return true;
    case UnaryOp::kNeg:
      Map(in, out, n, [](auto, auto x) HWY_ATTR { return hn::Neg(x); });
      return true;
    case UnaryOp::kSquare:
      Map(in, out, n, [](auto, auto x) HWY_ATTR { return hn::Mul(x, x); });
      return true;
    case UnaryOp::kSqrt:
      Map(in, out, n, [](auto, auto x) HWY_ATTR { return hn::Sqrt(x); });
      return true;
    case UnaryOp::kFloor:
      Map(in, out, n, [](auto, auto x) HWY_ATTR {
        return hn::CopySign(hn::Floor(x), x);  // Highway's scalar target loses -0
      });
      return true;
    case UnaryOp::kCeil:
      Map(in, out, n, [](auto, auto x) HWY_ATTR { return hn::Ceil(x); });
      return true;
    case UnaryOp::kRound:
      Map(in, out, n, [](auto, auto x) HWY_ATTR { return hn::Round(x); });
      return true;
    case UnaryOp::kTrunc:
      Map(in, out, n, [](auto, auto x) HWY_ATTR { return hn::Trunc(x); });
      return true;
    case UnaryOp::kReciprocal:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return hn::Div(hn::Set(d, 1.0f), x); });
      return true;
    case UnaryOp::kSign:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR {
        const auto signed_one = hn::CopySign(hn::Set(d, 1.0f), x);
        const auto nonzero = hn::Gt(hn::Abs(x), hn::Zero(d));  // false for NaN
        return hn::IfThenElse(nonzero, signed_one, hn::Add(x, hn::Zero(d)));
      });
      return true;
    case UnaryOp::kRelu:
      Map(in, out, n,
          [](auto d, auto x) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x); });
      return true;
    case UnaryOp::kLeakyRelu:
      Map(in, out, n, [a](auto d, auto x) HWY_ATTR {
        return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, a)), x);
      });
      return true;
    case UnaryOp::kThresholdedRelu:
      Map(in, out, n,
          [a](auto d, auto x) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(x, hn::Set(d, a)), x); });
      return true;
    case UnaryOp::kShrink:
      Map(in, out, n, [a, b](auto d, auto x) HWY_ATTR {
        const auto low = hn::Lt(x, hn::Set(d, -a));
        const auto high = hn::Gt(x, hn::Set(d, a));
        return hn::IfThenElse(low, hn::Add(x, hn::Set(d, b)),
                              hn::IfThenElseZero(high, hn::Sub(x, hn::Set(d, b))));
      });
      return true;
    case UnaryOp::kAffine:
      Map(in, out, n,
          [a, b](auto d, auto x) HWY_ATTR { return hn::MulAdd(x, hn::Set(d, a), hn::Set(d, b)); });
      return true;
    case UnaryOp::kHardSigmoid:
      Map(in, out, n, [a, b](auto d, auto x) HWY_ATTR {
        const auto v = hn::MulAdd(x, hn::Set(d, a), hn::Set(d, b));
        const auto one = hn::Set(d, 1.0f);
        return hn::IfThenElse(hn::Gt(v, one), one, hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v));
      });
      return true;
    case UnaryOp::kHardSwishAffine:
      Map(in, out, n, [a, b](auto d, auto x) HWY_ATTR {
        return hn::MulAdd(HardSwish(d, x), hn::Set(d, a), hn::Set(d, b));
      });
      return true;
    case UnaryOp::kHardSwish:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return HardSwish(d, x); });
      return true;
    case UnaryOp::kSoftsign:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR {
        return hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Abs(x)));
      });
      return true;
    default:
      return false;
  }
}

// Functions made of polynomials.
HWY_NOINLINE bool Costly(UnaryOp op, const float* in, float* out, size_t n, float a, float b) {
  switch (op) {
    case UnaryOp::kExp:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return Exp(d, x); });
      return true;
    case UnaryOp::kLog:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return Log(d, x); });
      return true;
    case UnaryOp::kSin:
      Trig(in, out, n, 0);
      return true;
    case UnaryOp::kCos:
      Trig(in, out, n, 1);
      return true;
    case UnaryOp::kTanh:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return Tanh(d, x); });
      return true;
    case UnaryOp::kErf:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return Erf(d, x); });
      return true;
    case UnaryOp::kSigmoid:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return Sigmoid(d, x); });
      return true;
    case UnaryOp::kSilu:
      Map(in, out, n, [a](auto d, auto x) HWY_ATTR { return Swish(d, x, a); });
      return true;
    case UnaryOp::kElu:
      Map(in, out, n, [a](auto d, auto x) HWY_ATTR {
        return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(hn::Set(d, a), ExpM1Neg(d, x)), x);
      });
      return true;
    case UnaryOp::kSelu:
      Map(in, out, n, [a, b](auto d, auto x) HWY_ATTR {
        const auto low = hn::Mul(hn::Set(d, a), ExpM1Neg(d, x));
        return hn::Mul(hn::Set(d, b), hn::IfThenElse(hn::Le(x, hn::Zero(d)), low, x));
      });
      return true;
    case UnaryOp::kCelu:
      if (!(a > 0)) return false;
      Map(in, out, n, [a](auto d, auto x) HWY_ATTR {
        const auto low = hn::Mul(hn::Set(d, a), ExpM1Neg(d, hn::Div(x, hn::Set(d, a))));
        return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), low, x);
      });
      return true;
    case UnaryOp::kMish:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return Mish(d, x); });
      return true;
    case UnaryOp::kSoftplus:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return Softplus(d, x); });
      return true;
    case UnaryOp::kGelu:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return Gelu(d, x); });
      return true;
    case UnaryOp::kGeluTanh:
      Map(in, out, n, [](auto d, auto x) HWY_ATTR { return GeluTanh(d, x); });
      return true;
    default:
      return false;
  }
}

bool UnaryTarget(UnaryOp op, const float* in, float* out, size_t n, float a, float b) {
  return Cheap(op, in, out, n, a, b) || Costly(op, in, out, n, a, b);
}

void ClipTarget(const float* in, float* out, size_t n, float lo, float hi) {
  Map(in, out, n, [lo, hi](auto d, auto x) HWY_ATTR {
    const auto low = hn::Set(d, lo);
    const auto high = hn::Set(d, hi);
    const auto y = hn::IfThenElse(hn::Lt(x, low), low, x);
    return hn::IfThenElse(hn::Gt(y, high), high, y);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {

HWY_EXPORT(UnaryTarget);
HWY_EXPORT(ClipTarget);

bool UnaryF32(UnaryOp op, const float* in, float* out, int64_t n, const UnaryParams& params) {
  return HWY_DYNAMIC_DISPATCH(UnaryTarget)(op, in, out, static_cast<size_t>(n), params.alpha,
                                           params.beta);
}

void ClipF32(const float* in, float* out, int64_t n, float lo, float hi) {
  HWY_DYNAMIC_DISPATCH(ClipTarget)(in, out, static_cast<size_t>(n), lo, hi);
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
