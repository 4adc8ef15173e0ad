// GenericConv, GenericConvTranspose: the formulas of conv.h and conv_transpose.h for any element
// and accumulator type, in portable C++.
//
// Role:       convolutions on f64, integers (ConvInteger's zero points) and 16-bit floats with a
//             float accumulator; f32 shapes no other path takes.
// Ownership:  borrows every pointer for the call; needs no workspace and allocates nothing.
// Threads:    pure apart from the output; one call uses one Team.
// Cost:       one multiply-add an input element under the kernel; the borders are cut out before
//             the inner loops, which run along the innermost kernel dimension.
// Invariants: the same bits for every team size. Integer sums wrap: give them an unsigned Acc.
// Example:
//   GenericConv<double>(shape, x, w, bias, y, {}, team);
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/checked.h"
#include "kernels/conv/conv_shape.h"
#include "threads/team.h"

namespace parallax::kernels {

// y = bias + addend + sum (x - x_zero) * (w - w_zero[oc * w_zero_stride]). Padding counts as
// x_zero.
template <class Acc, class TW>
struct GenericConvArgs {
  Acc x_zero = Acc(0);
  const TW* w_zero = nullptr;
  int64_t w_zero_stride = 0;    // 0 shares one value, 1 has one per output channel
  const Acc* addend = nullptr;  // y's extents; may be y itself
};

namespace internal {

// Kernel positions [begin, end) of one dimension whose input position origin + k*dilation lies in
// [0, extent).
struct TapRange {
  int64_t begin = 0, end = 0;
};
inline TapRange ClipTaps(int64_t origin, int64_t dilation, int64_t kernel, int64_t extent) {
  TapRange r;
  r.begin = origin >= 0 ? 0 : CeilDiv(-origin, dilation);
  r.end = origin >= extent ? 0 : std::min(kernel, CeilDiv(extent - origin, dilation));
  if (r.begin > r.end) r.begin = r.end = 0;
  return r;
}

// Splits a row-major position into coordinates.
inline void Unravel(int64_t at, const int64_t* extents, int rank, int64_t* coordinates) {
  for (int i = rank - 1; i >= 0; --i) {
    coordinates[i] = at % extents[i];
    at /= extents[i];
  }
}

}  // namespace internal

// `x` [batch, in_channels, in...], `w` [out_channels, in_channels/groups, kernel...], `bias`
// [out_channels] or null, `y` [batch, out_channels, out...].
template <class Acc, class TX, class TW, class TB, class TY>
void GenericConv(const ConvShape& s, const TX* x, const TW* w, const TB* bias, TY* y,
                 const std::type_identity_t<GenericConvArgs<Acc, TW>>& args, Team& team) {
  const int64_t in_size = s.InSize(), out_size = s.OutSize(), taps = s.KernelSize();
  if (s.batch == 0 || s.out_channels == 0 || out_size == 0) return;
  const int64_t ic_group = s.in_channels / s.groups, oc_group = s.out_channels / s.groups;
  const int inner = s.rank - 1;

  team.Run(s.batch * s.out_channels, [&](int64_t plane, int) {
    const int64_t image = plane / s.out_channels, oc = plane % s.out_channels;
    const TX* x0 = x + (image * s.in_channels + oc / oc_group * ic_group) * in_size;
    const TW* w0 = w + oc * ic_group * taps;
    const Acc w_zero =
        args.w_zero != nullptr ? static_cast<Acc>(args.w_zero[oc * args.w_zero_stride]) : Acc(0);
    for (int64_t o = 0; o < out_size; ++o) {
      int64_t at[kMaxSpatial], origin[kMaxSpatial], tap[kMaxSpatial];
      internal::TapRange range[kMaxSpatial];
      internal::Unravel(o, s.out, s.rank, at);
      bool any = true;
      for (int i = 0; i < s.rank; ++i) {
        origin[i] = at[i] * s.strides[i] - s.pads_begin[i];
        range[i] = internal::ClipTaps(origin[i], s.dilations[i], s.kernel[i], s.in[i]);
        any = any && range[i].begin < range[i].end;
      }
      Acc sum = bias != nullptr ? static_cast<Acc>(bias[oc]) : Acc(0);
      if (args.addend != nullptr) sum = static_cast<Acc>(sum + args.addend[plane * out_size + o]);
      for (int64_t ic = 0; any && ic < ic_group; ++ic) {
        for (int i = 0; i < inner; ++i) tap[i] = range[i].begin;
        while (true) {
          int64_t xi = 0, wi = 0;
          for (int i = 0; i < inner; ++i) {
            xi = xi * s.in[i] + origin[i] + tap[i] * s.dilations[i];
            wi = wi * s.kernel[i] + tap[i];
          }
          const TX* xr = x0 + ic * in_size + xi * s.in[inner] + origin[inner];
          const TW* wr = w0 + ic * taps + wi * s.kernel[inner];
          for (int64_t t = range[inner].begin; t < range[inner].end; ++t) {
            const Acc xv =
                static_cast<Acc>(static_cast<Acc>(xr[t * s.dilations[inner]]) - args.x_zero);
            const Acc wv = static_cast<Acc>(static_cast<Acc>(wr[t]) - w_zero);
            sum = static_cast<Acc>(sum + xv * wv);
          }
          int i = inner - 1;
          while (i >= 0 && ++tap[i] == range[i].end) {
            tap[i] = range[i].begin;
            --i;
          }
          if (i < 0) break;
        }
      }
      y[plane * out_size + o] = static_cast<TY>(sum);
    }
  });
}

// `x` [batch, in_channels, in...], `w` [in_channels, out_channels/groups, kernel...], `bias`
// [out_channels] or null, `y` [batch, out_channels, out...]; gathers, so nothing is written twice.
template <class Acc, class TX, class TW, class TB, class TY>
void GenericConvTranspose(const ConvShape& s, const TX* x, const TW* w, const TB* bias, TY* y,
                          Team& team) {
  const int64_t in_size = s.InSize(), out_size = s.OutSize(), taps = s.KernelSize();
  if (s.batch == 0 || s.out_channels == 0 || out_size == 0) return;
  const int64_t ic_group = s.in_channels / s.groups, oc_group = s.out_channels / s.groups;

  team.Run(s.batch * s.out_channels, [&](int64_t plane, int) {
    const int64_t image = plane / s.out_channels, oc = plane % s.out_channels;
    const int64_t group = oc / oc_group;
    const TX* x0 = x + (image * s.in_channels + group * ic_group) * in_size;
    const TW* w0 = w + (group * ic_group * oc_group + oc % oc_group) * taps;
    for (int64_t o = 0; o < out_size; ++o) {
      int64_t at[kMaxSpatial], tap[kMaxSpatial];
      internal::Unravel(o, s.out, s.rank, at);
      Acc sum = bias != nullptr ? static_cast<Acc>(bias[oc]) : Acc(0);
      for (int64_t t = 0; t < taps; ++t) {
        internal::Unravel(t, s.kernel, s.rank, tap);
        int64_t xi = 0;
        bool inside = true;
        for (int i = 0; i < s.rank && inside; ++i) {
          const int64_t scaled = at[i] + s.pads_begin[i] - tap[i] * s.dilations[i];
          inside = scaled >= 0 && scaled % s.strides[i] == 0 && scaled / s.strides[i] < s.in[i];
          xi = xi * s.in[i] + scaled / s.strides[i];
        }
        if (!inside) continue;
        for (int64_t ic = 0; ic < ic_group; ++ic) {
          sum = static_cast<Acc>(sum + static_cast<Acc>(x0[ic * in_size + xi]) *
                                           static_cast<Acc>(w0[ic * oc_group * taps + t]));
        }
      }
      y[plane * out_size + o] = static_cast<TY>(sum);
    }
  });
}

}  // namespace parallax::kernels
