// A backend behind HTTP: a llama-server, or any server that speaks OpenAI's protocol.
//
// Role:       the Backend of kinds "llama-server" and "openai"; llama_process.h starts the former.
// Threads:    the loop's thread only.
// Facts:      llama-server tells its context, slots and model in /props, applies its chat template
//             in /apply-template and tokenizes in /tokenize; its streams end with `timings`. An
//             OpenAI server tells its models in /v1/models and nothing else.
#pragma once

#include <memory>
#include <string>

#include "server/backend.h"
#include "server/http/client.h"

namespace parallax::server {

// kDetect: a llama-server where /props answers as one does, else an OpenAI server.
enum class HttpDialect : unsigned char { kLlamaServer, kOpenAi, kDetect };

struct HttpBackendOptions {
  HttpDialect dialect = HttpDialect::kLlamaServer;
  http::Origin origin;
  std::string api_key;         // sent as a bearer token where not empty
  double probe_ms = 2'000;     // longest wait for an answer to a probe
  double tokenize_ms = 1'000;  // and to a question about tokens
};

std::unique_ptr<Backend> MakeHttpBackend(AsioLoop& loop, const HttpBackendOptions& options);

}  // namespace parallax::server
