// Endpoints: who may ask what, and what is answered.
#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

struct Endpoints : Rig {
  explicit Endpoints(const std::string& key = "") { Rebuild(key); }
  void Rebuild(const std::string& key) {
    service = std::make_unique<Service>(loop, dispatcher(), Service::Options{key, "9.9"});
  }
  Client Ask(const std::string& method, const std::string& target, const std::string& body = "",
             const http::Headers& headers = {}) {
    auto client = NewClient();
    http::Request request;
    request.method = method;
    request.target = target;
    request.body = body;
    request.headers = headers;
    service->Handle(std::move(request), client);
    return client;
  }
  std::unique_ptr<Service> service;
};

const char* const kChat = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2})";

TEST(Service, PathsAndMethods) {
  Endpoints e;
  e.Add("cpu", {});
  e.Start();
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/route"}) {
    for (const char* method : {"GET", "PUT", "DELETE", "HEAD"}) {
      const Client client = e.Ask(method, path);
      EXPECT_EQ(client->status, 405) << path;
      EXPECT_EQ(client->header("allow"), "POST");
    }
  }
  for (const char* path :
       {"/v1/models", "/v1/decisions", "/health", "/v1/health", "/metrics", "/status.json", "/"}) {
    EXPECT_EQ(e.Ask("POST", path)->status, 405) << path;
    EXPECT_EQ(e.Ask("POST", path)->header("allow"), "GET, HEAD");
    EXPECT_EQ(e.Ask("GET", path)->status, 200) << path;
    EXPECT_EQ(e.Ask("HEAD", std::string(path) + "?x=1")->status, 200) << path;
  }
  for (const char* path : {"/v1", "/v1/chat/completions/", "/v1/embeddings", "/health2", "", "*",
                           "/v1/decisions/", "/../etc/passwd"}) {
    const Client client = e.Ask("GET", path);
    EXPECT_EQ(client->status, 404) << path;
    EXPECT_EQ(client->json()["error"]["type"], "not_found_error") << path;
  }
}

// Clients are given base URLs with and without /v1.
TEST(Service, OpenAiPathsWithoutTheVersion) {
  Endpoints e;
  e.Add("cpu", {});
  e.Start();
  EXPECT_EQ(e.Ask("GET", "/models")->json()["object"], "list");
  EXPECT_EQ(e.Ask("GET", "/chat/completions")->status, 405);
  const Client chat = e.Ask("POST", "/chat/completions", kChat);
  const Client completion = e.Ask("POST", "/completions", R"({"prompt":"a","max_tokens":2})");
  ASSERT_TRUE(e.Await(chat) && e.Await(completion));
  EXPECT_EQ(chat->json()["object"], "chat.completion");
  EXPECT_EQ(completion->json()["object"], "text_completion");
  EXPECT_EQ(e.Ask("GET", "/decisions")->status, 404);
}

TEST(Service, PagesOfOtherOriginsReadOnlyWhereTheyMay) {
  Endpoints e;
  e.Add("cpu", {});
  e.Start();
  const http::Headers page = {{"Origin", "http://ui:3000"}, {"Content-Type", "application/json"}};
  const http::Headers question = {{"Origin", "http://ui:3000"},
                                  {"Access-Control-Request-Method", "POST"},
                                  {"Access-Control-Request-Headers", "authorization"}};
  const auto allowed = [](const Client& client) {
    return client->header("access-control-allow-origin");
  };
  // Off by default.
  EXPECT_EQ(allowed(e.Ask("GET", "/v1/models", "", page)), "");
  EXPECT_EQ(e.Ask("OPTIONS", "/v1/chat/completions", "", question)->status, 405);

  const auto rebuild = [&](const std::vector<std::string>& origins) {
    e.service = std::make_unique<Service>(e.loop, e.dispatcher(),
                                          Service::Options{"secret", "9.9", origins});
  };
  rebuild({"http://other", "http://ui:3000"});
  // The browser's question carries no key.
  const Client answer = e.Ask("OPTIONS", "/v1/chat/completions", "", question);
  EXPECT_EQ(answer->status, 204);
  EXPECT_EQ(allowed(answer), "http://ui:3000");
  EXPECT_NE(std::string(answer->header("access-control-allow-headers")).find("Authorization"),
            std::string::npos);
  EXPECT_NE(std::string(answer->header("access-control-allow-methods")).find("POST"),
            std::string::npos);
  // A refusal can be read as well, or the page could not say what is wrong.
  EXPECT_EQ(e.Ask("GET", "/v1/models", "", page)->status, 401);
  EXPECT_EQ(allowed(e.Ask("GET", "/v1/models", "", page)), "http://ui:3000");
  http::Headers with_key = page;
  with_key.emplace_back("Authorization", "Bearer secret");
  const Client stream = e.Ask(
      "POST", "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true})", with_key);
  ASSERT_TRUE(e.Await(stream));
  EXPECT_EQ(stream->status, 200);
  EXPECT_EQ(allowed(stream), "http://ui:3000");
  EXPECT_NE(
      std::string(stream->header("access-control-expose-headers")).find("X-Parallax-Decision"),
      std::string::npos);
  // Another's page, and one without an origin (a program).
  EXPECT_EQ(allowed(e.Ask("GET", "/health", "", {{"Origin", "http://ui:3001"}})), "");
  EXPECT_EQ(allowed(e.Ask("GET", "/health")), "");
  EXPECT_EQ(e.Ask("OPTIONS", "/v1/models", "",
                  {{"Origin", "http://ui:3001"}, {"Access-Control-Request-Method", "GET"}})
                ->status,
            401);
  rebuild({"*"});
  EXPECT_EQ(allowed(e.Ask("GET", "/health", "", {{"Origin", "http://any"}})), "*");
}

