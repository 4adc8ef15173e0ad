// Backends behind HTTP, against a server whose answers the test writes.
#include "server/backends/http_backend.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/http/server.h"
#include "tests/server/sockets.h"

namespace parallax::server::fake {
namespace {

using nlohmann::json;

struct Calls final : CallSink {
  void OnEvent(std::string_view bytes, std::string_view payload) override {
    raw += bytes;
    data.emplace_back(payload);
    if (on_event) on_event();
  }
  void OnEnd(const CallEnd& e) override {
    ++ends;
    end = e;
  }
  std::string raw;
  std::vector<std::string> data;
  std::function<void()> on_event;
  int ends = 0;
  CallEnd end;
};

// Answers by path; what has no entry is 404.
struct Fake : World {
  using Handler = std::function<void(const http::Request&, http::Responder&)>;
  explicit Fake(HttpDialect dialect = HttpDialect::kLlamaServer) {
    server = *http::Server::Listen(
        loop, "127.0.0.1:0", {},
        [this](http::Request request, std::shared_ptr<http::Responder> responder) {
          seen.push_back(request);
          const auto found = handlers.find(std::string(http::Path(request.target)));
          if (found == handlers.end()) return responder->Send({404, {}, "no"});
          found->second(request, *responder);
          held.push_back(std::move(responder));
        },
        [](int status, std::string_view) {
          return http::Response{status, {}, ""};
        });
    HttpBackendOptions options;
    options.dialect = dialect;
    options.origin = {"127.0.0.1", PortOf(server->address()), ""};
    options.api_key = "key";
    options.probe_ms = 2000;
    options.tokenize_ms = 2000;
    backend = MakeHttpBackend(loop, options);
  }
  void Say(const std::string& path, const std::string& body, int status = 200) {
    handlers[path] = [=](const http::Request&, http::Responder& responder) {
      responder.Send({status, {{"Content-Type", "application/json"}}, body});
    };
  }
  void LlamaServer() {
    Say("/health", R"({"status":"ok"})");
    Say("/props", R"({"total_slots":2,"model_path":"/m.gguf","chat_template":"T",)"
                  R"("default_generation_settings":{"n_ctx":4096}})");
    Say("/v1/models", R"({"data":[{"id":"m.gguf"}]})");
  }
  ProbeResult Probe() {
    bool done = false;
    ProbeResult result;
    backend->Probe([&](const ProbeResult& r) {
      result = r;
      done = true;
    });
    EXPECT_FALSE(done);  // never inside the call
    EXPECT_TRUE(Until([&] { return done; }));
    return result;
  }
  Result<Tokens> Count(openai::Endpoint endpoint, const std::string& body) {
    bool done = false;
    Result<Tokens> result = MakeError(ErrorCode::kInternal, "none");
    const auto request = openai::ParseRequest(endpoint, body);
    EXPECT_TRUE(request.ok()) << body;
    backend->CountTokens(*request, [&](Result<Tokens> tokens) {
      result = std::move(tokens);
      done = true;
    });
    EXPECT_TRUE(Until([&] { return done; }));
    return result;
  }
  CallId Generate(Calls& calls) {
    return backend->Start({openai::Endpoint::kChat, R"({"stream":true})", "d1-1", "d0, d1"},
                          &calls);
  }
  // The stream, one byte after another, arrives as it is and as these events.
  void Streams(const std::string& stream, const std::vector<std::string>& events) {
    handlers[std::string(openai::PathOf(openai::Endpoint::kChat))] = [&](const http::Request&,
                                                                         http::Responder& r) {
      r.Begin(200, {{"Content-Type", "text/event-stream; charset=utf-8"}});
      for (const char c : stream) r.Write({&c, 1});
      r.End();
    };
    Calls calls;
    Generate(calls);
    ASSERT_TRUE(Until([&] { return calls.ends > 0; }));
    EXPECT_EQ(calls.end.kind, CallEnd::Kind::kComplete);
    EXPECT_EQ(calls.raw, stream);
    EXPECT_EQ(calls.data, events);
  }
  std::map<std::string, Handler> handlers;
  std::vector<http::Request> seen;
  std::vector<std::shared_ptr<http::Responder>> held;
  std::unique_ptr<http::Server> server;
  std::unique_ptr<Backend> backend;
};

const char* const kGenerate = "/v1/chat/completions";
const char* const kChatBody = R"({"messages":[{"role":"user","content":"hi"}]})";

TEST(HttpBackend, LlamaServerFacts) {
  Fake f;
  f.LlamaServer();
  const ProbeResult r = f.Probe();
  EXPECT_EQ(r.health, Health::kReady);
  EXPECT_EQ(r.facts.models, (std::vector<std::string>{"m.gguf"}));
  EXPECT_EQ(r.facts.context_tokens, 4096);
  EXPECT_EQ(r.facts.slots, 2);
  EXPECT_EQ(r.facts.identity, "/m.gguf\nT");
  EXPECT_EQ(http::FindHeader(f.seen[0].headers, "authorization"), "Bearer key");
  EXPECT_EQ(f.Probe().facts.boot, r.facts.boot);
}

TEST(HttpBackend, HealthStates) {
  Fake f;
  f.LlamaServer();
  const std::string boot = f.Probe().facts.boot;
  f.Say("/health", R"({"error":{"code":503}})", 503);
  EXPECT_EQ(f.Probe().health, Health::kLoading);
  f.Say("/health", "x", 500);
  ProbeResult down = f.Probe();
  EXPECT_EQ(down.health, Health::kDown);
  EXPECT_EQ(down.why, "/health answers 500");
  f.LlamaServer();
  // It failed meanwhile: its cache may be gone.
  EXPECT_NE(f.Probe().facts.boot, boot);
  f.Say("/v1/models", "", 401);
  EXPECT_NE(f.Probe().why.find("api_key"), std::string::npos);
  f.handlers["/health"] = [](const http::Request&, http::Responder&) {};  // never answers
  down = f.Probe();
  EXPECT_EQ(down.health, Health::kDown);
  EXPECT_NE(down.why, "");
  f.server.reset();
  EXPECT_EQ(f.Probe().health, Health::kDown);
}

// Answers that are not what they should be leave facts open; they break nothing.
TEST(HttpBackend, StrangeFacts) {
  for (const char* text : {"", "[]", "{", "5", R"({"total_slots":"x","model_path":5})",
                           R"({"total_slots":-1,"default_generation_settings":7})",
                           R"({"total_slots":1e300,"default_generation_settings":{"n_ctx":-5}})",
                           R"({"data":{},"models":[]})", R"({"data":[5,{"id":7},{"id":""}]})"}) {
    Fake f;
    f.LlamaServer();
    f.Say("/props", text);
    f.Say("/v1/models", text);
    const ProbeResult r = f.Probe();
    EXPECT_EQ(r.health, Health::kReady) << text;
    EXPECT_EQ(r.facts.models.size(), 0U) << text;
    EXPECT_EQ(r.facts.context_tokens, 0) << text;
    EXPECT_EQ(r.facts.slots, 0) << text;
  }
}

TEST(HttpBackend, AsksWhatStandsBehindAUrl) {
  Fake llama(HttpDialect::kDetect);
  llama.LlamaServer();
  EXPECT_EQ(llama.Probe().facts.slots, 2);
  EXPECT_FALSE(llama.backend->wants_usage_option());
  EXPECT_TRUE(llama.backend->leaves_out_prefill());
  Fake openai(HttpDialect::kDetect);
  openai.Say("/v1/models", R"({"data":[{"id":"a"},{"id":"b"}]})");
  const ProbeResult r = openai.Probe();
  EXPECT_EQ(r.health, Health::kReady);
  EXPECT_EQ(r.facts.models.size(), 2U);
  EXPECT_EQ(r.facts.identity, "");
  EXPECT_TRUE(openai.backend->wants_usage_option());
  EXPECT_FALSE(openai.backend->leaves_out_prefill());
  EXPECT_EQ(openai.Count(openai::Endpoint::kChat, kChatBody).error().code(),
            ErrorCode::kUnsupported);
}

TEST(HttpBackend, CountsTokens) {
  Fake f;
  f.Say("/apply-template", R"({"prompt":"<user>hi<assistant>"})");
  f.Say("/tokenize", R"({"tokens":[1,2,4294967294]})");
  const auto chat = f.Count(openai::Endpoint::kChat, kChatBody);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(*chat, (Tokens{1, 2, 4294967294U}));
  EXPECT_EQ(f.seen[0].body, kChatBody);
  EXPECT_EQ(json::parse(f.seen[1].body),
            (json{{"content", "<user>hi<assistant>"}, {"add_special", true}}));
  const auto completion = f.Count(openai::Endpoint::kCompletion, R"({"prompt":"abc"})");
  ASSERT_TRUE(completion.ok());
  EXPECT_EQ(json::parse(f.seen.back().body)["content"], "abc");
  // What has no text of its own cannot be counted.
  EXPECT_FALSE(f.Count(openai::Endpoint::kCompletion, R"({"prompt":[1,2]})").ok());
  EXPECT_FALSE(f.Count(openai::Endpoint::kChat,
                       R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})")
                   .ok());
  for (const char* wrong :
       {"", "{}", R"({"tokens":{}})", R"({"tokens":["a"]})", R"({"tokens":[1.5]})",
        R"({"tokens":[-1]})", R"({"tokens":[4294967296]})", "<html>"}) {
    f.Say("/tokenize", wrong);
    EXPECT_FALSE(f.Count(openai::Endpoint::kChat, kChatBody).ok()) << wrong;
  }
  f.Say("/apply-template", R"({"prompt":5})");
  EXPECT_FALSE(f.Count(openai::Endpoint::kChat, kChatBody).ok());
  f.Say("/apply-template", R"({"error":{}})", 500);
  EXPECT_FALSE(f.Count(openai::Endpoint::kChat, kChatBody).ok());
}

TEST(HttpBackend, Streams) {
  Fake f;
  const std::string stream = "data: {\"a\":1}\n\n: ping\n\ndata: [DONE]\n\n";
  f.Streams(stream, {"{\"a\":1}", "", "[DONE]"});
  EXPECT_EQ(f.seen[0].body, R"({"stream":true})");
  EXPECT_EQ(http::FindHeader(f.seen[0].headers, "x-request-id"), "d1-1");
  EXPECT_EQ(http::FindHeader(f.seen[0].headers, "x-parallax-via"), "d0, d1");
  EXPECT_EQ(http::FindHeader(f.seen[0].headers, "authorization"), "Bearer key");
}

// Lines may end in any of three ways, events be cut anywhere: the client gets the bytes as they are.
TEST(HttpBackend, StreamsWhateverTheirLinesEndWith) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    Fake f;
    const std::string stream = "data: {\"a\":1}" + end + end + ": ping" + end + end + "event: x" +
                               end + "data: b" + end + "data: c" + end + end + "data: [DONE]" +
                               end + end;
    f.Streams(stream, {"{\"a\":1}", "", "b\nc", "[DONE]"});
  }
}

