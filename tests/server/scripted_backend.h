// A Backend that does what its script says, in a test's time.
//
// Role:       stands for a llama-server, an NPU's worker or anything that fails, in tests of the
//             dispatcher. Its tokens are words: "user\nhello there" has three.
// Ownership:  borrows loop and journal; calls, sinks and callbacks as backend.h says.
// Threads:    one.
// Invariants: events look as llama-server's do; every answer's words are w0 w1 w2 ...; a device
//             whose prefill cannot be stopped works on after Abort, and the next call waits for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "server/backend.h"
#include "server/loop.h"
#include "tests/server/script.h"

namespace parallax::server::fake {

class ScriptedBackend final : public Backend {
 public:
  ScriptedBackend(Loop& loop, std::string name, Script s, Journal* journal)
      : script(std::move(s)), loop_(loop), name_(std::move(name)), journal_(journal) {}
  ~ScriptedBackend() override {
    *alive_ = false;
    for (auto& [id, call] : calls_) loop_.CancelTimer(call->timer);
    for (const TimerId timer : timers_) loop_.CancelTimer(timer);
  }

  void Probe(ProbeCallback callback) override {
    ++probes;
    Later(script.probe_ms, [this, callback = std::move(callback)] {
      ProbeResult result;
      result.health = script.health;
      if (script.loadable && !in_memory_) {
        result.health = wanted_ ? Health::kLoading : Health::kDown;
      }
      if (result.health != Health::kReady) {
        result.why = result.health == Health::kDown ? "it is switched off" : "it starts";
        return callback(result);
      }
      result.facts = {script.models, script.identity, script.boot, script.context, script.slots};
      callback(result);
    });
  }
  void CountTokens(const openai::GenerationRequest& request, TokensCallback callback) override {
    if (script.identity.empty() || script.count_ms < 0) {
      if (script.count_ms < 0) return;
      return Later(0, [callback = std::move(callback)] {
        callback(MakeError(ErrorCode::kUnsupported, "no tokenizer"));
      });
    }
    if (script.count_fails) {
      return Later(script.count_ms, [callback = std::move(callback)] {
        callback(MakeError(ErrorCode::kIo, "its tokenizer is broken"));
      });
    }
    Later(script.count_ms,
          [tokens = PromptTokens(request), callback = std::move(callback)] { callback(tokens); });
  }
  void CountAnswerTokens(const openai::GenerationRequest&, const std::string& answer,
                         TokensCallback callback) override {
    if (script.identity.empty()) {
      return Later(0, [callback = std::move(callback)] {
        callback(MakeError(ErrorCode::kUnsupported, "no tokenizer"));
      });
    }
    Later(script.count_ms,
          [tokens = WordTokens(answer), callback = std::move(callback)] { callback(tokens); });
  }

  CallId Start(Call request, CallSink* sink) override {
    auto call = std::make_unique<Running>();
    call->id = ++last_id_;
    call->sink = sink;
    auto parsed = openai::ParseRequest(request.endpoint, request.text);
    call->request = parsed.ok() ? *std::move(parsed) : openai::GenerationRequest();
    if (!parsed.ok() || !call->request.stream) violation = "was sent what is not a stream";
    call->prompt = PromptTokens(call->request);
    call->words =
        static_cast<int>(call->request.max_tokens.value_or(std::int64_t{script.answer_words}));
    call->fault = script.fault_times-- > 0 ? script.fault : Fault::kNone;
    sent.push_back(std::move(request));
    streams.emplace_back();
    call->stream = streams.size() - 1;
    Running* raw = call.get();
    calls_[raw->id] = std::move(call);
    max_concurrency = std::max(max_concurrency, static_cast<int>(calls_.size()));
    if (script.loadable && !in_memory_) violation = "was sent a request while not in memory";
    Note("start");
    const double wait = std::max(device_free_ms_ - loop_.NowMs(), 0.0) + script.start_ms;
    raw->timer = loop_.After(wait, [this, raw] { Prefill(*raw); });
    if (script.ping_ms > 0) Ping(raw->id);
    return raw->id;
  }
  void Abort(CallId id) override {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    ++aborts;
    Note("abort");
    Running& call = *found->second;
    if (!script.preemptible && call.prefilling) device_free_ms_ = call.prefill_until_ms;
    loop_.CancelTimer(call.timer);
    calls_.erase(found);
  }
  void Pause(CallId id) override {
    if (const auto found = calls_.find(id); found != calls_.end()) {
      ++pauses;
      found->second->paused = true;
    }
  }
  void Resume(CallId id) override {
    if (const auto found = calls_.find(id); found != calls_.end()) {
      found->second->paused = false;
      if (const auto next = std::exchange(found->second->held, nullptr)) loop_.Post(next);
    }
  }

