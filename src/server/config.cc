#include "server/config.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "server/http/client.h"

namespace parallax::server {
namespace {

// Reads the keys of one table and remembers which, so that the others can be refused.
class Table {
 public:
  Table(const toml::table& table, std::string place, std::string_view file)
      : table_(table), place_(std::move(place)), file_(file) {}

  void Read(const char* key, std::string& value) {
    if (const toml::node* node = Find(key)) {
      if (const auto text = node->value_exact<std::string>()) {
        value = *text;
      } else {
        Fail(*node, key, "a string");
      }
    }
  }
  void Read(const char* key, bool& value) {
    if (const toml::node* node = Find(key)) {
      if (const auto flag = node->value_exact<bool>()) {
        value = *flag;
      } else {
        Fail(*node, key, "true or false");
      }
    }
  }
  template <class Integer>
  void ReadInteger(const char* key, Integer& value, std::int64_t least, std::int64_t most) {
    if (const toml::node* node = Find(key)) {
      const auto number = node->value_exact<std::int64_t>();
      if (number && *number >= least && *number <= most) {
        value = static_cast<Integer>(*number);
      } else {
        Fail(*node, key, fmt::format("an integer from {} to {}", least, most));
      }
    }
  }
  void ReadNumber(const char* key, double& value, double least, double most, double scale = 1) {
    if (const toml::node* node = Find(key)) {
      const auto number = node->value<double>();
      if (number && *number >= least && *number <= most) {
        value = *number * scale;
      } else {
        Fail(*node, key, fmt::format("a number from {} to {}", least, most));
      }
    }
  }
  void ReadStrings(const char* key, std::vector<std::string>& values) {
    const toml::node* node = Find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) return Fail(*node, key, "a list of strings");
    values.clear();
    for (const toml::node& item : *array) {
      const auto text = item.value_exact<std::string>();
      if (!text) return Fail(item, key, "a list of strings");
      values.push_back(*text);
    }
  }
  void Fail(const toml::node& node, std::string_view key, std::string_view wanted) {
    if (!error_.empty()) return;
    error_ =
        fmt::format("{}:{}: {}{} must be {}", file_, node.source().begin.line, place_, key, wanted);
  }
  bool Has(const char* key) const { return table_.get(key) != nullptr; }

  Result<void> Done() {
    for (const auto& [key, node] : table_) {
      if (!error_.empty()) break;
      if (!known_.contains(std::string(key.str()))) {
        std::string names;
        for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
        error_ = fmt::format("{}:{}: unknown key {}{}; there are {}", file_,
                             node.source().begin.line, place_, key.str(), names);
      }
    }
    if (!error_.empty()) return MakeError(ErrorCode::kInvalidArgument, "{}", error_);
    return {};
  }

