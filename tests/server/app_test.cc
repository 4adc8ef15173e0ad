// The whole server over real sockets: raw clients in front, a raw upstream behind.
#include "server/app.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/server/sockets.h"

namespace parallax::server::fake {
namespace {

// An OpenAI server made of raw bytes: answers /v1/models, hands every generation to the test. Each
// request has a connection of its own; client_test.cc is about kept ones.
class Upstream {
 public:
  explicit Upstream(World& world) : world_(world) { Poll(); }
  ~Upstream() { world_.loop.CancelTimer(timer_); }
  std::uint16_t port() const { return listener_.port(); }
  Peer& Wait(std::size_t count = 1) {
    EXPECT_TRUE(world_.Until([&] { return calls.size() >= count; }));
    return *calls.at(count - 1);
  }
  std::vector<std::unique_ptr<Peer>> calls;  // connections with a generation on them

 private:
  void Poll() {
    for (Peer peer; listener_.Accept(peer);) {
      others_.push_back(std::make_unique<Peer>(std::move(peer)));
    }
    for (auto& peer : others_) {
      if (peer->Has("GET /v1/models") && peer->Has("\r\n\r\n")) {
        const std::string models = R"({"data":[{"id":"m"}]})";
        peer->Clear();
        peer->Send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " +
                   std::to_string(models.size()) + "\r\n\r\n" + models);
      } else if (peer->Has("POST /v1/")) {
        const std::string& text = peer->Read();
        const std::size_t head = text.find("\r\n\r\n");
        if (head != std::string::npos && text.ends_with("}")) calls.push_back(std::move(peer));
      }
    }
    std::erase_if(others_, [](const auto& peer) { return !peer || peer->Ended(); });
    timer_ = world_.loop.After(1, [this] { Poll(); });
  }
  World& world_;
  Listener listener_;
  std::vector<std::unique_ptr<Peer>> others_;
  TimerId timer_ = 0;
};

struct Running : World {
  explicit Running(const std::function<void(Config&)>& change = {}) {
    Config config;
    config.listen = "127.0.0.1:0";
    config.drain_ms = 60'000;
    BackendConfig backend;
    backend.settings.name = "up";
    backend.url = "http://127.0.0.1:" + std::to_string(upstream.port());
    config.backends.push_back(backend);
    if (change) change(config);
    auto started =
        App::Start(loop, config, "test", [this](const LogEntry& e) { log.push_back(e); });
    EXPECT_TRUE(started.ok()) << started.error().message();
    app = std::move(*started);
    port = PortOf(app->address());
    EXPECT_TRUE(
        Until([&] { return app->dispatcher().backends().front()->health == Health::kReady; }));
  }
  Peer Connect() {
    Peer peer = Peer::Connect(port);
    EXPECT_TRUE(peer.connected());
    return peer;
  }
  Peer Chat(bool stream = true, const std::string& headers = "") {
    Peer peer = Connect();
    const std::string body = std::string(R"({"model":"m","stream":)") +
                             (stream ? "true" : "false") +
                             R"(,"messages":[{"role":"user","content":"hi"}]})";
    peer.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + headers +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return peer;
  }
  std::vector<LogEntry> log;
  Upstream upstream{*this};
  std::unique_ptr<App> app;
  std::uint16_t port = 0;
};

const char* const kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";

std::string Hex(std::size_t n) { return fmt::format("{:x}", n); }
std::string Chunk(std::string_view bytes) {
  return Hex(bytes.size()) + "\r\n" + std::string(bytes) + "\r\n";
}

// The body of a chunked answer, and whether it was whole.
std::pair<std::string, bool> Dechunk(const std::string& answer) {
  std::string body;
  std::size_t at = answer.find("\r\n\r\n");
  if (at == std::string::npos) return {"", false};
  at += 4;
  for (;;) {
    const std::size_t end = answer.find("\r\n", at);
    if (end == std::string::npos) return {body, false};
    const auto size =
        static_cast<std::size_t>(std::stoul(answer.substr(at, end - at), nullptr, 16));
    if (size == 0) return {body, true};
    body += answer.substr(end + 2, size);
    at = end + 2 + size + 2;
  }
}

// data: ... 中 ... split after E4 B8, line ends in segments of their own, CRLF, ": ping" comments:
// the client gets the same bytes.
TEST(CaseUtf8AndSseBoundaries, BytesAreIdentical) {
  Running r;
  const std::string stream =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n"
      ": ping\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xE4\xB8\xAD\"}}]}\n\n"
      ": ping\r\n\r\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xF0\x9F\x98\x80\"}}]}\r\n\r\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
      "data: [DONE]\n\n";
  for (const bool bytewise : {true, false}) {
    Peer client = r.Chat();
    Peer& up = r.upstream.Wait(bytewise ? 1 : 2);
    up.Send(kStreamHead);
    if (bytewise) {
      for (const char c : stream) {
        up.Send(Chunk({&c, 1}));
        r.loop.context().poll();
      }
    } else {
      const std::size_t cut = stream.find("\xE4\xB8") + 2;
      up.Send(Chunk(stream.substr(0, cut)));
      r.Idle(20);
      up.Send(Chunk(stream.substr(cut)));
    }
    up.Send("0\r\n\r\n");
    ASSERT_TRUE(r.Until([&] { return Dechunk(client.Read()).second; }));
    EXPECT_EQ(Dechunk(client.Read()).first, stream);
    EXPECT_EQ(client.Read().find("\xEF\xBF\xBD"), std::string::npos);
    EXPECT_TRUE(client.Has("x-parallax-backend: up\r\n"));
  }
}

TEST(App, AnswersAClientThatDoesNotStream) {
  Running r;
  Peer client = r.Chat(false);
  Peer& up = r.upstream.Wait();
  EXPECT_TRUE(up.Has("\"stream\":true"));
  up.Send(std::string(kStreamHead) +
          Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hey\"},"
                "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n") +
          "0\r\n\r\n");
  ASSERT_TRUE(r.Until([&] { return client.Has("chat.completion"); }));
  EXPECT_TRUE(client.Has("\"content\":\"hey\""));
  EXPECT_TRUE(client.Has("Content-Length: "));
}

