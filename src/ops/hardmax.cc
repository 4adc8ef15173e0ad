// Hardmax: 1 at the first maximum along an axis, 0 elsewhere. Axis rules as Softmax's.
#include <cstring>

#include "ops/core/softmax_op.h"

namespace parallax::ops {
namespace {

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const AxisView v = SoftmaxView(c, c.input(0));
  const DType dtype = c.input_type(0);
  return MakeKernel("hardmax", [=](const KernelArgs& a) {
    DispatchType(dtype, [&]<class T>() {
      const T* x = a.in<T>(0);
      T* y = a.out<T>(0);
      for (int64_t o = 0; o < v.outer; ++o) {
        for (int64_t i = 0; i < v.inner; ++i) {
          const int64_t base = o * v.axis * v.inner + i;
          int64_t best = 0;
          for (int64_t k = 1; k < v.axis; ++k) {
            if (x[base + k * v.inner] > x[base + best * v.inner]) best = k;
          }
          for (int64_t k = 0; k < v.axis; ++k) y[base + k * v.inner] = T(k == best ? 1 : 0);
        }
      }
    });
  });
}

}  // namespace

OpDef op_hardmax() {
  OpDef def = SoftmaxDef("Hardmax", Bind);
  def.aliases = {};
  return def;
}

}  // namespace parallax::ops
