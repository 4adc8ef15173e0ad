// The HTTP client against raw sockets that answer well, badly, or not at all.
#include "server/http/client.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http/fetch_text.h"
#include "tests/server/sockets.h"

namespace parallax::server::fake {
namespace {

using http::Client;
using http::FetchError;
using http::FetchRequest;

struct Sink final : http::FetchSink {
  void OnHead(int code, const http::Headers& fields) override {
    ++heads;
    status = code;
    headers = fields;
    if (on_head) on_head();
  }
  void OnBody(std::string_view bytes) override {
    body += bytes;
    if (on_body) on_body();
  }
  void OnEnd() override {
    ++ends;
    if (on_end) on_end();
  }
  void OnError(FetchError e, const std::string& why) override {
    ++ends;
    error = Name(e);
    message = why;
  }
  int heads = 0, ends = 0, status = 0;
  http::Headers headers;
  std::string body, error, message;
  std::function<void()> on_head, on_body, on_end;
};

struct Web : World {
  explicit Web(const Client::Options& options = {}, const std::string& base = "") {
    client = Client::Make(loop, {"127.0.0.1", listener.port(), base}, options);
  }
  Peer Accept() {
    Peer peer;
    EXPECT_TRUE(Until([&] { return listener.Accept(peer); }));
    return peer;
  }
  // Accepts, waits for the whole head (and `body`), answers.
  Peer Serve(const std::string& answer, const std::string& body = "") {
    Peer peer = Accept();
    Reply(peer, answer, body);
    return peer;
  }
  void Reply(Peer& peer, const std::string& answer, const std::string& body = "") {
    EXPECT_TRUE(Until([&] { return peer.Has("\r\n\r\n" + body); }));
    peer.Send(answer);
  }
  bool Finish(const Sink& sink) {
    return Until([&] { return sink.ends > 0; });
  }
  http::FetchId Get(Sink& sink, const std::string& target = "/x") {
    FetchRequest request;
    request.target = target;
    return client->Fetch(std::move(request), &sink);
  }
  Listener listener;
  std::unique_ptr<Client> client;
};

const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

TEST(HttpClient, SendsWhatItShould) {
  Web web({}, "/base");
  Sink sink;
  FetchRequest request;
  request.method = "POST";
  request.target = "/v1/x?y";
  request.headers = {{"Authorization", "Bearer k"}};
  request.body = "{\"a\":1}";
  web.client->Fetch(std::move(request), &sink);
  EXPECT_EQ(sink.ends, 0);
  Peer peer = web.Accept();
  ASSERT_TRUE(web.Until([&] { return peer.Has("{\"a\":1}"); }));
  EXPECT_EQ(peer.Read(),
            "POST /base/v1/x?y HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(web.listener.port()) +
                "\r\nAuthorization: Bearer k\r\nContent-Length: 7\r\n"
                "Connection: keep-alive\r\n\r\n{\"a\":1}");
  peer.Send("HTTP/1.1 404 Not Found\r\nX-A: b\r\nContent-Length: 4\r\n\r\nbody");
  ASSERT_TRUE(web.Finish(sink));
  EXPECT_EQ(sink.status, 404);
  EXPECT_EQ(http::FindHeader(sink.headers, "x-a"), "b");
  EXPECT_EQ(sink.body, "body");
  EXPECT_EQ(sink.error, "");
}

TEST(HttpClient, BodiesOfEveryKind) {
  const std::vector<std::pair<std::string, bool>> answers = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
       false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
       false},
      {"HTTP/1.1 200 OK\r\n\r\nhello", true},
      {"HTTP/1.0 200 OK\r\n\r\nhello", true},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
       false},
  };
  for (const auto& [answer, close] : answers) {
    for (const bool bytewise : {false, true}) {
      Web web;
      Sink sink;
      web.Get(sink);
      Peer peer = web.Accept();
      ASSERT_TRUE(web.Until([&] { return peer.Has("\r\n\r\n"); }));
      if (bytewise) {
        for (const char c : answer) {
          peer.Send({&c, 1});
          web.loop.context().poll();
        }
      } else {
        peer.Send(answer);
      }
      if (close) peer.Close();
      ASSERT_TRUE(web.Finish(sink)) << answer;
      EXPECT_EQ(sink.error, "") << sink.message;
      EXPECT_EQ(sink.body, "hello") << answer;
      EXPECT_EQ(sink.status, 200) << answer;
      EXPECT_EQ(sink.heads, 1) << answer;
      EXPECT_EQ(sink.ends, 1);
      EXPECT_EQ(web.client->idle_connections(), close ? 0U : 1U) << answer;
    }
  }
}

