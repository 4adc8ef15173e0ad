// parallax::FusedAttention: softmax(scale Q K^T + masks) V for every head. Made by passes, f32 only.
//
// Inputs Q, K, V, up to two masks that broadcast to [batch..., heads, queries, keys] (the outermost
// axis of a mask may also divide the batch: it repeats), and factors [heads] of the scores.
// Attributes: `scale`; `q_layout`, `k_layout`, `v_layout`, `y_layout` (attention_layout.h) with
// `q_part`, `k_part`, `v_part`; `normalize`: rows of Q and K are divided by max(norm, `epsilon`);
// `nan_rows_to_zero`: a row whose softmax is NaN gives zeros.
#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "ops/core/attention_layout.h"
#include "ops/core/bind_context.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {
namespace {

constexpr int kFirstMask = 3, kScales = 5;
constexpr std::string_view kDefaultLayout = "bhsd";

AttentionLayout LayoutOf(const NodeContext& c, std::string_view operand) {
  const std::string name(operand);
  return {.letters = std::string(c.String(name + "_layout", kDefaultLayout)),
          .part = c.Int(name + "_part", 0)};
}

Result<void> CheckMask(const Dims& mask, const Dims& scores) {
  if (mask.size() > scores.size()) return Invalid("a mask has more axes than the scores");
  for (size_t i = 0; i < mask.size(); ++i) {
    const Dim& m = mask[i];
    const Dim& s = scores[scores.size() - mask.size() + i];
    if (!m.known() || !s.known() || m.extent == 1 || m.extent == s.extent) continue;
    const bool batch = i == 0 && mask.size() > 2 && m.extent > 0 && s.extent % m.extent == 0;
    if (!batch) {
      return Invalid("a mask of {} for scores of {}", DimsToString(mask), DimsToString(scores));
    }
  }
  return {};
}

Result<void> Infer(InferContext& c) {
  AttentionLayout layouts[] = {LayoutOf(c, "q"), LayoutOf(c, "k"), LayoutOf(c, "v")};
  const AttentionLayout y = LayoutOf(c, "y");
  for (int i = 0; i < 3; ++i) {
    if (c.rank(i) < 0) return {};
    PX_RETURN_IF_ERROR(layouts[i].Check(c.dims(i)));
  }
  const auto axis = [&](int i, char letter) {
    return c.dims(i)[static_cast<size_t>(layouts[i].Axis(letter))];
  };
  if (y.letters.find('p') != std::string::npos) return Invalid("the output has parts");
  if (!layouts[2].letters.ends_with('d') || !y.letters.ends_with('d') ||
      (c.Int("normalize", 0) != 0 && !layouts[1].letters.ends_with('d'))) {
    return Invalid("the depth of {} is not the last axis",
                   c.Int("normalize", 0) != 0 ? "K, V or the output" : "V or the output");
  }
  PX_RETURN_IF_ERROR(
      MergeDim(axis(0, 'd'), axis(1, 'd'), "depths of Q and K").ok()
          ? Result<void>()
          : Invalid("Q has depth {}, K {}", axis(0, 'd').extent, axis(1, 'd').extent));
  PX_ASSIGN_OR_RETURN(const Dim keys, MergeDim(axis(1, 's'), axis(2, 's'), "keys and values"));
  Dims batch = layouts[0].Batch(c.dims(0));
  for (int i : {1, 2}) {
    const Dims other = layouts[i].Batch(c.dims(i));
    if (other.size() != batch.size()) return Invalid("operands differ in their batch axes");
    for (size_t j = 0; j < batch.size(); ++j) {
      PX_ASSIGN_OR_RETURN(batch[j], MergeDim(batch[j], other[j], "batch extents"));
    }
  }
  Dims scores = batch;
  scores.push_back(axis(0, 's'));
  scores.push_back(keys);
  for (int i = 0; i < kernels::kAttentionMasks; ++i) {
    if (c.has_input(kFirstMask + i) && c.rank(kFirstMask + i) >= 0) {
      PX_RETURN_IF_ERROR(CheckMask(c.dims(kFirstMask + i), scores));
    }
  }
  if (c.has_input(kScales) && c.rank(kScales) >= 0) {
    if (c.rank(kScales) != 1 || batch.empty()) return Invalid("the factors are no vector of heads");
    PX_ASSIGN_OR_RETURN([[maybe_unused]] const Dim heads,
                        MergeDim(c.dims(kScales)[0], batch.back(), "factors and heads"));
  }

  Dims out(y.letters.size());
  PX_RETURN_IF_ERROR(y.Check(out));
  const std::vector<int> axes = y.BatchAxes();
  if (axes.size() != batch.size()) return Invalid("the output differs in its batch axes");
  for (size_t j = 0; j < axes.size(); ++j) out[static_cast<size_t>(axes[j])] = batch[j];
  out[static_cast<size_t>(y.Axis('s'))] = axis(0, 's');
  out[static_cast<size_t>(y.Axis('d'))] = axis(2, 'd');
  return c.SetDims(0, std::move(out));
}

// Strides of one operand, in elements.
struct Strides {
  int64_t offset = 0;  // of the part
  std::vector<int64_t> batch;
  kernels::AttentionOperand operand;
  int64_t rows = 0, depth = 0;
};
Strides StridesOf(const AttentionLayout& layout, const Shape& shape) {
  const auto stride = [&](int axis) { return shape.Elements(axis + 1, shape.rank()); };
  Strides s;
  for (int axis : layout.BatchAxes()) s.batch.push_back(stride(axis));
  s.operand.row = stride(layout.Axis('s'));
  s.operand.depth = stride(layout.Axis('d'));
  s.rows = shape[layout.Axis('s')];
  s.depth = shape[layout.Axis('d')];
  if (layout.Axis('p') >= 0) s.offset = layout.part * stride(layout.Axis('p'));
  return s;
}

// What Bind knows of the operands.
struct Problem {
  kernels::AttentionShape shape;
  int64_t offsets[3] = {};
};

// Cuts batch axis `axis` in two, the inner one of `inner`.
void SplitBatch(kernels::AttentionBatch& b, int axis, int64_t inner) {
  for (int64_t* strides : {b.q, b.k, b.v, b.y, b.scales}) {
    for (int i = b.rank; i > axis; --i) strides[i] = strides[i - 1];
    strides[axis] *= inner;
  }
  for (int i = b.rank; i > axis; --i) b.extents[i] = b.extents[i - 1];
  b.extents[axis] /= inner;
  b.extents[axis + 1] = inner;
  ++b.rank;
}

// Strides of the masks along the batch and within a matrix. The axis of a mask that divides the
// batch cuts that batch axis in two, for all operands.
Result<void> SetMasks(const ShapedContext& c, kernels::AttentionShape& s) {
  kernels::AttentionBatch& b = s.batch;
  // The axis of mask i that stands for batch axis `axis`, or -1.
  const int rank = b.rank;
  const auto axis_of = [&](int i, int axis) {
    return c.input(kFirstMask + i).rank() - 2 - rank + axis;
  };
  int cut = -1;
  int64_t inner = 1;
  for (int i = 0; i < kernels::kAttentionMasks; ++i) {
    if (!c.has_input(kFirstMask + i)) continue;
    const Shape& mask = c.input(kFirstMask + i);
    for (int axis = 0; axis < rank; ++axis) {
      const int at = axis_of(i, axis);
      if (at < 0 || mask[at] == 1 || mask[at] == b.extents[axis]) continue;
      if (cut >= 0 && (cut != axis || inner != mask[at])) {
        return Invalid("two masks divide the batch differently");
      }
      cut = axis;
      inner = mask[at];
    }
  }
  if (cut >= 0) {
    if (rank == kMaxRank) return Invalid("too many batch axes");
    SplitBatch(b, cut, inner);
  }
  for (int i = 0; i < kernels::kAttentionMasks; ++i) {
    if (!c.has_input(kFirstMask + i)) continue;
    const Shape& mask = c.input(kFirstMask + i);
    const auto stride = [&](int at) {
      return at < 0 || mask[at] == 1 ? 0 : mask.Elements(at + 1, mask.rank());
    };
    s.masks[i].present = true;
    s.masks[i].key = stride(mask.rank() - 1);
    s.masks[i].row = stride(mask.rank() - 2);
    for (int axis = 0; axis < rank; ++axis) {
      const int at = axis_of(i, axis);
      const int64_t step = stride(at);
      const int place = cut >= 0 && axis >= cut ? axis + 1 : axis;  // the inner one of a cut axis
      b.masks[i][place] = step;
      if (axis == cut && step != 0 && mask[at] != inner) b.masks[i][axis] = step * inner;
    }
  }
  return {};
}

Result<Problem> ProblemOf(const ShapedContext& c) {
  Problem p;
  kernels::AttentionShape& s = p.shape;
  const Strides q = StridesOf(LayoutOf(c, "q"), c.input(0));
  const Strides k = StridesOf(LayoutOf(c, "k"), c.input(1));
  const Strides v = StridesOf(LayoutOf(c, "v"), c.input(2));
  const AttentionLayout layout = LayoutOf(c, "y");
  const Strides y = StridesOf(layout, c.output(0));
  s.m = q.rows;
  s.n = k.rows;
  s.depth = q.depth;
  s.value_depth = v.depth;
  s.q = q.operand;
  s.k = k.operand;
  s.v = v.operand;
  s.y = y.operand;
  s.scale = c.Float("scale", 1.0f);
  s.normalize = c.Int("normalize", 0) != 0;
  s.epsilon = c.Float("epsilon", 0.0f);
  if (c.Int("nan_rows_to_zero", 0) != 0) s.rows_of_nan = kernels::RowsOfNaN::kZero;
  // Inputs without elements may be null, which takes no offset.
  p.offsets[0] = c.input(0).elements() > 0 ? q.offset : 0;
  p.offsets[1] = c.input(1).elements() > 0 ? k.offset : 0;
  p.offsets[2] = c.input(2).elements() > 0 ? v.offset : 0;
  kernels::AttentionBatch& b = s.batch;
  for (int axis : layout.BatchAxes()) b.extents[b.rank++] = c.output(0)[axis];
  std::copy(q.batch.begin(), q.batch.end(), b.q);
  std::copy(k.batch.begin(), k.batch.end(), b.k);
  std::copy(v.batch.begin(), v.batch.end(), b.v);
  std::copy(y.batch.begin(), y.batch.end(), b.y);
  if (c.has_input(kScales)) b.scales[b.rank - 1] = 1;
  PX_RETURN_IF_ERROR(SetMasks(c, s));
  return p;
}

Cost Estimate(const CostContext& c) {
  const Strides q = StridesOf(LayoutOf(c, "q"), c.input(0));
  const Strides v = StridesOf(LayoutOf(c, "v"), c.input(2));
  if (v.depth == 0) return {.op_class = OpClass::kMatMul};
  const double rows = static_cast<double>(c.output(0).elements() / v.depth);
  return {
      .op_class = OpClass::kMatMul,
      .flops = 2.0 * rows * static_cast<double>(v.rows) * static_cast<double>(q.depth + v.depth)};
}

// Whether a constant mask is worth its transposed copy: blocks of queries would transpose it anew
// for every head and run.
bool PacksMask(const BindContext& c, const Problem& p, const kernels::AttentionPlan& plan, int i) {
  const kernels::AttentionMask& m = p.shape.masks[i];
  return m.present && c.constant(kFirstMask + i) != nullptr && m.row == p.shape.n && m.key == 1 &&
         plan.path == kernels::AttentionPath::kBlocks;
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(Problem p, ProblemOf(c));
  kernels::AttentionPlan plan = kernels::PlanAttention(p.shape);
  std::shared_ptr<const void> packed[kernels::kAttentionMasks];
  for (int i = 0; i < kernels::kAttentionMasks; ++i) {
    if (!PacksMask(c, p, plan, i)) continue;
    const int64_t m = p.shape.m, n = p.shape.n;
    const int64_t floats = kernels::PackedAttentionMaskFloats(m, n);
    const int64_t matrices = c.input(kFirstMask + i).elements() / (m * n);
    PX_ASSIGN_OR_RETURN(
        packed[i],
        c.Pack(kFirstMask + i,
               fmt::format("attention_mask m{} n{} {}", m, n, kernels::SimdTargetName()),
               static_cast<size_t>(floats * matrices) * 4, [=](const Tensor& source, void* out) {
                 kernels::PackAttentionMask(matrices, m, n, source.bytes_begin(),
                                            static_cast<float*>(out));
               }));
    p.shape.masks[i].packed = true;
    for (int64_t& stride : p.shape.batch.masks[i]) stride = stride / (m * n) * floats;
  }
  plan = kernels::PlanAttention(p.shape);
  return MakeKernel(
      plan.name(),
      [=, packed0 = packed[0], packed1 = packed[1]](const KernelArgs& a) {
        kernels::AttentionArgs args;
        args.q = a.in<float>(0) + p.offsets[0];
        args.k = a.in<float>(1) + p.offsets[1];
        args.v = a.in<float>(2) + p.offsets[2];
        args.y = a.out<float>(0);
        args.masks[0] =
            packed0 != nullptr ? static_cast<const float*>(packed0.get()) : a.in<float>(kFirstMask);
        args.masks[1] = packed1 != nullptr ? static_cast<const float*>(packed1.get())
                                           : a.in<float>(kFirstMask + 1);
        args.scales = a.in<float>(kScales);
        kernels::Attention(plan, args, a.workspace(), a.team());
      },
      kernels::AttentionWorkspaceBytes(plan, c.team_size()));
}

}  // namespace

OpDef op_fused_attention() {
  OpDef def;
  def.name = "FusedAttention";
  def.domain = "parallax";
  def.inputs = {{"Q", Bit(DType::kF32), 'T'},
                {"K", Bit(DType::kF32), 'T'},
                {"V", Bit(DType::kF32), 'T'},
                {"mask", Bit(DType::kF32), 'T', Arity::kOptional},
                {"bias", Bit(DType::kF32), 'T', Arity::kOptional},
                {"scales", Bit(DType::kF32), 'T', Arity::kOptional}};
  def.outputs = {{"Y", Bit(DType::kF32), 'T'}};
  for (const std::string_view name : {"q_layout", "k_layout", "v_layout", "y_layout"}) {
    def.attributes.push_back({.name = name, .type = AttributeType::kString});
  }
  for (const std::string_view name : {"q_part", "k_part", "v_part"}) {
    def.attributes.push_back({.name = name});
  }
  def.attributes.push_back({.name = "scale", .type = AttributeType::kFloat});
  def.attributes.push_back({.name = "normalize"});
  def.attributes.push_back({.name = "epsilon", .type = AttributeType::kFloat});
  def.attributes.push_back({.name = "nan_rows_to_zero"});
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
