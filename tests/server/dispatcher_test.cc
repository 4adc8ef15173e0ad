// The dispatcher: answers, counts, what it learns, and the end of the server.
#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

json Stream(int max_tokens) { return {{"stream", true}, {"max_tokens", max_tokens}}; }

TEST(Dispatcher, StreamsTheBackendsBytes) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.ping_ms = 7});
  rig.Start();
  const Client client = rig.Chat(Words(30), Stream(5));
  ASSERT_TRUE(rig.Await(client));
  EXPECT_EQ(client->status, 200);
  EXPECT_EQ(client->header("content-type"), "text/event-stream");
  EXPECT_EQ(client->body, cpu.streams[0]);
  EXPECT_NE(client->body.find(": ping\n\n"), std::string::npos);
  EXPECT_EQ(client->header("x-parallax-backend"), "cpu");
  EXPECT_EQ(client->header("x-parallax-decision"), rig.last_id);
  const router::Decision record = rig.Record();
  EXPECT_EQ(record.outcome.finish, "length");
  EXPECT_EQ(record.outcome.prompt_tokens, 32);
  EXPECT_EQ(record.outcome.generated_tokens, 5);
  EXPECT_NEAR(record.outcome.ttft_ms.value_or(-1), 32, 0.01);
  EXPECT_NEAR(record.outcome.total_ms.value_or(-1), 32 + 5 * 10, 0.01);
}

TEST(Dispatcher, PutsTheAnswerTogetherForAClientThatDoesNotStream) {
  Rig rig;
  rig.Add("cpu", {});
  rig.Start();
  const Client client = rig.Chat("hi", {{"max_tokens", 3}});
  ASSERT_TRUE(rig.Await(client));
  const json answer = client->json();
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "w0 w1 w2 ");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);

  const Client completion =
      rig.Send(openai::Endpoint::kCompletion, {{"prompt", "one two"}, {"max_tokens", 2}});
  ASSERT_TRUE(rig.Await(completion));
  EXPECT_EQ(completion->json()["object"], "text_completion");
  EXPECT_EQ(completion->json()["choices"][0]["text"], "w0 w1 ");
  EXPECT_EQ(completion->json()["usage"]["prompt_tokens"], 2);
}

// llama-server begins a whole answer with the message it continues, and leaves it out of a stream.
TEST(Dispatcher, AsksForTheMessageThatAWholeAnswerContinues) {
  for (const bool echo_option : {false, true}) {
    for (const bool stream : {false, true}) {
      for (const bool continues : {false, true}) {
        Rig rig;
        ScriptedBackend& cpu = rig.Add("cpu", {.echo_option = echo_option});
        rig.Start();
        json messages = json::array({{{"role", "user"}, {"content", "hi"}}});
        if (continues) messages.push_back({{"role", "assistant"}, {"content", "Hel"}});
        ASSERT_TRUE(rig.Await(rig.Chat("", {{"messages", messages}, {"stream", stream}})));
        ASSERT_EQ(cpu.sent.size(), 1U);
        EXPECT_EQ(json::parse(cpu.sent[0].text).contains("echo"),
                  echo_option && !stream && continues);
      }
    }
  }
}

TEST(Dispatcher, UnknownModelAndPinnedBackend) {
  Rig rig;
  rig.Add("a", {.models = {"m", "other"}});
  rig.Add("b", {});
  rig.Start();
  const Client unknown = rig.Chat("hi", {{"model", "nobody"}});
  ASSERT_TRUE(rig.Await(unknown));
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(unknown->json()["error"]["code"], "model_not_found");
  EXPECT_NE(unknown->error_message().find("m, other"), std::string::npos);
  const Client pinned = rig.Chat("hi", {}, {.backend = "b"});
  ASSERT_TRUE(rig.Await(pinned));
  EXPECT_EQ(pinned->header("x-parallax-backend"), "b");
  const Client nowhere = rig.Chat("hi", {}, {.backend = "c"});
  ASSERT_TRUE(rig.Await(nowhere));
  EXPECT_EQ(nowhere->status, 404);  // not 503: no later try will find it
  EXPECT_EQ(nowhere->json()["error"]["code"], "backend_not_found");
  EXPECT_EQ(nowhere->error_message(), "there is no backend 'c'; there are: a, b");
  for (const char* any : {"auto", ""}) {
    const Client client = rig.Chat("hi", {{"model", any}});
    ASSERT_TRUE(rig.Await(client));
    EXPECT_EQ(client->status, 200);
  }
}