TEST(HttpClient, KeepsConnections) {
  Web web;
  Sink first, second, third;
  web.Get(first);
  Peer peer = web.Serve(kOk);
  ASSERT_TRUE(web.Finish(first));
  EXPECT_EQ(web.client->idle_connections(), 1U);
  peer.Clear();
  web.Get(second);
  web.Reply(peer, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(web.Finish(second));
  EXPECT_EQ(web.listener.accepted, 1);
  EXPECT_EQ(web.client->idle_connections(), 0U);
  web.Get(third);
  Peer other = web.Serve(kOk);
  ASSERT_TRUE(web.Finish(third));
  EXPECT_EQ(web.listener.accepted, 2);
  web.client->Forget();
  EXPECT_EQ(web.client->idle_connections(), 0U);
  EXPECT_TRUE(web.Until([&] { return other.Ended(); }));
}

// A kept connection that is old, closed, or has sent something unasked is not used again.
TEST(HttpClient, StaleConnectionsAreNotUsed) {
  for (int why = 0; why < 3; ++why) {
    Web web(Client::Options{.keep_ms = why == 0 ? 20.0 : 60'000.0});
    Sink first, second;
    web.Get(first);
    Peer peer = web.Serve(kOk);
    ASSERT_TRUE(web.Finish(first));
    if (why == 0) {  // and it is closed where nobody asks again, as with a program that ended
      EXPECT_TRUE(web.Until([&] { return peer.Ended() && web.client->idle_connections() == 0; }));
    }
    if (why == 1) peer.Close();
    if (why == 2) peer.Send("HTTP/1.1 408 Request Timeout\r\n\r\n");
    web.Idle(10);
    web.Get(second);
    Peer fresh = web.Serve(kOk);
    ASSERT_TRUE(web.Finish(second));
    EXPECT_EQ(second.status, 200) << why;
    EXPECT_EQ(second.error, "") << why;
    EXPECT_EQ(web.listener.accepted, 2) << why;
  }
}

// The race of an idle close: sent again, once, on a fresh connection.
TEST(HttpClient, AStaleConnectionIsRetriedOnce) {
  for (const bool fresh_dies : {false, true}) {
    Web web;
    Sink first, second;
    web.Get(first);
    Peer peer = web.Serve(kOk);
    ASSERT_TRUE(web.Finish(first));
    peer.Clear();
    FetchRequest request;
    request.method = "POST";
    request.body = "payload";
    web.client->Fetch(std::move(request), &second);
    ASSERT_TRUE(web.Until([&] { return peer.Has("payload"); }));
    peer.Close();  // without a byte of answer
    Peer fresh = web.Accept();
    ASSERT_TRUE(web.Until([&] { return fresh.Has("payload"); }));
    if (fresh_dies) {
      fresh.Close();
    } else {
      fresh.Send(kOk);
    }
    ASSERT_TRUE(web.Finish(second));
    EXPECT_EQ(second.error, fresh_dies ? "closed" : "");
    web.Idle(20);
    EXPECT_EQ(web.listener.accepted, 2);
  }
}

// One byte of answer, and it was no idle close.
TEST(HttpClient, AnAnswerThatBeganIsNotRetried) {
  Web web;
  Sink first, second;
  web.Get(first);
  Peer peer = web.Serve(kOk);
  ASSERT_TRUE(web.Finish(first));
  peer.Clear();
  web.Get(second);
  web.Reply(peer, "H");
  web.Idle(10);
  peer.Close();
  ASSERT_TRUE(web.Finish(second));
  EXPECT_EQ(second.error, "closed");
  EXPECT_EQ(web.listener.accepted, 1);
}

TEST(HttpClient, Refused) {
  Web web;
  web.listener.Close();
  Sink sink;
  web.Get(sink);
  EXPECT_EQ(sink.ends, 0);  // never inside Fetch
  ASSERT_TRUE(web.Finish(sink));
  EXPECT_EQ(sink.error, "connect");
  EXPECT_NE(sink.message.find("127.0.0.1:"), std::string::npos);
}

// A host that drops packets: the connection is never taken, and never refused.
TEST(HttpClient, AConnectionThatIsNotTaken) {
  World world;
  Listener full(0);  // nobody accepts: the kernel drops what its queue cannot hold
  std::vector<int> waiting;
  for (int i = 0; i < 8; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const sockaddr_in address = Peer::Loopback(full.port());
    (void)::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    waiting.push_back(fd);
  }
  const auto client = Client::Make(world.loop, {"127.0.0.1", full.port(), ""}, {});
  Sink sink;
  FetchRequest request;
  request.target = "/";
  request.connect_ms = 50;
  client->Fetch(std::move(request), &sink);
  ASSERT_TRUE(world.Until([&] { return sink.ends > 0; }));
  EXPECT_EQ(sink.error, "timeout");
  EXPECT_NE(sink.message.find("did not take the connection within 50 ms"), std::string::npos)
      << sink.message;
  EXPECT_EQ(sink.heads, 0);
  for (const int fd : waiting) ::close(fd);
}

TEST(HttpClient, WaitsOnlySoLong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},                                                    // nothing at all
      {"HTTP/1.1 200 OK\r\n", ""},                                 // half a head
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "abc"},  // half a body
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "a"},
  };
  for (const auto& [answer, body] : cases) {
    Web web;
    Sink sink;
    FetchRequest request;
    request.first_byte_ms = answer.empty() ? 100 : 10'000;
    request.between_ms = 100;
    web.client->Fetch(std::move(request), &sink);
    Peer peer = web.Serve(answer);
    ASSERT_TRUE(web.Finish(sink));
    EXPECT_EQ(sink.error, "timeout") << answer;
    EXPECT_EQ(sink.body, body);
    EXPECT_TRUE(web.Until([&] { return peer.Ended(); }));
  }
}

