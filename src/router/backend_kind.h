// What kind of program stands behind a backend, and the names of the kinds in files.
//
// Role:       shared vocabulary of the latency prior, the snapshot, the model file and the server.
// Ownership:  values.
// Threads:    pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace parallax::router {

enum class BackendKind : uint8_t {
  kLlamaServer,  // llama-server, spawned or by URL: slots on a CPU (or a GPU), reports its timings
  kOpenAi,       // any server that speaks the OpenAI protocol: unknown hardware
  kRkllm,        // Rockchip NPU through RKLLM: one request at a time, prefill cannot be interrupted
};

// "llama-server", "openai", "rkllm": the values of `kind` in configuration and model files.
std::string_view Name(BackendKind kind);
std::optional<BackendKind> ParseBackendKind(std::string_view name);

}  // namespace parallax::router
