// f32 arithmetic on SIMD.
#include "kernels/elementwise/binary_row.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/binary_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace parallax::kernels {
namespace HWY_NAMESPACE {

struct AddF {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
};
struct SubF {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Sub(a, b);
  }
};
struct MulF {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Mul(a, b);
  }
};
struct DivF {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Div(a, b);
  }
};
struct MinF {  // a NaN in `a` by the mask, one in `b` because the comparison is then false
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b);
  }
};
struct MaxF {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b);
  }
};
struct PReluF {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Mul(a, b), a);
  }
};

template <class F>
void Row(const void* a, bool step_a, const void* b, bool step_b, void* out, int64_t n) {
  Zip(static_cast<const float*>(a), step_a, static_cast<const float*>(b), step_b,
      static_cast<float*>(out), static_cast<size_t>(n), F());
}

BinaryRow FindTargetRow(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return Row<AddF>;
    case BinaryOp::kSub:
      return Row<SubF>;
    case BinaryOp::kMul:
      return Row<MulF>;
    case BinaryOp::kDiv:
      return Row<DivF>;
    case BinaryOp::kMin:
      return Row<MinF>;
    case BinaryOp::kMax:
      return Row<MaxF>;
    case BinaryOp::kPRelu:
      return Row<PReluF>;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace parallax::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace parallax::kernels {

HWY_EXPORT(FindTargetRow);

BinaryRow FindF32SimdRow(BinaryOp op) { return HWY_DYNAMIC_DISPATCH(FindTargetRow)(op); }

}  // namespace parallax::kernels
#endif  // HWY_ONCE
