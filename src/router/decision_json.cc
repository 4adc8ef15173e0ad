// Decision to JSON and back.
#include <array>
#include <climits>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "router/decision.h"
#include "router/enum_names.h"
#include "router/json_reader.h"

namespace parallax::router {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kMaxTokens = int64_t{1} << 48;  // a bound that sums and products survive
constexpr int64_t kMaxCount = std::numeric_limits<int64_t>::max();
constexpr double kMaxMs = 1e15;

struct NoteName {
  PolicyNote note;
  std::string_view name;
};
constexpr NoteName kNotes[] = {
    {kNoteBetweenRows, "between-rows"},           {kNotePastLastRow, "past-last-row"},
    {kNoteInterpolated, "interpolated"},          {kNoteFellBackToPsr, "fell-back-to-psr"},
    {kNoteFellBackToModel, "fell-back-to-model"}, {kNoteOtherSide, "other-side"},
};
struct OutsideName {
  uint8_t bit;
  std::string_view name;
};
constexpr OutsideName kOutsides[] = {
    {kOutsidePrompt, "p"}, {kOutsideGenerate, "g"}, {kOutsideCached, "p_cache"}};

OrderedJson Milliseconds(double ms) {
  return std::isfinite(ms) ? OrderedJson(ms) : OrderedJson(nullptr);
}

template <class T>
OrderedJson Optional(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson CandidateJson(const Candidate& c) {
  OrderedJson outside = OrderedJson::array();
  for (const OutsideName& o : kOutsides) {
    if ((c.prediction.outside & o.bit) != 0) outside.push_back(o.name);
  }
  return {
      {"name", c.name},
      {"exclusion", Name(c.exclusion)},
      {"need_tokens", c.need_tokens},
      {"have_tokens", c.have_tokens},
      {"context", Name(c.context)},
      {"estimated_tokens", c.estimated_tokens},
      {"short_match_ignored", c.short_match_ignored},
      {"running", c.running},
      {"queued", c.queued},
      {"queue_limit",
       c.queue_limit == kMaxCount ? OrderedJson(nullptr) : OrderedJson(c.queue_limit)},
      {"p", c.workload.prompt_tokens},
      {"g", c.workload.max_new_tokens},
      {"p_cache", c.workload.cached_tokens},
      {"p_eff", c.workload.Effective()},
      {"cache_state", Name(c.workload.cache)},
      {"attention_work", c.workload.AttentionWork()},
      {"decode_work", c.workload.DecodeWork()},
      {"predicted_reuse", c.predicted_reuse},
      {"queue_ms", Milliseconds(c.queue_ms)},
      {"sharing_ms", Milliseconds(c.sharing_ms)},
      {"prefill_ms", Milliseconds(c.prediction.prefill_ms)},
      {"decode_ms", Milliseconds(c.prediction.decode_ms)},
      {"model_total_ms", Milliseconds(c.prediction.total_ms)},
      {"model_raw_total_ms", Milliseconds(c.prediction.raw_total_ms)},
      {"model_ttft_ms", Milliseconds(c.prediction.ttft_ms)},
      {"model_form", Name(c.prediction.form)},
      {"model_source", Name(c.prediction.source)},
      {"outside", std::move(outside)},
      {"total_ms", Milliseconds(c.total_ms)},
      {"ttft_ms", Milliseconds(c.ttft_ms)},
      {"score_ms", Milliseconds(c.score_ms)},
  };
}

OrderedJson OutcomeJson(const Outcome& o) {
  return {
      {"finished", o.finished},
      {"queue_ms", Optional(o.queue_ms)},
      {"ttft_ms", Optional(o.ttft_ms)},
      {"prefill_ms", Optional(o.prefill_ms)},
      {"decode_ms", Optional(o.decode_ms)},
      {"total_ms", Optional(o.total_ms)},
      {"prompt_tokens", Optional(o.prompt_tokens)},
      {"predicted_reuse", Optional(o.predicted_reuse)},
      {"cached_tokens", Optional(o.cached_tokens)},
      {"generated_tokens", Optional(o.generated_tokens)},
      {"finish", o.finish},
      {"error", o.error},
  };
}

template <class Enum, size_t kCount>
Enum ReadEnum(JsonObject& from, const char* key, Enum fallback) {
  return static_cast<Enum>(from.OneOf(key, NamesOf<Enum, kCount>(), static_cast<size_t>(fallback)));
}

double ReadMs(JsonObject& from, const char* key) { return from.Number(key, -kMaxMs, kMaxMs, 0); }

Candidate ReadCandidate(JsonObject from) {
  Candidate c;
  c.name = from.String("name");
  c.exclusion = ReadEnum<Exclusion, 12>(from, "exclusion", Exclusion::kNone);
  c.need_tokens = from.Integer("need_tokens", 0, kMaxTokens, 0);
  c.have_tokens = from.Integer("have_tokens", 0, kMaxTokens, 0);
  c.context = ReadEnum<ContextVerdict, 3>(from, "context", ContextVerdict::kFits);
  c.estimated_tokens = from.Boolean("estimated_tokens", false);
  c.short_match_ignored = from.Boolean("short_match_ignored", false);
  c.running = from.Integer("running", 0, kMaxCount, 0);
  c.queued = from.Integer("queued", 0, kMaxCount, 0);
  c.queue_limit = from.Integer("queue_limit", 0, kMaxCount, kMaxCount);
  // p_eff, cache_state and the two kinds of work follow from these.
  const int64_t p = from.Integer("p", 0, kMaxTokens, 0);
  const int64_t g = from.Integer("g", 0, kMaxTokens, 0);
  c.workload = MakeWorkload(p, g, from.Integer("p_cache", 0, kMaxTokens, 0));
  c.predicted_reuse = from.Integer("predicted_reuse", 0, kMaxTokens, 0);
  c.queue_ms = ReadMs(from, "queue_ms");
  c.sharing_ms = ReadMs(from, "sharing_ms");
  c.prediction.prefill_ms = ReadMs(from, "prefill_ms");
  c.prediction.decode_ms = ReadMs(from, "decode_ms");
  c.prediction.total_ms = ReadMs(from, "model_total_ms");
  c.prediction.raw_total_ms = ReadMs(from, "model_raw_total_ms");
  c.prediction.ttft_ms = ReadMs(from, "model_ttft_ms");
  c.prediction.form = ReadEnum<ModelForm, 2>(from, "model_form", ModelForm::kExtended);
  c.prediction.source = ReadEnum<ModelSource, 3>(from, "model_source", ModelSource::kPrior);
  for (const std::string& name : from.Strings("outside")) {
    for (const OutsideName& o : kOutsides) {
      if (o.name == name) c.prediction.outside |= o.bit;
    }
  }
  c.total_ms = ReadMs(from, "total_ms");
  c.ttft_ms = ReadMs(from, "ttft_ms");
  c.score_ms = ReadMs(from, "score_ms");
  return c;
}

std::optional<double> ReadOptionalMs(JsonObject& from, const char* key) {
  if (!from.Has(key)) return std::nullopt;
  return from.Number(key, 0, kMaxMs);
}

std::optional<int64_t> ReadOptionalTokens(JsonObject& from, const char* key) {
  if (!from.Has(key)) return std::nullopt;
  return from.Integer(key, 0, kMaxTokens);
}

Outcome ReadOutcome(JsonObject from) {
  Outcome o;
  o.finished = from.Boolean("finished", false);
  o.queue_ms = ReadOptionalMs(from, "queue_ms");
  o.ttft_ms = ReadOptionalMs(from, "ttft_ms");
  o.prefill_ms = ReadOptionalMs(from, "prefill_ms");
  o.decode_ms = ReadOptionalMs(from, "decode_ms");
  o.total_ms = ReadOptionalMs(from, "total_ms");
  o.prompt_tokens = ReadOptionalTokens(from, "prompt_tokens");
  o.predicted_reuse = ReadOptionalTokens(from, "predicted_reuse");
  o.cached_tokens = ReadOptionalTokens(from, "cached_tokens");
  o.generated_tokens = ReadOptionalTokens(from, "generated_tokens");
  o.finish = from.String("finish", "");
  o.error = from.String("error", "");
  return o;
}

}  // namespace

std::string ToJson(const Decision& d) {
  OrderedJson notes = OrderedJson::array();
  for (const NoteName& n : kNotes) {
    if ((d.notes & n.note) != 0) notes.push_back(n.name);
  }
  OrderedJson candidates = OrderedJson::array();
  for (const Candidate& c : d.candidates) candidates.push_back(CandidateJson(c));
  const Candidate* chosen = d.chosen_candidate();
  const OrderedJson json = {
      {"id", d.id},
      {"time_ms", Milliseconds(d.time_ms)},
      {"model", d.model},
      {"kind", Name(d.kind)},
      {"max_new_tokens", d.max_new_tokens},
      {"max_new_given", d.max_new_given},
      {"choices", d.choices},
      {"wanted_context", d.wanted_context},
      {"deadline_ms", Milliseconds(d.deadline_ms)},
      {"no_cache", d.no_cache},
      {"pinned", d.pinned},
      {"policy", d.policy},
      {"objective", Name(d.objective)},
      {"notes", std::move(notes)},
      {"status", Name(d.status)},
      {"chosen", chosen != nullptr ? OrderedJson(chosen->name) : OrderedJson(nullptr)},
      {"reason_code", Name(d.reason_code)},
      {"reason", d.reason},
      {"candidates", std::move(candidates)},
      {"n_prompt_tokens", d.n_prompt_tokens},
      {"n_ctx", d.n_ctx},
      {"retry_after_s", d.retry_after_s},
      {"best_total_ms", Milliseconds(d.best_total_ms)},
      {"outcome", OutcomeJson(d.outcome)},
  };
  return DumpJson(json);
}

Result<Decision> FromJson(std::string_view text) {
  PX_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(text));
  std::optional<Error> error;
  JsonObject from(document, "", &error);
  Decision d;
  d.id = from.String("id");
  d.time_ms = ReadMs(from, "time_ms");
  d.model = from.String("model", "");
  d.kind = ReadEnum<RequestKind, 2>(from, "kind", RequestKind::kChat);
  d.max_new_tokens = from.Integer("max_new_tokens", 0, kMaxTokens, 0);
  d.max_new_given = from.Boolean("max_new_given", true);
  d.choices = static_cast<int>(from.Integer("choices", 1, INT_MAX, 1));
  d.wanted_context = from.Integer("wanted_context", 0, kMaxTokens, 0);
  d.deadline_ms =
      from.Number("deadline_ms", -kMaxMs, kMaxMs, std::numeric_limits<double>::infinity());
  d.no_cache = from.Boolean("no_cache", false);
  d.pinned = from.String("pinned", "");
  d.policy = from.String("policy", "");
  d.objective = ReadEnum<Objective, 2>(from, "objective", Objective::kTotal);
  for (const std::string& name : from.Strings("notes")) {
    for (const NoteName& n : kNotes) {
      if (n.name == name) d.notes |= n.note;
    }
  }
  d.status = ReadEnum<DecisionStatus, 6>(from, "status", DecisionStatus::kUnavailable);
  d.reason_code = ReadEnum<ReasonCode, 9>(from, "reason_code", ReasonCode::kNotRouted);
  d.reason = from.String("reason", "");
  for (const JsonObject& candidate : from.Objects("candidates")) {
    d.candidates.push_back(ReadCandidate(candidate));
  }
  if (from.Has("chosen")) {
    const std::string chosen = from.String("chosen");
    for (size_t i = 0; i < d.candidates.size() && !d.chosen; ++i) {
      if (d.candidates[i].name == chosen) d.chosen = i;
    }
    if (!d.chosen) from.Fail("chosen", "names none of the candidates");
  }
  d.n_prompt_tokens = from.Integer("n_prompt_tokens", 0, kMaxTokens, 0);
  d.n_ctx = from.Integer("n_ctx", 0, kMaxTokens, 0);
  d.retry_after_s = from.Integer("retry_after_s", 0, kMaxCount, 0);
  d.best_total_ms = ReadMs(from, "best_total_ms");
  if (from.Has("outcome")) d.outcome = ReadOutcome(from.Object("outcome"));
  if (error) return error->WithContext("decision");
  return d;
}

}  // namespace parallax::router
