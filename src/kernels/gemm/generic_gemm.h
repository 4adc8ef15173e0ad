// GenericGemm: the formula of gemm.h for any element and accumulator type, in portable C++.
//
// Role:       MatMul and Gemm on f64 and integers, MatMulInteger (zero points), 16-bit floats with
//             a float accumulator. f32 has its own kernels.
// Ownership:  borrows every pointer for the call; needs no workspace and allocates nothing.
// Threads:    pure apart from C; one call uses one Team.
// Cost:       blocks of 4 rows by 64 columns whose sums stay in L1; B is read once for every 4
//             rows. The compiler vectorises the inner loop.
// Invariants: the same bits for every team size. Integer sums wrap: give them an unsigned Acc
//             (signed overflow is undefined); the conversion back to a signed type is modulo 2^n.
// Example:
//   GenericGemm<double>(GemmShape{.m = m, .n = n, .k = k}, a, b, c, {}, team);
//   GenericGemm<uint32_t>(shape, a_i8, b_u8, c_i32, {.a_zero = az, .b_zero = bz}, team);
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/checked.h"
#include "kernels/gemm/gemm.h"

namespace parallax::kernels {

// c = alpha * sum (a - a_zero) * (b - b_zero) + beta * addend.
template <class Acc, class TA, class TB, class TC>
struct GenericGemmArgs {
  Acc alpha = Acc(1), beta = Acc(1);
  // addend[m * addend_row + n * addend_column]; strides of 0 broadcast; shared by the batch.
  const TC* addend = nullptr;
  int64_t addend_row = 0, addend_column = 0;
  // Zero points: null for 0; a stride of 0 shares one value.
  const TA* a_zero = nullptr;  // per row of A
  int64_t a_zero_stride = 0;
  const TB* b_zero = nullptr;  // per column of B
  int64_t b_zero_stride = 0;
};

// `shape` as for Gemm, with packed == kNone.
template <class Acc, class TA, class TB, class TC>
void GenericGemm(const GemmShape& shape, const TA* a, const TB* b, TC* c,
                 const std::type_identity_t<GenericGemmArgs<Acc, TA, TB, TC>>& args, Team& team) {
  constexpr int64_t kRows = 4, kColumns = 64;
  const int64_t m = shape.m, n = shape.n, k = shape.k;
  const bool ta = shape.trans_a == Transpose::kYes, tb = shape.trans_b == Transpose::kYes;
  const int64_t lda = shape.lda != 0 ? shape.lda : (ta ? m : k);
  const int64_t ldb = shape.ldb != 0 ? shape.ldb : (tb ? k : n);
  const int64_t ldc = shape.ldc != 0 ? shape.ldc : n;
  const int64_t a_row = ta ? 1 : lda, a_k = ta ? lda : 1;
  const int64_t b_column = tb ? ldb : 1, b_k = tb ? 1 : ldb;
  const GemmBatch& batch = shape.batch;
  int64_t entries = 1;
  for (int i = 0; i < batch.rank; ++i) entries *= batch.extents[i];
  if (entries == 0 || m == 0 || n == 0) return;
  const int64_t row_blocks = CeilDiv(m, kRows), column_blocks = CeilDiv(n, kColumns);

  // One task computes one block of columns of all rows of a group of row blocks, so that small
  // products do not drown in task overhead.
  const int64_t blocks_per_task = std::max<int64_t>(1, std::min<int64_t>(row_blocks, 16));
  const int64_t row_tasks = CeilDiv(row_blocks, blocks_per_task);
  team.Run(entries * row_tasks * column_blocks, [&](int64_t task, int) {
    const int64_t entry = task / (row_tasks * column_blocks);
    const int64_t row_task = task / column_blocks % row_tasks;
    const int64_t n0 = task % column_blocks * kColumns;
    const int64_t columns = std::min(kColumns, n - n0);
    int64_t ao = 0, bo = 0, co = 0;
    for (int64_t i = batch.rank - 1, left = entry; i >= 0; --i) {
      const int64_t at = left % batch.extents[i];
      left /= batch.extents[i];
      ao += at * batch.a_strides[i];
      bo += at * batch.b_strides[i];
      co += at * batch.c_strides[i];
    }
    const TA* pa = a + ao;
    const TB* pb = b + bo + n0 * b_column;
    const int64_t last = std::min(row_blocks, (row_task + 1) * blocks_per_task);
    for (int64_t block = row_task * blocks_per_task; block < last; ++block) {
      const int64_t m0 = block * kRows, rows = std::min(kRows, m - m0);
      Acc sum[kRows][kColumns] = {};
      Acc b_zero[kColumns] = {};
      if (args.b_zero != nullptr) {
        for (int64_t j = 0; j < columns; ++j) {
          b_zero[j] = static_cast<Acc>(args.b_zero[(n0 + j) * args.b_zero_stride]);
        }
      }
      for (int64_t p = 0; p < k; ++p) {
        Acc values[kColumns];
        for (int64_t j = 0; j < columns; ++j) {
          values[j] = static_cast<Acc>(static_cast<Acc>(pb[p * b_k + j * b_column]) - b_zero[j]);
        }
        for (int64_t r = 0; r < rows; ++r) {
          Acc x = static_cast<Acc>(pa[(m0 + r) * a_row + p * a_k]);
          if (args.a_zero != nullptr) {
            x = static_cast<Acc>(x - static_cast<Acc>(args.a_zero[(m0 + r) * args.a_zero_stride]));
          }
          for (int64_t j = 0; j < columns; ++j) {
            sum[r][j] = static_cast<Acc>(sum[r][j] + x * values[j]);
          }
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        TC* out = c + co + (m0 + r) * ldc + n0;
        for (int64_t j = 0; j < columns; ++j) {
          Acc v = static_cast<Acc>(args.alpha * sum[r][j]);
          if (args.addend != nullptr && args.beta != Acc(0)) {
            v = static_cast<Acc>(
                v +
                args.beta *
                    static_cast<Acc>(
                        args.addend[(m0 + r) * args.addend_row + (n0 + j) * args.addend_column]));
          }
          out[j] = static_cast<TC>(v);
        }
      }
    }
  });
}

}  // namespace parallax::kernels
