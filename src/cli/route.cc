// parallax route: decide offline where a request would go, and say why.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/server_config.h"
#include "cli/usage.h"
#include "router/router.h"
#include "router/symbols.h"
#include "router/token_estimator.h"
#include "server/app.h"
#include "server/model_names.h"
#include "server/text_file.h"

namespace parallax::cli {
namespace {

struct RouteOptions {
  ServerConfigOptions config;
  std::string request;
  std::optional<std::int64_t> prompt_tokens;
  std::optional<std::int64_t> max_tokens;
  std::vector<std::string> cached;  // NAME=TOKENS
  bool json = false;
};

// One request, and what each backend is said to hold of it.
struct Question {
  server::openai::GenerationRequest request;
  std::int64_t prompt_tokens = 0;
  bool estimated = false;
};

Result<Question> ReadRequest(const RouteOptions& options) {
  Question question;
  if (!options.request.empty()) {
    PX_ASSIGN_OR_RETURN(std::string text, server::ReadTextFile(options.request));
    auto parsed = server::openai::ParseRequest(std::nullopt, std::move(text));
    if (!parsed.ok()) return parsed.error().WithContext(options.request);
    question.request = std::move(*parsed);
    const router::TokenEstimator estimator;
    question.prompt_tokens =
        estimator.Estimate("", router::CountBytes(server::openai::PromptText(question.request)))
            .tokens;
    question.estimated = true;
  } else if (!options.prompt_tokens) {
    FailUsage("give a REQUEST.json or --prompt-tokens");
  }
  if (options.prompt_tokens) {
    question.prompt_tokens = *options.prompt_tokens;
    question.estimated = false;
  }
  if (options.max_tokens) question.request.max_tokens = *options.max_tokens;
  return question;
}

// Without [[backend]]s the model file's own are meant: a study of a device that is not here.
void TakeBackends(const router::ModelFile& models, server::Config& config) {
  for (const router::BackendModelEntry& entry : models.backends) {
    server::BackendConfig backend;
    backend.settings.name = entry.name;
    backend.settings.kind = entry.kind;
    backend.settings.context = entry.context_tokens;
    backend.settings.single_flight = entry.single_flight;
    backend.settings.preemptible_prefill = entry.preemptible_prefill;
    config.backends.push_back(std::move(backend));
  }
}

void Print(const router::Decision& decision) {
  fmt::print("{}\n\n", decision.reason);
  fmt::print("{:<12} {:>8} {:>8} {:>8} {:>11} {:>11} {:>11}  {}\n", "backend", "prompt", "cached",
             "budget", "prefill ms", "decode ms", "total ms", "");
  for (const router::Candidate& c : decision.candidates) {
    const bool chosen = decision.chosen && &c == &decision.candidates[*decision.chosen];
    if (c.exclusion != router::Exclusion::kNone) {
      fmt::print("{:<12} {:>8} {:>8} {:>8} {:>11} {:>11} {:>11}  excluded: {}\n", c.name,
                 c.workload.prompt_tokens, c.workload.cached_tokens, c.workload.max_new_tokens, "-",
                 "-", "-", router::Name(c.exclusion));
      continue;
    }
    std::string note = chosen ? "chosen" : "";
    if (c.prediction.outside != 0) {
      note += fmt::format("{}outside the measured range", note.empty() ? "" : ", ");
    }
    fmt::print("{:<12} {:>8} {:>8} {:>8} {:>11.0f} {:>11.0f} {:>11.0f}  {}\n", c.name,
               c.workload.prompt_tokens, c.workload.cached_tokens, c.workload.max_new_tokens,
               c.prediction.prefill_ms, c.prediction.decode_ms, c.total_ms, note);
  }
}

Result<void> Route(const RouteOptions& options) {
  PX_ASSIGN_OR_RETURN(const Question question, ReadRequest(options));
  PX_ASSIGN_OR_RETURN(server::Config config, LoadServerConfig(options.config));
  PX_ASSIGN_OR_RETURN(const router::ModelFile models, server::LoadModels(config));
  if (config.backends.empty()) TakeBackends(models, config);
  if (config.backends.empty()) {
    FailUsage("no backend is given: --config, --backend, or --model with backends of its own");
  }
  PX_ASSIGN_OR_RETURN(const router::Policy policy, server::MakePolicy(config));

  router::Snapshot snapshot;
  router::PrefixIndex index;
  router::Models known;
  known.psr = models.psr;
  known.prompt_only = models.prompt_only;
  std::vector<router::BackendPrompt> prompts;
  std::vector<std::string> names;
  // A prompt of made-up symbols stands for the real one: only its cached part matters here.
  const std::vector<router::Symbol> symbols(static_cast<std::size_t>(question.prompt_tokens), 1);
  for (const server::BackendConfig& backend : config.backends) {
    const server::BackendSettings& settings = backend.settings;
    router::BackendSnapshot view =
        server::Describe(settings, {}, static_cast<router::BackendId>(snapshot.backends.size()));
    index.AddBackend(view.id, {});
    names.push_back(settings.name);
    snapshot.backends.push_back(std::move(view));
    known.backends.push_back(router::ModelsFor(models, settings.name, settings.kind));
    prompts.push_back(
        {.tokens = question.prompt_tokens, .symbols = symbols, .estimated = question.estimated});
  }
  for (const std::string& entry : options.cached) {
    const std::size_t equals = entry.find('=');
    const auto name = std::find(names.begin(), names.end(), entry.substr(0, equals));
    char* end = nullptr;
    const long long tokens =
        equals == std::string::npos ? -1 : std::strtoll(entry.c_str() + equals + 1, &end, 10);
    if (name == names.end() || tokens < 0 || *end != '\0' || end == entry.c_str() + equals + 1) {
      FailUsage(
          fmt::format("--cached {}: NAME=TOKENS with the name of a backend is wanted", entry));
    }
    const auto held = static_cast<std::size_t>(std::min<long long>(tokens, question.prompt_tokens));
    index.Insert(static_cast<router::BackendId>(name - names.begin()),
                 router::SymbolSpan(symbols).first(held), held);
  }
  PX_RETURN_IF_ERROR(router::CheckPolicy(policy, known, names));

  router::RouteRequest request;
  request.id = "offline";
  request.model = server::WantedModel(question.request);
  request.prompts = prompts;
  request.max_new_tokens =
      question.request.max_tokens.value_or(config.dispatcher.default_max_tokens);
  request.max_new_given = question.request.max_tokens.has_value();
  request.no_cache = !question.request.cache_prompt;
  if (question.request.timeout_ms) request.deadline_ms = *question.request.timeout_ms;
  router::TieState ties;
  const router::Decision decision = router::Decide(request, snapshot, index, known, policy, ties);
  if (options.json) {
    fmt::print("{}\n", router::ToJson(decision));
  } else {
    Print(decision);
  }
  if (decision.status != router::DecisionStatus::kRouted) {
    return MakeError(ErrorCode::kInvalidArgument, "not routed: {}", decision.reason);
  }
  return {};
}

}  // namespace

void AddRouteCommand(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<RouteOptions>();
  CLI::App* command = app->add_subcommand(
      "route", "Decide where a request would go on idle backends, without sending it");
  command->add_option("request", options->request, "Request body (JSON)")->type_name("REQUEST");
  AddServerConfigOptions(command, &options->config);
  command
      ->add_option("--prompt-tokens", options->prompt_tokens,
                   "Length of the prompt [estimated from the request's text]")
      ->check(CLI::Range(0, 100'000'000));
  command->add_option("--max-tokens", options->max_tokens, "Tokens to generate [the request's]")
      ->check(CLI::Range(0, 100'000'000));
  command->add_option("--cached", options->cached, "Prompt tokens that a backend's cache holds")
      ->type_name("NAME=TOKENS");
  command->add_flag("--json", options->json, "Print the decision as JSON");
  command->callback([options, exit_code] {
    const Result<void> done = Route(*options);
    *exit_code = done.ok() ? 0 : Report(done.error());
  });
}

}  // namespace parallax::cli
