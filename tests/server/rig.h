// A dispatcher with scripted backends and a clock of its own, in a few words.
//
// Role:       shared by the tests of the dispatcher, the service and the cases.
// Ownership:  owns loop, dispatcher and journal; the dispatcher owns the backends.
// Threads:    one.
// Example:
//   Rig rig;
//   ScriptedBackend& cpu = rig.Add("cpu", {.slots = 2});
//   rig.Start();
//   auto client = rig.Chat("hello", {{"max_tokens", 4}});
//   ASSERT_TRUE(rig.loop.RunUntil([&] { return client->answered(); }));
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "server/dispatcher.h"
#include "server/service.h"
#include "tests/server/fake_loop.h"
#include "tests/server/fake_responder.h"
#include "tests/server/scripted_backend.h"

namespace parallax::server::fake {

using Client = std::shared_ptr<FakeResponder>;
using nlohmann::json;

// A fitted model: `prefill` and `decode` milliseconds a token.
inline router::BackendModels Rates(double prefill, double decode, double intercept = 0) {
  router::LatencyModel m;
  m.beta = {intercept, prefill, 0, decode, 0, 0};
  m.source = router::ModelSource::kFitted;
  m.p = m.g = m.p_cache = {0, 1 << 20};
  m.observations = 100;
  return {.extended = m};
}

struct Rig {
  FakeLoop loop;
  Journal journal;
  std::vector<LogEntry> log;
  DispatcherOptions options;
  std::vector<std::shared_ptr<FakeResponder>> clients;

  ~Rig() {
    for (const Client& client : clients) EXPECT_EQ(client->violation, "");
    for (const ScriptedBackend* backend : backends_) EXPECT_EQ(backend->violation, "");
    EXPECT_FALSE(loop.ran_away);
  }

  // The backend's model is what its script says, unless another is given.
  ScriptedBackend& Add(const std::string& name, const Script& script,
                       BackendSettings settings = {}) {
    return Add(name, script, std::move(settings), Rates(script.prefill_ms, script.decode_ms));
  }
  ScriptedBackend& Add(const std::string& name, const Script& script, BackendSettings settings,
                       const router::BackendModels& models) {
    settings.name = name;
    if (settings.cache_sequences == 0 && settings.cache_tokens == 0) settings.cache_sequences = 1;
    auto backend = std::make_unique<ScriptedBackend>(loop, name, script, &journal);
    backends_.push_back(backend.get());
    dispatcher().AddBackend(settings, std::move(backend), models);
    return *backends_.back();
  }
  Dispatcher& dispatcher() {
    if (!dispatcher_) {
      dispatcher_ = std::make_unique<Dispatcher>(
          loop, options, [this](const LogEntry& entry) { log.push_back(entry); });
    }
    return *dispatcher_;
  }
  // Starts and lets the backends answer their first probe.
  void Start() {
    const Result<void> started = dispatcher().Start();
    ASSERT_TRUE(started.ok()) << started.error().message();
    loop.RunFor(10);
  }

  Client Send(openai::Endpoint endpoint, const json& body, const SubmitOptions& how = {}) {
    auto client = NewClient();
    auto request = openai::ParseRequest(endpoint, body.dump());
    EXPECT_TRUE(request.ok()) << body.dump();
    last_id = dispatcher().Submit(*std::move(request), how, client);
    return client;
  }
  static json ChatBody(const std::string& text, const json& more = json::object()) {
    json body = {{"model", "m"},
                 {"max_tokens", 8},
                 {"messages", json::array({{{"role", "user"}, {"content", text}}})}};
    if (more.is_object()) body.update(more);
    return body;
  }
  Client Chat(const std::string& text, const json& more = json::object(),
              const SubmitOptions& how = {}) {
    return Send(openai::Endpoint::kChat, ChatBody(text, more), how);
  }
  Client NewClient() {
    clients.push_back(std::make_shared<FakeResponder>(loop));
    return clients.back();
  }
  bool Await(const Client& client, double limit_ms = 1e8) {
    return loop.RunUntil([&] { return client->answered(); }, limit_ms);
  }

  const BackendState& State(const std::string& name) {
    for (const auto& state : dispatcher().backends()) {
      if (state->name == name) return *state;
    }
    ADD_FAILURE() << "no backend " << name;
    return *dispatcher().backends().front();
  }
  // The decision's record of the last request, or of `id`.
  router::Decision Record(const std::string& id = "") {
    const router::Decision* found = dispatcher().records().Find(id.empty() ? last_id : id);
    EXPECT_NE(found, nullptr);
    return found != nullptr ? *found : router::Decision();
  }
  // Nothing is under way, anywhere.
  void ExpectIdle() {
    EXPECT_EQ(dispatcher().jobs(), 0U);
    for (const auto& state : dispatcher().backends()) {
      EXPECT_EQ(state->running.size(), 0U) << state->name;
      EXPECT_EQ(state->queued.size(), 0U) << state->name;
    }
    for (const ScriptedBackend* backend : backends_) EXPECT_EQ(backend->running(), 0);
  }
  void Destroy() {
    backends_.clear();
    dispatcher_.reset();
  }

  std::string last_id;

 private:
  std::vector<ScriptedBackend*> backends_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

}  // namespace parallax::server::fake
