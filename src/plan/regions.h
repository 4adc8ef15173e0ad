// Regions: maximal convex sets of connected vertices that a delegate supports.
//
// Convex: no path leaves a region and comes back, so that it can run as one. Maximal: no two regions with an
// edge between them could be one, nor could a region take in another supported vertex.
//
// Threads:    pure.
// Cost:       close to linear in networks; see Contraction.
// Source:     the parallax paper, section 3.1, whose delegates take every such region ("naive").
#pragma once

#include <cstdint>
#include <vector>

#include "plan/dag.h"

namespace parallax::plan {

// By vertex the region it belongs to, numbered from 0 by their first vertex, or -1. REQUIRES: no cycle.
std::vector<int32_t> MaximalRegions(const Dag& dag, const std::vector<bool>& supported);

}  // namespace parallax::plan
