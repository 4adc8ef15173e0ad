// Dispatcher: takes requests, counts their tokens, decides, queues, sends them and learns from what
// comes back.
//
// Role:       the centre of the server; the HTTP service above it, backends below it. It carries
//             out what the pure router decides, and owns every side effect of it.
// Ownership:  owns backends, jobs, prefix index, models and records; shares a Responder a job.
// Threads:    the loop's thread only.
// Cost:       one decision a request; a pass over the jobs of one backend at each start and end.
// Invariants: a request is sent to one backend at a time, and to another only while its client has
//             been sent nothing. A backend never runs more requests than it has slots. Cancelling a
//             request touches nothing but that request. Every job ends in exactly one record.
// Example:
//   Dispatcher dispatcher(loop, options, log);
//   dispatcher.AddBackend(settings, MakeHttpBackend(loop, {...}));
//   dispatcher.Start();
//   dispatcher.Submit(std::move(request), {}, responder);
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router/breaker.h"
#include "router/online_fit.h"
#include "router/policy.h"
#include "router/prefix_index.h"
#include "router/router.h"
#include "router/snapshot.h"
#include "router/token_estimator.h"
#include "server/backend.h"
#include "server/http/server.h"
#include "server/job.h"
#include "server/log.h"
#include "server/loop.h"
#include "server/metrics.h"
#include "server/records.h"

namespace parallax::server {

struct BackendSettings {
  std::string name = {};
  router::BackendKind kind = router::BackendKind::kOpenAi;
  std::vector<std::string> models = {};  // names it answers to beside those it tells of itself
  // Of a program that is started: what its command says of its model, known before it runs.
  bool started = false;
  std::vector<std::string> command_models = {};
  std::int64_t context = 0;  // 0: what it tells
  int slots = 0;             // 0: what it tells, else 1
  bool single_flight = false;
  bool preemptible_prefill = true;
  double sharing = router::kDefaultSharing;
  std::int64_t queue_limit = 64;
  // What is known of its cache. sequences > 0: its slots and nothing beside them; 0: least recently
  // used tokens, `cache_tokens` of them (0: learned).
  std::int64_t cache_sequences = 0;
  std::int64_t cache_tokens = 0;
  double load_ms = 10'000;  // how long loading takes, until it has been seen
};

// What is configured counts before what the backend tells.
int SlotsOf(const BackendSettings& settings, const BackendFacts& facts);
std::int64_t ContextOf(const BackendSettings& settings, const BackendFacts& facts);
// The backend as a decision sees it while it is ready and idle.
router::BackendSnapshot Describe(const BackendSettings& settings, const BackendFacts& facts,
                                 router::BackendId id);

struct DispatcherOptions {
  router::Policy policy;
  router::PrefixIndex::Options index;
  router::TimeoutOptions timeout;
  double silence_ms = 60'000;             // longest wait between two events of an answer
  std::int64_t default_max_tokens = 256;  // g where the client gives none, until answers were seen
  std::size_t block_bytes = 64;           // of the prefix index where no tokenizer answers
  int max_tries = 3;                      // backends that one request is sent to
  int max_loaded = 0;                     // loadable backends in memory at once; 0: all
  double max_wait_ms = 15'000;            // see router/swap_planner.h
  double load_limit_ms = 600'000;         // a backend that loads for longer counts as down
  double probe_ready_ms = 5'000;
  double probe_other_ms = 500;
};

// What a client may say beside its request's body.
struct SubmitOptions {
  std::string backend = {};  // only this one may answer
  std::string via = {};      // the routers it came through, as they called themselves
};

class Dispatcher {
 public:
  Dispatcher(Loop& loop, const DispatcherOptions& options, LogSink log);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Before Start. `models` are fitted models or the prior; shared tables come by SetTables.
  void AddBackend(const BackendSettings& settings, std::unique_ptr<Backend> backend,
                  const router::BackendModels& models);
  void SetTables(std::optional<router::PsrTable> psr,
                 std::optional<router::PromptOnlyRule> prompt_only);
  Result<void> OpenRecords(const std::string& path) { return records_.Open(path); }
  // Checks that the policy has what it needs, loads and probes the backends.
  Result<void> Start();

  // Answers through `responder`, whatever happens. Returns the decision's id.
  std::string Submit(openai::GenerationRequest request, const SubmitOptions& options,
                     std::shared_ptr<http::Responder> responder);
  // Decides as Submit would, sends nothing: the decision as JSON goes to the responder.
  void Route(openai::GenerationRequest request, const SubmitOptions& options,
             std::shared_ptr<http::Responder> responder);
  // Ends every request with 503, and calls `done` when the backends it started are gone.
  void Shutdown(std::function<void()> done);

