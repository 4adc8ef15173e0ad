#include "kernels/conv/conv_transpose.h"

#include "tests/kernels/conv_testing.h"

namespace parallax::kernels {
namespace {

void CheckTranspose(const ConvShape& s, int variant) {
  SCOPED_TRACE("transpose " + Describe(s) + " variant " + std::to_string(variant));
  const Operands o =
      MakeOperands(s, s.in_channels * (s.out_channels / s.groups) * s.KernelSize(), variant);
  Compare(s, o, ConvReference(s, o, true), PlanConvTranspose, PackConvTransposeWeights,
          ConvTransposeWorkspaceBytes,
          [&](const ConvTransposePlan& plan, const void* packed, float* out, void* workspace,
              Team& team) {
            ConvTranspose(plan, o.input.data(), packed, o.with_bias ? o.bias.data() : nullptr,
                          o.epilogue, out, workspace, team);
          });
}

TEST(ConvTranspose, StridesDilationsPads) {
  int variant = 0;
  for (const int64_t kernel : {1, 2, 3, 4}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t dilation : {1, 2}) {
        const Axis rows{.in = 6,
                        .kernel = kernel,
                        .stride = stride,
                        .dilation = dilation,
                        .pad_begin = kernel / 2,
                        .pad_end = 0};
        const Axis columns{.in = 17,
                           .kernel = kernel,
                           .stride = stride,
                           .dilation = 1,
                           .pad_begin = 0,
                           .pad_end = kernel - 1,
                           .output_padding = stride - 1};
        CheckTranspose(TransposeShape(1, 1, 5, 7, {rows, columns}), variant++);
      }
    }
  }
}

TEST(ConvTranspose, RanksGroupsBlocks) {
  const Axis up{.in = 20, .kernel = 2, .stride = 2};
  CheckTranspose(TransposeShape(2, 1, 24, 1, {up, up}), 1);
  CheckTranspose(TransposeShape(2, 2, 40, 70, {up, up}), 2);
  // As many taps as the stride: outputs that only one of them reaches, or none at the end.
  for (const int64_t n : {2, 3, 4, 5}) {
    const Axis whole{.in = 37, .kernel = n, .stride = n};
    const Axis more{.in = 16, .kernel = n, .stride = n, .output_padding = n - 1};
    const Axis cropped{.in = 19, .kernel = n, .stride = n, .pad_begin = 1, .pad_end = 1};
    CheckTranspose(TransposeShape(2, 1, 5, 3, {up, whole}), static_cast<int>(n));
    CheckTranspose(TransposeShape(1, 1, 3, 2, {whole, more}), static_cast<int>(n) + 3);
    CheckTranspose(TransposeShape(1, 2, 4, 6, {more, cropped}), 1);
    CheckTranspose(TransposeShape(1, 1, 4, 2, {whole}), 0);
  }
  const Axis large{.in = 90, .kernel = 4, .stride = 2, .pad_begin = 1, .pad_end = 1};
  CheckTranspose(TransposeShape(1, 1, 3, 5, {large, large}), 7);  // blocks of rows
  CheckTranspose(TransposeShape(1, 3, 6, 9, {{.in = 33, .kernel = 5, .stride = 3, .dilation = 2}}),
                 0);
  const Axis a{.in = 4, .kernel = 3, .stride = 2, .pad_begin = 1, .output_padding = 1};
  CheckTranspose(TransposeShape(1, 2, 4, 6, {a, up, a}), 3);
  CheckTranspose(TransposeShape(1, 1, 2, 3, {a, a, {.in = 3, .kernel = 2}, a}), 5);
  // Strides above the kernel leave gaps that only the bias fills; pads that crop.
  CheckTranspose(TransposeShape(1, 1, 3, 4,
                                {{.in = 5, .kernel = 2, .stride = 4},
                                 {.in = 9, .kernel = 3, .stride = 5, .pad_begin = 4}}),
                 2);
}

TEST(ConvTranspose, ZeroExtents) {
  const Axis a{.in = 4, .kernel = 3, .stride = 2};
  CheckTranspose(TransposeShape(0, 1, 3, 4, {a, a}), 0);
  CheckTranspose(TransposeShape(1, 1, 3, 0, {a, a}), 0);
  CheckTranspose(TransposeShape(2, 1, 0, 4, {a, a}), 2);
  ConvShape empty = TransposeShape(1, 1, 3, 4, {a, a});
  empty.in[0] = 0;
  CheckTranspose(empty, 2);
  empty.in[0] = 4;
  empty.in[1] = 0;
  CheckTranspose(empty, 7);
}

}  // namespace
}  // namespace parallax::kernels
