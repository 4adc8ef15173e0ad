#include "server/service.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/model_names.h"
#include "server/openai/error.h"
#include "server/openai/json_text.h"
#include "server/status_page.h"

namespace parallax::server {
namespace {

using nlohmann::ordered_json;

http::Response Json(const ordered_json& value, int status = 200) {
  return {status, {{"Content-Type", "application/json"}}, DumpJson(value) + "\n"};
}

// Takes as long for a wrong key as for a right one, wherever they differ.
bool SameSecret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ (b.empty() ? '\0' : b[i % b.size()]));
  }
  return difference == 0;
}

// llama-server and others take the key in a header of its own too.
std::string_view GivenKey(const http::Headers& headers) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view given = http::FindHeader(headers, "authorization");
  if (given.starts_with(kBearer)) return given.substr(kBearer.size());
  return given.empty() ? http::FindHeader(headers, "x-api-key") : std::string_view();
}

std::string_view WithVersion(std::string_view path) {
  for (const std::string_view known : {"/v1/chat/completions", "/v1/completions", "/v1/models"}) {
    if (path == known.substr(3)) return known;
  }
  return path;
}

bool IsJsonType(std::string_view type) {
  constexpr std::string_view kJson = "application/json";
  return type.size() >= kJson.size() &&
         std::equal(kJson.begin(), kJson.end(), type.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
}

}  // namespace

Service::Service(Loop& loop, Dispatcher& dispatcher, Options options)
    : loop_(loop),
      dispatcher_(dispatcher),
      options_(std::move(options)),
      cors_(options_.cors_origins),
      started_wall_ms_(loop.WallMs()) {}