// A byte now and then keeps a silence short, but not the whole answer.
TEST(HttpClient, TricklesOnlySoLong) {
  for (const std::string head : {"", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"}) {
    Web web;
    Sink sink;
    FetchRequest request;
    request.first_byte_ms = 10'000;
    request.between_ms = 10'000;
    request.whole_ms = 200;
    web.client->Fetch(std::move(request), &sink);
    Peer peer = web.Serve(head);
    ASSERT_TRUE(web.Until([&] {
      peer.Send("H");
      return sink.ends > 0;
    }));
    EXPECT_EQ(sink.error, "timeout");
  }
}

// A chunk's head, and what follows the last chunk, without end.
TEST(HttpClient, HeadsInsideABodyAreBounded) {
  for (const std::string begin : {"1;x=", "1\r\na\r\n0\r\nT: "}) {
    Web web;
    Sink sink;
    web.Get(sink);
    Peer peer = web.Accept();
    ASSERT_TRUE(web.Until([&] { return peer.Has("\r\n\r\n"); }));
    peer.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + begin);
    const std::string more(16 << 10, 'y');
    ASSERT_TRUE(web.Until([&] {
      peer.Send(more);
      return sink.ends > 0;
    }));
    EXPECT_EQ(sink.error, "malformed") << begin;
    EXPECT_NE(sink.message.find("without end"), std::string::npos) << sink.message;
  }
}

