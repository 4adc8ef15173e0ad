// Shared by the tests of convolution and its transpose: shapes, operands, the reference, comparison.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/conv/conv_shape.h"
#include "kernels/epilogue.h"
#include "tests/kernels/dense_testing.h"

namespace parallax::kernels {

using testing::ForEachTarget;
using testing::GuardedBytes;
using testing::RandomFloats;
using testing::Sum;
using testing::TeamOf;

// One dimension of a case.
struct Axis {
  int64_t in, kernel, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  int64_t output_padding = 0;  // ConvTranspose
};

inline ConvShape Shape(int64_t batch, int64_t groups, int64_t ic, int64_t oc,
                       std::vector<Axis> axes) {
  ConvShape s{.batch = batch, .groups = groups, .in_channels = ic, .out_channels = oc};
  s.rank = static_cast<int>(axes.size());
  for (int i = 0; i < s.rank; ++i) {
    const Axis& a = axes[static_cast<size_t>(i)];
    s.in[i] = a.in;
    s.kernel[i] = a.kernel;
    s.strides[i] = a.stride;
    s.dilations[i] = a.dilation;
    s.pads_begin[i] = a.pad_begin;
    const int64_t span = a.in + a.pad_begin + a.pad_end - ((a.kernel - 1) * a.dilation + 1);
    s.out[i] = span < 0 ? 0 : span / a.stride + 1;
  }
  return s;
}

inline ConvShape TransposeShape(int64_t batch, int64_t groups, int64_t ic, int64_t oc,
                                std::vector<Axis> axes) {
  ConvShape s = Shape(batch, groups, ic, oc, axes);
  for (int i = 0; i < s.rank; ++i) {
    const Axis& a = axes[static_cast<size_t>(i)];
    s.out[i] = (a.in - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 + a.output_padding -
               a.pad_begin - a.pad_end;
  }
  return s;
}

inline std::string Describe(const ConvShape& s) {
  std::string text = std::to_string(s.batch) + "x" + std::to_string(s.in_channels) + "->" +
                     std::to_string(s.out_channels) + " g" + std::to_string(s.groups);
  for (int i = 0; i < s.rank; ++i) {
    text += " [" + std::to_string(s.in[i]) + " k" + std::to_string(s.kernel[i]) + " s" +
            std::to_string(s.strides[i]) + " d" + std::to_string(s.dilations[i]) + " p" +
            std::to_string(s.pads_begin[i]) + " o" + std::to_string(s.out[i]) + "]";
  }
  return text;
}

// Coordinates of a row-major position.
inline std::vector<int64_t> Coordinates(int64_t at, const int64_t* extents, int rank) {
  std::vector<int64_t> c(static_cast<size_t>(rank));
  for (int i = rank - 1; i >= 0; --i) {
    c[static_cast<size_t>(i)] = at % extents[i];
    at /= extents[i];
  }
  return c;
}

inline int64_t Position(const std::vector<int64_t>& c, const int64_t* extents) {
  int64_t at = 0;
  for (size_t i = 0; i < c.size(); ++i) at = at * extents[i] + c[i];
  return at;
}

struct Operands {
  std::vector<float> input, weights, bias, residual;
  Epilogue epilogue;
  bool with_bias = false;
};

inline Operands MakeOperands(const ConvShape& s, int64_t weights, int variant) {
  Operands o;
  o.input = RandomFloats(s.batch * s.in_channels * s.InSize(), 1);
  o.weights = RandomFloats(weights, 2);
  o.bias = RandomFloats(s.out_channels, 3);
  o.residual = RandomFloats(s.batch * s.out_channels * s.OutSize(), 4);
  o.with_bias = variant % 2 == 0;
  if (variant % 3 == 1) o.epilogue = {.activation = Activation::kRelu};
  if (variant % 3 == 2) o.epilogue = {.activation = Activation::kClip, .lo = -0.5f, .hi = 0.75f};
  if (variant % 5 == 4) {
    o.epilogue = {.activation = Activation::kUnary, .op = UnaryOp::kHardSwish};
  }
  if (variant % 4 == 3) o.epilogue.residual = o.residual.data();
  o.epilogue.residual_last = variant % 8 == 7;
  return o;
}

// Adds every product of the convolution to its output's sum.
inline std::vector<Sum> ConvReference(const ConvShape& s, const Operands& o, bool transpose) {
  const int64_t in_size = s.InSize(), out_size = s.OutSize(), taps = s.KernelSize();
  const int64_t icg = s.in_channels / s.groups, ocg = s.out_channels / s.groups;
  std::vector<Sum> sums(static_cast<size_t>(s.batch * s.out_channels * out_size));
  // The convolution maps output positions to input positions; its transpose the other way round.
  const int64_t* from = transpose ? s.in : s.out;
  const int64_t* to = transpose ? s.out : s.in;
  for (int64_t f = 0; f < (transpose ? in_size : out_size); ++f) {
    const std::vector<int64_t> at = Coordinates(f, from, s.rank);
    for (int64_t t = 0; t < taps; ++t) {
      std::vector<int64_t> tap = Coordinates(t, s.kernel, s.rank);
      bool inside = true;
      for (int i = 0; i < s.rank; ++i) {
        const auto a = static_cast<size_t>(i);
        tap[a] = at[a] * s.strides[i] + tap[a] * s.dilations[i] - s.pads_begin[i];
        inside = inside && tap[a] >= 0 && tap[a] < to[i];
      }
      if (!inside) continue;
      const int64_t g = Position(tap, to);
      const int64_t in = transpose ? f : g, out = transpose ? g : f;
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t oc = 0; oc < s.out_channels; ++oc) {
          for (int64_t c = 0; c < icg; ++c) {
            const int64_t ic = oc / ocg * icg + c;
            const int64_t w =
                transpose ? (ic * ocg + oc % ocg) * taps + t : (oc * icg + c) * taps + t;
            sums[static_cast<size_t>((n * s.out_channels + oc) * out_size + out)].Add(
                double{o.weights[static_cast<size_t>(w)]} *
                o.input[static_cast<size_t>((n * s.in_channels + ic) * in_size + in)]);
          }
        }
      }
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    if (o.with_bias) {
      sums[i].Add(o.bias[i / static_cast<size_t>(out_size) % static_cast<size_t>(s.out_channels)]);
    }
    if (o.epilogue.first_residual() != nullptr) sums[i].Add(o.residual[i]);
  }
  return sums;
}

// What the epilogue makes of a sum, and how far it may be off for the sum's own error.
inline double Activate(const Epilogue& e, double v, double residual) {
  double y = v;
  if (e.activation == Activation::kRelu) y = std::max(v, 0.0);
  if (e.activation == Activation::kClip) y = std::min<double>(std::max<double>(v, e.lo), e.hi);
  if (e.activation == Activation::kUnary) y = v * std::min(std::max(v / 6 + 0.5, 0.0), 1.0);
  return e.residual != nullptr && e.residual_last ? y + residual : y;
}
inline double Tolerance(const Epilogue& e, const Sum& sum, double residual) {
  double bound = sum.Bound();
  if (e.activation == Activation::kUnary) bound *= 1.5;  // HardSwish is as steep as that
  if (e.activation == Activation::kUnary || e.residual_last) {
    bound += 4 * 6e-8 * (std::abs(sum.value) + std::abs(residual));
  }
  return bound;
}

// Runs `run(packed, output, workspace, team)` on every target and team and compares.
template <class Plan, class Pack, class Workspace, class Run>
void Compare(const ConvShape& s, const Operands& o, const std::vector<Sum>& want, Plan plan_of,
             Pack pack, Workspace workspace_bytes, Run run) {
  ForEachTarget([&](const char*) {
    const auto plan = plan_of(s);
    SCOPED_TRACE(plan.name());
    GuardedBytes source(o.weights.size() * 4, 1), packed(plan.packed_weight_bytes);
    if (!o.weights.empty()) memcpy(source.get(), o.weights.data(), o.weights.size() * 4);
    pack(plan, source.get(), packed.get());
    packed.CheckGuards();
    std::vector<float> first;
    for (int threads = 1; threads <= 4; ++threads) {
      SCOPED_TRACE(threads);
      GuardedBytes workspace(workspace_bytes(plan, threads)), out(want.size() * 4, 4);
      run(plan, packed.get(), out.floats(), workspace.get(), TeamOf(threads));
      workspace.CheckGuards();
      out.CheckGuards();
      if (threads == 1) {
        first.assign(out.floats(), out.floats() + want.size());
        for (size_t i = 0; i < want.size(); ++i) {
          const float residual = o.residual.empty() ? 0 : o.residual[i];
          ASSERT_LE(std::abs(first[i] - Activate(o.epilogue, want[i].value, residual)),
                    Tolerance(o.epilogue, want[i], residual))
              << "at " << i << ", got " << first[i];
        }
      } else if (!want.empty()) {
        ASSERT_EQ(memcmp(first.data(), out.get(), first.size() * 4), 0) << "team changes bits";
      }
    }
  });
}

// [images, channels, size] as [images, size, channels].
template <class T>
inline std::vector<T> ChannelsLast(const std::vector<T>& from, int64_t channels, int64_t size) {
  std::vector<T> to(from.size());
  const int64_t image = channels * size;
  for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i) {
    const int64_t c = i % image / size, at = i % size;
    to[static_cast<size_t>(i / image * image + at * channels + c)] = from[static_cast<size_t>(i)];
  }
  return to;
}

}  // namespace parallax::kernels
