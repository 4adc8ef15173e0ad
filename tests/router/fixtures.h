// Backends, requests and models of tests, in a few words.
//
// Role:       shared by the tests of Decide, the policies and the cases.
// Ownership:  a Fleet owns everything that its requests borrow.
// Threads:    one caller.
#pragma once

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "router/model_file.h"
#include "router/router.h"

namespace parallax::router::fixtures {

// A fitted model in the extended form: `prefill` and `decode` milliseconds a token.
inline LatencyModel Rates(double prefill, double decode, double intercept = 0) {
  LatencyModel m;
  m.beta = {intercept, prefill, 0, decode, 0, 0};
  m.source = ModelSource::kFitted;
  m.p = m.g = m.p_cache = {0, 1 << 20};
  m.observations = 100;
  return m;
}

inline std::vector<Symbol> Tokens(size_t count, Symbol first = 0) {
  std::vector<Symbol> s(count);
  std::iota(s.begin(), s.end(), first);
  return s;
}

struct Fleet {
  Snapshot snapshot;
  Models models;
  PrefixIndex index;
  TieState ties;
  Policy policy;

  BackendSnapshot& Add(const std::string& name, const LatencyModel& model,
                       const CacheShape& cache = {.max_sequences = 1}) {
    BackendSnapshot b;
    b.id = static_cast<BackendId>(snapshot.backends.size());
    b.name = name;
    b.models = {"m"};
    snapshot.backends.push_back(b);
    models.backends.push_back({.extended = model});
    index.AddBackend(b.id, cache);
    return snapshot.backends.back();
  }
  BackendSnapshot& operator[](const std::string& name) {
    for (BackendSnapshot& b : snapshot.backends) {
      if (b.name == name) return b;
    }
    return snapshot.backends.at(snapshot.backends.size());
  }

  Decision Route(RouteRequest request, SymbolSpan symbols) {
    return Route(std::move(request),
                 BackendPrompt{.tokens = static_cast<int64_t>(symbols.size()), .symbols = symbols});
  }
  Decision Route(RouteRequest request, const BackendPrompt& prompt) {
    const std::vector<BackendPrompt> prompts(snapshot.backends.size(), prompt);
    request.prompts = prompts;
    return Decide(request, snapshot, index, models, policy, ties);
  }
  // p tokens that nobody has cached.
  Decision Route(int64_t p, int64_t g) {
    return Route({.id = "r", .model = "m", .max_new_tokens = g}, BackendPrompt{.tokens = p});
  }
};

// Name of the chosen backend, or the status.
inline std::string Chosen(const Decision& d) {
  const Candidate* c = d.chosen_candidate();
  if (d.status == DecisionStatus::kRouted && c != nullptr) return c->name;
  return fmt::format("({})", Name(d.status));
}

inline std::string ReadProfile() {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  std::ifstream file(root / "profiles" / "rk3588-deepseek-1.5b.json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The two backends of seed B with its tables.
inline Fleet PaperFleet(const std::string& policy) {
  const ModelFile file = *ParseModelFile(ReadProfile());
  Fleet fleet;
  fleet.policy = *ParsePolicy(policy);
  for (const BackendModelEntry& entry : file.backends) {
    BackendSnapshot& b = fleet.Add(entry.name, LatencyModel{});
    b.kind = entry.kind;
    b.context_tokens = entry.context_tokens;
    b.single_flight = entry.single_flight;
    b.preemptible_prefill = entry.preemptible_prefill;
    fleet.models.backends.back() = ModelsFor(file, entry.name, entry.kind);
  }
  fleet.models.psr = file.psr;
  fleet.models.prompt_only = file.prompt_only;
  return fleet;
}

}  // namespace parallax::router::fixtures
