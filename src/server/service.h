// The endpoints: from an HTTP request to the part of the server that answers it.
//
// Role:       the handler of http::Server; knows paths, methods and the API key. OpenAI's paths are
//             answered without /v1 too: clients are given base URLs of both kinds.
// Ownership:  borrows the Dispatcher, which outlives it.
// Threads:    the loop's thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/cors.h"
#include "server/dispatcher.h"
#include "server/http/server.h"

namespace parallax::server {

class Service {
 public:
  struct Options {
    std::string api_key;
    std::string version;
    std::vector<std::string> cors_origins = {};
  };
  Service(Loop& loop, Dispatcher& dispatcher, Options options);

  void Handle(http::Request request, std::shared_ptr<http::Responder> responder);
  // The server's own counters appear in /metrics.
  void SetServer(const http::Server* server) { server_ = server; }

 private:
  void Generate(std::optional<openai::Endpoint> endpoint, const http::Request& request,
                const std::shared_ptr<http::Responder>& responder, bool decide_only);
  nlohmann::ordered_json ListOfModels() const;
  http::Response Model(std::string_view id) const;
  http::Response Health() const;
  http::Response Decision(std::string_view id) const;
  http::Response Decisions() const;

  Loop& loop_;
  Dispatcher& dispatcher_;
  Options options_;
  Cors cors_;
  const http::Server* server_ = nullptr;
  double started_wall_ms_;
};

// The texts of /metrics and of /status.json, each in a file of its own.
std::string PrometheusText(const Dispatcher& dispatcher, const http::ServerCounters* counters);
std::string StatusJson(const Dispatcher& dispatcher, double now_ms);

}  // namespace parallax::server