  bool loadable() const override { return script.loadable; }
  bool loaded() const override { return !script.loadable || wanted_; }
  void Load() override {
    ++loads;
    wanted_ = true;
    Note("load");
    Later(script.load_ms, [this] {
      if (wanted_ && script.loads) in_memory_ = true;
    });
  }
  void Unload(std::function<void()> done) override {
    if (!calls_.empty()) violation = "was unloaded while it worked";
    wanted_ = in_memory_ = false;
    cache_.clear();
    Note("unload");
    Later(script.unload_ms, [this, done = std::move(done)] {
      Note("unloaded");
      done();
    });
  }
  bool wants_usage_option() const override { return script.usage_option; }
  bool leaves_out_prefill() const override { return script.echo_option; }
  std::string place() const override { return "script " + name_; }

  int running() const { return static_cast<int>(calls_.size()); }
  void ForgetCache() { cache_.clear(); }

  Script script;
  std::vector<Call> sent;
  std::vector<std::string> streams;  // the bytes of each call's answer
  int max_concurrency = 0;
  int aborts = 0;
  int pauses = 0;
  int loads = 0;
  int probes = 0;
  std::int64_t last_cached = 0;  // what the last prefill really reused
  std::string violation;

 private:
  struct Running {
    CallId id = 0;
    CallSink* sink = nullptr;
    openai::GenerationRequest request;
    Tokens prompt;
    std::int64_t cached = 0;
    int words = 0;
    int said = 0;
    Fault fault = Fault::kNone;
    TimerId timer = 0;
    std::size_t stream = 0;
    double prefill_ms = 0;
    double prefill_until_ms = 0;
    double decode_began_ms = 0;
    bool prefilling = false;
    bool paused = false;
    std::function<void()> held;
  };

  Tokens PromptTokens(const openai::GenerationRequest& request) const {
    Tokens tokens = WordTokens(openai::PromptText(request));
    if (request.endpoint == openai::Endpoint::kChat) {
      const Tokens turn = WordTokens("assistant");
      tokens.insert(tokens.end(), turn.begin(), turn.end());
    }
    return tokens;
  }
  void Note(const char* what) {
    if (journal_ != nullptr) journal_->Add(loop_.NowMs(), name_ + "." + what);
  }
  void Later(double ms, std::function<void()> task) {
    timers_.push_back(loop_.After(ms, [alive = alive_, task = std::move(task)] {
      if (*alive) task();
    }));
    if (timers_.size() > 64) timers_.erase(timers_.begin(), timers_.begin() + 32);
  }
  void Wait(Running& call, double ms, void (ScriptedBackend::*step)(Running&)) {
    call.timer = loop_.After(ms, [this, id = call.id, step] { Step(id, step); });
  }
  void Step(CallId id, void (ScriptedBackend::*step)(Running&)) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    if (found->second->paused) {
      found->second->held = [this, id, step] { Step(id, step); };
      return;
    }
    (this->*step)(*found->second);
  }
  void Ping(CallId id) {
    Later(script.ping_ms, [this, id] {
      const auto found = calls_.find(id);
      if (found == calls_.end()) return;
      if (Raw(*found->second, ": ping\n\n", "")) Ping(id);
    });
  }

