// Which algorithm computes a convolution: by what each would cost, from measured rates.
//
// Role:       PlanConv asks here; bench/ops/conv_choice compares the answers with the clock.
// Threads:    pure.
// Invariants: a function of the shape and of the running CPU's vector width: the same for every team.
#pragma once

#include "kernels/conv/conv.h"

namespace parallax::kernels {

ConvAlgorithm ChooseConv(const ConvShape& shape, const ConvOptions& options);

}  // namespace parallax::kernels
