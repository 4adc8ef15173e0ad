// The model file: latency models, PSR tables and thresholds of the backends of one device, as JSON.
//
// Role:       written by fit and by the server's learning, read by serve, route and replay;
//             profiles/*.json are such files.
// Ownership:  values.
// Threads:    pure; no I/O: the caller reads and writes the bytes.
// Invariants: ParseModelFile is strict: a missing key, an unknown key, a wrong type or a value out
//             of range is an error that names the key by its path (backends[1].models[0].beta.p_eff).
//             WriteModelFile's text parses to an equal value.
// Example:
//   PX_ASSIGN_OR_RETURN(ModelFile file, ParseModelFile(text));
//   const BackendModelEntry* cpu = file.Find("cpu");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "router/latency_model.h"
#include "router/policy.h"
#include "router/psr_table.h"

namespace parallax::router {

inline constexpr int kModelFileSchema = 1;

// How well a model fits what it was fitted to; absent figures were not computed.
struct FitQuality {
  std::optional<double> rmse_ms = {};
  std::optional<double> mae_ms = {};
  std::optional<double> mape_pct = {};
  std::optional<double> r2 = {};
  bool operator==(const FitQuality&) const = default;
};

struct ModelEntry {
  LatencyModel model;
  FitQuality quality;
  bool operator==(const ModelEntry&) const = default;
};

struct BackendModelEntry {
  std::string name = {};
  BackendKind kind = BackendKind::kOpenAi;
  std::string model = {};     // what the backend runs, as far as known
  std::string identity = {};  // program, version, threads: what the coefficients belong to
  // Lengths that were measured; empty where the models were learned online.
  std::vector<int64_t> grid_p = {}, grid_g = {};
  int64_t context_tokens = 0;  // 0: not stated
  bool single_flight = false;
  bool preemptible_prefill = true;
  std::vector<ModelEntry> models = {};  // at most one of each form
  bool operator==(const BackendModelEntry&) const = default;
};

struct ModelFile {
  std::string device = {};
  std::string source = {};  // where the numbers come from, for people
  std::vector<BackendModelEntry> backends = {};
  std::optional<PsrTable> psr = {};
  std::optional<PromptOnlyRule> prompt_only = {};

  const BackendModelEntry* Find(std::string_view backend) const;
  bool operator==(const ModelFile&) const = default;
};

Result<ModelFile> ParseModelFile(std::string_view text);
std::string WriteModelFile(const ModelFile& file);  // indented, ends with a newline

// What Decide needs of `file` for a backend: its extended model (converted from its paper form, or
// the prior of `kind`, where it has none) and its paper form.
BackendModels ModelsFor(const ModelFile& file, std::string_view backend, BackendKind kind);

}  // namespace parallax::router
