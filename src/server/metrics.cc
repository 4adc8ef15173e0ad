#include "server/metrics.h"

#include <algorithm>

namespace parallax::server {

void Histogram::Add(double value) {
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), value);
  ++counts[static_cast<std::size_t>(at - kBounds.begin())];
  sum += value;
  ++count;
}

}  // namespace parallax::server
