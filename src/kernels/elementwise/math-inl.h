// f32 functions on vectors: exp, log, tanh, sigmoid, erf, sin, cos and relatives.
//
// Role:       included once per SIMD target (Highway's scheme) by the kernels that need them.
// Threads:    pure.
// Invariants: a lane's result depends on that lane alone. NaN in, NaN out. Denormal inputs and
//             results are exact to the same bounds (counted in denormal steps).
// Bounds:     in units in the last place of the result, with and without FMA, measured over dense
//             sweeps by tests/kernels/elementwise/math_test.cc against f64: Exp 1, Log 1, ExpM1Neg
//             1.5, Tanh 1.5, Sigmoid 2.5, Erf 1.5, Softplus 2, Swish 3, Mish 6, Sin and Cos 0.51;
//             Sigmoid and Swish are 0 below -87. Mish loses up to |x| denormal steps more where the
//             factor of x is denormal. Gelu and GeluTanh cancel for negative x: 2.25 and 1.5 2^-23 |x|
//             absolute; Gelu 3 elsewhere.
// Source:     polynomials are minimax fits (Remez exchange in 120-bit arithmetic, coefficients then
//             rounded to f32), Gelu's quotient the same by Lawson's weights in f64; each comment gives
//             the interval and the largest error of the fit.
#if defined(PARALLAX_KERNELS_ELEMENTWISE_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARALLAX_KERNELS_ELEMENTWISE_MATH_INL_H_
#undef PARALLAX_KERNELS_ELEMENTWISE_MATH_INL_H_
#else
#define PARALLAX_KERNELS_ELEMENTWISE_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "kernels/clamp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// c0 + x (c1 + x (c2 + ...)).
template <class D, class V>
HWY_INLINE V Polynomial(D d, V /*x*/, float c) {
  return hn::Set(d, c);
}
template <class D, class V, class... C>
HWY_INLINE V Polynomial(D d, V x, float c0, C... rest) {
  return hn::MulAdd(Polynomial(d, x, rest...), x, hn::Set(d, c0));
}

// 2^k for k in [-126, 127].
template <class D, class VI>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, VI k) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(k, hn::Set(di, 127))));
}

// ln 2 in two parts. The high one has 15 significant bits: n * high is exact for |n| < 2^9.
inline constexpr float kLn2High = 0.693145751953125f;
inline constexpr float kLn2Low = 1.42860682e-6f;

// x = n ln 2 + r with |r| <= 0.347: gives r and n. REQUIRES: |x| < 2^7 ln 2 + 1.
template <class D, class V>
HWY_INLINE auto ReduceLn2(D d, V x, V& r) {
  const auto n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504f)));
  const V nf = hn::ConvertTo(d, n);
  r = hn::NegMulAdd(nf, hn::Set(d, kLn2High), x);
  r = hn::NegMulAdd(nf, hn::Set(d, kLn2Low), r);
  return n;
}

// exp(r) - 1 for |r| <= 0.347: r + r^2 P(r); the fit's error is 2^-27.8 of exp(r).
template <class D, class V>
HWY_INLINE V ExpM1Reduced(D d, V r) {
  const V p = Polynomial(d, r, 4.999999404e-01f, 1.666651964e-01f, 4.166839272e-02f,
                         8.368780836e-03f, 1.381446375e-03f);
  return hn::MulAdd(hn::Mul(r, r), p, r);
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  // Below -104 the result is 0, and must not be computed: multiplications that underflow take a
  // hundred cycles, and masked attention is full of them. Above 89 it is infinite, as at 89.
  const auto vanishes = hn::Lt(x, hn::Set(d, -104.0f));
  const V bounded = hn::Min(hn::IfThenZeroElse(vanishes, x), hn::Set(d, 89.0f));
  V r;
  const auto n = ReduceLn2(d, bounded, r);
  const V p = hn::Add(ExpM1Reduced(d, r), hn::Set(d, 1.0f));
  // Two factors: 2^n itself may be out of range where the product is a denormal or near the top.
  const auto half = hn::ShiftRight<1>(n);
  const V y = hn::Mul(hn::Mul(p, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(n, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(vanishes, y));
}

// exp(x) for |x| <= 87: no result is a denormal or infinite. NaN where x is NaN.
template <class D, class V>
HWY_INLINE V ExpBounded(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  // Adding 1.5 2^23 leaves an integer in the low bits: here n + 127, the exponent field of 2^n.
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, kLn2High), x);
  r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), r);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  return hn::MulAdd(ExpM1Reduced(d, r), power, power);
}