TEST(HttpClient, Malformed) {
  const std::vector<std::string> answers = {
      "HELLO\r\n\r\n",
      "HTTP/1.1 abc OK\r\n\r\n",
      "HTTP/9.9 200 OK\r\n\r\n",
      "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
      "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n",
      std::string("\0\1\2\3\r\n\r\n", 8),
  };
  for (const std::string& answer : answers) {
    Web web;
    Sink sink;
    web.Get(sink);
    Peer peer = web.Serve(answer);
    ASSERT_TRUE(web.Finish(sink)) << answer.substr(0, 60);
    EXPECT_EQ(sink.error, "malformed") << answer.substr(0, 60);
    EXPECT_EQ(web.client->idle_connections(), 0U);
  }
}

TEST(HttpClient, CutShort) {
  for (const char* answer :
       {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", ""}) {
    for (const bool reset : {false, true}) {
      Web web;
      Sink sink;
      web.Get(sink);
      Peer peer = web.Serve(answer);
      web.Idle(10);
      if (reset) peer.Reset();
      peer.Close();
      ASSERT_TRUE(web.Finish(sink)) << answer;
      EXPECT_EQ(sink.error, "closed") << answer;
      EXPECT_EQ(sink.ends, 1);
    }
  }
}

// Bytes after the answer: the answer counts, the connection does not.
TEST(HttpClient, TooMuch) {
  Web web;
  Sink sink;
  web.Get(sink);
  Peer peer = web.Serve(kOk + "HTTP/1.1 200 OK\r\n");
  ASSERT_TRUE(web.Finish(sink));
  EXPECT_EQ(sink.body, "ok");
  EXPECT_EQ(web.client->idle_connections(), 0U);
}

// Cancelled at every stage: nothing is called, the other side sees the end.
TEST(HttpClient, Cancel) {
  Web web;
  Sink before, waiting, inside;
  web.client->Cancel(web.Get(before));  // not even connecting
  const http::FetchId connecting = web.Get(before);
  web.loop.context().poll_one();
  web.client->Cancel(connecting);
  const http::FetchId id = web.Get(waiting);
  Peer peer;
  ASSERT_TRUE(web.Until([&] {
    web.listener.Accept(peer);
    return peer.connected() && peer.Has("\r\n\r\n");
  }));
  web.client->Cancel(id);
  ASSERT_TRUE(web.Until([&] { return peer.Ended(); }));
  http::FetchId own = 0;
  inside.on_body = [&] { web.client->Cancel(own); };
  own = web.Get(inside);
  Peer other;
  ASSERT_TRUE(web.Until([&] {
    web.listener.Accept(other);
    return other.connected() && other.Has("\r\n\r\n");
  }));
  other.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n");
  ASSERT_TRUE(web.Until([&] { return other.Ended(); }));
  EXPECT_EQ(inside.body, "a");
  web.client->Cancel(own);
  web.client->Cancel(12345);
  web.Idle(20);
  EXPECT_EQ(before.ends + before.heads + waiting.ends + waiting.heads + inside.ends, 0);
}

TEST(HttpClient, CancelledInItsHead) {
  Web web;
  Sink sink;
  http::FetchId id = 0;
  sink.on_head = [&] { web.client->Cancel(id); };
  id = web.Get(sink);
  Peer peer = web.Serve(kOk);
  ASSERT_TRUE(web.Until([&] { return peer.Ended(); }));
  EXPECT_EQ(sink.body, "");
  EXPECT_EQ(sink.ends, 0);
}

// The client goes inside a callback, or with everything under way.
TEST(HttpClient, Destroyed) {
  {
    Web web;
    Sink sink;
    sink.on_end = [&] { web.client.reset(); };
    web.Get(sink);
    Peer peer = web.Serve(kOk);
    ASSERT_TRUE(web.Finish(sink));
    web.Idle(10);
  }
  for (int stage = 0; stage < 3; ++stage) {
    Web web;
    Sink sink;
    web.Get(sink);
    Peer peer;
    if (stage > 0) {
      peer = web.Accept();
      ASSERT_TRUE(web.Until([&] { return peer.Has("\r\n\r\n"); }));
    }
    if (stage > 1) {
      peer.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
      ASSERT_TRUE(web.Until([&] { return sink.body == "a"; }));
      web.client->Pause(1);
      web.Idle(5);
    }
    web.client.reset();
    web.Idle(20);
    EXPECT_EQ(sink.ends, 0);
  }
}

// A paused fetch reads no more; the sender is held up by the kernel's buffers.
TEST(HttpClient, PauseAndResume) {
  Web web;
  Sink sink;
  const http::FetchId id = web.Get(sink);
  Peer peer = web.Accept();
  ASSERT_TRUE(web.Until([&] { return peer.Has("\r\n\r\n"); }));
  const std::size_t total = 64U << 20;
  peer.Send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(total) + "\r\n\r\n");
  ASSERT_TRUE(web.Until([&] { return sink.heads == 1; }));
  web.client->Pause(id);
  const std::string block(256 << 10, 'x');
  std::size_t sent = 0;
  const auto push = [&] {
    const std::size_t n = peer.Send(std::string_view(block).substr(0, total - sent));
    sent += n;
    return n;
  };
  for (int quiet = 0; quiet < 20;) {
    quiet = push() == 0 ? quiet + 1 : 0;
    web.Idle(1);
  }
  EXPECT_LT(sent, total);
  EXPECT_LT(sink.body.size(), 1U << 20);
  web.client->Resume(id);
  ASSERT_TRUE(web.Until([&] {
    push();
    return sink.ends > 0;
  }));
  EXPECT_EQ(sink.body.size(), total);
}