TEST(HttpBackend, Endings) {
  struct Case {
    int status;
    const char* type;
    const char* body;
    CallEnd::Kind kind;
  };
  using Kind = CallEnd::Kind;
  for (const Case& c : std::vector<Case>{
           {200, "text/event-stream", "data: a\n", Kind::kComplete},  // whole lines are an event
           {200, "text/event-stream", "data: a\n\ndata: b", Kind::kDied},
           {200, "text/event-stream", "", Kind::kComplete},
           {200, "application/json", "{}", Kind::kAnswer},
           {200, "text/html", "<html>", Kind::kGarbage},
           {200, "", "x", Kind::kGarbage},
           {400, "application/json", "{\"error\":1}", Kind::kRefused},
           {500, "text/event-stream", "data: a\n\n", Kind::kRefused},
           {503, "", "", Kind::kRefused},
       }) {
    Fake f;
    f.handlers[kGenerate] = [&](const http::Request&, http::Responder& r) {
      http::Headers headers = {{"Retry-After", "3"}};
      if (*c.type != '\0') headers.emplace_back("Content-Type", c.type);
      r.Send({c.status, headers, c.body});
    };
    Calls calls;
    f.Generate(calls);
    ASSERT_TRUE(f.Until([&] { return calls.ends > 0; })) << c.body;
    EXPECT_EQ(Name(calls.end.kind), Name(c.kind)) << c.type << c.body;
    EXPECT_EQ(calls.end.status, c.status);
    if (c.kind == Kind::kAnswer || c.kind == Kind::kRefused) {
      EXPECT_EQ(calls.end.text, c.body);
      EXPECT_EQ(calls.end.retry_after, "3");
    }
    EXPECT_EQ(calls.ends, 1);
  }
}

