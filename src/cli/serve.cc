// parallax serve: one OpenAI endpoint over several backends.
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/server_config.h"
#include "server/app.h"

namespace parallax::cli {
namespace {

struct ServeOptions {
  ServerConfigOptions config;
  std::string log = "text";
};

int Serve(const ServeOptions& options) {
  Result<server::Config> config = LoadServerConfig(options.config);
  if (!config.ok()) return Report(config.error());
  if (options.config.backends.empty() && config->backends.empty()) {
    return Report(server::Validate(*config).error());
  }
  server::AsioLoop loop;
  server::LogSink log;
  if (options.log != "none") {
    const bool json = options.log == "json";
    log = [&loop, json](const server::LogEntry& entry) {
      const double now = loop.WallMs();
      const std::string line =
          json ? server::FormatJson(entry, now) : server::FormatText(entry, now);
      fmt::print(stderr, "{}\n", line);
    };
  }
  auto app = server::App::Start(loop, std::move(*config), PARALLAX_VERSION, log);
  if (!app.ok()) return Report(app.error());
  loop.OnSignal([&](int) {
    if (log)
      log({server::Severity::kInfo, "stopping", "stopping: answers under way end first", {}});
    (*app)->Stop([&loop] { loop.Stop(); });
  });
  // On stdout and alone there, so that a script can wait for it.
  fmt::print("parallax listens on http://{}\n", (*app)->address());
  std::fflush(stdout);
  loop.Run();
  return 0;
}

}  // namespace

void AddServeCommand(CLI::App* app, int* exit_code) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command =
      app->add_subcommand("serve", "Serve an OpenAI endpoint over several backends");
  AddServerConfigOptions(command, &options->config);
  command->add_option("--log", options->log, "What to write to stderr")
      ->check(CLI::IsMember({"text", "json", "none"}))
      ->capture_default_str();
  command->callback([options, exit_code] { *exit_code = Serve(*options); });
}

}  // namespace parallax::cli
