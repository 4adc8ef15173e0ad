// App: the whole server, put together from its configuration and started.
//
// Role:       what `parallax serve` runs; tests start it on port 0.
// Ownership:  owns every part of the server but the loop, which outlives it.
// Threads:    the loop's thread only.
// Example:
//   AsioLoop loop;
//   PX_ASSIGN_OR_RETURN(auto app, App::Start(loop, config, "0.1.0", log));
//   loop.OnSignal([&](int) { app->Stop([&] { loop.Stop(); }); });
//   loop.Run();
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "router/model_file.h"
#include "server/asio_loop.h"
#include "server/config.h"
#include "server/dispatcher.h"
#include "server/http/server.h"
#include "server/log.h"
#include "server/service.h"

namespace parallax::server {

// Reads the model file a configuration names, and takes from it what the configuration leaves open:
// a backend's context, single flight, whether its prefill can be stopped. Without a file every
// backend starts from the prior of its kind.
Result<router::ModelFile> LoadModels(Config& config);

// The policy a configuration names, with the routing options beside it.
Result<router::Policy> MakePolicy(const Config& config);

class App {
 public:
  static Result<std::unique_ptr<App>> Start(AsioLoop& loop, Config config, std::string version,
                                            LogSink log);
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  // "127.0.0.1:8080", with the port that was bound.
  std::string address() const { return server_->address(); }
  Dispatcher& dispatcher() { return *dispatcher_; }
  // Takes nothing new and calls `done` when every answer is out and every process it started is
  // gone. Answers still under way after the configured time, or at a second Stop, are cut.
  void Stop(std::function<void()> done);

 private:
  App(AsioLoop& loop, Config config) : loop_(loop), config_(std::move(config)) {}
  void Cut();

  AsioLoop& loop_;
  Config config_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<http::Server> server_;
  std::function<void()> stopped_;
  TimerId deadline_ = 0;
  bool stopping_ = false;
  bool cut_ = false;
};

}  // namespace parallax::server