  std::int64_t Reuse(const Tokens& prompt) {
    if (!script.cache || prompt.empty()) return 0;
    std::size_t best = 0;
    for (const Tokens& have : cache_) {
      const auto split =
          std::mismatch(have.begin(), have.end(), prompt.begin(), prompt.end()).second;
      best = std::max(best, static_cast<std::size_t>(split - prompt.begin()));
    }
    return static_cast<std::int64_t>(std::min(best, prompt.size() - 1));
  }
  void Store(Tokens sequence) {
    if (!script.cache) return;
    if (script.cache_tokens == 0) {
      cache_.clear();
    } else {
      // A sequence that goes on takes the place of the one it began with.
      std::erase_if(cache_, [&](const Tokens& have) {
        return have.size() <= sequence.size() &&
               std::equal(have.begin(), have.end(), sequence.begin());
      });
    }
    cache_.push_back(std::move(sequence));
    const auto total = [&] {
      std::size_t n = 0;
      for (const Tokens& have : cache_) n += have.size();
      return static_cast<std::int64_t>(n);
    };
    while (script.cache_tokens > 0 && cache_.size() > 1 && total() > script.cache_tokens) {
      cache_.pop_front();
    }
  }

  void Prefill(Running& call) {
    switch (call.fault) {
      case Fault::kRefuse:
        return End(call, CallEnd::Kind::kConnect, "connection refused");
      case Fault::kHang:
        return;
      case Fault::kStatus: {
        CallEnd end;
        end.kind = CallEnd::Kind::kRefused;
        end.status = script.fault_status;
        end.text = script.fault_body;
        end.content_type = "application/json";
        end.message = fmt::format("it answered {}", script.fault_status);
        return Close(call, end);
      }
      default:
        break;
    }
    call.cached = Reuse(call.prompt);
    last_cached = call.cached;
    call.prefill_ms =
        script.prefill_ms *
        static_cast<double>(static_cast<std::int64_t>(call.prompt.size()) - call.cached);
    call.prefilling = true;
    call.prefill_until_ms = loop_.NowMs() + call.prefill_ms;
    Wait(call, call.prefill_ms, &ScriptedBackend::Prefilled);
  }
  void Prefilled(Running& call) {
    call.prefilling = false;
    call.decode_began_ms = loop_.NowMs();
    switch (call.fault) {
      case Fault::kDieBefore:
        return End(call, CallEnd::Kind::kDied, "the connection ended without an answer");
      case Fault::kGarbage:
        return End(call, CallEnd::Kind::kGarbage, "it answered 200 with text/html, not a stream");
      case Fault::kBrokenEvents:
        if (!Raw(call, "data: <html>\n\n", "<html>")) return;
        return End(call, CallEnd::Kind::kComplete, "");
      case Fault::kEmptyStream:
        if (!Data(call, Chunk(call, {{"role", "assistant"}, {"content", nullptr}}, nullptr)))
          return;
        return End(call, CallEnd::Kind::kComplete, "");
      case Fault::kErrorInStream:
        if (!Raw(call, "data: " + script.fault_body + "\n\n", script.fault_body)) return;
        return End(call, CallEnd::Kind::kComplete, "");
      case Fault::kAnswerNotStream: {
        CallEnd end;
        end.kind = CallEnd::Kind::kAnswer;
        end.status = 200;
        end.content_type = "application/json";
        end.text =
            R"({"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",)"
            R"("content":"whole"},"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":5,"completion_tokens":1}})";
        return Close(call, end);
      }
      default:
        break;
    }
    Note("first");
    if (call.request.endpoint == openai::Endpoint::kChat &&
        !Data(call, Chunk(call, {{"role", "assistant"}, {"content", nullptr}}, nullptr))) {
      return;
    }
    Say(call);
  }
  void Say(Running& call) {
    const bool fails = call.said >= script.fault_after;
    if (fails && call.fault == Fault::kDieMid) {
      return End(call, CallEnd::Kind::kDied, "the connection ended inside the answer");
    }
    if (fails && call.fault == Fault::kStallMid) return;
    if (fails && call.fault == Fault::kErrorMidStream) {
      if (!Raw(call, "data: " + script.fault_body + "\n\n", script.fault_body)) return;
      return End(call, CallEnd::Kind::kComplete, "");
    }
    if (call.said >= call.words) return Finish(call);
    const std::string word = fmt::format("w{} ", call.said++);
    if (Data(call, Chunk(call, {{"content", word}}, nullptr)))
      Wait(call, script.decode_ms, &ScriptedBackend::Say);
  }
  void Finish(Running& call) {
    if (call.fault == Fault::kNoFinish) return End(call, CallEnd::Kind::kComplete, "");
    Note("finish");
    Tokens whole = call.prompt;
    for (int i = 0; i + 1 < call.said; ++i) {
      const Tokens word = WordTokens(fmt::format("w{}", i));
      whole.insert(whole.end(), word.begin(), word.end());
    }
    Store(std::move(whole));
    const std::int64_t cached = script.report_cached >= 0 ? script.report_cached : call.cached;
    const auto prompt = static_cast<std::int64_t>(call.prompt.size());
    nlohmann::ordered_json last =
        Chunk(call, nlohmann::ordered_json::object(),
              call.words > 0 && call.request.max_tokens ? "length" : "stop");
    const nlohmann::ordered_json timings = {{"cache_n", cached},
                                            {"prompt_n", prompt - cached},
                                            {"prompt_ms", call.prefill_ms},
                                            {"predicted_n", call.said},
                                            {"predicted_ms", loop_.NowMs() - call.decode_began_ms}};
    if (!script.usage_option) last["timings"] = timings;
    if (!Data(call, last)) return;
    if (call.request.include_usage) {
      nlohmann::ordered_json usage = Chunk(call, nlohmann::ordered_json::object(), nullptr);
      usage["choices"] = nlohmann::ordered_json::array();
      usage["usage"] = {{"prompt_tokens", prompt},
                        {"completion_tokens", call.said},
                        {"total_tokens", prompt + call.said},
                        {"prompt_tokens_details", {{"cached_tokens", cached}}}};
      if (!Data(call, usage)) return;
    }
    if (!Raw(call, "data: [DONE]\n\n", "[DONE]")) return;
    End(call, CallEnd::Kind::kComplete, "");
  }

