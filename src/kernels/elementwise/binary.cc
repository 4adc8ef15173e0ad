#include "kernels/elementwise/binary.h"

#include <cstddef>

#include "kernels/elementwise/binary_row.h"
#include "kernels/elementwise/broadcast_run.h"
#include "kernels/elementwise/cast.h"
#include "kernels/move/words.h"

namespace parallax::kernels {
namespace {

bool IsHalf(DType d) { return d == DType::kF16 || d == DType::kBF16; }
bool IsComparison(BinaryOp op) { return op >= BinaryOp::kEqual && op <= BinaryOp::kGreaterOrEqual; }

BinaryRow FindRow(BinaryOp op, DType dtype) {
  if (dtype == DType::kF64) return FindF64Row(op);
  if (dtype == DType::kBool) return FindBoolRow(op);
  if (IsFloat(dtype)) return FindF32Row(op);
  return FindIntegerRow(op, dtype);
}

// A row of f16 or bf16 through blocks of f32.
void HalfRow(BinaryRow row, DType dtype, const uint16_t* a, bool step_a, const uint16_t* b,
             bool step_b, void* out, bool to_bool, int64_t n) {
  float x[kHalfBlock];
  float y[kHalfBlock];
  if (!step_a) ToF32Block(dtype, a, x, 1);
  if (!step_b) ToF32Block(dtype, b, y, 1);
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t count = std::min(kHalfBlock, n - i);
    if (step_a) ToF32Block(dtype, a + i, x, count);
    if (step_b) ToF32Block(dtype, b + i, y, count);
    if (to_bool) {
      row(x, step_a, y, step_b, static_cast<bool*>(out) + i, count);
      continue;
    }
    float z[kHalfBlock];
    row(x, step_a, y, step_b, z, count);
    FromF32Block(dtype, z, static_cast<uint16_t*>(out) + i, count);
  }
}

// Plans of short rows, by blocks packed to vectors on both sides.
template <class T>
void PackedRows(BinaryRow row, const BroadcastPlan& plan, const T* a, const T* b, std::byte* out,
                size_t out_size, Team& team) {
  const bool whole_a = IsWhole(plan, 0);
  const bool whole_b = IsWhole(plan, 1);
  ForRanges(plan.elements, kTaskElements, team, [&](int64_t begin, int64_t end) {
    T x[kHalfBlock];
    T y[kHalfBlock];
    for (int64_t i = begin; i < end; i += kHalfBlock) {
      const int64_t n = std::min(kHalfBlock, end - i);
      if (!whole_a) PackOperand(plan, 0, a, i, n, x);
      if (!whole_b) PackOperand(plan, 1, b, i, n, y);
      row(whole_a ? a + i : x, true, whole_b ? b + i : y, true,
          out + static_cast<size_t>(i) * out_size, n);
    }
  });
}

}  // namespace

bool BinarySupports(BinaryOp op, DType dtype) {
  const bool number = IsFloat(dtype) || IsInteger(dtype);
  if (op <= BinaryOp::kPow) return number;
  if (op <= BinaryOp::kGreaterOrEqual) return number || dtype == DType::kBool;
  if (op <= BinaryOp::kXor) return dtype == DType::kBool;
  return IsInteger(dtype);
}

void Binary(BinaryOp op, DType dtype, const BroadcastPlan& plan, const void* a, const void* b,
            void* out, Team& team) {
  if (op == BinaryOp::kPow) return Pow(dtype, dtype, plan, a, b, out, team);
  const BinaryRow row = FindRow(op, dtype);
  const size_t last = static_cast<size_t>(plan.rank) - 1;
  const bool step_a = plan.stride[0][last] != 0;
  const bool step_b = plan.stride[1][last] != 0;
  const size_t size = SizeOf(dtype);
  const size_t out_size = IsComparison(op) ? 1 : size;
  if (plan.rank > 1 && plan.extent[last] < kShortRow && !IsHalf(dtype)) {
    return DispatchSize(size, [&]<class T>() {
      PackedRows(row, plan, static_cast<const T*>(a), static_cast<const T*>(b),
                 static_cast<std::byte*>(out), out_size, team);
    });
  }
  ForBroadcastRows(plan, team, [&](int64_t at, const std::array<int64_t, 2>& offset, int64_t n) {
    const std::byte* x = static_cast<const std::byte*>(a) + static_cast<size_t>(offset[0]) * size;
    const std::byte* y = static_cast<const std::byte*>(b) + static_cast<size_t>(offset[1]) * size;
    std::byte* z = static_cast<std::byte*>(out) + static_cast<size_t>(at) * out_size;
    if (IsHalf(dtype)) {
      HalfRow(row, dtype, reinterpret_cast<const uint16_t*>(x), step_a,
              reinterpret_cast<const uint16_t*>(y), step_b, z, IsComparison(op), n);
    } else {
      row(x, step_a, y, step_b, z, n);
    }
  });
}

bool HasZero(DType dtype, const void* values, int64_t n) {
  bool zero = false;
  DispatchType(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      const T* v = static_cast<const T*>(values);
      for (int64_t i = 0; i < n; ++i) zero |= v[i] == 0;
    }
  });
  return zero;
}

}  // namespace parallax::kernels
