// The further inputs of parallax::FusedConv, as fused_conv.cc reads and passes write them.
#pragma once

#include <cstddef>

namespace parallax::ops {

// X, W, B, R stand before them.
inline constexpr size_t kFirstFurtherSource = 4;
// X and further ones.
inline constexpr size_t kMaxSources = 16;

}  // namespace parallax::ops
