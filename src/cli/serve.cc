// parallax serve: one OpenAI endpoint over several backends.
#include <csignal>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/server_config.h"
#include "cli/usage.h"
#include "server/app.h"

namespace parallax::cli {
namespace {

struct ServeOptions {
  ServerConfigOptions config;
  std::string log = "text";
};

int Serve(const ServeOptions& options) {
  if (options.config.file.empty() && options.config.backends.empty()) {
    FailUsage("no backend is given: --config FILE with [[backend]], or --backend NAME=PLACE");
  }
  Result<server::Config> config = LoadServerConfig(options.config);
  if (!config.ok()) return Report(config.error());
  // A log's reader that goes away is no reason to stop serving.
  std::signal(SIGPIPE, SIG_IGN);
  server::AsioLoop loop;
  server::LogSink log;
  if (options.log != "none") {
    const bool json = options.log == "json";
    log = [&loop, json](const server::LogEntry& entry) {
      const double now = loop.WallMs();
      const std::string line =
          (json ? server::FormatJson(entry, now) : server::FormatText(entry, now)) + "\n";
      std::fwrite(line.data(), 1, line.size(), stderr);
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
