#include "kernels/conv/conv.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/conv/choice.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/conv/generic_conv.h"

namespace parallax::kernels {
namespace {

// One product for each image and group: C[oc, position] = W[oc, ic] * X[ic, position].
GemmPlan PlanPointwise(const ConvShape& s) {
  if (s.layout == ConvLayout::kChannelsLast) {  // C[position, oc] = X[position, ic] * W^T[ic, oc]
    return PlanGemm({.m = s.batch * s.OutSize(),
                     .n = s.out_channels,
                     .k = s.in_channels,
                     .lda = s.InPixel(),
                     .packed = PackedOperand::kB});
  }
  const int64_t m = s.out_channels / s.groups, k = s.in_channels / s.groups, n = s.OutSize();
  GemmShape g{.m = m, .n = n, .k = k, .packed = PackedOperand::kA};
  g.batch = {.rank = 2,
             .extents = {s.batch, s.groups},
             .a_strides = {0, static_cast<int64_t>(PackedABytes(m, k) / 4)},
             .b_strides = {s.in_channels * n, k * n},
             .c_strides = {s.out_channels * n, m * n},
             .bias_strides = {0, m}};
  return PlanGemm(g);
}

// kDirect: the portable formula, then the epilogue over the channels of the output.
void RunDirect(const ConvPlan& plan, const ConvArgs& args, Team& team) {
  const ConvShape& s = plan.shape;
  GenericConv<float>(s, args.input, args.packed, args.bias, args.output,
                     {.addend = args.epilogue.residual}, team);
  if (!args.clamps()) return;
  const float lo = args.lo(), hi = args.hi();
  const int64_t size = s.OutSize();
  team.Run(s.batch * s.out_channels, [&](int64_t plane, int) {
    float* y = args.output + plane * size;
    for (int64_t i = 0; i < size; ++i) {
      y[i] = y[i] < lo ? lo : y[i];
      y[i] = y[i] > hi ? hi : y[i];
    }
  });
}

// FinishBlock for the channels of the output.
void FinishPlanes(const ConvShape& s, const Epilogue& epilogue, float* output, Team& team) {
  if (!epilogue.finishes()) return;
  const int64_t size = s.OutSize();
  team.Run(s.batch * s.out_channels, [&](int64_t plane, int) {
    const float* residual = epilogue.residual;
    FinishBlock(epilogue, output + plane * size,
                residual != nullptr ? residual + plane * size : nullptr, 1, size, size);
  });
}

}  // namespace

const char* ConvPlan::name() const {
  switch (algorithm) {
    case ConvAlgorithm::kEmpty:
      return "conv_empty";
    case ConvAlgorithm::kPointwise:
      return shape.layout == ConvLayout::kChannelsLast ? "conv_pointwise_last" : "conv_pointwise";
    case ConvAlgorithm::kImplicitGemm:
      return "conv_implicit_gemm";
    case ConvAlgorithm::kDepthwise:
      return "conv_depthwise";
    case ConvAlgorithm::kDirect:
      return "conv_direct";
    case ConvAlgorithm::kIndirectGemm:
      return shape.layout == ConvLayout::kFirstToLast ? "conv_gathered_gemm" : "conv_indirect_gemm";
    case ConvAlgorithm::kStem:
      return "conv_stem";
    case ConvAlgorithm::kDepthwiseLast:
      return "conv_depthwise_last";
    case ConvAlgorithm::kWinograd2:
      return "conv_winograd_2x2";
    case ConvAlgorithm::kWinograd4:
      return "conv_winograd_4x4";
  }
  return "conv";
}

bool SupportsChannelsLast(const ConvShape& s) {
  if (s.rank > 3 || s.KernelSize() > kMaxTaps) return false;
  // A channel or two a group would leave tiles mostly empty.
  const bool depthwise = s.in_channels == s.groups && s.out_channels == s.groups && s.rank <= 2;
  return s.groups == 1 || depthwise ||
         (s.in_channels / s.groups >= 4 && s.out_channels / s.groups >= 4);
}

bool SupportsSources(const ConvShape& s) {
  return s.layout == ConvLayout::kChannelsLast && s.groups == 1 && s.rank <= 3 &&
         s.KernelSize() <= kMaxTaps && !GathersInput(s);
}

ConvPlan PlanConv(const ConvShape& shape, const ConvOptions& options) {
  ConvPlan plan;
  plan.shape = shape;
  if (shape.source_count == 0) {
    plan.shape.source_count = 1;
    plan.shape.sources[0] = {shape.in_channels, 0, shape.in_channels};
  }
  plan.algorithm = ChooseConv(shape, options);
  switch (plan.algorithm) {
    case ConvAlgorithm::kEmpty:
      break;
    case ConvAlgorithm::kPointwise:
      plan.gemm = PlanPointwise(shape);
      plan.packed_weight_bytes =
          shape.layout == ConvLayout::kChannelsLast
              ? PackedBBytes(shape.in_channels, shape.out_channels)
              : static_cast<size_t>(shape.groups) * PackedABytes(shape.out_channels / shape.groups,
                                                                 shape.in_channels / shape.groups);
      plan.worker_bytes = plan.gemm.worker_bytes;
      break;
    case ConvAlgorithm::kImplicitGemm:
      PlanImplicit(plan);
      break;
    case ConvAlgorithm::kDepthwise:
      PlanDepthwise(plan);
      break;
    case ConvAlgorithm::kDirect:
      plan.packed_weight_bytes = static_cast<size_t>(RoundUp(
          shape.out_channels * (shape.in_channels / shape.groups) * shape.KernelSize() * 4, 64));
      break;
    case ConvAlgorithm::kIndirectGemm:
      PlanChannelsLast(plan);
      break;
    case ConvAlgorithm::kStem:
      PlanStem(plan);
      break;
    case ConvAlgorithm::kDepthwiseLast:
      PlanDepthwiseLast(plan);
      break;
    case ConvAlgorithm::kWinograd2:
    case ConvAlgorithm::kWinograd4:
      PlanWinograd(plan);
      break;
  }
  return plan;
}

void PackConvWeights(const ConvPlan& plan, const void* weights, void* packed) {
  const ConvShape& s = plan.shape;
  const int64_t out_group = s.out_channels / std::max<int64_t>(1, s.groups);
  const int64_t in_group = s.in_channels / std::max<int64_t>(1, s.groups);
  switch (plan.algorithm) {
    case ConvAlgorithm::kEmpty:
      break;
    case ConvAlgorithm::kPointwise:
      if (s.layout == ConvLayout::kChannelsLast) {
        PackB(in_group, out_group, Transpose::kYes, 0, weights, packed);
        break;
      }
      for (int64_t g = 0; g < s.groups; ++g) {
        PackA(out_group, in_group, Transpose::kNo, 0,
              static_cast<const std::byte*>(weights) + g * out_group * in_group * 4,
              static_cast<std::byte*>(packed) +
                  static_cast<size_t>(g) * PackedABytes(out_group, in_group));
      }
      break;
    case ConvAlgorithm::kImplicitGemm:
      PackImplicit(plan, weights, static_cast<float*>(packed));
      break;
    case ConvAlgorithm::kDepthwise:
    case ConvAlgorithm::kDirect: {
      const int64_t bytes = s.out_channels * in_group * s.KernelSize() * 4;
      if (bytes > 0) memcpy(packed, weights, static_cast<size_t>(bytes));
      break;
    }
    case ConvAlgorithm::kIndirectGemm:
      PackChannelsLast(plan, weights, static_cast<float*>(packed));
      break;
    case ConvAlgorithm::kStem:
      PackStem(plan, weights, static_cast<float*>(packed));
      break;
    case ConvAlgorithm::kDepthwiseLast:
      PackDepthwiseLast(plan, weights, static_cast<float*>(packed));
      break;
    case ConvAlgorithm::kWinograd2:
    case ConvAlgorithm::kWinograd4:
      PackWinograd(plan, weights, static_cast<float*>(packed));
      break;
  }
}

size_t ConvWorkspaceBytes(const ConvPlan& plan, int team_size) {
  return plan.worker_bytes * static_cast<size_t>(team_size);
}

void Conv(const ConvPlan& plan, const float* const* inputs, const void* packed, const float* bias,
          const Epilogue& epilogue, float* output, void* workspace, Team& team) {
  const float* input = inputs[0] + plan.shape.sources[0].first;
  ConvArgs args{.input = input,
                .inputs = inputs,
                .packed = static_cast<const float*>(packed),
                .bias = bias,
                .epilogue = epilogue,
                .output = output,
                .workspace = static_cast<std::byte*>(workspace)};
  switch (plan.algorithm) {
    case ConvAlgorithm::kEmpty:
      break;
    case ConvAlgorithm::kPointwise: {
      const bool last = plan.shape.layout == ConvLayout::kChannelsLast;
      const GemmEpilogue e{
          .bias = bias, .bias_axis = last ? BiasAxis::kColumn : BiasAxis::kRow, .then = epilogue};
      Gemm(plan.gemm, last ? input : args.packed, last ? args.packed : input, output, e, workspace,
           team);
      break;
    }
    case ConvAlgorithm::kImplicitGemm:
    case ConvAlgorithm::kDepthwise:
    case ConvAlgorithm::kDirect:
      args.epilogue.residual = epilogue.first_residual();
      if (plan.algorithm == ConvAlgorithm::kImplicitGemm) RunImplicit(plan, args, team);
      if (plan.algorithm == ConvAlgorithm::kDepthwise) RunDepthwise(plan, args, team);
      if (plan.algorithm == ConvAlgorithm::kDirect) RunDirect(plan, args, team);
      FinishPlanes(plan.shape, epilogue, output, team);
      break;
    case ConvAlgorithm::kIndirectGemm:
      RunChannelsLast(plan, args, team);
      break;
    case ConvAlgorithm::kStem:
      RunStem(plan, args, team);
      break;
    case ConvAlgorithm::kDepthwiseLast:
      RunDepthwiseLast(plan, args, team);
      break;
    case ConvAlgorithm::kWinograd2:
    case ConvAlgorithm::kWinograd4:
      RunWinograd(plan, args, team);
      break;
  }
}

}  // namespace parallax::kernels
