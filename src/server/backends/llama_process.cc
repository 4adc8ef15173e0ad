#include "server/backends/llama_process.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "server/asio_loop.h"
#include "server/backends/http_backend.h"
#include "server/child_process.h"

namespace parallax::server {
namespace {

constexpr double kFirstBackoffMs = 500;
constexpr double kLongestBackoffMs = 30'000;
constexpr double kSteadyMs = 60'000;

std::string LastLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const std::size_t newline = text.rfind('\n');
  return std::string(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

class LlamaProcess final : public Backend {
 public:
  LlamaProcess(AsioLoop& loop, const LlamaProcessOptions& options, LogSink log)
      : loop_(loop), options_(options), log_(std::move(log)) {}
  ~LlamaProcess() override {
    *alive_ = false;
    loop_.CancelTimer(restart_);
  }

  bool loadable() const override { return true; }
  bool loaded() const override { return wanted_; }
  void Load() override {
    if (std::exchange(wanted_, true)) return;
    backoff_ms_ = kFirstBackoffMs;
    Spawn();
  }
  void Unload(std::function<void()> done) override {
    wanted_ = false;
    loop_.CancelTimer(std::exchange(restart_, 0));
    if (!child_) return loop_.Post(std::move(done));
    unloaded_ = std::move(done);
    child_->Stop(options_.grace_ms);
  }

  void Probe(ProbeCallback callback) override {
    if (!http_ || !child_) {
      return loop_.Post([callback = std::move(callback), why = why_] {
        callback({Health::kDown, why, {}});
      });
    }
    const std::uint64_t question = Ask([callback, why = why_] {
      callback({Health::kDown, why, {}});
    });
    http_->Probe(
        [this, callback = std::move(callback), boot = boots_, question](const ProbeResult& result) {
          questions_.erase(question);
          ProbeResult mine = result;
          mine.facts.boot = std::to_string(boot);
          // A server that is still starting refuses connections: that is loading, not failing.
          if (result.health == Health::kDown && child_ && !ready_) {
            mine.health = Health::kLoading;
            mine.why = "it starts";
          }
          if (result.health == Health::kReady) ready_ = true;
          callback(mine);
        });
  }
  void CountTokens(const openai::GenerationRequest& request, TokensCallback callback) override {
    if (!http_) return NotRunning(std::move(callback));
    http_->CountTokens(request, Answered(std::move(callback)));
  }
  void CountAnswerTokens(const openai::GenerationRequest& request, const std::string& answer,
                         TokensCallback callback) override {
    if (!http_) return NotRunning(std::move(callback));
    http_->CountAnswerTokens(request, answer, Answered(std::move(callback)));
  }
  // A call's id carries the boot it was made in: a later process knows nothing of it.
  CallId Start(Call call, CallSink* sink) override {
    if (http_) return Compose(boots_, http_->Start(std::move(call), sink));
    const CallId id = Compose(0, ++last_refused_);
    refused_.insert(id);
    loop_.Post([this, alive = alive_, id, sink] {
      if (!*alive || refused_.erase(id) == 0) return;
      CallEnd end;
      end.kind = CallEnd::Kind::kConnect;
      end.message = why_;
      sink->OnEnd(end);
    });
    return id;
  }
  void Abort(CallId id) override {
    refused_.erase(id);
    if (Backend* http = HttpOf(id)) http->Abort(Inner(id));
  }
  void Pause(CallId id) override {
    if (Backend* http = HttpOf(id)) http->Pause(Inner(id));
  }
  void Resume(CallId id) override {
    if (Backend* http = HttpOf(id)) http->Resume(Inner(id));
  }
  bool wants_usage_option() const override { return false; }
  bool leaves_out_prefill() const override { return true; }
  std::string place() const override {
    const std::string& path = options_.command.front();
    const std::string program = path.substr(path.rfind('/') + 1);
    return child_ ? fmt::format("{} (process {}, port {})", program, child_->pid(), port_)
                  : program;
  }

 private:
  static constexpr int kInnerBits = 40;
  static CallId Compose(std::uint64_t boot, CallId inner) { return boot << kInnerBits | inner; }
  static CallId Inner(CallId id) { return id & ((CallId{1} << kInnerBits) - 1); }
  Backend* HttpOf(CallId id) const {
    const std::uint64_t boot = id >> kInnerBits;
    if (boot == 0) return nullptr;
    return boot == boots_ ? http_.get() : boot + 1 == boots_ ? old_http_.get() : nullptr;
  }
  // Questions to a process that is gone twice over are answered here: its HttpBackend drops them.
  std::uint64_t Ask(std::function<void()> give_up) {
    questions_[++last_question_] = {boots_, std::move(give_up)};
    return last_question_;
  }
  TokensCallback Answered(TokensCallback callback) {
    const std::uint64_t question =
        Ask([callback] { callback(MakeError(ErrorCode::kIo, "its process ended")); });
    return [this, callback = std::move(callback), question](Result<Tokens> tokens) {
      questions_.erase(question);
      callback(std::move(tokens));
    };
  }
  void GiveUpQuestions() {
    for (auto it = questions_.begin(); it != questions_.end();) {
      if (it->second.boot + 1 < boots_) {
        loop_.Post(std::move(it->second.give_up));
        it = questions_.erase(it);
      } else {
        ++it;
      }
    }
  }

  void NotRunning(TokensCallback callback) {
    loop_.Post([callback = std::move(callback), why = why_] {
      callback(MakeError(ErrorCode::kIo, "{}", why));
    });
  }

  void Spawn() {
    started_ms_ = loop_.NowMs();
    const Result<int> port = FreePort();
    if (!port.ok()) return Died(port.error().message());
    port_ = *port;
    std::vector<std::string> command = options_.command;
    bool placed = false;
    for (std::string& word : command) {
      if (const std::size_t at = word.find("{port}"); at != std::string::npos) {
        word.replace(at, 6, std::to_string(port_));
        placed = true;
      }
    }
    if (!placed) {
      command.insert(command.end(), {"--host", "127.0.0.1", "--port", std::to_string(port_)});
    }
    auto child = ChildProcess::Start(loop_, command, [this](const std::string& how) {
      const std::string line = LastLine(child_->tail());
      child_.reset();
      Died(line.empty() ? how : fmt::format("{}: {}", how, line));
    });
    if (!child.ok()) return Died(child.error().message());
    child_ = std::move(*child);
    ready_ = false;
    ++boots_;
    // The old one's answers have ended with its process; its last callbacks come before this.
    old_http_ = std::move(http_);
    HttpBackendOptions options;
    options.origin = {"127.0.0.1", static_cast<std::uint16_t>(port_), ""};
    options.api_key = options_.api_key;
    http_ = MakeHttpBackend(loop_, options);
    GiveUpQuestions();
  }

  void Died(const std::string& how) {
    if (!wanted_) {
      why_ = "not in memory";
      if (unloaded_) loop_.Post(std::exchange(unloaded_, nullptr));
      return;
    }
    why_ = "its process ended: " + how;
    if (loop_.NowMs() - started_ms_ > kSteadyMs) backoff_ms_ = kFirstBackoffMs;
    if (log_) {
      log_({Severity::kWarning,
            "backend_exit",
            fmt::format("backend '{}': {}; started again in {:.1f} s", options_.name, why_,
                        backoff_ms_ / 1000),
            {{"backend", options_.name}}});
    }
    restart_ = loop_.After(backoff_ms_, [this] {
      restart_ = 0;
      Spawn();
    });
    backoff_ms_ = std::min(2 * backoff_ms_, kLongestBackoffMs);
  }

  AsioLoop& loop_;
  LlamaProcessOptions options_;
  LogSink log_;
  std::unique_ptr<ChildProcess> child_;
  std::unique_ptr<Backend> http_;
  std::unique_ptr<Backend> old_http_;
  struct Question {
    std::uint64_t boot;
    std::function<void()> give_up;
  };
  std::map<std::uint64_t, Question> questions_;
  std::uint64_t last_question_ = 0;
  std::set<CallId> refused_;
  CallId last_refused_ = 0;
  std::function<void()> unloaded_;
  std::string why_ = "not started";
  TimerId restart_ = 0;
  double backoff_ms_ = kFirstBackoffMs;
  double started_ms_ = 0;
  int port_ = 0;
  std::uint64_t boots_ = 0;
  bool wanted_ = false;
  bool ready_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<Backend> MakeLlamaProcess(AsioLoop& loop, const LlamaProcessOptions& options,
                                          LogSink log) {
  return std::make_unique<LlamaProcess>(loop, options, std::move(log));
}

}  // namespace parallax::server
