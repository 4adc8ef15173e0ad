#include "server/app.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "server/backends/http_backend.h"
#include "server/backends/llama_process.h"
#include "server/openai/error.h"
#include "server/text_file.h"

namespace parallax::server {
namespace {

std::unique_ptr<Backend> MakeBackend(AsioLoop& loop, const BackendConfig& config,
                                     const LogSink& log) {
  if (!config.command.empty()) {
    LlamaProcessOptions options;
    options.name = config.settings.name;
    options.command = config.command;
    options.api_key = config.api_key;
    return MakeLlamaProcess(loop, options, log);
  }
  HttpBackendOptions options;
  options.origin = *http::ParseOrigin(config.url);  // Validate has looked at it
  options.api_key = config.api_key;
  options.dialect = config.detect_kind ? HttpDialect::kDetect
                    : config.settings.kind == router::BackendKind::kLlamaServer
                        ? HttpDialect::kLlamaServer
                        : HttpDialect::kOpenAi;
  return MakeHttpBackend(loop, options);
}

// A program that is not there cannot be started later either.
Result<void> CheckProgram(const BackendConfig& backend) {
  if (backend.command.empty()) return {};
  const std::string& program = backend.command.front();
  if (program.find('/') != std::string::npos) {
    if (::access(program.c_str(), X_OK) == 0) return {};
    return MakeError(ErrorCode::kNotFound, "backend '{}': cannot run {}: {}", backend.settings.name,
                     program, std::strerror(errno));
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, end));
    if (::access(((folder.empty() ? "." : folder) + "/" + program).c_str(), X_OK) == 0) return {};
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return MakeError(ErrorCode::kNotFound,
                   "backend '{}': there is no program '{}' in PATH; install it, or name it in the "
                   "backend's command in the configuration",
                   backend.settings.name, program);
}

// The file's name, and an alias, from llama-server's own options.
std::vector<std::string> ModelsOfCommand(const std::vector<std::string>& command) {
  std::vector<std::string> models;
  for (std::size_t i = 0; i + 1 < command.size(); ++i) {
    const std::string& option = command[i];
    if (option == "-m" || option == "--model" || option == "-a" || option == "--alias") {
      models.push_back(command[i + 1]);
    }
  }
  return models;
}

}  // namespace

Result<router::ModelFile> LoadModels(Config& config) {
  router::ModelFile file;
  if (config.model_file.empty()) return file;
  if (config.model_file.ends_with(".gguf")) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is a language model; latency models are JSON. To serve it: --backend "
                     "NAME=llama-server:{}",
                     config.model_file, config.model_file);
  }
  PX_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(config.model_file));
  auto parsed = router::ParseModelFile(text);
  if (!parsed.ok()) return parsed.error().WithContext(config.model_file);
  file = std::move(*parsed);
  for (BackendConfig& backend : config.backends) {
    const router::BackendModelEntry* entry = file.Find(backend.settings.name);
    if (entry == nullptr) continue;
    BackendSettings& settings = backend.settings;
    if (settings.context == 0) settings.context = entry->context_tokens;
    settings.single_flight |= entry->single_flight;
    settings.preemptible_prefill &= entry->preemptible_prefill;
  }
  return file;
}

Result<router::Policy> MakePolicy(const Config& config) {
  PX_ASSIGN_OR_RETURN(router::Policy policy, router::ParsePolicy(config.policy));
  const router::Policy& options = config.dispatcher.policy;
  policy.objective = options.objective;
  policy.min_match_bytes = options.min_match_bytes;
  policy.interpolation = options.interpolation;
  policy.explore_every = options.explore_every;
  return policy;
}

Result<std::unique_ptr<App>> App::Start(AsioLoop& loop, Config config, std::string version,
                                        LogSink log) {
  PX_RETURN_IF_ERROR(Validate(config));
  PX_ASSIGN_OR_RETURN(const router::ModelFile models, LoadModels(config));
  PX_ASSIGN_OR_RETURN(config.dispatcher.policy, MakePolicy(config));

  std::unique_ptr<App> app(new App(loop, std::move(config)));
  const Config& settled = app->config_;
  app->dispatcher_ = std::make_unique<Dispatcher>(loop, settled.dispatcher, log);
  Dispatcher& dispatcher = *app->dispatcher_;
  if (!settled.decisions_file.empty()) {
    PX_RETURN_IF_ERROR(dispatcher.OpenRecords(settled.decisions_file));
  }
  for (const BackendConfig& backend : settled.backends) {
    PX_RETURN_IF_ERROR(CheckProgram(backend));
    BackendSettings settings = backend.settings;
    settings.started = !backend.command.empty();
    settings.command_models = ModelsOfCommand(backend.command);
    dispatcher.AddBackend(settings, MakeBackend(loop, backend, log),
                          router::ModelsFor(models, backend.settings.name, backend.settings.kind));
  }
  dispatcher.SetTables(models.psr, models.prompt_only);

  app->service_ = std::make_unique<Service>(
      loop, dispatcher,
      Service::Options{settled.api_key, std::move(version), settled.cors_origins});
  Service* service = app->service_.get();
  PX_ASSIGN_OR_RETURN(
      app->server_,
      http::Server::Listen(
          loop, settled.listen, settled.limits,
          [service](http::Request request, std::shared_ptr<http::Responder> responder) {
            service->Handle(std::move(request), std::move(responder));
          },
          [](int status, std::string_view why) { return openai::ErrorResponse(status, why); }));
  service->SetServer(app->server_.get());
  PX_RETURN_IF_ERROR(dispatcher.Start());
  return app;
}

App::~App() {
  loop_.CancelTimer(deadline_);
  // Connections first: their answers are the dispatcher's.
  server_.reset();
}

void App::Stop(std::function<void()> done) {
  if (std::exchange(stopping_, true)) return Cut();
  stopped_ = std::move(done);
  server_->Drain([this] {
    loop_.CancelTimer(std::exchange(deadline_, 0));
    dispatcher_->Shutdown([this] {
      if (stopped_) std::exchange(stopped_, nullptr)();
    });
  });
  if (cut_) return;
  deadline_ = loop_.After(config_.drain_ms, [this] {
    deadline_ = 0;
    Cut();
  });
}

void App::Cut() {
  if (std::exchange(cut_, true)) return;
  loop_.CancelTimer(std::exchange(deadline_, 0));
  server_->Cut();  // the drain ends when the last connection is gone
}

}  // namespace parallax::server
