// Load for the router: a scripted OpenAI backend, and clients that time it or whatever stands before it.
//
//   serve_load backend PORT                    serves until it is killed
//   serve_load latency PORT COUNT              COUNT short streams, one after another, kept connection
//   serve_load streams PORT COUNT TOKENS RATE  COUNT streams at once, TOKENS events each, RATE a second
//
// `latency` and `streams` print one JSON object. The request says in its prompt what the backend does:
// "TOKENS RATE". Every event carries its number, and a client that misses one fails.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "server/asio_loop.h"
#include "server/http/client.h"
#include "server/http/server.h"
#include "server/http/sse.h"

namespace {

using namespace parallax::server;
using nlohmann::json;

// --- the backend

struct Stream : std::enable_shared_from_this<Stream> {
  AsioLoop& loop;
  std::shared_ptr<http::Responder> out;
  int sent = 0, tokens = 0;
  double rate = 0, began = 0;

  Stream(AsioLoop& l, std::shared_ptr<http::Responder> o) : loop(l), out(std::move(o)) {}
  void Step() {
    if (out->closed()) return;
    const double now = loop.NowMs();
    while (sent < tokens && (rate <= 0 || now >= began + sent * 1000.0 / rate)) {
      out->Write(fmt::format(
          "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", sent));
      ++sent;
    }
    if (sent < tokens) {
      loop.After(began + sent * 1000.0 / rate - now, [self = shared_from_this()] { self->Step(); });
      return;
    }
    out->Write(fmt::format(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n"
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":4,\"completion_tokens\":{}}}}}\n\n"
        "data: [DONE]\n\n",
        tokens));
    out->End();
  }
};

int ServeBackend(int port) {
  AsioLoop loop;
  http::Limits limits;
  limits.connections = 4096;
  auto server = http::Server::Listen(
      loop, fmt::format("127.0.0.1:{}", port), limits,
      [&](http::Request request, std::shared_ptr<http::Responder> responder) {
        if (request.method == "GET") {
          return responder->Send({200,
                                  {{"Content-Type", "application/json"}},
                                  R"({"object":"list","data":[{"id":"m","object":"model"}]})"});
        }
        const json body = json::parse(request.body, nullptr, false);
        auto stream = std::make_shared<Stream>(loop, responder);
        const std::string script = body["messages"][0]["content"].get<std::string>();
        std::sscanf(script.c_str(), "%d %lf", &stream->tokens, &stream->rate);
        stream->began = loop.NowMs();
        responder->Begin(200, {{"Content-Type", "text/event-stream"}});
        stream->Step();
      },
      [](int status, std::string_view why) {
        return http::Response{status, {}, std::string(why)};
      });
  if (!server.ok()) return std::fprintf(stderr, "%s\n", server.error().message().c_str()), 1;
  loop.Run();
  return 0;
}

// --- the clients

struct Reader : http::FetchSink {
  AsioLoop& loop;
  std::function<void(Reader&)> done;
  http::SseSplitter events;
  double began = 0, first = 0, last = 0;
  std::vector<double> gaps;
  int next = 0;
  std::string error;

  Reader(AsioLoop& l, std::function<void(Reader&)> d) : loop(l), done(std::move(d)) {}
  void OnHead(int status, const http::Headers&) override {
    if (status != 200) error = fmt::format("status {}", status);
  }
  void OnBody(std::string_view bytes) override {
    const double now = loop.NowMs();
    if (first == 0) first = now;
    (void)events.Feed(bytes, [&](const http::SseEvent& event) {
      const std::string wanted = fmt::format("\"content\":\"{}\"", next);
      if (event.data.find("\"content\"") == std::string_view::npos) return;
      if (event.data.find(wanted) == std::string_view::npos) {
        error = fmt::format("event {} is missing", next);
      }
      ++next;
      last = now;
    });
  }
  void OnEnd() override { done(*this); }
  void OnError(http::FetchError, const std::string& message) override {
    error = message;
    done(*this);
  }
};

http::FetchRequest Ask(int tokens, double rate) {
  http::FetchRequest request;
  request.method = "POST";
  request.target = "/v1/chat/completions";
  request.headers = {{"Content-Type", "application/json"}};
  request.body =
      json({{"model", "m"},
            {"stream", true},
            {"max_tokens", tokens},
            {"messages", {{{"role", "user"}, {"content", fmt::format("{} {}", tokens, rate)}}}}})
          .dump();
  return request;
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

int Latency(int port, int count) {
  AsioLoop loop;
  auto client = http::Client::Make(loop, {"127.0.0.1", static_cast<std::uint16_t>(port), ""}, {});
  std::vector<double> first;
  std::string error;
  std::unique_ptr<Reader> reader;
  int left = count + 20;  // the first ones warm up
  std::function<void()> next = [&] {
    reader = std::make_unique<Reader>(loop, [&](Reader& r) {
      if (!r.error.empty() || r.next != 2) error = r.error.empty() ? "too few events" : r.error;
      if (left <= count) first.push_back(r.first - r.began);
      --left;
      loop.Post([&] { left > 0 && error.empty() ? next() : loop.Stop(); });
    });
    reader->began = loop.NowMs();
    client->Fetch(Ask(2, 0), reader.get());
  };
  loop.Post(next);
  loop.Run();
  if (!error.empty()) return std::fprintf(stderr, "serve_load: %s\n", error.c_str()), 1;
  fmt::print("{}\n", json({{"count", first.size()},
                           {"min_ms", Quantile(first, 0)},
                           {"p50_ms", Quantile(first, 0.5)},
                           {"p99_ms", Quantile(first, 0.99)}})
                         .dump());
  return 0;
}

int Streams(int port, int count, int tokens, double rate) {
  AsioLoop loop;
  http::Client::Options options;
  options.keep_count = static_cast<std::size_t>(count);
  auto client =
      http::Client::Make(loop, {"127.0.0.1", static_cast<std::uint16_t>(port), ""}, options);
  std::vector<std::unique_ptr<Reader>> readers;
  std::vector<double> late;
  std::string error;
  int left = count, whole = 0;
  for (int i = 0; i < count; ++i) {
    readers.push_back(std::make_unique<Reader>(loop, [&](Reader& r) {
      if (!r.error.empty()) error = r.error;
      if (r.error.empty() && r.next == tokens) ++whole;
      // How much longer than the script its events took from the first to the last.
      late.push_back(r.last - r.first - (tokens - 1) * 1000.0 / rate);
      if (--left == 0) loop.Stop();
    }));
  }
  // Spread over a second, as clients come.
  for (int i = 0; i < count; ++i) {
    loop.After(i * 1000.0 / count, [&, i] {
      readers[static_cast<std::size_t>(i)]->began = loop.NowMs();
      client->Fetch(Ask(tokens, rate), readers[static_cast<std::size_t>(i)].get());
    });
  }
  loop.Run();
  fmt::print("{}\n", json({{"streams", count},
                           {"whole", whole},
                           {"late_p50_ms", Quantile(late, 0.5)},
                           {"late_max_ms", Quantile(late, 1)},
                           {"error", error}})
                         .dump());
  return whole == count ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  if (mode == "backend" && argc == 3) return ServeBackend(number(2));
  if (mode == "latency" && argc == 4) return Latency(number(2), number(3));
  if (mode == "streams" && argc == 6)
    return Streams(number(2), number(3), number(4), std::atof(argv[5]));
  std::fprintf(stderr,
               "usage: serve_load backend PORT | latency PORT COUNT | "
               "streams PORT COUNT TOKENS RATE\n");
  return 2;
}
