// Cases about several backends: load counters, a backend that takes one client at a time, model
// swaps carried out by the dispatcher, usage in streams.
#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

json Stream(int max_tokens) { return {{"stream", true}, {"max_tokens", max_tokens}}; }

// 3 requests in flight, 20 health checks: the load stays 3; 0 when they have ended.
TEST(CaseHealthCheckResetsLoadCounters, LoadStays) {
  Rig rig;
  rig.options.probe_ready_ms = 50;
  ScriptedBackend& w0 = rig.Add("w0", {.slots = 4});
  rig.Start();
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(rig.Chat("hi", Stream(200)));
  const int before = w0.probes;
  while (w0.probes < before + 20) {
    rig.loop.RunFor(10);
    ASSERT_EQ(rig.State("w0").running.size(), 3U);
    ASSERT_EQ(rig.dispatcher().MakeSnapshot().backends[0].running.size(), 3U);
    const std::string metrics = PrometheusText(rig.dispatcher(), nullptr);
    ASSERT_NE(metrics.find("\nparallax_in_flight{backend=\"w0\"} 3\n"), std::string::npos);
  }
  for (const Client& client : clients) ASSERT_TRUE(rig.Await(client));
  EXPECT_NE(
      PrometheusText(rig.dispatcher(), nullptr).find("\nparallax_in_flight{backend=\"w0\"} 0\n"),
      std::string::npos);
  rig.ExpectIdle();
}

// A failing health check while a request runs does not take its slot away either.
TEST(CaseHealthCheckResetsLoadCounters, AFailedProbeEndsNothing) {
  Rig rig;
  rig.options.probe_ready_ms = 50;
  ScriptedBackend& w0 = rig.Add("w0", {});
  rig.Start();
  const Client client = rig.Chat("hi", Stream(50));
  w0.script.health = Health::kDown;
  rig.loop.RunFor(200);
  EXPECT_EQ(rig.State("w0").health, Health::kDown);
  EXPECT_EQ(rig.State("w0").running.size(), 1U);
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->text().substr(0, 6), "w0 w1 ");
  rig.ExpectIdle();
}