TEST(HttpBackend, EndingsOfTheConnection) {
  Fake f;
  f.handlers[kGenerate] = [&](const http::Request&, http::Responder& r) {
    r.Begin(200, {{"Content-Type", "text/event-stream"}});
    r.Write("data: a\n\n");
  };
  Calls cut;
  f.Generate(cut);
  ASSERT_TRUE(f.Until([&] { return cut.data.size() == 1; }));
  f.held[0]->Abort();
  ASSERT_TRUE(f.Until([&] { return cut.ends > 0; }));
  EXPECT_EQ(cut.end.kind, CallEnd::Kind::kDied);
  f.server.reset();
  Calls refused;
  f.Generate(refused);
  EXPECT_EQ(refused.ends, 0);
  ASSERT_TRUE(f.Until([&] { return refused.ends > 0; }));
  EXPECT_EQ(refused.end.kind, CallEnd::Kind::kConnect);
}

// Aborted inside an event, with more events behind it in the same bytes.
TEST(HttpBackend, AbortedInsideAnEvent) {
  Fake f;
  f.handlers[kGenerate] = [&](const http::Request&, http::Responder& r) {
    r.Begin(200, {{"Content-Type", "text/event-stream"}});
    r.Write("data: a\n\ndata: b\n\ndata: c\n\n");
  };
  Calls calls;
  CallId id = 0;
  calls.on_event = [&] { f.backend->Abort(id); };
  id = f.Generate(calls);
  ASSERT_TRUE(f.Until([&] { return !f.held.empty() && f.held[0]->closed(); }));
  EXPECT_EQ(calls.data.size(), 1U);
  EXPECT_EQ(calls.ends, 0);
  f.backend->Abort(id);
  f.backend->Pause(id);
  f.backend->Resume(id);
}

