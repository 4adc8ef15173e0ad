// Pad: grows (or crops, with negative amounts) a tensor on both ends of every axis.
//
// Role:       ONNX Pad.
// Ownership:  borrows its pointers.
// Threads:    splits over the caller's team by output rows.
// Cost:       one pass over the output; the middle of a row is a memcpy; allocates nothing.
// Invariants: output coordinate o reads input coordinate i = o - begin, mapped into the axis by the
//             mode where it is outside. So pads beyond one period keep reflecting or wrapping as
//             numpy does, and a crop on one end with a reflecting pad on the other reflects about
//             the ends of the uncropped axis: [0,1,2,3] reflect (-3, 3) is [3,2,1,0].
// Example:
//   Pad(PadMode::kReflect, 4, shape, begin, end, in, nullptr, out, team);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/shape.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };

// begin and end have shape.rank() entries; output extents are shape + begin + end, all >= 0.
// `value` points to one element (null: zero bits), used by kConstant only. REQUIRES: elem_size is
// 1, 2, 4 or 8; for the other modes no axis of extent 0 grows (it would read nothing: zeros).
void Pad(PadMode mode, size_t elem_size, const Shape& shape, std::span<const int64_t> begin,
         std::span<const int64_t> end, const void* in, const void* value, void* out, Team& team);

}  // namespace parallax::kernels