 private:
  const toml::node* Find(const char* key) {
    known_.insert(key);
    return table_.get(key);
  }
  const toml::table& table_;
  std::string place_;
  std::string_view file_;
  std::set<std::string> known_;
  std::string error_;
};

Result<void> ReadServer(Table table, Config& config) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  table.Read("listen", config.listen);
  table.Read("api_key", config.api_key);
  table.ReadStrings("cors_origins", config.cors_origins);
  table.ReadInteger("max_loaded", config.dispatcher.max_loaded, 0, 1024);
  table.ReadNumber("max_wait_s", config.dispatcher.max_wait_ms, 0, 86'400, 1000);
  table.ReadNumber("load_limit_s", config.dispatcher.load_limit_ms, 1, 86'400, 1000);
  table.ReadNumber("drain_s", config.drain_ms, 0, 86'400, 1000);
  table.ReadInteger("body_bytes", config.limits.body_bytes, 1 << 10, 4 * kGiB);
  // By default room for some of the largest requests at once.
  const std::int64_t least = static_cast<std::int64_t>(config.limits.body_bytes);
  config.limits.all_body_bytes =
      std::max(config.limits.all_body_bytes, 4 * config.limits.body_bytes);
  table.ReadInteger("all_body_bytes", config.limits.all_body_bytes, least, std::int64_t{1} << 40);
  table.ReadInteger("header_bytes", config.limits.header_bytes, 1 << 10, 1 << 20);
  table.ReadInteger("connections", config.limits.connections, 1, 1 << 20);
  table.ReadNumber("header_s", config.limits.header_ms, 0.1, 3600, 1000);
  table.ReadNumber("body_s", config.limits.body_ms, 0.1, 3600, 1000);
  table.ReadNumber("idle_s", config.limits.idle_ms, 0.1, 86'400, 1000);
  table.ReadNumber("write_s", config.limits.write_ms, 0.1, 86'400, 1000);
  return table.Done();
}

Result<void> ReadRouting(Table table, Config& config, std::string_view file) {
  DispatcherOptions& options = config.dispatcher;
  std::string objective;
  table.Read("policy", config.policy);
  table.Read("objective", objective);
  table.Read("model", config.model_file);
  table.Read("decisions", config.decisions_file);
  table.ReadInteger("min_match_bytes", options.policy.min_match_bytes, 0, 1 << 30);
  table.ReadInteger("explore_every", options.policy.explore_every, 0, 1 << 20);
  table.ReadInteger("prefix_index_bytes", options.index.byte_cap, 1 << 16, std::int64_t{1} << 40);
  table.ReadInteger("default_max_tokens", options.default_max_tokens, 1, 1 << 30);
  table.ReadInteger("max_tries", options.max_tries, 1, 100);
  table.ReadNumber("timeout_factor", options.timeout.factor, 1, 1000);
  table.ReadNumber("timeout_floor_s", options.timeout.floor_ms, 0.01, 86'400, 1000);
  table.ReadNumber("silence_s", options.silence_ms, 0.1, 86'400, 1000);
  table.ReadNumber("probe_s", options.probe_ready_ms, 0.05, 3600, 1000);
  PX_RETURN_IF_ERROR(table.Done());
  if (!objective.empty()) {
    const auto parsed = router::ParseObjective(objective);
    if (!parsed) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}: routing.objective must be \"total\" or \"ttft\", found \"{}\"", file,
                       objective);
    }
    options.policy.objective = *parsed;
  }
  return {};
}

Result<BackendConfig> ReadBackend(Table table, std::string_view file) {
  BackendConfig backend;
  BackendSettings& settings = backend.settings;
  std::string kind;
  table.Read("name", settings.name);
  table.Read("kind", kind);
  table.Read("url", backend.url);
  table.ReadStrings("command", backend.command);
  table.Read("api_key", backend.api_key);
  table.ReadStrings("models", settings.models);
  table.ReadInteger("context", settings.context, 1, std::int64_t{1} << 40);
  table.ReadInteger("slots", settings.slots, 1, 1024);
  table.Read("single_flight", settings.single_flight);
  table.Read("preemptible_prefill", settings.preemptible_prefill);
  table.ReadNumber("sharing", settings.sharing, 0, 1);
  table.ReadInteger("queue", settings.queue_limit, 0, 1 << 20);
  table.ReadInteger("cache_sequences", settings.cache_sequences, 0, 1024);
  table.ReadInteger("cache_tokens", settings.cache_tokens, 0, std::int64_t{1} << 40);
  table.ReadNumber("load_s", settings.load_ms, 0.01, 3600, 1000);
  PX_RETURN_IF_ERROR(table.Done());
  if (kind.empty()) {
    // A command starts a llama-server; behind a URL may stand anything: it is asked.
    backend.detect_kind = !backend.url.empty();
    kind = backend.command.empty() ? "openai" : "llama-server";
  }
  const auto parsed = router::ParseBackendKind(kind);
  if (!parsed || *parsed == router::BackendKind::kRkllm) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: backend '{}': kind must be \"llama-server\" or \"openai\", found \"{}\"",
                     file, settings.name, kind);
  }
  settings.kind = *parsed;
  return backend;
}

// The TOML parser goes by recursion: what nests must be short enough for its stack.
Result<void> CheckLines(std::string_view text, std::string_view file) {
  constexpr std::size_t kLineBytes = 8192;
  constexpr std::ptrdiff_t kBrackets = 4096;
  std::size_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end - at > kLineBytes) {
      return MakeError(ErrorCode::kInvalidArgument, "{}:{}: the line is over {} bytes", file,
                       number, kLineBytes);
    }
    at = end + 1;
  }
  if (std::count(text.begin(), text.end(), '[') > kBrackets) {
    return MakeError(ErrorCode::kInvalidArgument, "{}: over {} brackets", file, kBrackets);
  }
  return {};
}

}  // namespace

