#include "kernels/epilogue.h"

#include "kernels/elementwise/binary_row.h"

namespace parallax::kernels {

void FinishBlock(const Epilogue& epilogue, float* block, const float* residual, int64_t rows,
                 int64_t columns, int64_t ld) {
  if (!epilogue.finishes()) return;
  if (columns == ld) {  // one row, as far as memory goes
    columns *= rows;
    rows = 1;
  }
  // The activation of the networks that scale behind it, in one pass.
  const bool together = epilogue.rescales() && epilogue.activation == Activation::kUnary &&
                        epilogue.op == UnaryOp::kHardSwish;
  const UnaryOp op = together ? UnaryOp::kHardSwishAffine : epilogue.op;
  const UnaryParams scale = {epilogue.scale, epilogue.shift};
  const UnaryParams params = together ? scale : epilogue.params;
  const bool adds = epilogue.residual_last && residual != nullptr;
  const BinaryRow add = adds ? FindF32SimdRow(BinaryOp::kAdd) : nullptr;
  // A stretch that stays in L1 between the passes.
  constexpr int64_t kStretch = 2048;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < columns; i += kStretch) {
      const int64_t n = columns - i < kStretch ? columns - i : kStretch;
      float* at = block + r * ld + i;
      if (epilogue.activation == Activation::kUnary) {
        UnarySerial(op, DType::kF32, at, at, n, params);
      }
      if (epilogue.rescales() && !together) {
        UnarySerial(UnaryOp::kAffine, DType::kF32, at, at, n, scale);
      }
      if (adds) add(at, true, residual + r * ld + i, true, at, n);
    }
  }
}

}  // namespace parallax::kernels
