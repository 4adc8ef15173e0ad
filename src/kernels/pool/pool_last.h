// MaxPoolLast and AveragePoolLast: f32 windows over [batch, rows, columns, channels].
//
// Role:       pools inside regions with channels last.
// Ownership:  borrows every pointer for the call; needs no workspace.
// Threads:    pure apart from the output; one call uses one Team.
// Cost:       one load an element under a window; vectors over channels; allocates nothing.
// Invariants: as pool.h. REQUIRES: shape.rank is 1 or 2 (a missing one counts as rows of extent 1).
#pragma once

#include "kernels/pool/pool.h"

namespace parallax::kernels {

void MaxPoolLast(const PoolShape& shape, const float* input, float* output, Team& team);
void AveragePoolLast(const PoolShape& shape, const float* input, float* output, PadCount count,
                     Team& team);

}  // namespace parallax::kernels
