// Copies between two strided views of one shape: transpose, slice, concat, split, expand, tile.
//
// Role:       every operator that only moves elements along regular strides makes a plan when bound
//             and runs it on raw memory.
// Ownership:  plans are plain values; StridedCopy borrows its pointers, which must not overlap.
// Threads:    splits over the caller's team.
// Cost:       whole runs by memcpy where both sides are contiguous, SIMD-sized square tiles where
//             the two sides are contiguous along different axes; allocates nothing.
// Invariants: extents > 0 are merged as far as strides allow; strides count elements and may be
//             negative or, on the source side, 0.
// Example:
//   CopyPlan plan = TransposePlan({8, 3, 4}, {0, 2, 1});
//   StridedCopy(plan, 4, in, out, team);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/shape.h"
#include "threads/team.h"

namespace parallax::kernels {

// A tile of every axis splits it in two.
inline constexpr int kMaxCopyRank = 2 * kMaxRank;

struct CopyPlan {
  int rank = 0;          // loops, outermost first; contiguous along dst's last loop where possible
  int64_t elements = 0;  // copied in all
  std::array<int64_t, kMaxCopyRank> extent = {};
  std::array<int64_t, kMaxCopyRank> src_stride = {};
  std::array<int64_t, kMaxCopyRank> dst_stride = {};
  int64_t src_offset = 0;  // element of src (dst) that the first copied one is at
  int64_t dst_offset = 0;

  // The copy is one contiguous run: an operator may alias instead.
  bool IsContiguous() const {
    return elements <= 1 || (rank == 1 && src_stride[0] == 1 && dst_stride[0] == 1);
  }
};

// dst[sum i_k dst_stride_k] = src[sum i_k src_stride_k] for all i in `extents`.
// REQUIRES: the three spans have one length <= kMaxCopyRank; distinct i go to distinct places.
CopyPlan MakeCopyPlan(std::span<const int64_t> extents, std::span<const int64_t> src_strides,
                      std::span<const int64_t> dst_strides);

// out[i_perm[0], i_perm[1], ...] = in[i_0, i_1, ...]: output axis k is input axis perm[k].
CopyPlan TransposePlan(const Shape& in, std::span<const int64_t> perm);
// out[i] = in[start + i * step] on every axis. REQUIRES: starts and steps have in.rank() entries,
// clamped so that every read is inside; steps != 0.
CopyPlan SlicePlan(const Shape& in, std::span<const int64_t> starts, std::span<const int64_t> steps,
                   const Shape& out);
// Writes `part` into `whole` at `offset` along `axis` (Concat), and the reverse (Split).
CopyPlan ConcatPlan(const Shape& part, const Shape& whole, int axis, int64_t offset);
CopyPlan SplitPlan(const Shape& whole, const Shape& part, int axis, int64_t offset);
// Repeats extents of 1. REQUIRES: in broadcasts to out, which has at least its rank.
CopyPlan ExpandPlan(const Shape& in, const Shape& out);
// out[i] = in[i mod extent], repeats[k] times along axis k.
CopyPlan TilePlan(const Shape& in, std::span<const int64_t> repeats);
// Flips `axis`.
CopyPlan ReversePlan(const Shape& in, int axis);
// [N, C, H, W] -> [N, C / b^2, H b, W b] and the reverse, on any number of spatial axes = 2.
enum class DepthOrder : uint8_t { kDepthColumnRow, kColumnRowDepth };  // ONNX modes DCR and CRD
CopyPlan DepthToSpacePlan(const Shape& in, int64_t block, DepthOrder order);
CopyPlan SpaceToDepthPlan(const Shape& in, int64_t block, DepthOrder order);

// REQUIRES: elem_size is 1, 2, 4 or 8; src and dst aligned to it.
void StridedCopy(const CopyPlan& plan, size_t elem_size, const void* src, void* dst, Team& team);

}  // namespace parallax::kernels
