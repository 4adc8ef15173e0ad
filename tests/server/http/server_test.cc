// The HTTP server over real sockets: answers, clients that leave, the end of the server.
#include "tests/server/http/site.h"

namespace parallax::server::fake {
namespace {

int CountOf(const std::string& text, std::string_view what) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
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
  EXPECT_EQ(site.server->counts().accepted, 1U);
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

// What follows a body adds nothing to the head: a key, a length or a host there would come too late.
TEST(HttpServer, TrailersAreDropped) {
  Site site;
  for (const bool at_once : {true, false}) {
    Peer peer = site.Connect();
    const std::string head = "POST /hold HTTP/1.1\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n";
    const std::string body = "1\r\nx\r\n0\r\nAuthorization: Bearer k\r\nC: d\r\n\r\n";
    const std::size_t before = site.held.size();
    if (at_once) {
      peer.Send(head + body);
    } else {
      for (const char c : head + body) peer.Send(std::string(1, c));
    }
    const auto& held = site.WaitHeld(before + 1);
    EXPECT_EQ(held.request.body, "x");
    EXPECT_EQ(held.request.headers, (http::Headers{{"A", "b"}, {"Transfer-Encoding", "chunked"}}));
  }
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
  EXPECT_TRUE(site.Until([&] { return site.server->counts().open == 0; }));
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

}  // namespace
}  // namespace parallax::server::fake
