// Names of models: which a backend answers to, which people are shown, which it is itself asked for.
//
// Role:       a decision and a request's text are made with them, lists of models shown.
// Threads:    pure.
// Cost:       O(names); a backend may tell many.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/backend.h"

namespace parallax::server {

struct BackendSettings;

// The model name that leaves the choice to the router, as an empty one does.
inline constexpr std::string_view kAnyModel = "auto";

// Its names: the configured ones, those it tells or its command says, for a llama-server's file
// also its name without folders and without ".gguf", and the backend's own. None, which means any,
// where one is "*", and for a URL that tells no name where none is configured.
std::vector<std::string> ModelNames(const BackendSettings& settings, const BackendFacts& facts);
// Those of them that people are shown: each model once.
std::vector<std::string> ListedModels(const BackendSettings& settings, const BackendFacts& facts);
// What the backend itself is asked for: nothing to change, or its own name where the request has
// one that only the router knows.
std::optional<std::string> UpstreamModel(const BackendSettings& settings, const BackendFacts& facts,
                                         const std::string& model);

// The model that a request asks the router for: "" for any.
std::string WantedModel(const openai::GenerationRequest& request);

}  // namespace parallax::server
