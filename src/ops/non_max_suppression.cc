// NonMaxSuppression: for each image and class the best boxes that do not overlap a better one too
// much, as rows (image, class, box). Since opset 10. Without max_output_boxes_per_class nothing is
// selected.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/detect/nms.h"
#include "ops/core/copy.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  const int64_t center = c.Int("center_point_box", 0);
  if (center != 0 && center != 1) return Invalid("center_point_box is {}", center);
  if (c.rank(0) >= 0 && (c.rank(0) != 3 || !(MergeDim(c.dims(0)[2], Dim(4), "").ok()))) {
    return Invalid("boxes are {}, should be [images,boxes,4]", DimsToString(c.dims(0)));
  }
  if (c.rank(1) >= 0 && c.rank(1) != 3) {
    return Invalid("scores are {}, should be [images,classes,boxes]", DimsToString(c.dims(1)));
  }
  if (c.rank(0) == 3 && c.rank(1) == 3) {
    PX_RETURN_IF_ERROR(MergeDim(c.dims(0)[0], c.dims(1)[0], "images of boxes and scores"));
    PX_RETURN_IF_ERROR(MergeDim(c.dims(0)[1], c.dims(1)[2], "boxes and scores"));
  }
  for (int i = 2; i < 5; ++i) {
    if (!c.has_input(i)) continue;
    if (std::optional<Shape> s = c.type(i).shape(); s && s->elements() != 1) {
      return Invalid("input {} should have one element, has shape {}", i, s->ToString());
    }
  }
  return c.SetDims(0, {Dim(), Dim(3)});
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const int64_t images = c.input(0)[0], boxes = c.input(0)[1], classes = c.input(1)[1];
  if (boxes > std::numeric_limits<int32_t>::max()) return Invalid("{} boxes are too many", boxes);
  const kernels::BoxFormat format = c.Int("center_point_box", 0) != 0
                                        ? kernels::BoxFormat::kCenter
                                        : kernels::BoxFormat::kCorners;
  const int64_t groups = boxes == 0 ? 0 : images * classes;  // nothing to select, in however many
  // The most that a group may keep, as far as it is known.
  int64_t most = c.has_input(2) && groups > 0 ? boxes : 0;
  if (const Tensor* t = c.constant(2)) {
    std::vector<int64_t> value;
    if (ReadInts(*t, 1, &value) && !value.empty()) most = std::clamp<int64_t>(value[0], 0, most);
  }
  // Workspace: how many each group keeps, which, then scratch for every worker.
  const size_t counts_bytes = static_cast<size_t>(groups) * sizeof(int64_t);
  const size_t lists_bytes = static_cast<size_t>(groups * most) * sizeof(int32_t);
  const size_t scratch_bytes = groups > 0 ? kernels::NmsScratchBytes(boxes, most) : 0;
  return MakeKernel(
      "non_max_suppression",
      [=](const KernelArgs& a) -> Result<void> {
        kernels::NmsParams p;
        p.format = format;
        if (a.raw_in(2) != nullptr) p.max_boxes = std::clamp<int64_t>(*a.in<int64_t>(2), 0, most);
        if (a.raw_in(3) != nullptr) p.iou_threshold = *a.in<float>(3);
        if (!(p.iou_threshold >= 0 && p.iou_threshold <= 1)) {
          return MakeError(ErrorCode::kInvalidArgument,
                           "iou_threshold is {}, should be between 0 and 1", p.iou_threshold);
        }
        if (a.raw_in(4) != nullptr) {
          p.has_score_threshold = true;
          p.score_threshold = *a.in<float>(4);
        }
        int64_t* counts = reinterpret_cast<int64_t*>(a.workspace());
        int32_t* lists = reinterpret_cast<int32_t*>(a.workspace() + counts_bytes);
        std::byte* scratch = a.workspace() + counts_bytes + lists_bytes;
        a.team().Run(groups, [&](int64_t g, int worker) {
          counts[g] = kernels::SelectBoxes(
              p, a.in<float>(0) + g / classes * boxes * 4, a.in<float>(1) + g * boxes, boxes,
              scratch + static_cast<size_t>(worker) * scratch_bytes, lists + g * most);
        });
        const int64_t total = std::accumulate(counts, counts + groups, int64_t{0});
        PX_ASSIGN_OR_RETURN(int64_t * row, a.Allocate<int64_t>(0, Shape{total, 3}));
        for (int64_t g = 0; g < groups; ++g) {
          for (int64_t i = 0; i < counts[g]; ++i, row += 3) {
            row[0] = g / classes;
            row[1] = g % classes;
            row[2] = lists[g * most + i];
          }
        }
        return {};
      },
      counts_bytes + lists_bytes + static_cast<size_t>(c.team_size()) * scratch_bytes);
}

}  // namespace

OpDef op_non_max_suppression() {
  constexpr TypeSet kF32s = Bit(DType::kF32);
  OpDef def;
  def.name = "NonMaxSuppression";
  def.since = 10;
  def.inputs = {{"boxes", kF32s},
                {"scores", kF32s},
                {"max_output_boxes_per_class", kI64s, 0, Arity::kOptional},
                {"iou_threshold", kF32s, 0, Arity::kOptional},
                {"score_threshold", kF32s, 0, Arity::kOptional}};
  def.outputs = {{"selected_indices", kI64s}};
  def.attributes = {{.name = "center_point_box"}};
  def.data_dependent = true;
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