  std::size_t jobs() const { return jobs_.size(); }
  const Records& records() const { return records_; }
  const Metrics& metrics() const { return metrics_; }
  // What this router calls itself before others; ids of its decisions begin with it.
  const std::string& id() const { return id_prefix_; }
  const router::PrefixIndex& index() const { return index_; }
  const std::vector<std::unique_ptr<BackendState>>& backends() const { return backends_; }
  const router::Models& models() const { return models_; }
  const DispatcherOptions& options() const { return options_; }
  // The state every decision is made from, as of now.
  router::Snapshot MakeSnapshot() const;

 private:
  friend struct Job;

  // The steps of a job, in order; dispatcher.cc, deciding.cc.
  enum class Purpose : unsigned char { kAnswer, kDecision };
  std::string Begin(openai::GenerationRequest request, const SubmitOptions& options,
                    std::shared_ptr<http::Responder> responder, Purpose purpose);
  void CountPrompt(Job& job);
  void AskForTokens(const Job& job, std::string identity, std::vector<BackendState*> kind,
                    std::size_t next);
  void Counted(Job& job);
  void Decide(Job& job);
  std::string NamesUnlessKnown(const std::string& pinned) const;
  void Refuse(Job& job);
  void Enqueue(Job& job);
  void Requeue(BackendState& backend);
  void Cancel(const std::string& id);

  // What happens to a job that was sent; running.cc.
  void Pump(BackendState& backend);
  void PumpAll();
  void DropGhosts(BackendState& backend);
  void Send(BackendState& backend, Job& job);
  void OnEvent(Job& job, std::string_view raw, std::string_view data);
  void OnEnd(Job& job, const CallEnd& end);
  void OnStreamError(Job& job);
  void WatchSilence(Job& job);
  void OnTimeout(Job& job);
  void Failed(Job& job, router::BackendOutcome outcome, const http::Response& response,
              const std::string& why, bool may_retry);
  void Retry(Job& job, const std::string& why);
  void GiveUp(Job& job, const http::Response& response, const std::string& why);
  http::Response Overflow(const Job& job) const;
  void Release(Job& job, bool busy_until_prefill_ends);
  void Close(Job& job);

  // What is learned when it has ended; learning.cc.
  std::int64_t PredictReuse(const Job& job, const BackendState& backend) const;
  // What it leaves in its backend's cache is told, or will never be.
  void EndRun(Job& job);
  // Whether the request goes on from an answer whose tokens are being asked for.
  bool AwaitsAnswer(const Job& job) const;
  void Learn(const Job& job);
  void LearnLatency(const Job& job, BackendState& backend);
  void LearnCache(const Job& job, BackendState& backend);
  void AnswerCounted(std::uint64_t answer);

  // Health and memory of the backends; supervision.cc.
  void ProbeSoon(BackendState& backend, double delay_ms);
  void AddToIndex(const BackendState& backend);
  void Probed(BackendState& backend, const ProbeResult& result);
  void PlanLoads();

  Job* FindJob(const std::string& id);
  std::int64_t ExpectedTokens(const Job& job) const;
  void Say(Severity severity, std::string event, std::string message,
           std::vector<std::pair<std::string, std::string>> fields = {}) const;

  Loop& loop_;
  DispatcherOptions options_;
  LogSink log_;
  std::vector<std::unique_ptr<BackendState>> backends_;
  std::map<std::string, std::unique_ptr<Job>> jobs_;
  router::PrefixIndex index_;
  router::PrefixIndex::Run last_run_ = 0;
  router::Models models_;
  router::TieState ties_;
  router::TokenEstimator estimator_;
  Records records_;
  Metrics metrics_;
  std::uint64_t last_id_ = 0;
  std::string id_prefix_;
  std::uint64_t last_answer_ = 0;
  // Prompts, as length and hash of their texts, of the answers whose tokens are being asked for.
  struct PendingAnswer {
    std::size_t bytes;
    std::size_t hash;
  };
  std::map<std::uint64_t, PendingAnswer> answers_pending_;
  std::vector<std::string> awaiting_answers_;  // requests that wait for them
  double mean_answer_tokens_ = 0;  // of requests whose client gave no budget; 0: none seen
  TimerId plan_timer_ = 0;
  bool stopping_ = false;
  // Callbacks that outlive the dispatcher find out here.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace parallax::server
