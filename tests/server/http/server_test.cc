// The HTTP server over real sockets: what clients send right, wrong, slowly, or not at all.
#include "server/http/server.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/server/sockets.h"

namespace parallax::server::fake {
namespace {

using http::Limits;
using http::Responder;

// Answers /echo at once with what it got, and keeps every other request for the test to answer.
struct Site : World {
  struct Held {
    http::Request request;
    std::shared_ptr<Responder> responder;
    bool closed = false;
    int drained = 0;
  };
  explicit Site(const Limits& limits = {}) {
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

int CountOf(const std::string& text, std::string_view what) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

std::string Post(const std::string& body, const std::string& headers = "") {
  return "POST /echo HTTP/1.1\r\nHost: x\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(HttpServer, KeepAliveAndPipelining) {
  Site site;
  Peer peer = site.Connect();
  peer.Send(Post("one"));
  ASSERT_TRUE(site.WaitFor(peer, "POST one"));
  EXPECT_TRUE(peer.Has("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(peer.Has("X-Test: 1\r\n"));
  EXPECT_TRUE(peer.Has("Content-Length: 8\r\n"));
  EXPECT_TRUE(peer.Has("Connection: keep-alive\r\n"));
  peer.Clear();
  peer.Send(Post("a") + Post("b") + Post("c"));
  ASSERT_TRUE(site.WaitFor(peer, "POST c"));
  EXPECT_LT(peer.Read().find("POST a"), peer.Read().find("POST b"));
  EXPECT_LT(peer.Read().find("POST b"), peer.Read().find("POST c"));
  peer.Clear();
  peer.Send(Post("last", "Connection: close\r\n") + Post("never"));
  ASSERT_TRUE(site.WaitFor(peer, "POST last"));
  EXPECT_TRUE(peer.Has("Connection: close\r\n"));
  ASSERT_TRUE(site.WaitEnd(peer));
  EXPECT_FALSE(peer.Has("never"));
  EXPECT_FALSE(peer.reset());
  EXPECT_EQ(site.server->counters().accepted, 1U);
}

// A later request waits for the answer of the one before; answers do not mix.
TEST(HttpServer, OneAnswerAtATime) {
  Site site;
  Peer peer = site.Connect();
  peer.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n" + Post("next"));
  Site::Held& first = site.WaitHeld(1);
  site.Idle(50);
  EXPECT_EQ(peer.Read(), "");
  first.responder->Begin(200, {{"A", "b"}});
  first.responder->Write("part");
  ASSERT_TRUE(site.WaitFor(peer, "4\r\npart\r\n"));
  EXPECT_FALSE(peer.Has("next"));
  first.responder->Write("");
  first.responder->End();
  ASSERT_TRUE(site.WaitFor(peer, "POST next"));
  EXPECT_LT(peer.Read().find("0\r\n\r\nHTTP/1.1 200 OK"), peer.Read().find("POST next"));
  // Too late: the connection has gone on to another request.
  first.responder->Write("late");
  first.responder->End();
  first.responder->Abort();
  peer.Send(Post("still here"));
  ASSERT_TRUE(site.WaitFor(peer, "POST still here"));
  EXPECT_FALSE(peer.Has("late"));
  EXPECT_FALSE(first.closed);
}

TEST(HttpServer, ByteByByte) {
  Site site;
  Peer peer = site.Connect();
  for (const char c : Post("slow")) {
    peer.Send({&c, 1});
    site.loop.context().poll();
  }
  EXPECT_TRUE(site.WaitFor(peer, "POST slow"));
}

TEST(HttpServer, ChunkedRequests) {
  Site site;
  Peer peer = site.Connect();
  peer.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=\"x\"\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: y\r\n\r\n" +
      Post("after"));
  ASSERT_TRUE(site.WaitFor(peer, "POST after"));
  EXPECT_TRUE(peer.Has("POST abc0123456789abcdef"));
}

TEST(HttpServer, Http10) {
  Site site;
  Peer plain = site.Connect();
  plain.Send("GET /echo HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(site.WaitEnd(plain));
  EXPECT_TRUE(plain.Has("Connection: close\r\n"));
  EXPECT_TRUE(plain.Read().ends_with("\r\n\r\nGET "));

  Peer streamed = site.Connect();
  streamed.Send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  held.responder->Begin(200, {});
  held.responder->Write("a");
  held.responder->Write("b");
  held.responder->End();
  ASSERT_TRUE(site.WaitEnd(streamed));
  EXPECT_FALSE(streamed.Has("chunked"));
  EXPECT_TRUE(streamed.Read().ends_with("\r\n\r\nab"));

  Peer kept = site.Connect();
  kept.Send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  ASSERT_TRUE(site.WaitFor(kept, "Connection: keep-alive"));
  kept.Send("GET /echo HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(site.WaitEnd(kept));
  EXPECT_EQ(CountOf(kept.Read(), "HTTP/1.1 200"), 2);
}

TEST(HttpServer, HeadHasNoBody) {
  Site site;
  Peer peer = site.Connect();
  peer.Send("HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\nHEAD /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  held.responder->Begin(200, {});
  held.responder->Write("body");
  held.responder->End();
  peer.Send(Post("end"));
  ASSERT_TRUE(site.WaitFor(peer, "POST end"));
  EXPECT_TRUE(peer.Has("Content-Length: 5\r\n"));  // of "HEAD "
  EXPECT_FALSE(peer.Has("HEAD "));
  EXPECT_FALSE(peer.Has("body"));
  EXPECT_FALSE(peer.Has("0\r\n\r\nHTTP"));
}

TEST(HttpServer, Expect100Continue) {
  Site site(Limits{.body_bytes = 100});
  Peer peer = site.Connect();
  peer.Send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
  ASSERT_TRUE(site.WaitFor(peer, "HTTP/1.1 100 Continue\r\n\r\n"));
  peer.Send("hi");
  ASSERT_TRUE(site.WaitFor(peer, "POST hi"));
  // What would be refused is refused at once.
  Peer large = site.Connect();
  large.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 101\r\n\r\n");
  ASSERT_TRUE(site.WaitEnd(large));
  EXPECT_TRUE(large.Has("HTTP/1.1 413 "));
  EXPECT_FALSE(large.Has("100 Continue"));
  // HTTP/1.0 knows no interim answers.
  Peer old = site.Connect();
  old.Send("POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  site.Idle(50);
  EXPECT_EQ(old.Read(), "");
  old.Send("ab");
  ASSERT_TRUE(site.WaitEnd(old));
  EXPECT_TRUE(old.Has("POST ab"));
  EXPECT_FALSE(old.Has("100 Continue"));
}

TEST(HttpServer, Limits) {
  Site site(http::Limits{.header_bytes = 2000, .body_bytes = 1000});
  const auto refused = [&](const std::string& request, const std::string& status) {
    Peer peer = site.Connect();
    peer.Send(request);
    EXPECT_TRUE(site.WaitEnd(peer));
    EXPECT_TRUE(peer.Has("HTTP/1.1 " + status + " ")) << request.substr(0, 80) << peer.Read();
    EXPECT_TRUE(peer.Has("error " + status)) << peer.Read();
    EXPECT_TRUE(peer.Has("Connection: close\r\n"));
    EXPECT_FALSE(peer.reset());
  };
  const std::string get = "GET /echo HTTP/1.1\r\nHost: x\r\n";
  const std::string post = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  refused(get + "X: " + std::string(3000, 'x') + "\r\n\r\n", "431");
  refused("GET /" + std::string(3000, 'x') + " HTTP/1.1\r\n\r\n", "431");
  refused(std::string(3000, 'x'), "431");  // not even the end of a line
  std::string many = get;
  for (int i = 0; i < 400; ++i) many += "A: b\r\n";
  refused(many, "431");
  refused(Post(std::string(1001, 'x')), "413");
  refused(post + "Content-Length: 99999999999999\r\n\r\n", "413");
  refused(post + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x'), "413");
  refused(post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "413");
  EXPECT_EQ(site.server->counters().malformed, 8U);
  Peer fits = site.Connect();
  fits.Send(Post(std::string(1000, 'y')));
  EXPECT_TRUE(site.WaitFor(fits, "POST yyy"));
}

TEST(HttpServer, Malformed) {
  Site site;
  const std::vector<std::string> requests = {
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  // a TLS hello
      "GARBAGE\r\n\r\n",
      "GET /echo\r\n\r\n",
      "GET  /echo HTTP/1.1\r\n\r\n",
      "GET /echo HTTP/3.9\r\n\r\n",
      "GET /echo HTTP/1.1\r\nNo colon\r\n\r\n",
      "GET /echo HTTP/1.1\r\nA b: c\r\n\r\n",
      "GET /echo HTTP/1.1\r\nA: b\x01\r\n\r\n",
      "POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
      "POST /echo HTTP/1.1\r\nContent-Length: 2x\r\n\r\nab",
      "POST /echo HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab",
      "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nab",
      "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
  };
  for (const std::string& request : requests) {
    Peer peer = site.Connect();
    peer.Send(request);
    ASSERT_TRUE(site.WaitEnd(peer)) << request;
    EXPECT_TRUE(peer.Has("HTTP/1.1 400 ")) << request << "\n" << peer.Read();
    EXPECT_FALSE(peer.Has("200 OK")) << request;
  }
  EXPECT_EQ(site.server->counters().malformed, requests.size());
}

// A slow head and a slow body are given up with 408; an idle connection just ends.
TEST(HttpServer, SlowClients) {
  Site site(http::Limits{.header_ms = 300, .body_ms = 300, .idle_ms = 300});
  Peer head = site.Connect(), body = site.Connect(), idle = site.Connect(), kept = site.Connect();
  head.Send("GET /echo HT");
  body.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab");
  kept.Send(Post("x"));
  int drops = 0;  // slow loris: a byte now and then does not help
  EXPECT_TRUE(site.Until([&] {
    if (!head.Ended() && ++drops % 20 == 0) head.Send("x");
    return head.Ended() && body.Ended() && idle.Ended() && kept.Ended();
  }));
  EXPECT_TRUE(head.Has("HTTP/1.1 408 "));
  EXPECT_TRUE(body.Has("HTTP/1.1 408 "));
  EXPECT_EQ(idle.Read(), "");
  EXPECT_TRUE(kept.Has("POST x"));
  EXPECT_EQ(site.server->counters().timed_out, 2U);
  EXPECT_TRUE(site.Until([&] { return site.server->counters().open == 0; }));
  // An answer that takes longer than all of these is waited for.
  Peer waits = site.Connect();
  waits.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  site.Idle(900);
  held.responder->Send({200, {}, "late"});
  EXPECT_TRUE(site.WaitFor(waits, "late"));
}

TEST(HttpServer, TooManyConnections) {
  Site site(http::Limits{.connections = 2});
  Peer a = site.Connect(), b = site.Connect();
  a.Send(Post("a"));
  b.Send(Post("b"));
  ASSERT_TRUE(site.WaitFor(a, "POST a"));
  ASSERT_TRUE(site.WaitFor(b, "POST b"));
  Peer c = site.Connect();
  ASSERT_TRUE(site.WaitEnd(c));
  EXPECT_TRUE(c.Has("HTTP/1.1 503 "));
  EXPECT_EQ(site.server->counters().refused, 1U);
  c.Close();
  a.Close();
  ASSERT_TRUE(site.Until([&] { return site.server->counters().open == 1; }));
  Peer d = site.Connect();
  d.Send(Post("d"));
  EXPECT_TRUE(site.WaitFor(d, "POST d"));
}

// However a client goes, its answer's maker hears of it once.
TEST(HttpServer, AClientThatLeavesIsNoticed) {
  Site site;
  for (int how = 0; how < 3; ++how) {
    for (const bool streaming : {false, true}) {
      Peer peer = site.Connect();
      peer.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
      Site::Held& held = site.WaitHeld(site.held.size() + 1);
      if (streaming) {
        held.responder->Begin(200, {});
        held.responder->Write("abc");
        ASSERT_TRUE(site.WaitFor(peer, "abc"));
      }
      EXPECT_FALSE(held.responder->closed());
      if (how == 0) peer.Close();
      if (how == 1) peer.Reset();
      if (how == 2) peer.HalfClose();
      EXPECT_TRUE(site.Until([&] { return held.closed; })) << how << streaming;
      EXPECT_TRUE(held.responder->closed());
      EXPECT_EQ(held.responder->pending_bytes(), 0U);
      held.responder->Write("dropped");
      held.responder->End();
    }
  }
  EXPECT_TRUE(site.Until([&] { return site.server->counters().open == 0; }));
}

// A client that asks and closes its side at once still gets what is answered at once.
TEST(HttpServer, AQuickAnswerAfterAHalfClose) {
  Site site;
  Peer peer = site.Connect();
  peer.Send(Post("x"));
  peer.HalfClose();
  ASSERT_TRUE(site.WaitEnd(peer));
  EXPECT_TRUE(peer.Has("POST x"));
}

TEST(HttpServer, AbortAndForgottenAnswersCutTheConnection) {
  Site site;
  Peer cut = site.Connect();
  cut.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  held.responder->Begin(200, {});
  held.responder->Write("half");
  ASSERT_TRUE(site.WaitFor(cut, "half"));
  held.responder->Abort();
  ASSERT_TRUE(site.WaitEnd(cut));
  EXPECT_FALSE(cut.Has("0\r\n\r\n"));
  EXPECT_FALSE(held.closed);  // it was not the client
  Peer forgotten = site.Connect();
  forgotten.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  site.WaitHeld(2).responder.reset();
  ASSERT_TRUE(site.WaitEnd(forgotten));
  EXPECT_EQ(forgotten.Read(), "");
}

// A reader that stops: bytes wait at the sender, who is told when they are gone.
TEST(HttpServer, Backpressure) {
  Site site;
  Peer peer = site.Connect(/*receive_bytes=*/16 << 10);
  peer.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  held.responder->Begin(200, {});
  const std::string block(64 << 10, 'x');
  std::size_t written = 0;
  // The kernel's buffers fill; what the client has not taken then stays here.
  while (held.responder->pending_bytes() < (1 << 20)) {
    held.responder->Write(block);
    written += block.size();
    site.Idle(1);
    ASSERT_LT(written, 100U << 20);
  }
  held.responder->OnDrained([&] { ++held.drained; });
  site.Idle(50);
  EXPECT_EQ(held.drained, 0);
  std::size_t got = 0;
  ASSERT_TRUE(site.Until([&] {
    got += peer.Read().size();
    peer.Clear();
    return held.drained > 0;
  }));
  EXPECT_EQ(held.responder->pending_bytes(), 0U);
  held.responder->End();
  std::string tail;
  ASSERT_TRUE(site.Until([&] {
    got += peer.Read().size();
    tail = (tail + peer.Read());
    if (tail.size() > 5) tail.erase(0, tail.size() - 5);
    peer.Clear();
    return tail == "0\r\n\r\n";
  }));
  EXPECT_GT(got, written);  // every byte and the frame of each chunk
}

// One that takes nothing for too long is cut.
TEST(HttpServer, AClientThatNeverReads) {
  Site site(http::Limits{.write_ms = 300});
  Peer peer = site.Connect(/*receive_bytes=*/16 << 10);
  peer.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  held.responder->Begin(200, {});
  held.responder->Write(std::string(32 << 20, 'x'));
  EXPECT_TRUE(site.Until([&] { return held.closed; }));
  EXPECT_EQ(site.server->counters().timed_out, 1U);
}

// What a client sends ahead of an answer is not read without end.
TEST(HttpServer, ReadAheadIsBounded) {
  Site site;
  Peer peer = site.Connect();
  peer.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  const std::string request = Post(std::string(60'000, 'z'));
  std::size_t sent = 0;
  bool whole = true;
  for (int quiet = 0; quiet < 20 && sent < (256U << 20);) {
    const std::size_t n = peer.Send(request);
    whole = n == request.size();
    sent += n;
    quiet = n == 0 ? quiet + 1 : 0;
    site.Idle(1);
    if (!whole && n > 0) break;
  }
  EXPECT_LT(sent, 64U << 20);  // the kernel's buffers on both sides, no more
  // And the connection works on.
  held.responder->Send({200, {}, "first"});
  EXPECT_TRUE(site.WaitFor(peer, "POST zzz"));
}

TEST(HttpServer, DrainFinishesAnswersAndTakesNothingNew) {
  Site site;
  Peer busy = site.Connect(), idle = site.Connect(), half = site.Connect();
  busy.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n" + Post("pipelined"));
  idle.Send(Post("x"));
  half.Send("GET /ec");
  Site::Held& held = site.WaitHeld(1);
  ASSERT_TRUE(site.WaitFor(idle, "POST x"));
  bool drained = false;
  site.server->Drain([&] { drained = true; });
  ASSERT_TRUE(site.WaitEnd(idle));
  ASSERT_TRUE(site.WaitEnd(half));
  EXPECT_FALSE(Peer::Connect(site.port).connected());
  site.Idle(50);
  EXPECT_FALSE(drained);
  held.responder->Send({200, {}, "done"});
  ASSERT_TRUE(site.WaitEnd(busy));
  EXPECT_TRUE(busy.Has("done"));
  EXPECT_TRUE(busy.Has("Connection: close"));
  EXPECT_FALSE(busy.Has("pipelined"));
  EXPECT_TRUE(site.Until([&] { return drained; }));
}

TEST(HttpServer, DrainOfNothing) {
  Site site;
  bool drained = false;
  site.server->Drain([&] { drained = true; });
  EXPECT_FALSE(drained);  // never inside the call
  EXPECT_TRUE(site.Until([&] { return drained; }));
}

// A client that keeps its side open after the last answer does not hold the drain up.
TEST(HttpServer, DrainOfALingeringConnection) {
  Site site;
  Peer peer = site.Connect();
  peer.Send(Post("x", "Connection: close\r\n"));
  ASSERT_TRUE(site.WaitEnd(peer));
  bool drained = false;
  site.server->Drain([&] { drained = true; });
  EXPECT_TRUE(site.Until([&] { return drained; }));
}

TEST(HttpServer, Cut) {
  Site site;
  Peer peer = site.Connect();
  peer.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  bool drained = false;
  site.server->Drain([&] { drained = true; });
  site.server->Cut();
  EXPECT_TRUE(held.closed);
  EXPECT_TRUE(site.WaitEnd(peer));
  EXPECT_TRUE(site.Until([&] { return drained; }));
}

// Destroyed with everything under way; the loop goes on. (The sanitizer judges.)
TEST(HttpServer, DestroyedUnderWay) {
  Site site;
  Peer busy = site.Connect(), half = site.Connect();
  busy.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  half.Send("GET /ec");
  Site::Held& held = site.WaitHeld(1);
  held.responder->Begin(200, {});
  held.responder->Write(std::string(16 << 20, 'x'));
  site.Idle(10);
  site.server.reset();
  EXPECT_TRUE(held.closed);
  held.responder->Write("x");
  held.responder->End();
  EXPECT_TRUE(site.WaitEnd(half));
  site.Idle(20);
  site.held.clear();
  site.Idle(20);
}

// Destroyed before its loop has run at all.
TEST(HttpServer, DestroyedBeforeItRan) {
  Site site;
  site.server.reset();
  site.Idle(20);
  EXPECT_FALSE(Peer::Connect(site.port).connected());
}

TEST(HttpServer, ListenErrors) {
  Site site;
  const auto listen = [&](const std::string& address) {
    return http::Server::Listen(
        site.loop, address, {}, [](http::Request, std::shared_ptr<Responder>) {},
        [](int status, std::string_view) {
          return http::Response{status, {}, ""};
        });
  };
  const auto taken = listen(site.server->address());
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code(), ErrorCode::kIo);
  EXPECT_NE(taken.error().message().find(site.server->address()), std::string::npos);
  EXPECT_FALSE(listen("nonsense").ok());
  EXPECT_FALSE(listen("256.1.1.1:80").ok());
  const auto v6 = listen("[::1]:0");
  EXPECT_TRUE(!v6.ok() || (*v6)->address().starts_with("[::1]:"));
}

// Random bytes and cut requests: others are served on.
TEST(HttpServer, Noise) {
  Site site(http::Limits{.header_bytes = 2000, .body_bytes = 2000});
  std::mt19937 random(5);
  const std::string good = Post("hello", "A: b\r\n");
  for (int round = 0; round < 300; ++round) {
    Peer peer = site.Connect();
    std::string bytes = good + good;
    for (std::size_t i = 1 + random() % 8; i > 0; --i) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, random() % 9);
          break;
        default:
          bytes.insert(at, std::string(random() % 9, static_cast<char>(random())));
      }
      if (bytes.empty()) bytes.push_back('x');
    }
    peer.Send(bytes);
    site.Idle(1);
    if (round % 2 == 0) peer.Reset();
  }
  Peer peer = site.Connect();
  peer.Send(Post("fine"));
  EXPECT_TRUE(site.WaitFor(peer, "POST fine"));
  for (const auto& held : site.held) held->responder->Send({200, {}, ""});
}

}  // namespace
}  // namespace parallax::server::fake
