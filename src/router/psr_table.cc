#include "router/psr_table.h"

#include <algorithm>
#include <cmath>

namespace parallax::router {

PsrLookup Lookup(const PsrTable& table, int64_t g, Interpolation interpolation) {
  const auto above = std::lower_bound(table.rows.begin(), table.rows.end(), g,
                                      [](const PsrRow& row, int64_t at) { return row.g < at; });
  if (above == table.rows.end()) return {table.rows.back().threshold, PsrPlace::kPastLast};
  if (above->g == g) return {above->threshold, PsrPlace::kRow};
  if (interpolation == Interpolation::kNextRow || above == table.rows.begin()) {
    return {above->threshold, PsrPlace::kBetween};
  }
  const PsrRow& below = *(above - 1);
  if (below.threshold == kNever || above->threshold == kNever) {
    return {above->threshold, PsrPlace::kBetween};
  }
  const double share = static_cast<double>(g - below.g) / static_cast<double>(above->g - below.g);
  const double low = static_cast<double>(below.threshold);
  const double high = static_cast<double>(above->threshold);
  return {std::llround(low + share * (high - low)), PsrPlace::kInterpolated};
}

}  // namespace parallax::router
