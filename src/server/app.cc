#include "server/app.h"

#include <algorithm>
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

}  // namespace

Result<router::ModelFile> LoadModels(Config& config) {
  router::ModelFile file;
  if (config.model_file.empty()) return file;
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
    dispatcher.AddBackend(backend.settings, MakeBackend(loop, backend, log),
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
