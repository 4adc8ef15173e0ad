// What may be lost in a convolution by Winograd's minimal filtering, channels last.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/conv_testing.h"

namespace parallax::kernels {

using Matrix = std::vector<std::vector<double>>;
inline Matrix Absolute(Matrix m) {
  for (auto& row : m) {
    for (double& v : row) v = std::abs(v);
  }
  return m;
}
// a b a^T
inline Matrix Sandwich(const Matrix& a, const Matrix& b) {
  Matrix half(a.size(), std::vector<double>(b[0].size())), out(a.size(), half[0]);
  for (auto& row : out) row.assign(a.size(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b[0].size(); ++j) {
      for (size_t k = 0; k < b.size(); ++k) half[i][j] += a[i][k] * b[k][j];
    }
  }
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a.size(); ++j) {
      for (size_t k = 0; k < b[0].size(); ++k) out[i][j] += half[i][k] * a[j][k];
    }
  }
  return out;
}

// Every operation of y = A^T [sum (G g G^T) * (B^T d B)] A rounds what the absolute values of its
// operands bound: an output's error is at most gamma(n) |A^T| [sum |G| |g| |G^T| * |B^T| |d| |B|] |A|,
// where n counts the operations one after another: the depth's additions and at most 6 for each of
// the six one-dimensional transforms. (N. Higham, Accuracy and Stability of Numerical Algorithms,
// sections 3.1 and 3.5.) The output of a tile is bounded by all inputs of the tile, not of its window.
inline void BoundByWinograd(const ConvShape& s, const Operands& o, int64_t m,
                            std::vector<Sum>& want) {
  Matrix at, g, bt;
  if (m == 4) {
    at = {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};
    g = {{1. / 4, 0, 0},
         {-1. / 6, -1. / 6, -1. / 6},
         {-1. / 6, 1. / 6, -1. / 6},
         {1. / 24, 1. / 12, 1. / 6},
         {1. / 24, -1. / 12, 1. / 6},
         {0, 0, 1}};
    bt = {{4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
          {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
  } else {
    at = {{1, 1, 1, 0}, {0, 1, -1, -1}};
    g = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
    bt = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
  }
  at = Absolute(at);
  g = Absolute(g);
  bt = Absolute(bt);
  const auto side = static_cast<size_t>(m + 2);
  const auto tile_of = [&](int64_t n, int64_t row, int64_t column, int64_t ic) {
    Matrix d(side, std::vector<double>(side));
    for (size_t i = 0; i < side; ++i) {
      for (size_t j = 0; j < side; ++j) {
        const int64_t h = row + static_cast<int64_t>(i) - s.pads_begin[0];
        const int64_t w = column + static_cast<int64_t>(j) - s.pads_begin[1];
        if (h < 0 || h >= s.in[0] || w < 0 || w >= s.in[1]) continue;
        d[i][j] =
            o.input[static_cast<size_t>(((n * s.in[0] + h) * s.in[1] + w) * s.in_channels + ic)];
      }
    }
    return Sandwich(bt, Absolute(d));
  };
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t row = 0; row < s.out[0]; row += m) {
      for (int64_t column = 0; column < s.out[1]; column += m) {
        std::vector<Matrix> inputs;
        for (int64_t ic = 0; ic < s.in_channels; ++ic)
          inputs.push_back(tile_of(n, row, column, ic));
        for (int64_t oc = 0; oc < s.out_channels; ++oc) {
          Matrix sum(side, std::vector<double>(side));
          for (int64_t ic = 0; ic < s.in_channels; ++ic) {
            Matrix taps(3, std::vector<double>(3));
            for (int64_t t = 0; t < 9; ++t) {
              taps[static_cast<size_t>(t / 3)][static_cast<size_t>(t % 3)] =
                  o.weights[static_cast<size_t>((oc * s.in_channels + ic) * 9 + t)];
            }
            const Matrix u = Sandwich(g, Absolute(taps));
            for (size_t i = 0; i < side; ++i) {
              for (size_t j = 0; j < side; ++j) {
                sum[i][j] += u[i][j] * inputs[static_cast<size_t>(ic)][i][j];
              }
            }
          }
          const Matrix y = Sandwich(at, sum);
          for (int64_t i = 0; i < std::min(m, s.out[0] - row); ++i) {
            for (int64_t j = 0; j < std::min(m, s.out[1] - column); ++j) {
              Sum& to = want[static_cast<size_t>(
                  ((n * s.out[0] + row + i) * s.out[1] + column + j) * s.out_channels + oc)];
              to.norm += y[static_cast<size_t>(i)][static_cast<size_t>(j)];
              to.terms = s.in_channels + 36;
            }
          }
        }
      }
    }
  }
}

}  // namespace parallax::kernels
