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
  const bool adds = epilogue.residual_last && residual != nullptr;
  const BinaryRow add = adds ? FindF32SimdRow(BinaryOp::kAdd) : nullptr;
  // A stretch that stays in L1 between the passes.
  constexpr int64_t kStretch = 2048;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < columns; i += kStretch) {
      const int64_t n = columns - i < kStretch ? columns - i : kStretch;
      float* at = block + r * ld + i;
      if (epilogue.activation == Activation::kUnary) {
        UnarySerial(epilogue.op, DType::kF32, at, at, n, epilogue.params);
      }
      if (epilogue.rescales()) {
        UnarySerial(UnaryOp::kAffine, DType::kF32, at, at, n, {epilogue.scale, epilogue.shift});
      }
      if (adds) add(at, true, residual + r * ld + i, true, at, n);
    }
  }
}

}  // namespace parallax::kernels