TEST(Service, ApiKey) {
  Endpoints e("secret");
  e.Add("cpu", {});
  e.Start();
  for (const char* given : {"", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secret2",
                            "Bearer xecret", "bearer secret", "Basic secret"}) {
    for (const char* path :
         {"/v1/models", "/metrics", "/status.json", "/v1/decisions", "/nothing"}) {
      const Client client = e.Ask("GET", path, "", {{"Authorization", given}});
      EXPECT_EQ(client->status, 401) << given;
      EXPECT_EQ(client->header("www-authenticate"), "Bearer");
      EXPECT_EQ(client->json()["error"]["code"], "invalid_api_key");
    }
    EXPECT_EQ(e.Ask("POST", "/v1/chat/completions", kChat, {{"Authorization", given}})->status,
              401);
  }
  EXPECT_EQ(e.Ask("GET", "/v1/models", "", {{"aUTHORIZATION", "Bearer secret"}})->status, 200);
  EXPECT_EQ(e.Ask("GET", "/v1/models", "", {{"X-Api-Key", "secret"}})->status, 200);
  EXPECT_EQ(e.Ask("GET", "/v1/models", "", {{"X-Api-Key", "secre"}})->status, 401);
  EXPECT_EQ(
      e.Ask("GET", "/v1/models", "", {{"Authorization", "Bearer other"}, {"X-Api-Key", "secret"}})
          ->status,
      401);
  EXPECT_EQ(e.Ask("GET", "/health")->status, 200);
  EXPECT_EQ(e.Ask("GET", "/")->status, 200);
}

// A web page may post JSON only after asking; forms and texts it may post without.
TEST(Service, WebPagesCannotPostForms) {
  Endpoints e;
  e.Add("cpu", {});
  e.Start();
  const auto post = [&](const http::Headers& headers) {
    const Client client = e.Ask("POST", "/v1/chat/completions", kChat, headers);
    EXPECT_TRUE(e.Await(client));
    return client->status;
  };
  EXPECT_EQ(post({{"Origin", "http://evil"}, {"Content-Type", "text/plain"}}), 415);
  EXPECT_EQ(post({{"Origin", "http://evil"}}), 415);
  EXPECT_EQ(post({{"Origin", "http://x"}, {"Content-Type", "application/json; charset=utf-8"}}),
            200);
  EXPECT_EQ(post({{"Content-Type", "application/x-www-form-urlencoded"}}), 200);  // curl -d
  EXPECT_EQ(post({}), 200);
}

// A router among its own backends, or two that are each other's: found at the second visit.
TEST(Service, ALoopIsFound) {
  Endpoints e;
  ScriptedBackend& cpu = e.Add("cpu", {});
  e.Start();
  const Client first = e.Ask("POST", "/v1/chat/completions", kChat, {{"X-Parallax-Via", "d1"}});
  ASSERT_TRUE(e.Await(first));
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(cpu.sent.back().via, "d1, " + e.dispatcher().id());
  const Client again =
      e.Ask("POST", "/v1/chat/completions", kChat, {{"X-Parallax-Via", cpu.sent.back().via}});
  EXPECT_EQ(again->status, 508);
  EXPECT_EQ(again->json()["error"]["code"], "loop");
}

