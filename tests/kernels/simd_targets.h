// SimdTargets: the SIMD targets that tests run kernels on, the best one first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/targets.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace parallax::testing {

// Those that are compiled in and that this CPU has. The baseline runs everywhere, also where
// Highway's look at the CPU does not name it: NEON without AES.
inline std::vector<int64_t> SimdTargets() {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  if (std::find(targets.begin(), targets.end(), HWY_STATIC_TARGET) == targets.end()) {
    targets.push_back(HWY_STATIC_TARGET);
  }
  return targets;
}

}  // namespace parallax::testing
