// Plans for StridedCopy.
#include <algorithm>
#include <cstdlib>

#include "kernels/move/strided_copy.h"

namespace parallax::kernels {
namespace {

using Extents = std::array<int64_t, kMaxCopyRank>;

// Row-major strides of `shape`.
Extents Strides(const Shape& shape) {
  Extents strides = {};
  int64_t stride = 1;
  for (int i = shape.rank(); i-- > 0;) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

CopyPlan Make(const Extents& extents, const Extents& src, const Extents& dst, int rank) {
  const size_t n = static_cast<size_t>(rank);
  return MakeCopyPlan({extents.data(), n}, {src.data(), n}, {dst.data(), n});
}

// A copy of all of `shape` between row-major places with the strides of two enclosing shapes.
CopyPlan Inside(const Shape& shape, const Shape& src, const Shape& dst) {
  const Extents src_strides = Strides(src);
  const Extents dst_strides = Strides(dst);
  Extents extents = {};
  for (int i = 0; i < shape.rank(); ++i) extents[static_cast<size_t>(i)] = shape[i];
  return Make(extents, src_strides, dst_strides, shape.rank());
}

}  // namespace

CopyPlan MakeCopyPlan(std::span<const int64_t> extents, std::span<const int64_t> src_strides,
                      std::span<const int64_t> dst_strides) {
  CopyPlan plan;
  plan.elements = 1;
  struct Loop {
    int64_t extent, src, dst;
  };
  std::array<Loop, kMaxCopyRank> loops;
  size_t count = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    plan.elements *= extents[i];
    if (extents[i] != 1) loops[count++] = {extents[i], src_strides[i], dst_strides[i]};
  }
  if (plan.elements == 0) count = 0;
  // Smallest step of dst innermost: writes then run through memory in order. Insertion sort, so
  // that loops of equal steps stay as given.
  for (size_t i = 1; i < count; ++i) {
    const Loop loop = loops[i];
    size_t k = i;
    for (; k > 0 && std::abs(loops[k - 1].dst) < std::abs(loop.dst); --k) loops[k] = loops[k - 1];
    loops[k] = loop;
  }
  for (size_t i = 0; i < count; ++i) {
    const Loop& loop = loops[i];
    const size_t last = static_cast<size_t>(plan.rank) - 1;
    if (plan.rank > 0 && plan.src_stride[last] == loop.src * loop.extent &&
        plan.dst_stride[last] == loop.dst * loop.extent) {
      plan.extent[last] *= loop.extent;
      plan.src_stride[last] = loop.src;
      plan.dst_stride[last] = loop.dst;
      continue;
    }
    const size_t next = static_cast<size_t>(plan.rank++);
    plan.extent[next] = loop.extent;
    plan.src_stride[next] = loop.src;
    plan.dst_stride[next] = loop.dst;
  }
  if (plan.rank == 0) {  // one element, or none
    plan.rank = 1;
    plan.extent[0] = plan.elements;
    plan.src_stride[0] = plan.dst_stride[0] = 1;
  }
  return plan;
}

CopyPlan TransposePlan(const Shape& in, std::span<const int64_t> perm) {
  const Extents in_strides = Strides(in);
  Shape out;
  Extents extents = {};
  Extents src = {};
  for (size_t k = 0; k < perm.size(); ++k) {
    const int axis = static_cast<int>(perm[k]);
    out.Append(in[axis]);
    extents[k] = in[axis];
    src[k] = in_strides[static_cast<size_t>(axis)];
  }
  return Make(extents, src, Strides(out), in.rank());
}

CopyPlan SlicePlan(const Shape& in, std::span<const int64_t> starts, std::span<const int64_t> steps,
                   const Shape& out) {
  const Extents in_strides = Strides(in);
  Extents extents = {};
  Extents src = {};
  int64_t offset = 0;
  for (size_t k = 0; k < starts.size(); ++k) {
    extents[k] = out[static_cast<int>(k)];
    src[k] = in_strides[k] * steps[k];
    offset += in_strides[k] * starts[k];
  }
  CopyPlan plan = Make(extents, src, Strides(out), in.rank());
  plan.src_offset = plan.elements == 0 ? 0 : offset;
  return plan;
}

CopyPlan ConcatPlan(const Shape& part, const Shape& whole, int axis, int64_t offset) {
  CopyPlan plan = Inside(part, part, whole);
  if (plan.elements > 0) plan.dst_offset = offset * whole.Elements(axis + 1, whole.rank());
  return plan;
}

CopyPlan SplitPlan(const Shape& whole, const Shape& part, int axis, int64_t offset) {
  CopyPlan plan = Inside(part, whole, part);
  if (plan.elements > 0) plan.src_offset = offset * whole.Elements(axis + 1, whole.rank());
  return plan;
}

CopyPlan ExpandPlan(const Shape& in, const Shape& out) {
  const Extents in_strides = Strides(in);
  Extents extents = {};
  Extents src = {};
  for (int k = 0; k < out.rank(); ++k) {
    const int own = k - (out.rank() - in.rank());
    extents[static_cast<size_t>(k)] = out[k];
    src[static_cast<size_t>(k)] =
        own < 0 || in[own] == 1 ? 0 : in_strides[static_cast<size_t>(own)];
  }
  return Make(extents, src, Strides(out), out.rank());
}

CopyPlan TilePlan(const Shape& in, std::span<const int64_t> repeats) {
  const Extents in_strides = Strides(in);
  Shape out;
  for (int k = 0; k < in.rank(); ++k) out.Append(in[k] * repeats[static_cast<size_t>(k)]);
  const Extents out_strides = Strides(out);
  Extents extents = {};
  Extents src = {};
  Extents dst = {};
  size_t n = 0;
  for (size_t k = 0; k < repeats.size(); ++k) {
    const int64_t extent = in[static_cast<int>(k)];
    extents[n] = repeats[k];
    src[n] = 0;
    dst[n++] = out_strides[k] * extent;
    extents[n] = extent;
    src[n] = in_strides[k];
    dst[n++] = out_strides[k];
  }
  return Make(extents, src, dst, static_cast<int>(n));
}

CopyPlan ReversePlan(const Shape& in, int axis) {
  std::array<int64_t, kMaxRank> starts = {};
  std::array<int64_t, kMaxRank> steps;
  steps.fill(1);
  starts[static_cast<size_t>(axis)] = in[axis] - 1;
  steps[static_cast<size_t>(axis)] = -1;
  const size_t rank = static_cast<size_t>(in.rank());
  return SlicePlan(in, {starts.data(), rank}, {steps.data(), rank}, in);
}

CopyPlan DepthToSpacePlan(const Shape& in, int64_t block, DepthOrder order) {
  const int64_t depth = in[1] / (block * block);
  if (order == DepthOrder::kDepthColumnRow) {
    // Channels are [block row, block column, depth].
    return TransposePlan({in[0], block, block, depth, in[2], in[3]},
                         std::array<int64_t, 6>{0, 3, 4, 1, 5, 2});
  }
  return TransposePlan({in[0], depth, block, block, in[2], in[3]},
                       std::array<int64_t, 6>{0, 1, 4, 2, 5, 3});
}

CopyPlan SpaceToDepthPlan(const Shape& in, int64_t block, DepthOrder order) {
  const Shape split{in[0], in[1], in[2] / block, block, in[3] / block, block};
  return order == DepthOrder::kDepthColumnRow
             ? TransposePlan(split, std::array<int64_t, 6>{0, 3, 5, 1, 2, 4})
             : TransposePlan(split, std::array<int64_t, 6>{0, 1, 3, 5, 2, 4});
}

}  // namespace parallax::kernels
