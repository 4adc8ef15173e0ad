// What clients send wrong, too much of, or too slowly.
#include <random>

#include "tests/server/http/site.h"

namespace parallax::server::fake {
namespace {

TEST(HttpServerLimits, Expect100Continue) {
  Site site(http::Limits{.body_bytes = 100});
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

TEST(HttpServerLimits, Limits) {
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
  EXPECT_EQ(site.server->counts().malformed, 8U);
  // What is neither head nor body: a chunk's extension, and the lines behind the last chunk.
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  refused(chunked + "1;x=" + std::string(5000, 'y'), "431");
  refused(chunked + "1\r\na\r\n0\r\nT: " + std::string(5000, 'y'), "431");
  // Where such a body ends cannot be told: what follows is no request.
  for (const char* encoding : {"identity", "gzip", "xchunked"}) {
    refused(post + "Transfer-Encoding: " + encoding + "\r\n\r\n" + get + "\r\n", "501");
  }
  Peer fits = site.Connect();
  fits.Send(Post(std::string(1000, 'y')));
  EXPECT_TRUE(site.WaitFor(fits, "POST yyy"));
}

// Bodies are held until their requests are answered: all of them together have a limit.
TEST(HttpServerLimits, AllBodies) {
  Site site(http::Limits{.body_bytes = 1000, .all_body_bytes = 1500});
  const auto post = [](std::size_t bytes) {
    return "POST /hold HTTP/1.1\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" +
           std::string(bytes, 'x');
  };
  Peer first = site.Connect(), second = site.Connect(), third = site.Connect();
  first.Send(post(900));
  auto& held = site.WaitHeld(1);
  second.Send(post(600));
  site.WaitHeld(2);
  third.Send(post(1));
  ASSERT_TRUE(site.WaitEnd(third));
  EXPECT_TRUE(third.Has("HTTP/1.1 503 ")) << third.Read();
  // The answered one, though its connection stays, and the refused one count no more; nor does one
  // whose client left.
  held.responder->Send({200, {}, "done"});
  ASSERT_TRUE(site.WaitFor(first, "done"));
  first.Send(post(900));
  site.WaitHeld(3);
  { Peer gone = std::move(second); }
  ASSERT_TRUE(site.Until([&] { return site.held[1]->closed; }));
  Peer fourth = site.Connect();
  fourth.Send(post(600));
  EXPECT_EQ(site.WaitHeld(4).request.body.size(), 600U);
}

TEST(HttpServerLimits, Malformed) {
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
  EXPECT_EQ(site.server->counts().malformed, requests.size());
}

// A slow head and a slow body are given up with 408; an idle connection just ends.
TEST(HttpServerLimits, SlowClients) {
  Site site(http::Limits{.header_ms = 1000, .body_ms = 1000, .idle_ms = 1000});
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
  EXPECT_EQ(site.server->counts().timed_out, 2U);
  EXPECT_TRUE(site.Until([&] { return site.server->counts().open == 0; }));
  // An answer that takes longer than all of these is waited for.
  Peer waits = site.Connect();
  waits.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  site.Idle(1600);
  held.responder->Send({200, {}, "late"});
  EXPECT_TRUE(site.WaitFor(waits, "late"));
}

TEST(HttpServerLimits, TooManyConnections) {
  Site site(http::Limits{.connections = 2});
  Peer a = site.Connect(), b = site.Connect();
  a.Send(Post("a"));
  b.Send(Post("b"));
  ASSERT_TRUE(site.WaitFor(a, "POST a"));
  ASSERT_TRUE(site.WaitFor(b, "POST b"));
  Peer c = site.Connect();
  ASSERT_TRUE(site.WaitEnd(c));
  EXPECT_TRUE(c.Has("HTTP/1.1 503 "));
  EXPECT_EQ(site.server->counts().refused, 1U);
  c.Close();
  a.Close();
  ASSERT_TRUE(site.Until([&] { return site.server->counts().open == 1; }));
  Peer d = site.Connect();
  d.Send(Post("d"));
  EXPECT_TRUE(site.WaitFor(d, "POST d"));
}

// What a client sends ahead of an answer is not read without end.
TEST(HttpServerLimits, ReadAheadIsBounded) {
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

// One that takes nothing for too long is cut.
TEST(HttpServerLimits, AClientThatNeverReads) {
  Site site(http::Limits{.write_ms = 300});
  Peer peer = site.Connect(/*receive_bytes=*/16 << 10);
  peer.Send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Site::Held& held = site.WaitHeld(1);
  held.responder->Begin(200, {});
  held.responder->Write(std::string(32 << 20, 'x'));
  EXPECT_TRUE(site.Until([&] { return held.closed; }));
  EXPECT_EQ(site.server->counts().timed_out, 1U);
}

// Random bytes and cut requests: others are served on.
TEST(HttpServerLimits, Noise) {
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
