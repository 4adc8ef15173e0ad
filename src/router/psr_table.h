// Thresholds on the prompt's length that split requests between two backends.
//
// Role:       psr, psr-eff and prompt-only look requests up in it; fitted offline, kept in the
//             model file.
// Ownership:  values.
// Threads:    pure.
// Cost:       O(log rows).
// Invariants: rows ascend strictly by g; thresholds are in [0, kNever].
// Source:     papers/psr-pcar.txt, equations 6 and 7 and table 1; design 4.2.
// Example:
//   PsrTable t{.long_side = "npu", .short_side = "cpu", .rows = {{32, 256}, {64, 512}}};
//   PsrLookup l = Lookup(t, /*g=*/48, Interpolation::kNextRow);   // threshold 512, flagged
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace parallax::router {

// The threshold of a row where no prompt is long enough.
inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct PsrRow {
  int64_t g = 0;
  int64_t threshold = kNever;  // prompts of at least so many tokens go to the long side
  bool operator==(const PsrRow&) const = default;
};

struct PsrTable {
  std::string long_side = {};   // backend that takes prompts of `threshold` tokens and more
  std::string short_side = {};  // backend that takes the others
  std::vector<PsrRow> rows = {};
  bool operator==(const PsrTable&) const = default;
};

struct PromptOnlyRule {
  std::string long_side = {};
  std::string short_side = {};
  int64_t threshold = kNever;
  bool operator==(const PromptOnlyRule&) const = default;
};

enum class Interpolation : uint8_t {
  kNextRow,  // a g between two rows takes the next one above
  kLinear,   // it takes the threshold on the line between them; the next row's where one is kNever
};

enum class PsrPlace : uint8_t {
  kRow,           // g is a row's
  kBetween,       // between two rows, or below the first: the next one was taken
  kInterpolated,  // between two rows, on the line
  kPastLast,      // above all rows: the last one was taken
};

struct PsrLookup {
  int64_t threshold = kNever;
  PsrPlace place = PsrPlace::kRow;
};

// Requires at least one row.
PsrLookup Lookup(const PsrTable& table, int64_t g, Interpolation interpolation);

}  // namespace parallax::router