// A paused fetch is not timed out; resumed, it is again.
TEST(HttpClient, APauseStopsTheClock) {
  Web web;
  Sink sink;
  FetchRequest request;
  request.first_byte_ms = 10'000;
  request.between_ms = 500;
  const http::FetchId id = web.client->Fetch(std::move(request), &sink);
  Peer peer = web.Serve("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
  ASSERT_TRUE(web.Until([&] { return sink.body == "abc"; }));
  web.client->Pause(id);
  web.Idle(1000);
  EXPECT_EQ(sink.ends, 0);
  web.client->Resume(id);
  ASSERT_TRUE(web.Finish(sink));
  EXPECT_EQ(sink.error, "timeout");
}

// An answer that comes before the request was taken, as 413 does.
TEST(HttpClient, AnEarlyAnswer) {
  Web web;
  Sink sink;
  FetchRequest request;
  request.method = "POST";
  request.body = std::string(1 << 20, 'x');
  web.client->Fetch(std::move(request), &sink);
  Peer peer = web.Accept();
  peer.Send("HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig");
  ASSERT_TRUE(web.Until([&] {
    peer.Read();
    peer.Clear();
    return sink.ends > 0;
  }));
  EXPECT_EQ(sink.status, 413);
  EXPECT_EQ(sink.body, "big");
}

TEST(TextFetcher, WholeAnswersAndLimits) {
  Web web;
  auto fetcher = std::make_unique<http::TextFetcher>(*web.client, 10);
  std::string got;
  const auto ask = [&] {
    FetchRequest request;
    request.target = "/t";
    fetcher->Fetch(std::move(request), [&](Result<http::Response> answer) {
      got = answer.ok() ? std::to_string(answer->status) + answer->body : answer.error().message();
    });
  };
  ask();
  Peer peer = web.Serve("HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n0123456789");
  ASSERT_TRUE(web.Until([&] { return !got.empty(); }));
  EXPECT_EQ(got, "2010123456789");
  peer.Clear();
  got.clear();
  ask();
  web.Reply(peer, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a");
  ASSERT_TRUE(web.Until([&] { return !got.empty(); }));
  EXPECT_EQ(got, "the answer is over 10 bytes");
  got.clear();
  ask();
  Peer third = web.Accept();
  fetcher.reset();
  web.Idle(20);
  EXPECT_EQ(got, "");
}

}  // namespace
}  // namespace parallax::server::fake
