// parallax::FusedConvChain: two or three FusedConv with channels last, one after the other, run a few
// rows at a time (kernels/conv/chain.h). Made by passes, f32 only.
//
// Inputs X, optional residual R of the output's shape, then for each stage W [out, in/group, kernel]
// and optional bias B. Attributes as FusedConv's, those of all stages in one list each: strides (2 a
// stage), pads (4 a stage), groups, activations, activation_alphas, activation_betas; residual_last.
#include <array>

#include "kernels/conv/chain.h"
#include "ops/core/dims.h"
#include "ops/core/epilogue_op.h"
#include "ops/core/infer_context.h"
#include "ops/core/packed_weights.h"
#include "ops/core/window.h"

namespace parallax::ops {
namespace {

constexpr int kFirstWeights = 2;
constexpr int64_t kMaxNumber = int64_t{1} << 31;  // of an attribute

int WeightsOf(size_t stage) { return kFirstWeights + 2 * static_cast<int>(stage); }
int BiasOf(size_t stage) { return WeightsOf(stage) + 1; }
size_t StagesOf(const NodeContext& c) { return c.has_input(WeightsOf(2)) ? 3 : 2; }

struct Stage {
  kernels::ConvShape shape;
  kernels::Epilogue epilogue;
};

// One stage on `x` [batch, rows, columns, channels] with weights `w`.
Result<Stage> MakeStage(const NodeContext& c, size_t i, const Shape& x, const Shape& w) {
  const size_t stages = StagesOf(c);
  const std::vector<int64_t> strides = c.IntsOr("strides", 2 * stages, 1);
  const std::vector<int64_t> pads = c.IntsOr("pads", 4 * stages, 0);
  const std::vector<int64_t> groups = c.IntsOr("groups", stages, 1);
  if (strides.size() != 2 * stages || pads.size() != 4 * stages || groups.size() != stages) {
    return Invalid("{} stages want {} strides, {} pads and {} groups", stages, 2 * stages,
                   4 * stages, stages);
  }
  if (x.rank() != 4 || w.rank() != 4) {
    return Invalid("stage {}: input {} and weights {} should have rank 4", i, x.ToString(),
                   w.ToString());
  }
  Stage stage;
  kernels::ConvShape& s = stage.shape;
  s.layout = kernels::ConvLayout::kChannelsLast;
  s.batch = x[0];
  s.groups = groups[i];
  s.in_channels = x[3];
  s.out_channels = w[0];
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0 ||
      w[1] != s.in_channels / s.groups) {
    return Invalid("stage {}: input {}, weights {} and {} groups do not fit", i, x.ToString(),
                   w.ToString(), s.groups);
  }
  for (int axis = 0; axis < 2; ++axis) {
    const size_t at = static_cast<size_t>(axis);
    const int64_t begin = pads[4 * i + at], end = pads[4 * i + 2 + at];
    const int64_t stride = strides[2 * i + at];
    if (stride < 1 || stride >= kMaxNumber || begin < 0 || begin >= kMaxNumber || end < 0 ||
        end >= kMaxNumber) {
      return Invalid("stage {}: stride {} or pads {} and {} are out of range", i, stride, begin,
                     end);
    }
    s.in[axis] = x[1 + axis];
    s.kernel[axis] = w[2 + axis];
    s.strides[axis] = stride;
    s.pads_begin[axis] = begin;
    const int64_t room = s.in[axis] + begin + end - s.kernel[axis];
    if (s.kernel[axis] < 1 || room < 0) {
      return Invalid("stage {}: extent {} with pads {} and {} is smaller than the kernel's {}", i,
                     s.in[axis], begin, end, s.kernel[axis]);
    }
    s.out[axis] = room / stride + 1;
  }
  return stage;
}

Shape OutputOf(const kernels::ConvShape& s) {
  return Shape{s.batch, s.out[0], s.out[1], s.out_channels};
}

Result<kernels::Epilogue> EpilogueOf(const NodeContext& c, size_t i) {
  const std::vector<std::string>* names = c.node().attributes.Strings("activations");
  const std::vector<float>* alphas = c.node().attributes.Floats("activation_alphas");
  const std::vector<float>* betas = c.node().attributes.Floats("activation_betas");
  const std::vector<float>* scales = c.node().attributes.Floats("output_scales");
  const std::vector<float>* shifts = c.node().attributes.Floats("output_shifts");
  if (names == nullptr) return kernels::Epilogue{};
  const size_t stages = StagesOf(c);
  for (const std::vector<float>* given : {alphas, betas, scales, shifts}) {
    if (given != nullptr && given->size() != stages) {
      return Invalid("{} stages want as many alphas, betas, scales and shifts", stages);
    }
  }
  if (names->size() != stages) return Invalid("{} stages want as many activations", stages);
  PX_ASSIGN_OR_RETURN(kernels::Epilogue e,
                      MakeEpilogue((*names)[i], alphas != nullptr ? (*alphas)[i] : 0.0f,
                                   betas != nullptr ? (*betas)[i] : 0.0f));
  e.scale = scales != nullptr ? (*scales)[i] : 1.0f;
  e.shift = shifts != nullptr ? (*shifts)[i] : 0.0f;
  return e;
}

// `weights(i)` is the shape of stage i's weights.
template <class Weights>
Result<std::vector<Stage>> MakeStages(const NodeContext& c, Shape x, Weights weights) {
  std::vector<Stage> stages;
  for (size_t i = 0; i < StagesOf(c); ++i) {
    PX_ASSIGN_OR_RETURN(Stage stage, MakeStage(c, i, x, weights(i)));
    PX_ASSIGN_OR_RETURN(stage.epilogue, EpilogueOf(c, i));
    x = OutputOf(stage.shape);
    stages.push_back(stage);
  }
  stages.back().epilogue.residual_last = c.Int("residual_last", 0) != 0;
  return stages;
}

Result<void> Infer(InferContext& c) {
  const std::optional<Shape> x = c.type(0).shape();
  std::array<std::optional<Shape>, 3> weights;
  for (size_t i = 0; i < StagesOf(c); ++i) {
    if (!c.has_input(WeightsOf(i))) return Invalid("stage {} has no weights", i);
    weights[i] = c.type(WeightsOf(i)).shape();
    if (!weights[i]) return c.SetUnknownDims(0, 4);
  }
  if (!x) return c.SetUnknownDims(0, 4);
  PX_ASSIGN_OR_RETURN(const std::vector<Stage> stages,
                      MakeStages(c, *x, [&](size_t i) { return *weights[i]; }));
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!c.has_input(BiasOf(i)) || c.rank(BiasOf(i)) < 0) continue;
    if (c.rank(BiasOf(i)) != 1) return Invalid("stage {}: the bias should be a vector", i);
    PX_RETURN_IF_ERROR(
        MergeDim(c.dims(BiasOf(i))[0], Dim((*weights[i])[0]), "bias and output channels"));
  }
  Dims out;
  const Shape shape = OutputOf(stages.back().shape);
  for (int64_t extent : shape.dims()) out.push_back(Dim(extent));
  return c.SetDims(0, std::move(out));
}