// exp(x) for x <= 0, what softmax takes, in half of Exp's operations: 0 below -87, where the result
// would near the denormals. Any result for x > 0.
template <class D, class V>
HWY_INLINE V ExpNeg(D d, V x) {
  // What vanishes is computed to anything. NaN is not below, and stays.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), ExpBounded(d, x));
}

// 1 / x for 1 <= x <= 2^126 to 1 ulp: where an approximation of 14 bits exists, one step of Newton's from
// it, which takes a third of a division.
template <class D, class V>
HWY_INLINE V Reciprocal(D d, V x) {
  const V one = hn::Set(d, 1.0f);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const V y = hn::ApproximateReciprocal(x);
  return hn::MulAdd(y, hn::NegMulAdd(x, y, one), y);
#else
  return hn::Div(one, x);
#endif
}

// exp(x) - 1 for x <= 0. Any result for x > 0.
template <class D, class V>
HWY_INLINE V ExpM1Neg(D d, V x) {
  // exp(-20) is below half a step of 1.
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -20.0f)), hn::Zero(d));
  V r;
  const V scale = PowerOfTwo(d, ReduceLn2(d, bounded, r));
  const V y = hn::MulAdd(scale, ExpM1Reduced(d, r), hn::Sub(scale, hn::Set(d, 1.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V one = hn::Set(d, 1.0f);
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  // scaled = m 2^e with m in [sqrt(1/2), sqrt(2)): 0x3f3504f3 is sqrt(1/2).
  const auto bits = hn::BitCast(di, scaled);
  const auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e))), one);
  const V ef = hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
  // log(1 + f) = f - f^2 / 2 + f^3 Q(f); the fit's error is 2^-30 of the result.
  const V q = Polynomial(d, f, 3.333331048e-01f, -2.499998659e-01f, 2.000222653e-01f,
                         -1.666925251e-01f, 1.421866566e-01f, -1.238433272e-01f, 1.187290698e-01f,
                         -1.178987250e-01f, 6.915592402e-02f);
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(f2, f), q);
  y = hn::MulAdd(ef, hn::Set(d, 1.42860682e-6f), y);  // ln 2 in two parts, as in ReduceLn2
  y = hn::NegMulAdd(f2, hn::Set(d, 0.5f), y);
  y = hn::MulAdd(ef, hn::Set(d, 0.693145751953125f), hn::Add(f, y));
  const V inf = hn::Set(d, std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Eq(x, inf), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y,
                        hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
}

// log(1 + z) for z in [0, 1]. What 1 + z loses comes back through the derivative 1 / (1 + z).
template <class D, class V>
HWY_INLINE V Log1p01(D d, V z) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(one, z);
  return hn::Add(Log(d, u), hn::Div(hn::Sub(z, hn::Sub(u, one)), u));
}

template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V z = hn::Abs(x);
  // |x| < 0.625: x + x^3 P(x^2); the fit's error is 2^-29.8 of the result's correction.
  const V t = hn::Mul(x, x);
  const V p = Polynomial(d, t, -3.333333135e-01f, 1.333321035e-01f, -5.394720659e-02f,
                         2.170297131e-02f, -8.182681166e-03f, 2.147543011e-03f);
  const V small = hn::MulAdd(hn::Mul(x, t), p, x);
  const V e = ExpNeg(d, hn::Neg(hn::Add(z, z)));
  const V large = hn::Sub(one, hn::Div(hn::Add(e, e), hn::Add(e, one)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(z, hn::Set(d, 0.625f)), small, large), x);
}