// 8 at once; the NPU takes one at a time, the CPU two: all answered, both used.
TEST(CaseNpuIsSingleClient, EightAtOnce) {
  Rig rig;
  ScriptedBackend& npu = rig.Add("npu", {.slots = 4, .prefill_ms = 1, .decode_ms = 20},
                                 {.single_flight = true, .preemptible_prefill = false});
  ScriptedBackend& cpu =
      rig.Add("cpu", {.slots = 2, .prefill_ms = 3, .decode_ms = 15}, {.sharing = 0});
  rig.Start();
  std::vector<Client> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(rig.Chat(Words(50, fmt::format("r{}x", i))));
  for (const Client& client : clients) {
    ASSERT_TRUE(rig.Await(client, 60'000));
    EXPECT_EQ(client->status, 200);
  }
  EXPECT_EQ(npu.max_concurrency, 1);
  EXPECT_LE(cpu.max_concurrency, 2);
  EXPECT_GT(npu.sent.size(), 0U);
  EXPECT_GT(cpu.sent.size(), 0U);
  rig.ExpectIdle();
}

// A full queue is 429 with whole seconds from the model, at once.
TEST(CaseNpuIsSingleClient, QueueFull) {
  Rig rig;
  ScriptedBackend& npu = rig.Add("npu", {.prefill_ms = 10, .decode_ms = 100},
                                 {.single_flight = true, .queue_limit = 2});
  rig.Start();
  std::vector<Client> clients;
  // "user", 98 words, "assistant": 100 tokens, 1 s of prefill, 2 s of decode.
  for (int i = 0; i < 8; ++i) {
    clients.push_back(rig.Chat(Words(98, fmt::format("r{}x", i)), Stream(20)));
  }
  rig.loop.RunFor(100);
  int refused = 0;
  for (const Client& client : clients) {
    if (client->status != 429) continue;
    ++refused;
    EXPECT_EQ(client->header("retry-after"), "3");
    EXPECT_EQ(client->json()["error"]["type"], "rate_limit_error");
  }
  EXPECT_EQ(refused, 5);  // one runs, two wait
  for (const Client& client : clients) ASSERT_TRUE(rig.Await(client, 60'000));
  EXPECT_EQ(npu.max_concurrency, 1);
  EXPECT_EQ(npu.sent.size(), 3U);
}

struct Swaps {
  explicit Swaps(const std::vector<std::string>& models, const Script& base = {}) {
    rig.options.max_loaded = 1;
    for (const std::string& model : models) {
      Script script = base;
      script.models = {model};
      script.loadable = true;
      if (base.load_ms == Script{}.load_ms) script.load_ms = 5000;
      backends.push_back(&rig.Add(model, script, {.models = {model}}));
    }
    rig.Start();
  }
  Client Ask(const std::string& model, int words, const json& more = json::object()) {
    json body = {{"model", model}, {"stream", true}, {"max_tokens", words}};
    body.update(more);
    return rig.Chat("hi", body);
  }
  int Loads() const {
    int n = 0;
    for (const ScriptedBackend* backend : backends) n += backend->loads;
    return n;
  }
  Rig rig;
  std::vector<ScriptedBackend*> backends;
};

// A streams 20 tokens; at token 5 a request for B: A.finish < A.unload < B.load < B.first.
TEST(CaseModelSwapAbortsRequestsInFlight, DrainsFirst) {
  Swaps s({"A", "B"});
  const Client a = s.Ask("A", 20);
  ASSERT_TRUE(s.rig.loop.RunUntil([&] { return a->text().find("w4 ") != std::string::npos; }));
  const Client b = s.Ask("B", 4);
  ASSERT_TRUE(s.rig.Await(b, 60'000));
  EXPECT_TRUE(a->answered());
  EXPECT_NE(a->text().find("w19 "), std::string::npos);
  EXPECT_TRUE(a->body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(b->status, 200);
  const Journal& j = s.rig.journal;
  EXPECT_GE(j.Find("A.finish"), 0);
  EXPECT_LT(j.Find("A.finish"), j.Find("A.unload"));
  EXPECT_LT(j.Find("A.unloaded"), j.Find("B.load"));
  EXPECT_LT(j.Find("B.load"), j.Find("B.first"));
  s.rig.ExpectIdle();
}

// Load 5 s, run 1 s, A B A A C A B C at once: 3 loads, A A A A B B C C.
TEST(CaseFifoSwappingThrash, GroupsByTheLoadedModel) {
  Swaps s({"A", "B", "C"}, {.prefill_ms = 0, .decode_ms = 100});
  std::vector<Client> clients;
  for (const char* model : {"A", "B", "A", "A", "C", "A", "B", "C"}) {
    clients.push_back(s.Ask(model, 10));
    s.rig.loop.RunReady();
  }
  for (const Client& client : clients) {
    ASSERT_TRUE(s.rig.Await(client, 120'000));
    EXPECT_EQ(client->status, 200);
  }
  EXPECT_EQ(s.Loads(), 3);
  std::string order;
  for (const Journal::Entry& e : s.rig.journal.entries) {
    if (e.what.ends_with(".start")) order += e.what.front();
  }
  EXPECT_EQ(order, "AAAABBCC");
}

// One C at 0.1 s, an A every 0.9 s for 60 s, max_wait 15 s: C starts loading by 16.1 s and has its
// first token by 22 s.
TEST(CaseFifoSwappingThrash, NobodyStarves) {
  Swaps s({"A", "C"}, {.prefill_ms = 0, .decode_ms = 100});
  FakeLoop& loop = s.rig.loop;
  const double zero = loop.NowMs();
  std::vector<Client> as = {s.Ask("A", 10)};
  loop.RunTo(zero + 100);
  const Client c = s.Ask("C", 10);
  for (int i = 1; i * 900 <= 60'000; ++i) {
    loop.RunTo(zero + i * 900);
    as.push_back(s.Ask("A", 10));
  }
  ASSERT_TRUE(s.rig.Await(c, 200'000));
  for (const Client& a : as) {
    ASSERT_TRUE(s.rig.Await(a, 400'000));
    EXPECT_EQ(a->status, 200);
  }
  EXPECT_LE(s.rig.journal.TimeOf("C.load") - zero, 16'100 + 100);  // 100 ms: the unload
  EXPECT_LE(c->first_byte_ms - zero, 22'000);
  EXPECT_EQ(s.Loads(), 3);
}

// The victim keeps getting work: it is drained all the same, and a backend that is no part of the
// swap serves on.
TEST(CaseSchedulerDeadlockWhenTheVictimKeepsGettingWork, TheSwapHappens) {
  Rig rig;
  rig.options.max_loaded = 1;
  const Script small{.models = {"A"}, .slots = 2, .loadable = true, .load_ms = 2000};
  Script big = small;
  big.models = {"C"};
  rig.Add("A", small, {.models = {"A"}});
  rig.Add("C", big, {.models = {"C"}});
  ScriptedBackend& b = rig.Add("B", {.models = {"B"}, .slots = 4}, {.models = {"B"}});
  rig.Start();
  const double zero = rig.loop.NowMs();
  std::vector<Client> as, bs;
  Client c;
  for (int tick = 0; tick < 600; ++tick) {  // one minute
    rig.loop.RunTo(zero + tick * 100);
    as.push_back(rig.Chat("hi", {{"model", "A"}, {"max_tokens", 15}}));
    if (tick % 5 == 0) bs.push_back(rig.Chat("hi", {{"model", "B"}, {"max_tokens", 20}}));
    if (tick == 50) c = rig.Chat("hi", {{"model", "C"}, {"max_tokens", 5}});
  }
  double slowest = 0;
  for (const Client& client : bs) {
    ASSERT_TRUE(rig.Await(client, 1000));
    EXPECT_EQ(client->status, 200);
    slowest = std::max(slowest, client->ended_ms - client->asked_ms);
  }
  EXPECT_LT(slowest, 1000);
  ASSERT_TRUE(rig.Await(c, 1000));
  EXPECT_EQ(c->status, 200);
  EXPECT_LT(c->ended_ms - c->asked_ms, 30'000);
  for (const Client& client : as) {
    ASSERT_TRUE(rig.Await(client, 400'000));
    EXPECT_TRUE(client->status == 200 || client->status == 429) << client->status;
    if (client->status != 200) continue;
    EXPECT_LT(client->ended_ms - client->asked_ms, 40'000);
  }
  EXPECT_EQ(b.max_concurrency, 1);
  rig.ExpectIdle();
}

// The one for whom a model was to leave is gone: the model stays, and what waits for it goes on.
TEST(CaseSchedulerDeadlockWhenTheVictimKeepsGettingWork, AMarkIsTakenBack) {
  Swaps s({"A", "B"}, {.prefill_ms = 0, .decode_ms = 100});
  const Client a1 = s.Ask("A", 300);  // 30 s
  ASSERT_TRUE(s.rig.loop.RunUntil([&] { return a1->first_byte_ms > 0; }));
  const Client a2 = s.Ask("A", 10);
  const Client b = s.Ask("B", 10);
  s.rig.loop.RunFor(20'000);  // past max_wait: A is marked
  EXPECT_TRUE(s.rig.State("A").marked);
  b->Leave();
  EXPECT_FALSE(s.rig.State("A").marked);
  ASSERT_TRUE(s.rig.Await(a2, 60'000));
  EXPECT_EQ(a2->status, 200);
  EXPECT_EQ(s.Loads(), 1);
  s.rig.ExpectIdle();
}

// Client 1 names num_ctx 8192, client 2 none, in turn: one load.
TEST(CaseSameModelReloadsBecauseClientsDifferInOptions, OneLoad) {
  Swaps s({"A", "B"});
  for (int i = 0; i < 20; ++i) {
    const json more = i % 2 == 0 ? json{{"options", {{"num_ctx", 8192}}}} : json::object();
    const Client client = s.Ask("A", 4, more);
    ASSERT_TRUE(s.rig.Await(client, 60'000));
    EXPECT_EQ(client->status, 200);
  }
  EXPECT_EQ(s.Loads(), 1);
}

// What can be loaded but never becomes ready: its requests get an error, others their turn.
TEST(ALoadThatNeverEnds, IsGivenUp) {
  Swaps s({"A", "B"});
  s.rig.options.load_limit_ms = 600'000;
  s.backends[0]->script.loads = false;
  const Client a = s.Ask("A", 4);
  const Client b = s.Ask("B", 4);
  ASSERT_TRUE(s.rig.Await(a, 700'000));
  EXPECT_EQ(a->status, 503);
  EXPECT_EQ(a->header("retry-after"), "1");
  ASSERT_TRUE(s.rig.Await(b, 700'000));
  EXPECT_EQ(b->status, 200);
  s.rig.ExpectIdle();
}

// The same where it is the only one and always in memory: a server that is up and says "loading".
TEST(ALoadThatNeverEnds, OfAUrl) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.health = Health::kLoading});
  rig.Start();
  const Client early = rig.Chat("hi");
  const Client with_deadline = rig.Chat("hi", {{"timeout", 60}});
  rig.loop.RunFor(61'000);
  EXPECT_FALSE(early->answered());
  EXPECT_EQ(with_deadline->status, 504);
  ASSERT_TRUE(rig.Await(early, 700'000));
  EXPECT_EQ(early->status, 503);
  const Client late = rig.Chat("hi");
  rig.loop.RunFor(10);
  EXPECT_EQ(late->status, 503);
  EXPECT_EQ(rig.State("cpu").health, Health::kDown);
  // It came up after all.
  cpu.script.health = Health::kReady;
  rig.loop.RunFor(1000);
  const Client now = rig.Chat("hi");
  ASSERT_TRUE(rig.Await(now, 10'000));
  EXPECT_EQ(now->status, 200);
}

// A backend that loads and then goes down: what waited for it is answered by another, or told.
TEST(ALoadThatFails, WaitingRequestsGoElsewhere) {
  Rig rig;
  ScriptedBackend& a = rig.Add("a", {.prefill_ms = 1, .health = Health::kLoading});
  ScriptedBackend& b = rig.Add("b", {.prefill_ms = 1});
  rig.Start();
  const Client pinned = rig.Chat("hi", {}, {.backend = "a"});
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(rig.Chat("hi"));
  rig.loop.RunFor(1);
  a.script.health = Health::kDown;
  for (const Client& client : clients) {
    ASSERT_TRUE(rig.Await(client, 10'000));
    EXPECT_EQ(client->status, 200);
    EXPECT_EQ(client->header("x-parallax-backend"), "b");
  }
  ASSERT_TRUE(rig.Await(pinned, 10'000));
  EXPECT_EQ(pinned->status, 503);
  EXPECT_EQ(b.sent.size(), 4U);
}

// A client without include_usage: the router asks for it, takes the chunk out, records the counts.
TEST(CaseUsageInStreams, IsAskedForAndTakenOut) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.identity = "", .usage_option = true});
  rig.Start();
  const Client without = rig.Chat("hi there", Stream(3));
  ASSERT_TRUE(rig.Await(without));
  EXPECT_TRUE(nlohmann::json::parse(cpu.sent[0].text)["stream_options"]["include_usage"]);
  EXPECT_NE(cpu.streams[0].find("\"usage\""), std::string::npos);
  EXPECT_EQ(without->body.find("\"usage\""), std::string::npos);
  // All other bytes are there, in order.
  std::string expected = cpu.streams[0];
  const std::size_t begin = expected.rfind("data: {");
  expected.erase(begin, expected.find("\n\n", begin) + 2 - begin);
  EXPECT_EQ(without->body, expected);
  EXPECT_EQ(rig.Record().outcome.prompt_tokens, 4);
  EXPECT_EQ(rig.Record().outcome.generated_tokens, 3);

  const Client with = rig.Chat(
      "hi there",
      {{"stream", true}, {"max_tokens", 3}, {"stream_options", {{"include_usage", true}}}});
  ASSERT_TRUE(rig.Await(with));
  EXPECT_EQ(with->body, cpu.streams[1]);
  EXPECT_NE(with->body.find("\"usage\""), std::string::npos);
}

// A backend whose streams always end with their counts is not asked for more, and its bytes pass
// as they are.
TEST(CaseUsageInStreams, NothingIsAskedWhereTimingsCome) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {});
  rig.Start();
  const Client client = rig.Chat("hi", Stream(3));
  ASSERT_TRUE(rig.Await(client));
  EXPECT_FALSE(nlohmann::json::parse(cpu.sent[0].text).contains("stream_options"));
  EXPECT_EQ(client->body, cpu.streams[0]);
  EXPECT_EQ(rig.Record().outcome.generated_tokens, 3);
}

}  // namespace
}  // namespace parallax::server::fake
