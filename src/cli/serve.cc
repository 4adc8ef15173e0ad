// parallax serve: one OpenAI endpoint over several backends.
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/server_config.h"
#include "cli/usage.h"
#include "server/app.h"
#include "server/http/address.h"

namespace parallax::cli {
namespace {

struct ServeOptions {
  ServerConfigOptions config;
  std::string log = "text";
};

bool IsLoopback(const std::string& listen) {
  const auto address = server::http::ParseAddress(listen);
  if (!address.ok()) return true;  // an error that others tell
  const std::string& host = address->host;
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Connections and backends take one each; the usual limit of 1024 is a default for select(), which
// is not used here.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// Never waits: a log that nobody reads loses lines, and stops nobody.
void WriteLog(const std::string& line) {
  for (std::size_t at = 0; at < line.size();) {
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&ready, 1, 0) <= 0 || (ready.revents & POLLOUT) == 0) return;
    // So much a pipe that is ready takes at once.
    const ssize_t n =
        ::write(STDERR_FILENO, line.data() + at, std::min<std::size_t>(line.size() - at, PIPE_BUF));
    if (n <= 0) return;
    at += static_cast<std::size_t>(n);
  }
}

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
      WriteLog(line);
    };
  }
  const bool open_to_all = config->api_key.empty() && !IsLoopback(config->listen);
  RaiseDescriptorLimit();
  auto app = server::App::Start(loop, std::move(*config), PARALLAX_VERSION, log);
  if (!app.ok()) return Report(app.error());
  bool stopping = false;
  loop.OnSignal([&](int) {
    if (log) {
      log({server::Severity::kInfo,
           "stopping",
           stopping ? "stopping now: answers under way are cut"
                    : "stopping: answers under way end first (again: at once)",
           {}});
    }
    stopping = true;
    (*app)->Stop([&loop] { loop.Stop(); });
  });
  if (log && open_to_all) {
    log({server::Severity::kWarning,
         "open",
         "it listens beyond this machine without an api_key: whoever reaches it may use it",
         {}});
  }
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
