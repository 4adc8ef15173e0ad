#include "server/model_names.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "server/dispatcher.h"

namespace parallax::server {
namespace {

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Each name once, in the order they come.
class Names {
 public:
  void Add(std::string_view name) {
    if (!name.empty() && seen_.emplace(name).second) names_.emplace_back(name);
  }
  void AddAll(const std::vector<std::string>& names) {
    for (const std::string& name : names) Add(name);
  }
  std::vector<std::string> Take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_set<std::string> seen_;
};

// "/models/a.gguf" and "a.gguf" to "a"; another server's "org/name" stays what it is.
std::string_view WithoutFolders(std::string_view name) {
  return name.substr(name.find_last_of('/') + 1);
}
std::string_view Stem(std::string_view name) {
  constexpr std::string_view kEnding = ".gguf";
  if (!name.ends_with(kEnding)) return name;
  name = WithoutFolders(name);
  return name.substr(0, name.size() - kEnding.size());
}

// What it calls its models itself, or its command does.
std::vector<std::string> Told(const BackendSettings& settings, const BackendFacts& facts) {
  Names names;
  names.AddAll(facts.models);
  names.AddAll(settings.command_models);
  return names.Take();
}

}  // namespace

std::vector<std::string> ModelNames(const BackendSettings& settings, const BackendFacts& facts) {
  if (Contains(settings.models, "*")) return {};
  const std::vector<std::string> told = Told(settings, facts);
  if (settings.models.empty() && told.empty() && !settings.started) return {};
  Names names;
  names.AddAll(settings.models);
  for (const std::string& name : told) {
    names.Add(name);
    if (name.ends_with(".gguf")) names.Add(WithoutFolders(name));
    names.Add(Stem(name));
  }
  names.Add(settings.name);
  return names.Take();
}

std::vector<std::string> ListedModels(const BackendSettings& settings, const BackendFacts& facts) {
  Names names;
  for (const std::string& name : settings.models) {
    if (name != "*") names.Add(name);
  }
  // A file of weights is a name for want of a better one: an alias says the same model.
  const std::vector<std::string> told = Told(settings, facts);
  const auto is_file = [](std::string_view name) { return name.ends_with(".gguf"); };
  const bool only_files = std::all_of(told.begin(), told.end(), is_file);
  for (const std::string& name : told) {
    if (only_files || !is_file(name)) names.Add(Stem(name));
  }
  std::vector<std::string> listed = names.Take();
  if (listed.empty()) listed.push_back(settings.name);
  return listed;
}

std::optional<std::string> UpstreamModel(const BackendSettings& settings, const BackendFacts& facts,
                                         const std::string& model) {
  // A llama-server has one model and answers under whatever name it is asked.
  if (!facts.identity.empty() || settings.started) return std::nullopt;
  if (Contains(facts.models, model) || Contains(settings.models, model)) return std::nullopt;
  if (!facts.models.empty()) return facts.models.front();
  for (const std::string& name : settings.models) {
    if (name != "*") return name;
  }
  return std::nullopt;
}

std::string WantedModel(const openai::GenerationRequest& request) {
  return request.model == kAnyModel ? std::string() : request.model;
}

}  // namespace parallax::server