// 1 / (1 + exp(minus_x)), 0 where that is above 87 and the result would near the denormals.
template <class D, class V>
HWY_INLINE V SigmoidOfMinus(D d, V minus_x) {
  const V bound = hn::Set(d, 87.0f);
  const V z = ExpBounded(d, Clamp(d, minus_x, hn::Neg(bound), bound));
  const V y = Reciprocal(d, hn::Add(hn::Set(d, 1.0f), z));
  return hn::IfThenZeroElse(hn::Gt(minus_x, bound), y);
}

template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  return SigmoidOfMinus(d, hn::Neg(x));
}

// x / (1 + exp(-a x)). It follows most convolutions of some models, so it takes no care of what is
// left below the smallest normal number: where a x < -87 the result is 0.
template <class D, class V>
HWY_INLINE V Swish(D d, V x, float a) {
  return hn::Mul(x, SigmoidOfMinus(d, hn::Mul(x, hn::Set(d, -a))));
}

template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V z = hn::Abs(x);
  // |x| < 1: x + x Q(x^2); the fit's error is 2^-28.6 of erf.
  const V q = Polynomial(d, hn::Mul(x, x), 1.283791661e-01f, -3.761262596e-01f, 1.128358543e-01f,
                         -2.685381286e-02f, 5.188327748e-03f, -8.010193706e-04f, 7.853862189e-05f);
  const V small = hn::MulAdd(x, q, x);
  // 1 <= |x| <= 4: 1 - exp(P(|x|)), P fits log(erfc); the error is 2^-28.2 absolute. Beyond 4
  // erfc is below half a step of 1.
  const V bounded = hn::IfThenElse(hn::Gt(z, hn::Set(d, 4.0f)), hn::Set(d, 4.0f), z);
  const V p = Polynomial(d, bounded, 1.879059564e-04f, -1.129577756e+00f, -6.332211494e-01f,
                         -1.084172502e-01f, 2.520741895e-02f, -4.204250406e-03f, 4.412731505e-04f,
                         -2.168146057e-05f);
  const V large = hn::Sub(one, ExpNeg(d, p));  // -17 <= p
  return hn::CopySign(hn::IfThenElse(hn::Lt(z, one), small, large), x);
}

// max(x, 0) + log(1 + exp(-|x|)) = log(1 + exp(x)).
template <class D, class V>
HWY_INLINE V Softplus(D d, V x) {
  const V tail = Log1p01(d, Exp(d, hn::Neg(hn::Abs(x))));
  return hn::Add(hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x), tail);
}

// x tanh(log(1 + e)) with e = exp(x): tanh of a logarithm is rational, e (e + 2) / (e (e + 2) + 2).
template <class D, class V>
HWY_INLINE V Mish(D d, V x) {
  const V two = hn::Set(d, 2.0f);
  const V cap = hn::Set(d, 20.0f);  // from here on the fraction is 1
  const V e = Exp(d, hn::IfThenElse(hn::Gt(x, cap), cap, x));
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}

