// The configuration of `parallax serve`: a TOML file, and flags that override it.
//
// Role:       read once at the start; every key has a default but a backend's name and place.
// Threads:    values.
// Invariants: an unknown key, a wrong type or a value out of range is an error that names the key
//             and its line; nothing is guessed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/dispatcher.h"
#include "server/http/server.h"

namespace parallax::server {

struct BackendConfig {
  BackendSettings settings;
  std::string url;                   // or
  std::vector<std::string> command;  // to spawn and supervise
  std::string api_key;
  bool detect_kind = false;  // ask the URL whether a llama-server stands behind it
};

struct Config {
  std::string listen = "127.0.0.1:8080";
  std::string api_key;                    // clients must send it where not empty
  std::vector<std::string> cors_origins;  // whose pages may read answers; "*": all
  http::Limits limits;
  double drain_ms = 30'000;  // after SIGTERM, before answers are cut
  DispatcherOptions dispatcher;
  std::string policy = "extended";
  std::string model_file;
  std::string decisions_file;
  std::vector<BackendConfig> backends;
};

// `name` stands in messages for the text: a file's path.
Result<Config> ParseConfig(std::string_view text, std::string_view name);

// "cpu=http://127.0.0.1:8081", "cpu=llama-server:http://...", "npu=openai:http://...",
// "cpu=llama-server:MODEL.gguf" (spawned with default options). A bare URL is asked what stands
// behind it.
Result<BackendConfig> ParseBackendFlag(std::string_view text);

// What no single key can be blamed for: no backends, two of one name, both URL and command.
Result<void> Validate(const Config& config);

}  // namespace parallax::server
