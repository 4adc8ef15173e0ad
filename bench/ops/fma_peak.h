// Peak of fused multiply-adds of one thread, measured: the yardstick of the dense-kernel
// benchmarks.
#pragma once

namespace parallax::bench {

// GFLOP/s (a multiply-add is 2) of register-only FMA chains on the best SIMD target; the best of a
// few rounds of some milliseconds.
double MeasureFmaPeak();

}  // namespace parallax::bench
