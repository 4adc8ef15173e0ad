#include "ops/core/cast_op.h"

#include "kernels/elementwise/cast.h"

namespace parallax::ops {

// Numbers fixed by onnx.proto.
DType DTypeFromOnnx(int64_t onnx_type) {
  switch (onnx_type) {
    case 1:
      return DType::kF32;
    case 2:
      return DType::kU8;
    case 3:
      return DType::kI8;
    case 4:
      return DType::kU16;
    case 5:
      return DType::kI16;
    case 6:
      return DType::kI32;
    case 7:
      return DType::kI64;
    case 9:
      return DType::kBool;
    case 10:
      return DType::kF16;
    case 11:
      return DType::kF64;
    case 12:
      return DType::kU32;
    case 13:
      return DType::kU64;
    case 16:
      return DType::kBF16;
    default:
      return DType::kUndefined;
  }
}

Result<std::unique_ptr<Kernel>> BindCast(BindContext& c) {
  const DType from = c.input_type(0), to = c.output_type(0);
  const int64_t n = c.input(0).elements();
  return MakeKernel("cast", [=](const KernelArgs& a) {
    kernels::Cast(from, to, a.raw_in(0), a.raw_out(0), n, a.team());
  });
}

}  // namespace parallax::ops
