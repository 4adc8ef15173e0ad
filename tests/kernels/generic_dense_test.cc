// The portable GEMM and convolutions, against 64-bit references.
#include <cstdint>
#include <vector>

#include "base/half.h"
#include "kernels/conv/generic_conv.h"
#include "kernels/gemm/generic_gemm.h"
#include "tests/kernels/dense_testing.h"

namespace parallax::kernels {
namespace {

using testing::TeamOf;

// Small integers, so that sums are exact in every type.
template <class T>
std::vector<T> Small(int64_t n, uint32_t seed, int lowest, int highest) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> uniform(lowest, highest);
  std::vector<T> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<T>(uniform(generator)));
  return v;
}

template <class Acc, class TA, class TB, class TC>
void CheckGemm(int lowest) {
  for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
    for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
      for (const int64_t m : {0, 1, 3, 4, 9, 70}) {
        for (const int64_t n : {1, 5, 64, 65, 131}) {
          const int64_t k = (m * 5 + n) % 13;
          const auto a = Small<TA>(2 * m * k, 1, lowest, 3);
          const auto b = Small<TB>(2 * k * n, 2, lowest, 3);
          const auto addend = Small<TC>(n, 3, 0, 5);
          const auto a_zero = Small<TA>(m, 4, 0, 2);
          const auto b_zero = Small<TB>(n, 5, 0, 2);
          GemmShape s{.m = m, .n = n, .k = k, .trans_a = ta, .trans_b = tb};
          s.batch = {.rank = 1,
                     .extents = {2},
                     .a_strides = {m * k},
                     .b_strides = {k * n},
                     .c_strides = {m * n}};
          std::vector<TC> first;
          for (int threads = 1; threads <= 4; ++threads) {
            std::vector<TC> c(static_cast<size_t>(2 * m * n));
            GenericGemm<Acc>(s, a.data(), b.data(), c.data(),
                             {.alpha = Acc(2),
                              .beta = Acc(3),
                              .addend = addend.data(),
                              .addend_column = 1,
                              .a_zero = a_zero.data(),
                              .a_zero_stride = 1,
                              .b_zero = b_zero.data(),
                              .b_zero_stride = 1},
                             TeamOf(threads));
            for (int64_t i = 0; i < 2 * m * n; ++i) {
              const int64_t e = i / (m * n), r = i / n % m, j = i % n;
              double want = 3.0 * static_cast<double>(addend[static_cast<size_t>(j)]);
              for (int64_t p = 0; p < k; ++p) {
                const int64_t at = e * m * k + (ta == Transpose::kYes ? p * m + r : r * k + p);
                const int64_t bt = e * k * n + (tb == Transpose::kYes ? j * k + p : p * n + j);
                want += 2.0 *
                        (static_cast<double>(a[static_cast<size_t>(at)]) -
                         static_cast<double>(a_zero[static_cast<size_t>(r)])) *
                        (static_cast<double>(b[static_cast<size_t>(bt)]) -
                         static_cast<double>(b_zero[static_cast<size_t>(j)]));
              }
              ASSERT_EQ(static_cast<double>(c[static_cast<size_t>(i)]), want);
            }
          }
        }
      }
    }
  }
}

TEST(GenericGemm, F64) { CheckGemm<double, double, double, double>(-3); }
TEST(GenericGemm, F16) { CheckGemm<float, F16, F16, F16>(-3); }
TEST(GenericGemm, I32) { CheckGemm<uint32_t, int32_t, int32_t, int32_t>(-3); }
TEST(GenericGemm, I64) { CheckGemm<uint64_t, int64_t, int64_t, int64_t>(-3); }
TEST(GenericGemm, MixedBytesToI32) {
  CheckGemm<uint32_t, int8_t, uint8_t, int32_t>(0);
  CheckGemm<uint32_t, uint8_t, int8_t, int32_t>(0);
  CheckGemm<uint32_t, int8_t, int8_t, int32_t>(-3);
}

TEST(GenericGemm, IntegersWrap) {
  const int32_t a[] = {INT32_MAX, INT32_MAX}, b[] = {2, 2};
  int32_t c = 0;
  GenericGemm<uint32_t>(GemmShape{.m = 1, .n = 1, .k = 2}, a, b, &c, {}, TeamOf(1));
  EXPECT_EQ(c, -4);  // 4 * (2^31 - 1) mod 2^32
}

ConvShape MakeShape(int rank, int64_t stride, int64_t dilation, int64_t groups) {
  ConvShape s{.batch = 2,
              .groups = groups,
              .in_channels = 2 * groups,
              .out_channels = 3 * groups,
              .rank = rank};
  for (int i = 0; i < rank; ++i) {
    s.in[i] = 6 - i;
    s.kernel[i] = 2 + i % 2;
    s.strides[i] = stride;
    s.dilations[i] = dilation;
    s.pads_begin[i] = 1 + i % 2;
  }
  return s;
}