TEST(Service, WrongBodies) {
  Endpoints e;
  e.Add("cpu", {});
  e.Start();
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/route"}) {
    const std::string deep(1'000'000, '[');
    for (const std::string& body :
         {std::string(), std::string("{"), std::string("[]"), deep, std::string(R"({"model":1})"),
          std::string("{\"a\":\"\xFF\"}")}) {
      const Client client = e.Ask("POST", path, body);
      EXPECT_EQ(client->status, 400) << path << body.substr(0, 40);
      EXPECT_EQ(client->json()["error"]["type"], "invalid_request_error");
      EXPECT_NE(client->error_message(), "");
    }
  }
  e.ExpectIdle();
}

// "*" takes any name; the list still has those that are known.
TEST(Service, ModelsOfABackendThatAnswersToAnyName) {
  Endpoints e;
  e.Add("cpu", {.models = {"told"}}, {.models = {"*", "given"}});
  e.Start();
  std::vector<std::string> names;
  const json list = e.Ask("GET", "/v1/models")->json();
  for (const json& model : list["data"]) names.push_back(model["id"]);
  EXPECT_EQ(names, (std::vector<std::string>{"given", "told", "auto"}));
}

TEST(Service, AnswersAndExplains) {
  Endpoints e;
  ScriptedBackend& cpu = e.Add("cpu", {});
  ScriptedBackend& npu = e.Add("npu", {.models = {"m", "other"}});
  e.Start();
  const Client chat =
      e.Ask("POST", "/v1/chat/completions?x", kChat, {{"X-Parallax-Backend", "npu"}});
  ASSERT_TRUE(e.Await(chat));
  EXPECT_EQ(chat->text(), "w0 w1 ");
  EXPECT_EQ(npu.sent.size(), 1U);
  EXPECT_EQ(cpu.sent.size(), 0U);
  const std::string id = chat->header("x-parallax-decision");
  const Client decision = e.Ask("GET", "/v1/decisions/" + id);
  EXPECT_EQ(decision->status, 200);
  const auto parsed = router::FromJson(decision->body);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->id, id);
  EXPECT_TRUE(parsed->outcome.finished);
  EXPECT_EQ(e.Ask("GET", "/v1/decisions/nope")->status, 404);
  EXPECT_EQ(e.Ask("GET", "/v1/decisions")->json()[0]["id"], id);

  const json models = e.Ask("GET", "/v1/models")->json();
  std::vector<std::string> names;
  for (const json& model : models["data"]) names.push_back(model["id"]);
  EXPECT_EQ(names, (std::vector<std::string>{"m", "other", "auto"}));

  // A body with a prompt is a completion's, for /v1/route too.
  for (const char* body : {R"({"prompt":"a b c","max_tokens":2})", kChat}) {
    const Client route = e.Ask("POST", "/v1/route", body);
    ASSERT_TRUE(e.Await(route));
    EXPECT_EQ(route->status, 200);
    EXPECT_EQ(route->json()["kind"], body == kChat ? "chat" : "completion");
  }
  EXPECT_EQ(npu.sent.size() + cpu.sent.size(), 1U);
}

TEST(Service, Health) {
  Endpoints e;
  ScriptedBackend& a = e.Add("a", {});
  ScriptedBackend& b = e.Add("b", {});
  e.Start();
  EXPECT_EQ(e.Ask("GET", "/health")->json()["status"], "ok");
  a.script.health = Health::kDown;
  e.loop.RunFor(6000);
  Client health = e.Ask("GET", "/health");
  EXPECT_EQ(health->status, 200);
  EXPECT_EQ(health->json()["status"], "degraded");
  EXPECT_EQ(health->json()["backends"][0]["state"], "down");
  EXPECT_EQ(health->json()["backends"][0]["reason"], "it is switched off");
  b.script.health = Health::kLoading;
  e.loop.RunFor(6000);
  health = e.Ask("GET", "/health");
  EXPECT_EQ(health->status, 503);
  EXPECT_EQ(health->json()["status"], "unavailable");
}

TEST(Service, ThePageLoadsNothingFromElsewhere) {
  Endpoints e;
  e.Add("cpu", {});
  const Client page = e.Ask("GET", "/");
  EXPECT_EQ(page->header("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(page->header("content-security-policy").find("default-src 'none'"), std::string::npos);
  EXPECT_TRUE(page->body.starts_with("<!doctype html>"));
  EXPECT_EQ(page->body.find("src=\"http"), std::string::npos);
  EXPECT_EQ(page->body.find("href=\"http"), std::string::npos);
}

}  // namespace
}  // namespace parallax::server::fake
