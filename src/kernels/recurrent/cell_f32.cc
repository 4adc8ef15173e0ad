#include "kernels/recurrent/cell_f32.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/cell_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// out[i] = f(d, in[i]...); the tail as vectors of one lane, which round the same way.
template <class F, class... In>
HWY_INLINE void Rows(int64_t n, float* out, F f, const In*... in) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, in + i)...), d, out + i);
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) hn::StoreU(f(one, hn::LoadU(one, in + i)...), one, out + i);
}

void Add(const float* a, const float* b, float* out, int64_t n) {
  Rows(
      n, out, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}
void Mul(const float* a, const float* b, float* out, int64_t n) {
  Rows(
      n, out, [](auto, auto x, auto y) HWY_ATTR { return hn::Mul(x, y); }, a, b);
}
void MulAdd(const float* a, const float* b, float* sum, int64_t n) {
  Rows(
      n, sum, [](auto, auto x, auto y, auto z) HWY_ATTR { return hn::MulAdd(x, y, z); }, a, b, sum);
}
void OneMinus(const float* a, float* out, int64_t n) {
  Rows(
      n, out, [](auto d, auto x) HWY_ATTR { return hn::Sub(hn::Set(d, 1.0f), x); }, a);
}
void Affine(float scale, float offset, float* x, int64_t n) {
  const auto f = [scale, offset](auto d, auto v)
                     HWY_ATTR { return hn::MulAdd(v, hn::Set(d, scale), hn::Set(d, offset)); };
  Rows(n, x, f, x);
}
void LstmState(const float* i, const float* f, const float* g, float* c, int64_t n) {
  const auto step = [](auto, auto vi, auto vf, auto vg, auto vc)
                        HWY_ATTR { return hn::MulAdd(vf, vc, hn::Mul(vi, vg)); };
  Rows(n, c, step, i, f, g, c);
}
void GruLinear(const float* x, const float* r, const float* h, const float* bias, float* out,
               int64_t n) {
  if (bias == nullptr) {
    Rows(
        n, out, [](auto, auto vx, auto vr, auto vh) HWY_ATTR { return hn::MulAdd(vr, vh, vx); }, x,
        r, h);
  } else {
    const auto f = [](auto, auto vx, auto vr, auto vh, auto vb)
                       HWY_ATTR { return hn::MulAdd(vr, hn::Add(vh, vb), vx); };
    Rows(n, out, f, x, r, h, bias);
  }
}
void GruBlend(const float* z, const float* g, float* h, int64_t n) {
  const auto f = [](auto d, auto vz, auto vg, auto vh) HWY_ATTR {
    return hn::MulAdd(hn::Sub(hn::Set(d, 1.0f), vz), vg, hn::Mul(vz, vh));
  };
  Rows(n, h, f, z, g, h);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
#include <limits>

#include "kernels/elementwise/unary.h"
#include "kernels/recurrent/cell_function.h"

namespace parallax::kernels {
namespace {
HWY_EXPORT(Add);
HWY_EXPORT(Mul);
HWY_EXPORT(MulAdd);
HWY_EXPORT(OneMinus);
HWY_EXPORT(Affine);
HWY_EXPORT(LstmState);
HWY_EXPORT(GruLinear);
HWY_EXPORT(GruBlend);

void Apply(UnaryOp op, float* x, int64_t n, const UnaryParams& params = {}) {
  UnarySerial(op, DType::kF32, x, x, n, params);
}

}  // namespace

void CellAdd(const float* a, const float* b, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Add)(a, b, out, n);
}
void CellMul(const float* a, const float* b, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Mul)(a, b, out, n);
}
void CellMulAdd(const float* a, const float* b, float* sum, int64_t n) {
  HWY_DYNAMIC_DISPATCH(MulAdd)(a, b, sum, n);
}
void CellOneMinus(const float* a, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(OneMinus)(a, out, n);
}
void CellAffine(float scale, float offset, float* x, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Affine)(scale, offset, x, n);
}
void CellLstmState(const float* i, const float* f, const float* g, float* c, int64_t n) {
  HWY_DYNAMIC_DISPATCH(LstmState)(i, f, g, c, n);
}
void CellGruLinear(const float* x, const float* r, const float* h, const float* bias, float* out,
                   int64_t n) {
  HWY_DYNAMIC_DISPATCH(GruLinear)(x, r, h, bias, out, n);
}
void CellGruBlend(const float* z, const float* g, float* h, int64_t n) {
  HWY_DYNAMIC_DISPATCH(GruBlend)(z, g, h, n);
}

void ApplyCellFunction(const CellFunction& f, float* x, int64_t n) {
  switch (f.kind) {
    case CellActivation::kRelu:
      return Apply(UnaryOp::kRelu, x, n);
    case CellActivation::kTanh:
      return Apply(UnaryOp::kTanh, x, n);
    case CellActivation::kSigmoid:
      return Apply(UnaryOp::kSigmoid, x, n);
    case CellActivation::kAffine:
      return CellAffine(f.alpha, f.beta, x, n);
    case CellActivation::kLeakyRelu:
      return Apply(UnaryOp::kLeakyRelu, x, n, {.alpha = f.alpha});
    case CellActivation::kThresholdedRelu:
      // The operator keeps x > alpha, a cell x >= alpha: the next float below makes them one.
      return Apply(UnaryOp::kThresholdedRelu, x, n,
                   {.alpha = std::nextafter(f.alpha, -std::numeric_limits<float>::infinity())});
    case CellActivation::kScaledTanh:
      CellAffine(f.beta, 0.0f, x, n);
      Apply(UnaryOp::kTanh, x, n);
      return CellAffine(f.alpha, 0.0f, x, n);
    case CellActivation::kHardSigmoid:
      return Apply(UnaryOp::kHardSigmoid, x, n, {.alpha = f.alpha, .beta = f.beta});
    case CellActivation::kElu:
      return Apply(UnaryOp::kElu, x, n, {.alpha = f.alpha});
    case CellActivation::kSoftsign:
      return Apply(UnaryOp::kSoftsign, x, n);
    case CellActivation::kSoftplus:
      return Apply(UnaryOp::kSoftplus, x, n);
  }
}

}  // namespace parallax::kernels
#endif  // HWY_ONCE