// The client closes before anything came, and in the middle of its stream: upstream sees the end.
TEST(CaseClientDisconnectDoesNotStopGeneration, OverSockets) {
  Running r;
  for (int how = 0; how < 4; ++how) {
    Peer client = r.Chat(how < 2);
    Peer& up = r.upstream.Wait(static_cast<std::size_t>(how) + 1);
    if (how % 2 == 1) {
      up.Send(std::string(kStreamHead) +
              Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"));
      r.Idle(20);
    }
    client.Close();
    EXPECT_TRUE(r.Until([&] { return up.Ended(); })) << how;
    EXPECT_EQ(r.app->dispatcher().jobs(), 0U);
    EXPECT_EQ(r.app->dispatcher().backends()[0]->running.size(), 0U);
  }
  EXPECT_EQ(r.app->dispatcher().metrics().cancelled, 4U);
}

// Upstream fails in every way a socket can: an error with the right status, others unharmed.
TEST(App, UpstreamFaults) {
  struct Case {
    const char* answer;
    int status;
  };
  const std::vector<Case> cases = {
      {"", 502},
      {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", 502},
      {"GARBAGE\r\n\r\n", 502},
      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
       "zz\r\n",
       502},
      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n", 502},
      {"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n"
       "{\"error\":{\"message\":\"no such\"}}",
       400},
      {"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy", 503},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", 502},
  };
  for (const Case& c : cases) {
    Running r;
    Peer client = r.Chat();
    Peer& up = r.upstream.Wait();
    up.Send(c.answer);
    up.Close();
    ASSERT_TRUE(r.Until([&] { return client.Has("\r\n\r\n{"); })) << c.answer;
    EXPECT_TRUE(client.Has("HTTP/1.1 " + std::to_string(c.status) + " ")) << client.Read();
    EXPECT_TRUE(client.Has("\"error\"")) << client.Read();
    EXPECT_EQ(client.Has("Retry-After: 7"), c.status == 503);
    EXPECT_EQ(r.app->dispatcher().jobs(), 0U);
    // The client's connection is good for more.
    client.Clear();
    client.Send("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_TRUE(r.Until([&] { return client.Has("\"object\":\"list\""); }));
  }
}