// The wall clock jumps by years, both ways: nothing waits on it.
TEST(Dispatcher, ClockJumps) {
  Rig rig;
  rig.Add("cpu", {});
  rig.Start();
  const Client first = rig.Chat("hi", Stream(10));
  rig.loop.RunFor(50);
  rig.loop.wall_offset_ms -= 1e12;
  ASSERT_TRUE(rig.Await(first, 1000));
  rig.loop.wall_offset_ms += 3e12;
  const Client second = rig.Chat("hi", Stream(10));
  ASSERT_TRUE(rig.Await(second, 1000));
  EXPECT_NEAR(rig.Record().outcome.total_ms.value_or(-1), 101, 2);
}

TEST(Dispatcher, ATokenizerThatNeverAnswers) {
  Rig rig;
  rig.Add("cpu", {.count_ms = -1});
  rig.Start();
  const Client client = rig.Chat("hi");
  ASSERT_TRUE(rig.Await(client, 10'000));
  EXPECT_EQ(client->status, 200);
  EXPECT_TRUE(rig.Record().candidates[0].estimated_tokens);
}

// A backend that has just died is asked first: another one with the same tokens answers for it.
TEST(Dispatcher, ATokenizerThatFails) {
  for (const bool other : {false, true}) {
    Rig rig;
    rig.Add("dying", {.prefill_ms = 9, .count_fails = true});
    rig.Add("cpu", {.count_fails = !other});
    rig.Start();
    const Client client = rig.Chat("one two three");
    ASSERT_TRUE(rig.Await(client));
    EXPECT_EQ(client->status, 200);
    for (const router::Candidate& candidate : rig.Record().candidates) {
      EXPECT_EQ(candidate.estimated_tokens, !other) << candidate.name;
      // "user", three words, "assistant".
      if (other) {
        EXPECT_EQ(candidate.workload.prompt_tokens, 5) << candidate.name;
      }
    }
    rig.ExpectIdle();
  }
}

// Without a tokenizer the estimate learns from what backends report.
TEST(Dispatcher, EstimatesAreLearned) {
  Rig rig;
  rig.Add("cpu", {.identity = ""});
  rig.Start();
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(rig.Await(rig.Chat(Words(100 + 10 * i, fmt::format("e{}x", i)))));
  }
  ASSERT_TRUE(rig.Await(rig.Chat(Words(500, "e50x"))));
  const double counted = static_cast<double>(rig.Record().candidates[0].workload.prompt_tokens);
  EXPECT_NEAR(counted / 502, 1, 0.1);
}

// Without max_tokens, the budget predicted for is what such answers came to lately.
TEST(Dispatcher, ExpectedTokensFollowTheAnswers) {
  Rig rig;
  rig.Add("cpu", {.answer_words = 40});
  rig.Start();
  const json open = {{"max_tokens", nullptr}};
  ASSERT_TRUE(rig.Await(rig.Chat("hi", open)));
  EXPECT_EQ(rig.Record().max_new_tokens, rig.options.default_max_tokens);
  EXPECT_FALSE(rig.Record().max_new_given);
  ASSERT_TRUE(rig.Await(rig.Chat("hi", open)));
  EXPECT_EQ(rig.Record().max_new_tokens, 40);
  ASSERT_TRUE(rig.Await(rig.Chat("hi", {{"max_tokens", 3}})));
  EXPECT_EQ(rig.Record().max_new_tokens, 3);
  EXPECT_TRUE(rig.Record().max_new_given);
}

// Only who goes on from an answer waits for its tokens: another backend's slow tokenizer is nobody
// else's business.
TEST(Dispatcher, OtherRequestsDoNotWaitForAnAnswersTokens) {
  Rig rig;
  rig.Add("slow", {.models = {"a"}, .identity = "other words", .decode_ms = 1, .count_ms = 1500});
  rig.Add("fast", {.models = {"b"}});
  rig.Start();
  ASSERT_TRUE(rig.Await(rig.Chat("hi there", {{"model", "a"}})));  // its answer is being counted
  const double sent = rig.loop.NowMs();
  ASSERT_TRUE(rig.Await(rig.Chat("hi there", {{"model", "b"}})));
  EXPECT_LT(rig.journal.TimeOf("fast.start"), sent + 1);
}

// A second turn finds the first one's prompt and answer in the cache, as predicted.
TEST(Dispatcher, MultiTurnReuseIsPredictedExactly) {
  Rig rig;
  rig.Add("cpu", {});
  rig.Start();
  json messages = {{{"role", "user"}, {"content", Words(100)}}};
  for (int turn = 0; turn < 5; ++turn) {
    const Client client =
        rig.Send(openai::Endpoint::kChat, {{"messages", messages}, {"max_tokens", 6}});
    ASSERT_TRUE(rig.Await(client));
    const router::Decision record = rig.Record();
    EXPECT_EQ(record.candidates[0].predicted_reuse, record.outcome.cached_tokens) << turn;
    // user, 100 words, assistant; then 6 words a turn, the last not in the cache.
    EXPECT_EQ(record.outcome.cached_tokens, turn == 0 ? 0 : 102 + (turn - 1) * 9 + 5);
    messages.push_back({{"role", "assistant"}, {"content", client->text()}});
    messages.push_back({{"role", "user"}, {"content", fmt::format("t{}", turn)}});
    rig.loop.RunFor(10);
  }
  EXPECT_EQ(rig.State("cpu").reuse_checked, 5U);
  EXPECT_EQ(rig.State("cpu").reuse_exact, 5U);
  EXPECT_EQ(rig.State("cpu").count_exact, 5U);
}

// The next turn comes before the last answer's tokens are known: it waits for them, but not for
// those of answers that end later, and not for ever.
TEST(Dispatcher, ANextTurnAwaitsTheLastAnswersTokens) {
  Rig rig;
  rig.Add("cpu", {.decode_ms = 1, .count_ms = 200});
  rig.Start();
  json messages = {{{"role", "user"}, {"content", Words(50)}}};
  const auto turn = [&] {
    return rig.Send(openai::Endpoint::kChat, {{"messages", messages}, {"max_tokens", 6}});
  };
  const Client first = turn();
  ASSERT_TRUE(rig.Await(first));
  messages.push_back({{"role", "assistant"}, {"content", first->text()}});
  messages.push_back({{"role", "user"}, {"content", "more"}});
  const Client second = turn();
  ASSERT_TRUE(rig.Await(second));
  EXPECT_EQ(rig.Record().outcome.cached_tokens, 52 + 5);
  EXPECT_EQ(rig.Record().outcome.predicted_reuse, 52 + 5);
}

// Answers end one after another without a pause; a request is not held up by all of them.
TEST(Dispatcher, AnswersThatKeepEndingHoldNobodyUp) {
  Rig rig;
  rig.Add("cpu", {.slots = 8, .prefill_ms = 0, .decode_ms = 1, .count_ms = 90});
  rig.Start();
  std::vector<Client> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(rig.Chat("hi", {{"max_tokens", 1}}));
    rig.loop.RunFor(20);
  }
  for (const Client& client : clients) {
    ASSERT_TRUE(rig.Await(client, 1000));
    EXPECT_LT(client->ended_ms - client->asked_ms, 90 + 90 + 20);
  }
}

