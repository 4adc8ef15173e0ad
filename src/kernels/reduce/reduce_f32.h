// SIMD runs of f32 reductions, one thread.
//
// Role:       the inner loops of Reduce and of the normalisations.
// Threads:    pure.
// Invariants: sums add runs of at most kSumRun terms in f32 (four accumulators a lane) and the runs
//             in f64, so the error of a sum is at most (kSumRun / (4 lanes) + 8) 2^-24 sum|x| for a
//             run along memory and (kRowRun + 1) 2^-24 sum|x| across rows.
#pragma once

#include <cstdint>

namespace parallax::kernels {

inline constexpr int64_t kSumRun = 512;  // terms
inline constexpr int64_t kRowRun = 128;  // rows

enum class SumTerm : uint8_t { kValue, kAbs, kSquare };
enum class Extreme : uint8_t { kMax, kMin };

// sum of term(x[i] - shift).
double SumF32(SumTerm term, const float* x, int64_t n, float shift = 0);
// The largest (smallest) of x, start included; NaN if any is.
float ExtremeF32(Extreme extreme, const float* x, int64_t n, float start);
// sum of exp(x[i] - shift).
double SumExpF32(const float* x, int64_t n, float shift);

// acc[c] += sum over rows of term(x[r * stride + c]), c < cols.
void SumRowsF32(SumTerm term, const float* x, int64_t stride, int64_t rows, int64_t cols,
                double* acc);
// acc[c] = extreme of acc[c] and x[r * stride + c] over rows.
void ExtremeRowsF32(Extreme extreme, const float* x, int64_t stride, int64_t rows, int64_t cols,
                    float* acc);

}  // namespace parallax::kernels
