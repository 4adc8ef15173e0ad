#include "kernels/conv/choice.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/gemm/panel.h"

namespace parallax::kernels {
namespace {

// What the parts of a convolution cost, in multiply-adds at the CPU's peak rate. Measured by
// bench/ops/conv_choice with AVX-512 (135 multiply-adds a ns) and AVX2 over 842 shapes; the rates of
// both differ by less than the choices do.
//
// The last rows of a product that do not fill a tile cost at least this part of one: they wait for the
// other matrix, and for each other.
constexpr double kPartialTile = 0.625;
// The indirect product reaches this part of the peak, and spends this much on each position and tap.
constexpr double kIndirectRate = 0.82;
constexpr double kTap = 240;
constexpr double kGatheredElement = 58;  // where it gathers: on each position, tap and channel
// Winograd's transforms: on each point of a tile and channel, coming in or going out.
constexpr double kTransformedElement = 8;

double Products(int64_t rows, double columns, double depth) {
  const int64_t tile = GetTileGeometry().rows, left = rows % tile;
  auto whole = static_cast<double>(rows - left);
  if (left > 0)
    whole += std::max(static_cast<double>(left), kPartialTile * static_cast<double>(tile));
  return whole * columns * depth;
}

double IndirectCost(const ConvShape& s) {
  const int64_t positions = s.batch * s.OutSize();
  const auto taps = static_cast<double>(s.KernelSize());
  const auto in = static_cast<double>(s.in_channels);
  const auto out = static_cast<double>(PanelColumns(s.out_channels));
  const double reading = GathersInput(s) ? kGatheredElement * in : kTap;
  return Products(positions, out, taps * in) / kIndirectRate +
         static_cast<double>(positions) * taps * reading;
}

// With tiles of m x m outputs.
double WinogradCost(const ConvShape& s, int64_t m) {
  const int64_t tiles = s.batch * CeilDiv(s.out[0], m) * CeilDiv(s.out[1], m);
  const auto points = static_cast<double>((m + 2) * (m + 2));
  const auto in = static_cast<double>(s.in_channels);
  const auto out = static_cast<double>(PanelColumns(s.out_channels));
  return points *
         (Products(tiles, out, in) + kTransformedElement * static_cast<double>(tiles) * (in + out));
}

bool IsPointwise(const ConvShape& s) {
  for (int i = 0; i < s.rank; ++i) {
    if (s.kernel[i] != 1 || s.strides[i] != 1 || s.pads_begin[i] != 0 || s.in[i] != s.out[i]) {
      return false;
    }
  }
  return true;
}

ConvAlgorithm ChooseChannelsLast(const ConvShape& s, const ConvOptions& options) {
  if (s.in_channels == s.groups && s.out_channels == s.groups && s.rank <= 2 && s.groups > 1) {
    return ConvAlgorithm::kDepthwiseLast;
  }
  if (options.precise || !HasWinograd(s) || s.in_channels == 0) return ConvAlgorithm::kIndirectGemm;
  const double plain = IndirectCost(s), small = WinogradCost(s, 2), large = WinogradCost(s, 4);
  if (plain <= small && plain <= large) return ConvAlgorithm::kIndirectGemm;
  return small < large ? ConvAlgorithm::kWinograd2 : ConvAlgorithm::kWinograd4;
}

}  // namespace

ConvAlgorithm ChooseConv(const ConvShape& s, const ConvOptions& options) {
  if (s.batch == 0 || s.out_channels == 0 || s.OutSize() == 0) return ConvAlgorithm::kEmpty;
  if (options.algorithm != ConvAlgorithm::kEmpty) return options.algorithm;
  if (IsPointwise(s) && s.source_count <= 1 &&
      (s.layout == ConvLayout::kChannelsFirst ||
       (s.layout == ConvLayout::kChannelsLast && s.groups == 1))) {
    return ConvAlgorithm::kPointwise;
  }
  if (s.layout == ConvLayout::kFirstToLast) {
    return HasStem(s) ? ConvAlgorithm::kStem : ConvAlgorithm::kIndirectGemm;
  }
  if (s.layout == ConvLayout::kChannelsLast) return ChooseChannelsLast(s, options);
  if (s.rank > 3 || s.KernelSize() > kMaxTaps) return ConvAlgorithm::kDirect;
  // Up to 4 output channels a group a GEMM tile would be mostly empty.
  if (s.in_channels == s.groups && s.out_channels <= 4 * s.groups && s.rank <= 2) {
    return ConvAlgorithm::kDepthwise;
  }
  return ConvAlgorithm::kImplicitGemm;
}

}  // namespace parallax::kernels
