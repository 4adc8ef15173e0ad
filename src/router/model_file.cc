#include "router/model_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "router/enum_names.h"
#include "router/json_reader.h"

namespace parallax::router {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kMaxTokens = int64_t{1} << 32;
constexpr double kMaxCoefficient = 1e9;  // ms, or ms a token: no machine is slower
constexpr int64_t kMaxObservations = int64_t{1} << 53;

// Names of the coefficients, in the order of LatencyModel::beta.
using BetaKeys = std::array<const char*, 6>;
const BetaKeys& KeysOf(ModelForm form) {
  static constexpr BetaKeys kPaper = {"intercept", "p_eff", "g", "p_g", "p_cache", "hit"};
  static constexpr BetaKeys kExtended = {"intercept", "p_eff", "attention", "g", "decode", "hit"};
  return form == ModelForm::kPaper ? kPaper : kExtended;
}

TokenRange ReadRange(JsonObject& from, const char* key) {
  const std::vector<int64_t> ends = from.Integers(key, 0, kMaxTokens);
  if (ends.empty()) return {};
  if (ends.size() != 2 || ends[0] > ends[1]) {
    from.Fail(key, "[smallest, largest] is wanted");
    return {};
  }
  return {ends[0], ends[1]};
}

OrderedJson RangeJson(const TokenRange& range) {
  if (range.empty()) return nullptr;
  return OrderedJson::array({range.min, range.max});
}

ModelEntry ReadModel(JsonObject from) {
  ModelEntry entry;
  LatencyModel& m = entry.model;
  m.form = static_cast<ModelForm>(from.OneOf("form", NamesOf<ModelForm, 2>()));
  m.source = static_cast<ModelSource>(from.OneOf("source", NamesOf<ModelSource, 3>()));
  m.observations = from.Integer("observations", 0, kMaxObservations);
  JsonObject range = from.Object("range");
  m.p = ReadRange(range, "p");
  m.g = ReadRange(range, "g");
  m.p_cache = ReadRange(range, "p_cache");
  range.RefuseUnknown();
  JsonObject beta = from.Object("beta");
  // The extended form's rates are never negative: negative ones would predict ever less for more.
  const double least = m.form == ModelForm::kPaper ? -kMaxCoefficient : 0;
  for (size_t i = 0; i < m.beta.size(); ++i) {
    m.beta[i] = beta.Number(KeysOf(m.form)[i], least, kMaxCoefficient);
  }
  beta.RefuseUnknown();
  if (from.Has("fit")) {
    JsonObject fit = from.Object("fit");
    const auto figure = [&fit](const char* key, double min) -> std::optional<double> {
      // Asks for it in any case, so that it is known.
      const double value = fit.Number(key, min, 1e15, 0);
      return fit.Has(key) ? std::optional(value) : std::nullopt;
    };
    entry.quality.rmse_ms = figure("rmse_ms", 0);
    entry.quality.mae_ms = figure("mae_ms", 0);
    entry.quality.mape_pct = figure("mape_pct", 0);
    entry.quality.r2 = figure("r2", -1e15);
    fit.RefuseUnknown();
  } else {
    (void)from.String("fit", "");
  }
  from.RefuseUnknown();
  return entry;
}

BackendModelEntry ReadBackend(JsonObject from) {
  BackendModelEntry b;
  b.name = from.String("name");
  if (b.name.empty()) from.Fail("name", "empty");
  b.kind = static_cast<BackendKind>(from.OneOf("kind", NamesOf<BackendKind, 3>()));
  b.model = from.String("model", "");
  b.identity = from.String("identity", "");
  b.grid_p = from.Integers("grid_p", 0, kMaxTokens);
  b.grid_g = from.Integers("grid_g", 0, kMaxTokens);
  b.context_tokens = from.Integer("context_tokens", 0, kMaxTokens, 0);
  b.single_flight = from.Boolean("single_flight", false);
  b.preemptible_prefill = from.Boolean("preemptible_prefill", true);
  for (const JsonObject& model : from.Objects("models")) {
    b.models.push_back(ReadModel(model));
    for (size_t i = 0; i + 1 < b.models.size(); ++i) {
      if (b.models[i].model.form == b.models.back().model.form) {
        from.Fail("models", "two models of one form");
      }
    }
  }
  from.RefuseUnknown();
  return b;
}

// null: no prompt is long enough.
int64_t ReadThreshold(JsonObject& from) { return from.Integer("threshold", 0, kMaxTokens, kNever); }

OrderedJson ThresholdJson(int64_t threshold) {
  return threshold == kNever ? OrderedJson(nullptr) : OrderedJson(threshold);
}

template <class Rule>
void ReadSides(JsonObject& from, Rule* rule) {
  rule->long_side = from.String("long_side");
  rule->short_side = from.String("short_side");
  if (rule->long_side == rule->short_side) from.Fail("short_side", "the same as long_side");
}

PsrTable ReadPsr(JsonObject from) {
  PsrTable table;
  ReadSides(from, &table);
  for (JsonObject row : from.Objects("rows")) {
    const int64_t g = row.Integer("g", 0, kMaxTokens);
    table.rows.push_back({g, ReadThreshold(row)});
    row.RefuseUnknown();
    if (table.rows.size() > 1 && table.rows[table.rows.size() - 2].g >= g) {
      row.Fail("g", "rows must ascend");
    }
  }
  if (table.rows.empty()) from.Fail("rows", "at least one row is wanted");
  from.RefuseUnknown();
  return table;
}

OrderedJson ModelJson(const ModelEntry& entry) {
  const LatencyModel& m = entry.model;
  OrderedJson beta;
  for (size_t i = 0; i < m.beta.size(); ++i) beta[KeysOf(m.form)[i]] = m.beta[i];
  OrderedJson json = {
      {"form", Name(m.form)},
      {"source", Name(m.source)},
      {"observations", m.observations},
      {"range", {{"p", RangeJson(m.p)}, {"g", RangeJson(m.g)}, {"p_cache", RangeJson(m.p_cache)}}},
      {"beta", std::move(beta)},
  };
  OrderedJson fit = OrderedJson::object();
  const auto figure = [&fit](const char* key, const std::optional<double>& value) {
    if (value) fit[key] = *value;
  };
  figure("rmse_ms", entry.quality.rmse_ms);
  figure("mae_ms", entry.quality.mae_ms);
  figure("mape_pct", entry.quality.mape_pct);
  figure("r2", entry.quality.r2);
  if (!fit.empty()) json["fit"] = std::move(fit);
  return json;
}

OrderedJson BackendJson(const BackendModelEntry& b) {
  OrderedJson models = OrderedJson::array();
  for (const ModelEntry& entry : b.models) models.push_back(ModelJson(entry));
  return {
      {"name", b.name},
      {"kind", Name(b.kind)},
      {"model", b.model},
      {"identity", b.identity},
      {"grid_p", b.grid_p},
      {"grid_g", b.grid_g},
      {"context_tokens", b.context_tokens},
      {"single_flight", b.single_flight},
      {"preemptible_prefill", b.preemptible_prefill},
      {"models", std::move(models)},
  };
}

}  // namespace