// x (1 + erf(x / sqrt 2)) / 2. It follows a matrix product that waits for it, so erf is a quotient
// whose two polynomials are evaluated side by side rather than Erf: a quarter of the time.
template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  // |x| < 4 sqrt 2: erf(x / sqrt 2) = x P(x^2) / Q(x^2); the fit's error is 2^-25.4 absolute, its
  // roundings come to 2.8 2^-23 with FMA and 4.4 2^-23 without. Beyond, erf is 1.
  const V limit = hn::Set(d, 5.65685425f);
  const V bounded = hn::Min(hn::Max(x, hn::Neg(limit)), limit);
  const V t = hn::Mul(bounded, bounded);
  const V p = Polynomial(d, t, 7.978844047e-01f, 6.938478351e-02f, 9.451822378e-03f,
                         3.538786841e-04f, 1.272978352e-05f, 4.363782935e-08f);
  const V q = Polynomial(d, t, 1.0f, 2.536264956e-01f, 2.911919169e-02f, 1.930561382e-03f,
                         7.602301048e-05f, 1.171275699e-06f);
  const V inside = hn::Div(hn::Mul(bounded, p), q);
  const V e = hn::IfThenElse(hn::Ge(hn::Abs(x), limit), hn::CopySign(hn::Set(d, 1.0f), x), inside);
  const V half = hn::Mul(x, hn::Set(d, 0.5f));
  return hn::MulAdd(half, e, half);
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
template <class D, class V>
HWY_INLINE V GeluTanh(D d, V x) {
  const V x3 = hn::Mul(hn::Mul(x, x), x);
  const V u = hn::Mul(hn::Set(d, 0.797884561f), hn::MulAdd(hn::Set(d, 0.044715f), x3, x));
  return hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)), hn::Add(hn::Set(d, 1.0f), Tanh(d, u)));
}

// Largest |x| that Sin and Cos reduce here: n = x 2 / pi fits 26 bits.
inline constexpr float kTrigLimit = 1.0e8f;

// sin(x + quarter pi / 2) in f64 for vectors of doubles that hold f32 values, |x| <= kTrigLimit.
template <class DD, class VD>
HWY_INLINE VD SinF64(DD dd, VD x, double quarter) {
  const auto c = [dd](double v) HWY_ATTR { return hn::Set(dd, v); };
  const VD n = hn::Round(hn::Mul(x, c(0.6366197723675814)));
  // pi / 2 in three parts; the first two have 26 bits, so that their products with n are exact.
  VD r = hn::NegMulAdd(n, c(1.5707963109016418), x);
  r = hn::NegMulAdd(n, c(1.5893254712295857e-08), r);
  r = hn::NegMulAdd(n, c(6.123233995736766e-17), r);
  r = hn::IfThenElse(hn::Eq(n, c(0.0)), x, r);  // keeps the sign of a zero
  // Quadrant: (n + quarter) mod 4 in {0, 1, 2, 3}, in doubles (no 64-bit conversions needed).
  const VD m = hn::Add(n, c(quarter));
  const VD quadrant = hn::Sub(m, hn::Mul(c(4.0), hn::Floor(hn::Mul(m, c(0.25)))));
  const VD r2 = hn::Mul(r, r);
  // Taylor series: the first term left out is below 2^-44 at pi / 4.
  VD s = c(1.0 / 6227020800);
  s = hn::MulAdd(s, r2, c(-1.0 / 39916800));
  s = hn::MulAdd(s, r2, c(1.0 / 362880));
  s = hn::MulAdd(s, r2, c(-1.0 / 5040));
  s = hn::MulAdd(s, r2, c(1.0 / 120));
  s = hn::MulAdd(s, r2, c(-1.0 / 6));
  s = hn::CopySign(hn::MulAdd(hn::Mul(s, r2), r, r), r);
  VD k = c(1.0 / 479001600);
  k = hn::MulAdd(k, r2, c(-1.0 / 3628800));
  k = hn::MulAdd(k, r2, c(1.0 / 40320));
  k = hn::MulAdd(k, r2, c(-1.0 / 720));
  k = hn::MulAdd(k, r2, c(1.0 / 24));
  k = hn::MulAdd(k, r2, c(-0.5));
  k = hn::MulAdd(k, r2, c(1.0));
  const auto odd = hn::Or(hn::Eq(quadrant, c(1.0)), hn::Eq(quadrant, c(3.0)));
  const VD y = hn::IfThenElse(odd, k, s);
  return hn::IfThenElse(hn::Ge(quadrant, c(2.0)), hn::Neg(y), y);
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#endif  // PARALLAX_KERNELS_ELEMENTWISE_MATH_INL_H_
