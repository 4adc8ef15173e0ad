// One sentence for people that says what a decision was and why, with its numbers.
//
// Role:       Decide fills Decision::reason with it; the log, the status page and errors show it.
// Ownership:  returns its own string.
// Threads:    pure.
// Cost:       a few microseconds.
// Example:
//   Explain(d);  // "npu: 812 ms predicted, cpu 1,340 ms: 1,024 tokens to prefill, 32 to generate"
#pragma once

#include <string>

#include "router/decision.h"

namespace parallax::router {

std::string Explain(const Decision& decision);

}  // namespace parallax::router