// The stream breaks off: the client is told inside it, and the stream ends in order.
TEST(App, UpstreamDiesMidStream) {
  Running r;
  Peer client = r.Chat();
  Peer& up = r.upstream.Wait();
  up.Send(
      std::string(kStreamHead) +
      Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho"));
  ASSERT_TRUE(r.Until([&] { return client.Has("\"a\""); }));
  up.Close();
  ASSERT_TRUE(r.Until([&] { return Dechunk(client.Read()).second; }));
  const std::string body = Dechunk(client.Read()).first;
  EXPECT_NE(body.find("\n\ndata: {\"error\":"), std::string::npos);
  EXPECT_TRUE(body.ends_with("}\n\n"));
}

// The answer is complete, the connection stays open: the client waits no longer, and what comes
// afterwards is no part of it.
TEST(App, UpstreamHoldsTheConnectionBehindAWholeAnswer) {
  Running r([&](Config& config) { config.dispatcher.silence_ms = 1e9; });
  Peer client = r.Chat();
  Peer& up = r.upstream.Wait();
  const std::string events =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
      "data: [DONE]\n\n";
  up.Send(std::string(kStreamHead) + Chunk(events));
  up.Send(Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n"));
  ASSERT_TRUE(r.Until([&] { return Dechunk(client.Read()).second; }));
  EXPECT_EQ(Dechunk(client.Read()).first, events);
  EXPECT_TRUE(r.Until([&] { return up.Ended(); }));
}

// Stop: a stream under way ends in order, idle and lingering connections do not hold it up, new
// ones are refused.
TEST(App, StopDrains) {
  Running r;
  Peer stream = r.Chat();
  Peer& up = r.upstream.Wait();
  up.Send(std::string(kStreamHead) +
          Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"));
  Peer idle = r.Connect();
  idle.Send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  Peer linger = r.Connect();
  linger.Send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(r.Until([&] { return stream.Has("\"a\"") && idle.Has("ok") && linger.Ended(); }));
  bool stopped = false;
  r.app->Stop([&] { stopped = true; });
  ASSERT_TRUE(r.Until([&] { return idle.Ended(); }));
  EXPECT_FALSE(Peer::Connect(r.port).connected());
  EXPECT_FALSE(stopped);
  up.Send(Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                "data: [DONE]\n\n") +
          "0\r\n\r\n");
  ASSERT_TRUE(r.Until([&] { return stopped; }));
  EXPECT_TRUE(Dechunk(stream.Read()).second);
  EXPECT_TRUE(Dechunk(stream.Read()).first.ends_with("data: [DONE]\n\n"));
}

// A second Stop, or the end of its time, cuts what is left.
TEST(App, StopCuts) {
  for (const bool twice : {true, false}) {
    Running r([&](Config& config) { config.drain_ms = twice ? 1e9 : 100; });
    Peer stream = r.Chat();
    Peer& up = r.upstream.Wait();
    up.Send(std::string(kStreamHead) +
            Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"));
    ASSERT_TRUE(r.Until([&] { return stream.Has("\"a\""); }));
    bool stopped = false;
    r.app->Stop([&] { stopped = true; });
    if (twice) r.app->Stop([] { ADD_FAILURE() << "the second callback has no use"; });
    ASSERT_TRUE(r.Until([&] { return stopped && stream.Ended() && up.Ended(); }));
    EXPECT_FALSE(Dechunk(stream.Read()).second);
  }
}

TEST(App, StopOfNothing) {
  Running r;
  bool stopped = false;
  r.app->Stop([&] { stopped = true; });
  EXPECT_TRUE(r.Until([&] { return stopped; }));
  r.app.reset();
  r.Idle(20);
}

// Destroyed with everything under way; the loop runs on. (The sanitizer judges.)
TEST(App, DestroyedUnderWay) {
  Running r;
  Peer stream = r.Chat(), waits = r.Chat(), idle = r.Connect();
  Peer& up = r.upstream.Wait();
  up.Send(std::string(kStreamHead) +
          Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"));
  ASSERT_TRUE(r.Until([&] { return stream.Has("\"a\""); }));
  r.app.reset();
  EXPECT_TRUE(r.Until([&] { return stream.Ended() && waits.Ended() && up.Ended(); }));
}

TEST(App, WhatCannotStart) {
  World world;
  const auto fails = [&](const std::function<void(Config&)>& change, std::string_view says) {
    Config config;
    config.listen = "127.0.0.1:0";
    config.backends.push_back(*ParseBackendFlag("up=http://127.0.0.1:1"));
    change(config);
    const auto app = App::Start(world.loop, config, "test", nullptr);
    ASSERT_FALSE(app.ok()) << says;
    EXPECT_NE(app.error().message().find(says), std::string::npos) << app.error().message();
    world.Idle(5);
  };
  fails([](Config& c) { c.backends.clear(); }, "no backend");
  fails([](Config& c) { c.listen = "nowhere"; }, "nowhere");
  fails([](Config& c) { c.policy = "best"; }, "best");
  fails([](Config& c) { c.policy = "only:npu"; }, "npu");
  fails([](Config& c) { c.model_file = "/nonexistent.json"; }, "/nonexistent.json");
  fails([](Config& c) { c.decisions_file = "/nonexistent/x"; }, "/nonexistent/x");
}

// 64 clients on one backend with one slot, some leave: all others are answered, nothing is left.
TEST(App, ManyClients) {
  Running r;
  std::vector<Peer> clients;
  for (int i = 0; i < 64; ++i) clients.push_back(r.Chat(i % 2 == 0));
  ASSERT_TRUE(r.Until([&] { return r.app->dispatcher().jobs() == 64; }));
  for (std::size_t i = 0; i < 64; i += 4) clients[i].Close();
  std::size_t answered = 0;
  ASSERT_TRUE(r.Until([&] {
    for (; answered < r.upstream.calls.size(); ++answered) {
      r.upstream.calls[answered]->Send(
          std::string(kStreamHead) +
          Chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hey\"},"
                "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n") +
          "0\r\n\r\n");
    }
    return std::all_of(clients.begin(), clients.end(),
                       [](Peer& peer) { return !peer.connected() || peer.Has("\"hey\""); });
  }));
  EXPECT_TRUE(r.Until([&] { return r.app->dispatcher().jobs() == 0; }));
  EXPECT_EQ(r.app->dispatcher().backends()[0]->running.size(), 0U);
}

}  // namespace
}  // namespace parallax::server::fake