void Service::Handle(http::Request request, std::shared_ptr<http::Responder> responder) {
  responder = cors_.Admit(request, std::move(responder));
  if (responder == nullptr) return;
  const std::string_view path = WithVersion(http::Path(request.target));
  const bool get = request.method == "GET" || request.method == "HEAD";
  const bool post = request.method == "POST";
  const auto send = [&](http::Response response) { responder->Send(std::move(response)); };

  // What a load balancer asks, and the page that has no secrets of its own, need no key.
  const bool open = path == "/health" || path == "/v1/health" || path == "/";
  if (!options_.api_key.empty() && !open) {
    if (!SameSecret(options_.api_key, GivenKey(request.headers))) {
      http::Response response = openai::ErrorResponse(
          401, "a valid API key is wanted (Authorization: Bearer ...)", "invalid_api_key");
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return send(std::move(response));
    }
  }

  struct Route {
    std::string_view path;
    bool is_post;
  };
  static constexpr Route kRoutes[] = {{"/v1/chat/completions", true},
                                      {"/v1/completions", true},
                                      {"/v1/route", true},
                                      {"/v1/models", false},
                                      {"/v1/decisions", false},
                                      {"/health", false},
                                      {"/v1/health", false},
                                      {"/metrics", false},
                                      {"/status.json", false},
                                      {"/", false}};
  for (const Route& route : kRoutes) {
    if (route.path == path && (route.is_post ? !post : !get)) {
      http::Response response = openai::ErrorResponse(
          405, fmt::format("{} wants {}", path, route.is_post ? "POST" : "GET"));
      response.headers.emplace_back("Allow", route.is_post ? "POST" : "GET, HEAD");
      return send(std::move(response));
    }
  }
  if (path == "/v1/chat/completions") {
    return Generate(openai::Endpoint::kChat, request, responder, false);
  }
  if (path == "/v1/completions") {
    return Generate(openai::Endpoint::kCompletion, request, responder, false);
  }
  if (path == "/v1/route") {
    return Generate(std::nullopt, request, responder, true);
  }
  if (path == "/v1/models") return send(Json({{"object", "list"}, {"data", ListOfModels()}}));
  constexpr std::string_view kModel = "/v1/models/";
  if (get && path.starts_with(kModel)) return send(Model(path.substr(kModel.size())));
  if (path == "/health" || path == "/v1/health") return send(Health());
  if (path == "/v1/decisions") return send(Decisions());
  constexpr std::string_view kDecision = "/v1/decisions/";
  if (get && path.starts_with(kDecision)) return send(Decision(path.substr(kDecision.size())));
  if (path == "/metrics") {
    return send({200,
                 {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                 PrometheusText(dispatcher_, server_ ? &server_->counts() : nullptr)});
  }
  if (path == "/status.json") {
    return send({200,
                 {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                 StatusJson(dispatcher_, loop_.NowMs()) + "\n"});
  }
  if (path == "/") {
    return send({200,
                 {{"Content-Type", "text/html; charset=utf-8"},
                  {"Content-Security-Policy",
                   "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                   "connect-src 'self'"}},
                 std::string(StatusPage())});
  }
  send(openai::ErrorResponse(404, fmt::format("there is no {}", path.substr(0, 200)), "not_found"));
}

void Service::Generate(std::optional<openai::Endpoint> endpoint, const http::Request& request,
                       const std::shared_ptr<http::Responder>& responder, bool decide_only) {
  // curl's -d says it sends a form; a web page that does so tries to get round the browser's rules.
  if (!http::FindHeader(request.headers, "origin").empty() &&
      !IsJsonType(http::FindHeader(request.headers, "content-type"))) {
    return responder->Send(
        openai::ErrorResponse(415, "the body must be application/json", "unsupported_media_type"));
  }
  auto parsed = openai::ParseRequest(endpoint, request.body);
  if (!parsed.ok()) {
    return responder->Send(openai::ErrorResponse(400, parsed.error().message()));
  }
  SubmitOptions options;
  options.via = http::FindHeader(request.headers, "x-parallax-via");
  if (options.via.find(dispatcher_.id()) != std::string::npos) {
    return responder->Send(openai::ErrorResponse(
        508, "the request has been here before: a backend leads back to this router", "loop"));
  }
  options.backend = http::FindHeader(request.headers, "x-parallax-backend");
  if (decide_only) {
    dispatcher_.Route(std::move(*parsed), options, responder);
  } else {
    (void)dispatcher_.Submit(std::move(*parsed), options, responder);
  }
}

http::Response Service::Model(std::string_view id) const {
  const ordered_json list = ListOfModels();
  for (const ordered_json& model : list) {
    if (model["id"] == id) return Json(model);
  }
  return openai::ErrorResponse(404, fmt::format("there is no model '{}'", id.substr(0, 200)),
                               "model_not_found");
}

ordered_json Service::ListOfModels() const {
  std::set<std::string> seen;
  ordered_json data = ordered_json::array();
  const auto add = [&](const std::string& model, const std::string& owner) {
    if (!seen.insert(model).second) return;
    data.push_back({{"id", model},
                    {"object", "model"},
                    {"created", static_cast<std::int64_t>(started_wall_ms_ / 1000)},
                    {"owned_by", owner}});
  };
  // Not of the snapshot: a backend that answers to any name has none there.
  for (const auto& backend : dispatcher_.backends()) {
    for (const std::string& model : ListedModels(*backend->settings, backend->facts)) {
      add(model, backend->name);
    }
  }
  add(std::string(kAnyModel), "parallax");
  return data;
}

http::Response Service::Health() const {
  bool any = false;
  bool all = true;
  ordered_json backends = ordered_json::array();
  for (const auto& backend : dispatcher_.MakeSnapshot().backends) {
    const bool ready = backend.availability == router::Availability::kReady;
    const bool usable = ready || backend.availability == router::Availability::kUnloaded;
    any |= usable;
    all &= usable;
    ordered_json entry{{"name", backend.name}, {"state", router::Name(backend.availability)}};
    if (!ready && !backend.reason.empty()) entry["reason"] = backend.reason;
    backends.push_back(std::move(entry));
  }
  return Json({{"status", all   ? "ok"
                          : any ? "degraded"
                                : "unavailable"},
               {"backends", backends}},
              any ? 200 : 503);
}

http::Response Service::Decision(std::string_view id) const {
  const router::Decision* decision = dispatcher_.records().Find(id);
  if (decision == nullptr) {
    return openai::ErrorResponse(
        404, fmt::format("no decision '{}' is kept (the last 1024 are)", id.substr(0, 100)),
        "not_found");
  }
  return {200, {{"Content-Type", "application/json"}}, router::ToJson(*decision) + "\n"};
}

http::Response Service::Decisions() const {
  constexpr std::size_t kShown = 50;
  const auto& order = dispatcher_.records().order();
  std::string text = "[";
  for (std::size_t i = order.size() > kShown ? order.size() - kShown : 0; i < order.size(); ++i) {
    if (const router::Decision* decision = dispatcher_.records().Find(order[i])) {
      text += text.size() > 1 ? ",\n" : "\n";
      text += router::ToJson(*decision);
    }
  }
  return {200, {{"Content-Type", "application/json"}}, text + "\n]\n"};
}

}  // namespace parallax::server