// Walks every (output, input, tap) triple of the definition.
template <class F>
void ForEachProduct(const ConvShape& s, bool transpose, F&& f) {
  const int64_t* from = transpose ? s.in : s.out;
  const int64_t* to = transpose ? s.out : s.in;
  int64_t from_size = 1;
  for (int i = 0; i < s.rank; ++i) from_size *= from[i];
  for (int64_t p = 0; p < from_size; ++p) {
    for (int64_t t = 0; t < s.KernelSize(); ++t) {
      int64_t q = 0, scale = 1, left_p = p, left_t = t;
      bool inside = true;
      for (int i = s.rank - 1; i >= 0; --i) {
        const int64_t x = left_p % from[i] * s.strides[i] + left_t % s.kernel[i] * s.dilations[i] -
                          s.pads_begin[i];
        left_p /= from[i];
        left_t /= s.kernel[i];
        inside = inside && x >= 0 && x < to[i];
        q += x * scale;
        scale *= to[i];
      }
      if (inside) f(transpose ? q : p, transpose ? p : q, t);
    }
  }
}

template <class Acc, class TX, class TW, class TY>
void CheckConv(bool zero_points) {
  for (const int rank : {1, 2, 3, 4}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t dilation : {1, 2}) {
        for (const int64_t groups : {1, 2}) {
          for (const bool transpose : {false, true}) {
            if (transpose && zero_points) continue;
            ConvShape s = MakeShape(rank, stride, dilation, groups);
            for (int i = 0; i < rank; ++i) {
              const int64_t reach = (s.kernel[i] - 1) * dilation + 1;
              s.out[i] = transpose ? (s.in[i] - 1) * stride + reach - s.pads_begin[i]
                                   : std::max<int64_t>(0, (s.in[i] + 2 - reach) / stride + 1);
            }
            const int64_t in = s.InSize(), out = s.OutSize(), taps = s.KernelSize();
            const int64_t icg = 2, ocg = 3;
            const auto x = Small<TX>(s.batch * s.in_channels * in, 1, 0, 4);
            const auto w = Small<TW>(s.out_channels * icg * taps, 2, 0, 3);
            const auto bias = Small<TY>(s.out_channels, 3, 0, 5);
            const auto w_zero = Small<TW>(s.out_channels, 4, 0, 2);
            const double x_zero = zero_points ? 2 : 0;
            std::vector<double> want;
            for (int64_t i = 0; i < s.batch * s.out_channels * out; ++i) {
              want.push_back(
                  static_cast<double>(bias[static_cast<size_t>(i / out % s.out_channels)]));
            }
            ForEachProduct(s, transpose, [&](int64_t o, int64_t i, int64_t t) {
              for (int64_t n = 0; n < s.batch; ++n) {
                for (int64_t oc = 0; oc < s.out_channels; ++oc) {
                  for (int64_t c = 0; c < icg; ++c) {
                    const int64_t ic = oc / ocg * icg + c;
                    const int64_t wi =
                        transpose ? (ic * ocg + oc % ocg) * taps + t : (oc * icg + c) * taps + t;
                    const double wv =
                        static_cast<double>(w[static_cast<size_t>(wi)]) -
                        (zero_points ? static_cast<double>(w_zero[static_cast<size_t>(oc)]) : 0.0);
                    want[static_cast<size_t>((n * s.out_channels + oc) * out + o)] +=
                        wv * (static_cast<double>(
                                  x[static_cast<size_t>((n * s.in_channels + ic) * in + i)]) -
                              x_zero);
                  }
                }
              }
            });
            std::vector<TY> y(want.size());
            for (int threads = 1; threads <= 3; ++threads) {
              if (transpose) {
                GenericConvTranspose<Acc>(s, x.data(), w.data(), bias.data(), y.data(),
                                          TeamOf(threads));
              } else {
                GenericConvArgs<Acc, TW> args;
                if (zero_points) {
                  args = {.x_zero = Acc(2), .w_zero = w_zero.data(), .w_zero_stride = 1};
                }
                GenericConv<Acc>(s, x.data(), w.data(), bias.data(), y.data(), args,
                                 TeamOf(threads));
              }
              for (size_t i = 0; i < want.size(); ++i) {
                ASSERT_EQ(static_cast<double>(y[i]), want[i])
                    << "rank " << rank << " stride " << stride << " dilation " << dilation
                    << " groups " << groups << " transpose " << transpose << " at " << i;
              }
            }
          }
        }
      }
    }
  }
}

TEST(GenericConv, F64) { CheckConv<double, double, double, double>(false); }
TEST(GenericConv, F16) { CheckConv<float, F16, F16, F16>(false); }
TEST(GenericConv, I32) { CheckConv<uint32_t, int32_t, int32_t, int32_t>(false); }
TEST(GenericConv, BytesWithZeroPoints) {
  CheckConv<uint32_t, uint8_t, int8_t, int32_t>(true);
  CheckConv<uint32_t, int8_t, uint8_t, int32_t>(true);
}

}  // namespace
}  // namespace parallax::kernels