// The backend restarted: what it held is gone, and nobody is promised it.
TEST(Dispatcher, ARestartEmptiesTheIndex) {
  for (const bool same_boot : {false, true}) {
    Rig rig;
    ScriptedBackend& cpu = rig.Add("cpu", {});
    rig.Start();
    ASSERT_TRUE(rig.Await(rig.Chat(Words(100))));
    cpu.ForgetCache();
    cpu.script.boot += same_boot ? "" : "2";
    if (same_boot) cpu.script.identity = "another model";
    rig.loop.RunFor(6000);
    ASSERT_TRUE(rig.Await(rig.Chat(Words(100))));
    EXPECT_EQ(rig.Record().candidates[0].predicted_reuse, 0);
    EXPECT_EQ(rig.dispatcher().metrics().prefix_mispredict, 0U);
  }
}

// Route answers with the decision, sends nothing and changes nothing.
TEST(Dispatcher, RouteOnlyDecides) {
  Rig rig;
  ScriptedBackend& a = rig.Add("a", {});
  ScriptedBackend& b = rig.Add("b", {});
  rig.Start();
  std::vector<std::string> chosen;
  for (int i = 0; i < 4; ++i) {
    const Client client = rig.NewClient();
    auto request = openai::ParseRequest(openai::Endpoint::kChat, Rig::ChatBody("hi").dump());
    rig.dispatcher().Route(*std::move(request), {}, client);
    ASSERT_TRUE(rig.Await(client));
    EXPECT_EQ(client->status, 200);
    const auto decision = router::FromJson(client->body);
    ASSERT_TRUE(decision.ok());
    EXPECT_EQ(decision->status, router::DecisionStatus::kRouted);
    chosen.push_back(client->header("x-parallax-backend"));
  }
  EXPECT_EQ(chosen, std::vector<std::string>(4, chosen[0]));
  EXPECT_EQ(a.sent.size() + b.sent.size(), 0U);
  EXPECT_EQ(rig.dispatcher().records().order().size(), 0U);
  rig.ExpectIdle();
}