  nlohmann::ordered_json Chunk(const Running& call, const nlohmann::ordered_json& delta,
                               const nlohmann::ordered_json& finish) const {
    nlohmann::ordered_json choice{{"finish_reason", finish}, {"index", 0}};
    const bool chat = call.request.endpoint == openai::Endpoint::kChat;
    if (chat) {
      choice["delta"] = delta;
    } else {
      choice["text"] = delta.contains("content") && delta["content"].is_string()
                           ? delta["content"]
                           : nlohmann::ordered_json("");
    }
    return {{"choices", nlohmann::ordered_json::array({choice})},
            {"id", fmt::format("{}-{}", name_, call.id)},
            {"model", script.models.empty() ? "" : script.models.front()},
            {"object", chat ? "chat.completion.chunk" : "text_completion"}};
  }
  // False where the sink aborted the call, which is gone then.
  bool Data(Running& call, const nlohmann::ordered_json& chunk) {
    const std::string data = chunk.dump();
    return Raw(call, "data: " + data + "\n\n", data);
  }
  bool Raw(Running& call, const std::string& raw, const std::string& data) {
    const CallId id = call.id;
    streams[call.stream] += raw;
    call.sink->OnEvent(raw, data);
    return calls_.contains(id);
  }
  void End(Running& call, CallEnd::Kind kind, const std::string& message) {
    CallEnd end;
    end.kind = kind;
    end.status = 200;
    end.message = message;
    Close(call, end);
  }
  void Close(Running& call, const CallEnd& end) {
    if (!calls_.contains(call.id)) return;
    const auto node = calls_.extract(call.id);
    loop_.CancelTimer(node.mapped()->timer);
    node.mapped()->sink->OnEnd(end);
  }

  Loop& loop_;
  std::string name_;
  Journal* journal_;
  CallId last_id_ = 0;
  std::map<CallId, std::unique_ptr<Running>> calls_;
  std::deque<Tokens> cache_;
  std::deque<TimerId> timers_;
  double device_free_ms_ = 0;
  bool wanted_ = false;
  bool in_memory_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace parallax::server::fake
