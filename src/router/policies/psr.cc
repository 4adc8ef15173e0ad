// psr: a threshold on the prompt's length for each generation budget; what is cached plays no part.
// Source: papers/psr-pcar.txt, section 3.4, equations 6 and 7.
#include "router/policies/psr.h"

namespace parallax::router {

uint32_t RankByTable(const PolicyInput& input, PromptMeasure measure, std::span<PolicyRank> ranks) {
  const std::optional<PsrTable>& table = input.models.psr;
  if (!table || table->rows.empty() || input.candidates.empty()) {
    return RankExtended(input, ranks) | uint32_t{kNoteFellBackToModel};
  }
  const PolicyCandidate* at = input.Find(table->short_side);
  if (at == nullptr) at = &input.candidates.front();
  const Workload& w = at->workload;
  const int64_t length = measure == PromptMeasure::kWhole ? w.prompt_tokens : w.Effective();
  const PsrLookup found = Lookup(*table, w.max_new_tokens, input.policy.interpolation);
  uint32_t notes = 0;
  switch (found.place) {
    case PsrPlace::kRow:
      break;
    case PsrPlace::kBetween:
      notes = kNoteBetweenRows;
      break;
    case PsrPlace::kInterpolated:
      notes = kNoteInterpolated;
      break;
    case PsrPlace::kPastLast:
      notes = kNotePastLastRow;
      break;
  }
  const bool is_long = found.threshold != kNever && length >= found.threshold;
  return notes | (is_long ? RankBySide(input, table->long_side, table->short_side, ranks)
                          : RankBySide(input, table->short_side, table->long_side, ranks));
}

uint32_t RankPsr(const PolicyInput& input, std::span<PolicyRank> ranks) {
  return RankByTable(input, PromptMeasure::kWhole, ranks);
}

}  // namespace parallax::router