const BackendModelEntry* ModelFile::Find(std::string_view backend) const {
  for (const BackendModelEntry& entry : backends) {
    if (entry.name == backend) return &entry;
  }
  return nullptr;
}

Result<ModelFile> ParseModelFile(std::string_view text) {
  PX_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(text));
  std::optional<Error> error;
  JsonObject from(document, "", &error);
  const int64_t schema = from.Integer("schema", 0, std::numeric_limits<int64_t>::max());
  if (!error && schema != kModelFileSchema) {
    from.Fail("schema", fmt::format("version {} is wanted, found {}", kModelFileSchema, schema));
  }
  ModelFile file;
  file.device = from.String("device", "");
  file.source = from.String("source", "");
  for (const JsonObject& backend : from.Objects("backends")) {
    BackendModelEntry entry = ReadBackend(backend);
    if (file.Find(entry.name) != nullptr) {
      from.Fail("backends", fmt::format("two backends '{}'", entry.name));
    }
    file.backends.push_back(std::move(entry));
  }
  if (from.Has("psr")) {
    file.psr = ReadPsr(from.Object("psr"));
  } else {
    (void)from.String("psr", "");
  }
  if (from.Has("prompt_only")) {
    JsonObject rule = from.Object("prompt_only");
    file.prompt_only.emplace();
    ReadSides(rule, &*file.prompt_only);
    file.prompt_only->threshold = ReadThreshold(rule);
    rule.RefuseUnknown();
  } else {
    (void)from.String("prompt_only", "");
  }
  from.RefuseUnknown();
  if (error) return error->WithContext("model file");
  return file;
}

std::string WriteModelFile(const ModelFile& file) {
  OrderedJson backends = OrderedJson::array();
  for (const BackendModelEntry& entry : file.backends) backends.push_back(BackendJson(entry));
  OrderedJson json = {
      {"schema", kModelFileSchema},
      {"device", file.device},
      {"source", file.source},
      {"backends", std::move(backends)},
  };
  if (file.psr) {
    OrderedJson rows = OrderedJson::array();
    for (const PsrRow& row : file.psr->rows) {
      rows.push_back({{"g", row.g}, {"threshold", ThresholdJson(row.threshold)}});
    }
    json["psr"] = {{"long_side", file.psr->long_side},
                   {"short_side", file.psr->short_side},
                   {"rows", std::move(rows)}};
  }
  if (file.prompt_only) {
    json["prompt_only"] = {{"long_side", file.prompt_only->long_side},
                           {"short_side", file.prompt_only->short_side},
                           {"threshold", ThresholdJson(file.prompt_only->threshold)}};
  }
  return DumpJson(json, 2) + "\n";
}

BackendModels ModelsFor(const ModelFile& file, std::string_view backend, BackendKind kind) {
  BackendModels models;
  models.extended = PriorModel(kind);
  const BackendModelEntry* entry = file.Find(backend);
  if (entry == nullptr) return models;
  bool extended = false;
  for (const ModelEntry& m : entry->models) {
    if (m.model.form == ModelForm::kPaper) {
      models.paper = m.model;
    } else {
      models.extended = m.model;
      extended = true;
    }
  }
  if (!extended && models.paper) models.extended = ToExtended(*models.paper);
  return models;
}

}  // namespace parallax::router