TEST(Dispatcher, ShutdownTellsEverybody) {
  Rig rig;
  rig.options.max_loaded = 1;
  const Script loadable{.loadable = true};
  ScriptedBackend& cpu = rig.Add("cpu", loadable);
  rig.Start();
  const Client runs = rig.Chat("one", Stream(1000));
  ASSERT_TRUE(rig.loop.RunUntil([&] { return runs->first_byte_ms > 0; }, 60'000));
  const Client waits = rig.Chat("two");
  rig.loop.RunFor(10);
  bool done = false;
  rig.dispatcher().Shutdown([&] { done = true; });
  EXPECT_TRUE(runs->answered());
  EXPECT_EQ(waits->status, 503);
  rig.ExpectIdle();
  EXPECT_EQ(cpu.aborts, 1);
  EXPECT_FALSE(done);  // the process still goes down
  const Client late = rig.Chat("three");
  rig.loop.RunFor(50);
  EXPECT_EQ(late->status, 503);
  EXPECT_FALSE(done);
  rig.loop.RunFor(100);
  EXPECT_TRUE(done);
  EXPECT_GE(rig.journal.Find("cpu.unloaded"), 0);
  EXPECT_EQ(rig.loop.timers(), 0U);
}

// Shutdown while a model is already on its way out waits for that, too.
TEST(Dispatcher, ShutdownDuringAnUnload) {
  Rig rig;
  rig.options.max_loaded = 1;
  rig.Add("A", {.models = {"A"}, .loadable = true, .unload_ms = 5000}, {.models = {"A"}});
  rig.Add("B", {.models = {"B"}, .loadable = true}, {.models = {"B"}});
  rig.Start();
  ASSERT_TRUE(rig.Await(rig.Chat("hi", {{"model", "A"}}), 60'000));
  const Client b = rig.Chat("hi", {{"model", "B"}});
  ASSERT_TRUE(rig.loop.RunUntil([&] { return rig.journal.Find("A.unload") >= 0; }, 60'000));
  bool done = false;
  rig.dispatcher().Shutdown([&] { done = true; });
  rig.loop.RunFor(4900);
  EXPECT_FALSE(done);
  rig.loop.RunFor(200);
  EXPECT_TRUE(done);
  EXPECT_EQ(rig.journal.Find("B.load"), -1);
  EXPECT_EQ(b->status, 503);
}

// Destroyed in the middle of everything: no callback finds it gone. (The sanitizer judges.)
TEST(Dispatcher, DestroyedUnderWay) {
  Rig rig;
  rig.Add("cpu", {.count_ms = 20, .probe_ms = 30});
  rig.Start();
  rig.loop.RunFor(100);
  (void)rig.Chat("one", Stream(1000));
  rig.loop.RunFor(100);
  (void)rig.Chat("two", Stream(1000));
  rig.loop.RunFor(100);
  (void)rig.Chat("three");
  rig.loop.RunFor(10);
  EXPECT_EQ(rig.dispatcher().jobs(), 3U);
  rig.Destroy();
  rig.loop.RunFor(100'000);
  for (const Client& client : rig.clients) client->Leave();
}

// A backend is found down by its probe: it gets nothing until it is back.
TEST(Dispatcher, DownAndBack) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.health = Health::kDown});
  rig.Start();
  const Client refused = rig.Chat("hi");
  ASSERT_TRUE(rig.Await(refused, 10));
  EXPECT_EQ(refused->status, 503);
  EXPECT_NE(refused->error_message().find("cpu: down"), std::string::npos);
  cpu.script.health = Health::kReady;
  rig.loop.RunFor(600);
  const Client served = rig.Chat("hi");
  ASSERT_TRUE(rig.Await(served));
  EXPECT_EQ(served->status, 200);
}

}  // namespace
}  // namespace parallax::server::fake
