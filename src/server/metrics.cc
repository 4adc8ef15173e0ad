#include "server/metrics.h"

#include <algorithm>

namespace parallax::server {

void Histogram::Add(double value) {
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), value);
  ++counts[static_cast<std::size_t>(at - bounds.begin())];
  sum += value;
  ++count;
}

}  // namespace parallax::server
