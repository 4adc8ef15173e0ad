// What this machine can do at most, measured: the yardstick for kernels.
//
// Role:       `bench --ops` and the kernel benchmarks print rates as parts of these.
// Threads:    the team's workers measure together, so that what they share counts.
// Cost:       some tens of milliseconds each; MeasureReadBandwidth allocates its buffer.
#pragma once

#include "threads/team.h"

namespace parallax::kernels {

// GFLOP/s (a multiply-add is 2) of register-only FMA chains on the best SIMD target, all workers
// together; the best of some rounds.
double MeasureFmaPeak(Team& team);

// 10^9 bytes a second read from a buffer larger than caches; the best of some rounds. 0 where there
// is no memory for the buffer.
double MeasureReadBandwidth(Team& team);

}  // namespace parallax::kernels
