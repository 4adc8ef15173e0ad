// The dispatcher's own records: a request on its way, and a backend with what it is doing.
//
// Role:       shared by the files that implement the Dispatcher; nobody else changes them.
// Threads:    the loop's thread only.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "router/breaker.h"
#include "router/decision.h"
#include "router/online_fit.h"
#include "router/snapshot.h"
#include "server/answer.h"
#include "server/backend.h"
#include "server/loop.h"

namespace parallax::server {

class Dispatcher;
struct BackendSettings;
struct BackendState;

// A prompt as one or more backends count it.
struct CountedPrompt {
  std::string identity;  // of the backends that count so; "" for the estimate
  Tokens symbols;        // token ids, or byte blocks
  std::int64_t tokens = 0;
  bool estimated = false;
};

struct Job final : CallSink {
  enum class State : unsigned char { kCounting, kQueued, kRunning };

  Job(Dispatcher* dispatcher, openai::GenerationRequest r,
      std::shared_ptr<http::Responder> responder)
      : owner(dispatcher),
        request(std::move(r)),
        answer(request.endpoint, request.stream, std::move(responder)) {}
  void OnEvent(std::string_view raw, std::string_view data) override;
  void OnEnd(const CallEnd& end) override;
  // The prompt as backends of that identity count it, and the estimate where they do not.
  const CountedPrompt& PromptFor(const std::string& identity) const;
  // How many of the backend's slots its choices take.
  std::size_t SlotsOn(const BackendState& on) const;

  Dispatcher* owner;
  std::string id;
  openai::GenerationRequest request;
  Answer answer;
  State state = State::kCounting;
  bool decide_only = false;  // /v1/route
  std::string pinned;
  std::string via;
  std::int64_t max_tokens = 0;  // g
  double arrived_ms = 0;
  double counted_ms = 0;

  std::string prompt_text;  // of PromptText
  std::vector<CountedPrompt> prompts;
  int counts_awaited = 0;
  std::uint64_t awaited_answer = 0;  // the last answer that had ended when its tokens were counted
  router::Decision decision;
  std::vector<std::size_t> tried;  // backends that failed this request
  std::string last_failure;
  std::optional<http::Response>
      last_response;  // what its client gets where nobody else can take it

  // While it is queued or runs.
  std::size_t backend = 0;
  CallId call = 0;
  TimerId timer = 0;
  double sent_ms = 0;
  double predicted_prefill_ms = 0;
  double predicted_decode_ms = 0;
  double first_delta_ms = 0;  // 0: nothing said yet
  std::int64_t deltas = 0;
  router::PrefixIndex::Run run = 0;  // of the prefix index, while it runs
  // When it was sent, in symbols: what its backend held of it and would report.
  std::size_t held = 0;
  std::size_t reusable = 0;
  std::int64_t predicted_reuse = 0;  // in tokens
  bool had_company = false;          // others ran on the backend meanwhile: its times say little
  bool was_paused = false;
  bool paused = false;
  std::string text;           // of choice 0
  bool text_is_whole = true;  // not cut at what is kept
  std::size_t answer_bytes = 0;
  std::string finish_reason;
  bool done = false;  // "[DONE]" came
  openai::Report report;
  std::optional<nlohmann::json> stream_error;  // the backend's own error inside its stream
};

// A request that is gone while the device still works on its prefill.
struct Ghost {
  double until_ms = 0;
};

struct BackendState {
  std::size_t index = 0;
  std::string name;
  std::unique_ptr<BackendSettings> settings;
  std::unique_ptr<Backend> backend;

  Health health = Health::kLoading;
  std::string why = "not probed yet";
  BackendFacts facts;
  router::Breaker breaker;
  std::unique_ptr<router::OnlineFit> fit;
  TimerId probe_timer = 0;
  TimerId pump_timer = 0;
  bool probing = false;
  std::uint64_t epoch = 0;      // of its place in memory: a probe from an earlier one says nothing
  double loading_since_ms = 0;  // 0: it does not load

  std::vector<Job*> running;
  std::deque<Job*> queued;
  std::vector<Ghost> ghosts;

  // Loading and unloading.
  bool marked = false;
  bool unloading = false;
  std::function<void()> on_unloaded;  // for Shutdown, where unloading had begun before
  double loaded_ms = 0;
  double load_began_ms = 0;
  double load_ms = 0;  // as last seen
  double last_used_ms = 0;

  // Since the start, for metrics and the status page.
  std::uint64_t sent = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t tokens_in = 0;
  std::uint64_t tokens_reused = 0;
  std::uint64_t tokens_out = 0;
  std::uint64_t reuse_checked = 0;  // answers whose reported reuse could be compared
  std::uint64_t reuse_exact = 0;
  std::uint64_t count_checked = 0;  // and whose prompt length could
  std::uint64_t count_exact = 0;

  router::BackendId id() const { return static_cast<router::BackendId>(index); }  // of the index
  int slots() const;
  std::int64_t context() const;
  int busy() const;  // slots that are taken
};

}  // namespace parallax::server
