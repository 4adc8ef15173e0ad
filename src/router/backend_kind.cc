#include "router/backend_kind.h"

namespace parallax::router {

std::string_view Name(BackendKind kind) {
  switch (kind) {
    case BackendKind::kLlamaServer:
      return "llama-server";
    case BackendKind::kOpenAi:
      return "openai";
    case BackendKind::kRkllm:
      return "rkllm";
  }
  return "?";
}

std::optional<BackendKind> ParseBackendKind(std::string_view name) {
  for (BackendKind kind : {BackendKind::kLlamaServer, BackendKind::kOpenAi, BackendKind::kRkllm}) {
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace parallax::router
