#include "kernels/subnormals.h"

#include <algorithm>
#include <bit>

namespace parallax::kernels {
namespace {

constexpr uint32_t kExponent = 0x7f800000, kSign = 0x80000000;
constexpr int64_t kStretch = 1024;  // stays in L1 between looking and writing

}  // namespace

void FlushSubnormals(float* x, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += kStretch) {
    float* at = x + begin;
    const int64_t count = std::min(kStretch, n - begin);
    uint32_t found = 0;  // not 0: some are there
    for (int64_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<uint32_t>(at[i]);
      found |= (bits & kExponent) == 0 ? bits & ~kSign : 0;
    }
    if (found == 0) continue;  // nearly always: nothing is written
    for (int64_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<uint32_t>(at[i]);
      at[i] = std::bit_cast<float>((bits & kExponent) == 0 ? bits & kSign : bits);
    }
  }
}

}  // namespace parallax::kernels
