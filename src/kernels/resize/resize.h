// Resize of N-D tensors: nearest, linear, cubic, with every ONNX coordinate mode and antialiasing.
//
// Role:       ONNX Resize and Upsample.
// Ownership:  the plan owns its tables; Resize borrows plan, pointers and workspace.
// Threads:    a plan is immutable; Resize splits over the caller's team.
// Cost:       making a plan is O(sum of output extents x taps); a run is one pass for nearest and
//             for up to two neighbouring resized axes, and one more per further axis. Resize
//             allocates nothing.
// Invariants: separable: axis by axis, each output a weighted sum of input places from a table. The
//             same bits for every team size. f32, f16 and bf16 compute in f32; f64 and integers in
//             f64; integers truncate towards zero after clamping to the type's range, as ONNX
//             Runtime does. Nearest moves raw elements of any type.
// Source:     ONNX operator specification, Resize-19.
// Example:
//   PX_ASSIGN_OR_RETURN(ResizePlan plan, MakeResizePlan(in_shape, out_shape, axes, options));
//   Resize(plan, DType::kF32, in, out, workspace, team);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/shape.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
enum class CoordinateMode : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAsymmetric,
  kAlignCorners,
  kTfCropAndResize,
  kTfHalfPixelForNn,  // opset 11 only
};
enum class NearestMode : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

struct ResizeOptions {
  ResizeMode mode = ResizeMode::kNearest;
  CoordinateMode coordinates = CoordinateMode::kHalfPixel;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  float cubic_coeff_a = -0.75f;
  bool exclude_outside = false;
  bool antialias = false;
  float extrapolation_value = 0;  // kTfCropAndResize, outside the input
};

// How one axis is resized. One that keeps its extent, with scale 1 and the whole roi, is taken as
// it is whatever the modes, and costs nothing.
struct ResizeAxis {
  double scale = 1;      // as given, or out / in when sizes were given
  double roi_start = 0;  // kTfCropAndResize only, in [0, 1] of the axis
  double roi_end = 1;
};

// Output x of an axis is sum_t weight[x * taps + t] * input[index[x * taps + t]].
struct ResizeTable {
  int64_t in = 1;
  int64_t out = 1;
  int taps = 1;
  std::vector<int32_t> index;    // out * taps, each in [0, in)
  std::vector<float> weight;     // out * taps; empty for nearest
  std::vector<double> weight64;  // the same before rounding, for f64 and integers
  std::vector<int32_t> outside;  // outputs that take the extrapolation value
};

// One or more neighbouring axes: resized by a table, or taken as they are.
struct ResizeDim {
  int64_t in = 1;
  int64_t out = 1;
  int table = -1;  // none
};

struct ResizePlan {
  ResizeOptions options;
  Shape in_shape;
  Shape out_shape;
  std::vector<ResizeDim> dims;
  std::vector<ResizeTable> tables;
};

// `axes` has in.rank() entries; extents of `out` come from the caller (floor(in * scale), or
// sizes). Errors: an extent above 2^31 - 1, a scale that is not positive, an empty input axis for a
// non-empty output.
Result<ResizePlan> MakeResizePlan(const Shape& in, const Shape& out,
                                  std::span<const ResizeAxis> axes, const ResizeOptions& options);

// Bytes of workspace, aligned to 64.
size_t ResizeWorkspaceBytes(const ResizePlan& plan, DType dtype, int team_size);

// Any type for kNearest; any number for the others.
void Resize(const ResizePlan& plan, DType dtype, const void* in, void* out, void* workspace,
            Team& team);

}  // namespace parallax::kernels