Result<Config> ParseConfig(std::string_view text, std::string_view name) {
  const std::string file(name);
  PX_RETURN_IF_ERROR(CheckLines(text, file));
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return MakeError(ErrorCode::kInvalidArgument, "{}:{}: {}", file, error.source().begin.line,
                     error.description());
  }
  Config config;
  for (const auto& [key, node] : root) {
    const std::string_view section = key.str();
    if (section == "server" || section == "routing") {
      const toml::table* table = node.as_table();
      if (table == nullptr) {
        return MakeError(ErrorCode::kInvalidArgument, "{}:{}: {} must be a table", file,
                         node.source().begin.line, section);
      }
      Table keys(*table, fmt::format("{}.", section), file);
      PX_RETURN_IF_ERROR(section == "server" ? ReadServer(std::move(keys), config)
                                             : ReadRouting(std::move(keys), config, file));
    } else if (section == "backend") {
      const toml::array* array = node.as_array();
      if (array == nullptr) {
        return MakeError(ErrorCode::kInvalidArgument, "{}:{}: write [[backend]], one for each",
                         file, node.source().begin.line);
      }
      for (const toml::node& item : *array) {
        const toml::table* table = item.as_table();
        if (table == nullptr) {
          return MakeError(ErrorCode::kInvalidArgument, "{}:{}: a backend must be a table", file,
                           item.source().begin.line);
        }
        Table keys(*table, fmt::format("backend[{}].", config.backends.size()), file);
        PX_ASSIGN_OR_RETURN(BackendConfig backend, ReadBackend(std::move(keys), file));
        config.backends.push_back(std::move(backend));
      }
    } else {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{}:{}: unknown section {}; there are server, routing, backend", file,
                       node.source().begin.line, section);
    }
  }
  return config;
}

Result<BackendConfig> ParseBackendFlag(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "'{}' is not NAME=URL or NAME=llama-server:MODEL.gguf", text);
  }
  if (text.ends_with(".gguf") && text.find(':') == std::string_view::npos) {
    return MakeError(ErrorCode::kInvalidArgument, "for a model file write {}=llama-server:{}",
                     text.substr(0, equals), text.substr(equals + 1));
  }
  BackendConfig backend;
  backend.settings.name = text.substr(0, equals);
  std::string_view place = text.substr(equals + 1);
  if (place.starts_with("openai:")) {
    place.remove_prefix(7);
  } else if (place.starts_with("llama-server:")) {
    backend.settings.kind = router::BackendKind::kLlamaServer;
    place.remove_prefix(13);
    if (!place.starts_with("http://") && !place.starts_with("https://")) {
      if (place.empty()) {
        return MakeError(ErrorCode::kInvalidArgument, "'{}' names no model file", text);
      }
      backend.command = {"llama-server", "-m", std::string(place)};
      return backend;
    }
  } else {
    backend.detect_kind = true;
  }
  backend.url = place;
  return backend;
}

Result<void> Validate(const Config& config) {
  if (config.backends.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "no backend is given: write [[backend]] or --backend NAME=URL");
  }
  std::set<std::string> names;
  for (const BackendConfig& backend : config.backends) {
    const std::string& name = backend.settings.name;
    if (name.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "a backend has no name");
    }
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) {
          return std::isalnum(c) || c == '-' || c == '_' || c == '.';
        })) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "backend '{}': a name is made of letters, digits, '-', '_' and '.'", name);
    }
    if (!names.insert(name).second) {
      return MakeError(ErrorCode::kInvalidArgument, "two backends are named '{}'", name);
    }
    if (backend.url.empty() == backend.command.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, "backend '{}': give it a url or a command, {}",
                       name, backend.url.empty() ? "not neither" : "not both");
    }
    if (!backend.url.empty()) {
      const auto origin = http::ParseOrigin(backend.url);
      if (!origin.ok()) return origin.error().WithContext(fmt::format("backend '{}'", name));
    } else if (backend.settings.kind != router::BackendKind::kLlamaServer) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "backend '{}': only kind \"llama-server\" can be started by a command",
                       name);
    }
  }
  return {};
}

}  // namespace parallax::server
