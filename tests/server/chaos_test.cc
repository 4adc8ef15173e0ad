// Everything at once, from one seed: faults, restarts, clients that leave or stop reading, models
// that swap. Afterwards nothing is left, and nobody was forgotten.
#include <random>
#include <set>

#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

constexpr Fault kFaults[] = {Fault::kNone,         Fault::kNone,          Fault::kNone,
                             Fault::kRefuse,       Fault::kHang,          Fault::kDieBefore,
                             Fault::kDieMid,       Fault::kStallMid,      Fault::kGarbage,
                             Fault::kBrokenEvents, Fault::kEmptyStream,   Fault::kNoFinish,
                             Fault::kStatus,       Fault::kErrorInStream, Fault::kErrorMidStream};

class Chaos : public testing::TestWithParam<unsigned> {
 protected:
  std::size_t Pick(std::size_t n) { return random_() % n; }

  void Build() {
    rig_.options.max_loaded = 1;
    rig_.options.load_limit_ms = 60'000;
    const Script fast{.models = {"m"}, .slots = 2, .prefill_ms = 0.5, .decode_ms = 5};
    const Script device{.models = {"m"}, .prefill_ms = 0.3, .decode_ms = 15, .preemptible = false};
    const Script estimated{
        .models = {"m"}, .identity = "", .slots = 4, .ping_ms = 500, .usage_option = true};
    backends_ = {&rig_.Add("fast", fast), &rig_.Add("est", estimated),
                 &rig_.Add("npu", device, {.single_flight = true, .preemptible_prefill = false})};
    for (const char* name : {"A", "B"}) {
      const Script script{.models = {name}, .slots = 2, .loadable = true, .load_ms = 3000};
      backends_.push_back(&rig_.Add(name, script, {.models = {name}, .queue_limit = 8}));
    }
    rig_.Start();
  }

  void Submit() {
    const char* models[] = {"m", "m", "m", "A", "B", "auto", "nobody"};
    json more = {
        {"model", models[Pick(7)]}, {"stream", Pick(2) == 0}, {"max_tokens", 1 + Pick(40)}};
    if (Pick(8) == 0) more["timeout"] = 1 + Pick(30);
    if (Pick(10) == 0) more["max_tokens"] = nullptr;
    SubmitOptions how;
    if (Pick(12) == 0) how.backend = "npu";
    const std::size_t words = Pick(10) == 0 ? 9000 : 1 + Pick(300);
    rig_.Chat(Words(static_cast<std::int64_t>(words), fmt::format("c{}x", Pick(20))), more, how);
    ids_.push_back(rig_.last_id);
    rig_.clients.back()->slow = Pick(10) == 0;
  }

  void Disturb() {
    ScriptedBackend& backend = *backends_[Pick(backends_.size())];
    switch (Pick(4)) {
      case 0:
        backend.script.fault = kFaults[Pick(std::size(kFaults))];
        backend.script.fault_times = static_cast<int>(Pick(6));
        break;
      case 1:
        backend.script.health = Pick(3) == 0   ? Health::kDown
                                : Pick(3) == 0 ? Health::kLoading
                                               : Health::kReady;
        break;
      case 2:
        backend.script.boot += "x";
        backend.ForgetCache();
        break;
      default:
        backend.script.loads = Pick(4) != 0;
    }
  }

  std::mt19937 random_{GetParam()};
  Rig rig_;
  std::vector<ScriptedBackend*> backends_;
  std::vector<std::string> ids_;
};

TEST_P(Chaos, NothingIsLeft) {
  Build();
  for (int step = 0; step < 900; ++step) {
    switch (Pick(6)) {
      case 0:
      case 1:
      case 2:
        Submit();
        break;
      case 3:
        if (!rig_.clients.empty()) rig_.clients[Pick(rig_.clients.size())]->Leave();
        break;
      case 4:
        if (!rig_.clients.empty()) rig_.clients[Pick(rig_.clients.size())]->Drain();
        break;
      default:
        Disturb();
    }
    rig_.loop.RunFor(static_cast<double>(Pick(400)));
    for (const auto& state : rig_.dispatcher().backends()) {
      ASSERT_LE(static_cast<int>(state->running.size()), state->slots()) << state->name;
      ASSERT_LE(state->queued.size(), 64U);
    }
  }
  // All is well again: what is under way ends, by itself.
  for (ScriptedBackend* backend : backends_) {
    backend->script.fault = Fault::kNone;
    backend->script.health = Health::kReady;
    backend->script.loads = true;
  }
  for (int i = 0; i < 1000 && rig_.dispatcher().jobs() > 0; ++i) {
    for (const Client& client : rig_.clients) {
      client->slow = false;
      client->Drain();
    }
    rig_.loop.RunFor(1000);
  }
  rig_.ExpectIdle();

  // Each was answered, or left. Each has one record.
  std::map<int, int> statuses;
  for (const Client& client : rig_.clients) {
    EXPECT_TRUE(client->answered() || client->closed()) << client->asked_ms;
    if (client->answered()) ++statuses[client->status];
    if (!client->answered() || !client->streamed) continue;
    const auto events = client->events();
    const bool said = !events.empty() && (events.back() == "[DONE]" ||
                                          events.back().find("\"error\"") != std::string::npos);
    EXPECT_TRUE(said) << client->body.substr(client->body.size() - 200);
  }
  EXPECT_GT(statuses[200], 50);
  const auto& order = rig_.dispatcher().records().order();
  EXPECT_EQ(std::set<std::string>(order.begin(), order.end()),
            std::set<std::string>(ids_.begin(), ids_.end()));
  for (const std::string& id : ids_) EXPECT_TRUE(rig_.Record(id).outcome.finished) << id;
  std::uint64_t answers = 0;
  for (const auto& [status, n] : rig_.dispatcher().metrics().answers) answers += n;
  const auto& metrics = rig_.dispatcher().metrics();
  EXPECT_EQ(answers + metrics.cancelled + metrics.queue_cancelled, ids_.size());

  // And everybody serves: loaded models too.
  for (const char* model : {"m", "A", "B"}) {
    rig_.loop.RunFor(61'000);  // breakers let trials through
    const Client client = rig_.Chat("hi", {{"model", model}});
    ASSERT_TRUE(rig_.Await(client, 200'000)) << model;
    EXPECT_EQ(client->status, 200) << model << client->body;
  }
  bool done = false;
  rig_.dispatcher().Shutdown([&] { done = true; });
  rig_.loop.RunFor(10'000);
  EXPECT_TRUE(done);
  EXPECT_EQ(rig_.loop.timers(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Chaos, testing::Range(1U, 21U));

}  // namespace
}  // namespace parallax::server::fake
