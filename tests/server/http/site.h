// A site of two pages over the HTTP server under test: /echo answers at once, the rest waits for the
// test.
//
// Role:       shared by the tests of the HTTP server.
// Ownership:  owns its loop and its server; a test owns the peers.
// Threads:    one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http/server.h"
#include "tests/server/sockets.h"

namespace parallax::server::fake {

using http::Responder;

// Answers /echo at once with what it got, and keeps every other request for the test to answer.
struct Site : World {
  struct Held {
    http::Request request;
    std::shared_ptr<Responder> responder;
    bool closed = false;
    int drained = 0;
  };
  explicit Site(const http::Limits& limits = {}) {
    auto made = http::Server::Listen(
        loop, "127.0.0.1:0", limits,
        [this](http::Request request, std::shared_ptr<Responder> responder) {
          if (request.target == "/echo") {
            responder->Send({200, {{"X-Test", "1"}}, request.method + " " + request.body});
            return;
          }
          held.push_back(std::make_unique<Held>());
          Held* raw = held.back().get();
          responder->OnClosed([raw] { raw->closed = true; });
          raw->request = std::move(request);
          raw->responder = std::move(responder);
        },
        [](int status, std::string_view why) {
          return http::Response{
              status, {}, "error " + std::to_string(status) + ": " + std::string(why)};
        });
    EXPECT_TRUE(made.ok()) << made.error().message();
    server = std::move(*made);
    port = PortOf(server->address());
  }
  Peer Connect(int receive_bytes = 0) {
    Peer peer = Peer::Connect(port, receive_bytes);
    EXPECT_TRUE(peer.connected());
    return peer;
  }
  Held& WaitHeld(std::size_t count) {
    EXPECT_TRUE(Until([&] { return held.size() >= count; }));
    return *held.at(count - 1);
  }
  bool WaitFor(Peer& peer, std::string_view text) {
    const bool came = Until([&] { return peer.Has(text); });
    EXPECT_TRUE(came) << "wanted " << text << " in " << peer.Read().substr(0, 1000);
    return came;
  }
  bool WaitEnd(Peer& peer) {
    return Until([&] { return peer.Ended(); });
  }

  std::vector<std::unique_ptr<Held>> held;
  std::unique_ptr<http::Server> server;
  std::uint16_t port = 0;
};

inline std::string Post(const std::string& body, const std::string& headers = "") {
  return "POST /echo HTTP/1.1\r\nHost: x\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace parallax::server::fake
