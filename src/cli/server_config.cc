#include "cli/server_config.h"

#include <set>

#include <fmt/format.h>

#include "cli/usage.h"
#include "server/http/address.h"
#include "server/http/client.h"
#include "server/text_file.h"

namespace parallax::cli {
namespace {

// What is wrong with an option's text is an error of usage: for the option parser to tell.
template <class T>
std::string Complaint(const Result<T>& parsed) {
  return parsed.ok() ? "" : parsed.error().message();
}

}  // namespace

void AddServerConfigOptions(CLI::App* command, ServerConfigOptions* options) {
  command->add_option("--config", options->file, "Configuration (TOML); flags override it")
      ->type_name("FILE");
  command
      ->add_option("--backend", options->backends,
                   "A backend: NAME=http://HOST:PORT, NAME=openai:http://..., "
                   "NAME=llama-server:http://... or NAME=llama-server:MODEL.gguf (started here); "
                   "may be given several times")
      ->type_name("NAME=PLACE")
      ->check([](const std::string& text) {
        const auto backend = server::ParseBackendFlag(text);
        return backend.ok() && !backend->url.empty()
                   ? Complaint(server::http::ParseOrigin(backend->url))
                   : Complaint(backend);
      });
  command->add_option("--listen", options->listen, "Address to listen on [127.0.0.1:8080]")
      ->type_name("HOST:PORT")
      ->check([](const std::string& text) { return Complaint(server::http::ParseAddress(text)); });
  command
      ->add_option("--policy", options->policy,
                   "extended, pcar, psr, psr-eff, prompt-only or only:NAME [extended]")
      ->type_name("NAME")
      ->check([](const std::string& text) { return Complaint(router::ParsePolicy(text)); });
  command->add_option("--objective", options->objective, "What to make short [total]")
      ->check(CLI::IsMember({"total", "ttft"}));
  command
      ->add_option("--model", options->model,
                   "Latency models (JSON, as in profiles/); absent: learned while serving")
      ->type_name("FILE");
  command->add_option("--decisions", options->decisions, "Append every decision to this file")
      ->type_name("FILE");
  command->add_option("--api-key", options->api_key, "Key that clients must send")
      ->type_name("KEY")
      ->envname("PARALLAX_API_KEY")
      ->check([](const std::string& key) { return key.empty() ? "it is empty" : ""; });
  command
      ->add_option("--max-loaded", options->max_loaded,
                   "Started backends in memory at once; 0: all [0]")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--prefix-index-bytes", options->prefix_index_bytes,
                   "Memory of the prefix index, e.g. 4MiB [64MiB]")
      ->transform(CLI::AsSizeValue(false));
}

Result<server::Config> LoadServerConfig(const ServerConfigOptions& options) {
  server::Config config;
  if (!options.file.empty()) {
    PX_ASSIGN_OR_RETURN(const std::string text, server::ReadTextFile(options.file));
    PX_ASSIGN_OR_RETURN(config, server::ParseConfig(text, options.file));
  }
  std::set<std::string> given;
  for (const std::string& flag : options.backends) {
    PX_ASSIGN_OR_RETURN(server::BackendConfig backend, server::ParseBackendFlag(flag));
    if (!given.insert(backend.settings.name).second) {
      return MakeError(ErrorCode::kInvalidArgument, "--backend: two backends are named '{}'",
                       backend.settings.name);
    }
    bool replaced = false;
    for (server::BackendConfig& existing : config.backends) {
      if (existing.settings.name != backend.settings.name) continue;
      // The place is the flag's; what else the file says of it stays.
      existing.url = backend.url;
      existing.command = backend.command;
      existing.settings.kind = backend.settings.kind;
      existing.detect_kind = backend.detect_kind;
      replaced = true;
    }
    if (!replaced) config.backends.push_back(std::move(backend));
  }
  if (options.listen) config.listen = *options.listen;
  if (options.policy) config.policy = *options.policy;
  if (options.objective) {
    config.dispatcher.policy.objective = *router::ParseObjective(*options.objective);
  }
  if (options.model) config.model_file = *options.model;
  if (options.decisions) config.decisions_file = *options.decisions;
  if (options.api_key) config.api_key = *options.api_key;
  if (options.max_loaded) config.dispatcher.max_loaded = *options.max_loaded;
  if (options.prefix_index_bytes) {
    config.dispatcher.index.byte_cap = *options.prefix_index_bytes;
  }
  return config;
}

}  // namespace parallax::cli
