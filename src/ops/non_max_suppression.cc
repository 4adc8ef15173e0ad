// NonMaxSuppression: for each image and class the best boxes that do not overlap a better one too
// much, as rows (image, class, box). Since opset 10. Without max_output_boxes_per_class nothing is
// selected.
#include <algorithm>

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
  const kernels::BoxFormat format = c.Int("center_point_box", 0) != 0
                                        ? kernels::BoxFormat::kCenter
                                        : kernels::BoxFormat::kCorners;
  const int64_t groups = images * classes;
  // Scratch: an order and a selection for each worker, the selections of all groups are gathered in
  // two passes (count, then write) so that the output has its exact size.
  const size_t list = static_cast<size_t>(boxes) * sizeof(int64_t);
  return MakeKernel(
      "non_max_suppression",
      [=](const KernelArgs& a) -> Result<void> {
        kernels::NmsParams p;
        p.format = format;
        if (a.raw_in(2) != nullptr) p.max_boxes = std::clamp<int64_t>(*a.in<int64_t>(2), 0, boxes);
        if (a.raw_in(3) != nullptr) p.iou_threshold = *a.in<float>(3);
        if (a.raw_in(4) != nullptr) {
          p.has_score_threshold = true;
          p.score_threshold = *a.in<float>(4);
        }
        int64_t* counts = reinterpret_cast<int64_t*>(a.workspace());
        const auto select = [&](int64_t g, int worker) {
          std::byte* scratch = a.workspace() + static_cast<size_t>(groups) * sizeof(int64_t) +
                               static_cast<size_t>(worker) * 2 * list;
          int64_t* order = reinterpret_cast<int64_t*>(scratch);
          int64_t* selected = reinterpret_cast<int64_t*>(scratch + list);
          const int64_t n =
              kernels::SelectBoxes(p, a.in<float>(0) + g / classes * boxes * 4,
                                   a.in<float>(1) + g * boxes, boxes, order, selected);
          return std::pair(n, selected);
        };
        a.team().Run(groups, [&](int64_t g, int worker) { counts[g] = select(g, worker).first; });
        int64_t total = 0;
        for (int64_t g = 0; g < groups; ++g) {
          const int64_t n = counts[g];
          counts[g] = total;  // where the group's rows start
          total += n;
        }
        PX_ASSIGN_OR_RETURN(int64_t * out, a.Allocate<int64_t>(0, Shape{total, 3}));
        a.team().Run(groups, [&](int64_t g, int worker) {
          const auto [n, selected] = select(g, worker);
          for (int64_t i = 0; i < n; ++i) {
            int64_t* row = out + 3 * (counts[g] + i);
            row[0] = g / classes;
            row[1] = g % classes;
            row[2] = selected[i];
          }
        });
        return {};
      },
      static_cast<size_t>(groups) * sizeof(int64_t) +
          static_cast<size_t>(c.team_size()) * 2 * list);
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