TEST(HttpBackend, AnEventWithoutEnd) {
  Fake f;
  f.handlers[kGenerate] = [&](const http::Request&, http::Responder& r) {
    r.Begin(200, {{"Content-Type", "text/event-stream"}});
    r.Write("data: " + std::string(17 << 20, 'x'));
  };
  Calls calls;
  f.Generate(calls);
  ASSERT_TRUE(f.Until([&] { return calls.ends > 0; }));
  EXPECT_EQ(calls.end.kind, CallEnd::Kind::kGarbage);
  EXPECT_TRUE(f.Until([&] { return f.held[0]->closed(); }));
}

// Destroyed with questions and calls under way: nothing is called afterwards.
TEST(HttpBackend, Destroyed) {
  Fake f;
  f.handlers["/health"] = f.handlers["/tokenize"] = [](const http::Request&, http::Responder&) {};
  f.handlers[kGenerate] = [&](const http::Request&, http::Responder& r) {
    r.Begin(200, {{"Content-Type", "text/event-stream"}});
    r.Write("data: a\n\n");
  };
  Calls calls;
  f.Generate(calls);
  f.backend->Probe([](const ProbeResult&) { FAIL(); });
  const auto request = openai::ParseRequest(openai::Endpoint::kCompletion, R"({"prompt":"a"})");
  f.backend->CountTokens(*request, [](const Result<Tokens>&) { FAIL(); });
  ASSERT_TRUE(f.Until([&] { return calls.data.size() == 1 && f.seen.size() == 3; }));
  f.backend.reset();
  f.Idle(50);
  EXPECT_EQ(calls.ends, 0);
}

}  // namespace
}  // namespace parallax::server::fake