Cost CostOf(const CostContext& c) {
  Cost cost{.op_class = OpClass::kConv};
  Result<std::vector<Stage>> stages =
      MakeStages(c, c.input(0), [&](size_t i) { return c.input(WeightsOf(i)); });
  if (!stages.ok()) return cost;
  for (size_t i = 0; i < stages->size(); ++i) {
    const Shape& w = c.input(WeightsOf(i));
    cost.flops += 2.0 * static_cast<double>(OutputOf((*stages)[i].shape).elements()) *
                  static_cast<double>(w.Elements(1, w.rank()));
  }
  return cost;
}

// Packed weights of a stage: kept by the session where they are constant, else made at every run
// `offset` bytes into the workspace.
struct Packed {
  std::shared_ptr<const void> kept;
  size_t offset = 0;
};

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(const std::vector<Stage> stages,
                      MakeStages(c, c.input(0), [&](size_t i) { return c.input(WeightsOf(i)); }));
  std::vector<kernels::ConvShape> shapes;
  for (const Stage& s : stages) shapes.push_back(s.shape);
  if (!kernels::SupportsConvChain(shapes)) return Invalid("no kernel runs these stages as a chain");
  if (c.has_input(1) && !(c.input(1) == c.output(0))) {
    return Invalid("the residual is {}, the output {}", c.input(1).ToString(),
                   c.output(0).ToString());
  }
  const kernels::ConvChainPlan plan = kernels::PlanConvChain(shapes);
  std::vector<Packed> packed(stages.size());
  size_t workspace = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const kernels::ConvPlan& p = plan.stages[i];
    if (c.constant(WeightsOf(i)) == nullptr) {
      packed[i].offset = workspace;
      workspace += p.packed_weight_bytes;
      continue;
    }
    PX_ASSIGN_OR_RETURN(packed[i].kept,
                        PackConstant(c, WeightsOf(i), p, p.shape.groups, kernels::PackConvWeights));
  }
  const size_t own = workspace;
  workspace += kernels::ConvChainWorkspaceBytes(plan, c.team_size());
  return MakeKernel(
      plan.name(),
      [plan, stages, packed, own](const KernelArgs& a) {
        std::array<kernels::ConvStage, kernels::kMaxStages> run;
        for (size_t i = 0; i < stages.size(); ++i) {
          run[i].packed = packed[i].kept.get();
          if (run[i].packed == nullptr) {
            kernels::PackConvWeights(plan.stages[i], a.raw_in(WeightsOf(i)),
                                     a.workspace() + packed[i].offset);
            run[i].packed = a.workspace() + packed[i].offset;
          }
          run[i].bias = a.in<float>(BiasOf(i));
          run[i].epilogue = stages[i].epilogue;
        }
        run[stages.size() - 1].epilogue.residual = a.in<float>(1);
        kernels::ConvChain(plan, a.in<float>(0), std::span(run).first(stages.size()),
                           a.out<float>(0), a.workspace() + own, a.team());
      },
      workspace);
}

}  // namespace

OpDef op_fused_conv_chain() {
  const TypeSet f32 = Bit(DType::kF32);
  OpDef def;
  def.name = "FusedConvChain";
  def.domain = "parallax";
  def.inputs = {{"X", f32, 'T'},
                {"R", f32, 'T', Arity::kOptional},
                {"W0", f32, 'T'},
                {"B0", f32, 'T', Arity::kOptional},
                {"W1", f32, 'T'},
                {"B1", f32, 'T', Arity::kOptional},
                {"W2", f32, 'T', Arity::kOptional},
                {"B2", f32, 'T', Arity::kOptional}};
  def.outputs = {{"Y", f32, 'T'}};
  def.attributes = {{.name = "strides", .type = AttributeType::kInts},
                    {.name = "pads", .type = AttributeType::kInts},
                    {.name = "groups", .type = AttributeType::kInts},
                    {.name = "activations", .type = AttributeType::kStrings},
                    {.name = "activation_alphas", .type = AttributeType::kFloats},
                    {.name = "activation_betas", .type = AttributeType::kFloats},
                    {.name = "output_scales", .type = AttributeType::kFloats},
                    {.name = "output_shifts", .type = AttributeType::kFloats},
                    {.name = "residual_last"}};
  def.infer = Infer;
  def.cost = CostOf;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
