// The options by which `serve` and `route` are configured: a file, and flags that override it.
//
// Role:       shared by the two subcommands.
// Threads:    used by one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "server/config.h"

namespace parallax::cli {

struct ServerConfigOptions {
  std::string file;
  std::vector<std::string> backends;
  std::optional<std::string> listen;
  std::optional<std::string> policy;
  std::optional<std::string> objective;
  std::optional<std::string> model;
  std::optional<std::string> decisions;
  std::optional<std::string> api_key;
  std::optional<int> max_loaded;
  std::optional<std::int64_t> prefix_index_bytes;
};

void AddServerConfigOptions(CLI::App* command, ServerConfigOptions* options);

// The file's configuration with the flags put over it; not yet validated as a whole.
Result<server::Config> LoadServerConfig(const ServerConfigOptions& options);

}  // namespace parallax::cli
