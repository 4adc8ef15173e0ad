// Backend: one thing that generates text, as the dispatcher sees it; nothing here says HTTP.
//
// Role:       implemented in backends/ by what speaks to a llama-server, to any OpenAI server,
//             later to an NPU's worker process; tests script it with a clock of their own.
// Ownership:  the dispatcher owns its backends. A CallSink belongs to the caller and lives until
//             its OnEnd or until Abort. Callbacks given to Probe and CountTokens may be dropped
//             uncalled only when the backend is destroyed.
// Threads:    the loop's thread only; no callback or sink is called inside the call that takes it.
// Invariants: a call ends exactly once, by OnEnd, unless it was aborted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/openai/request.h"

namespace parallax::server {

// What a backend tells of itself; zero and empty where it does not say.
struct BackendFacts {
  std::vector<std::string> models;  // names it answers to
  std::string identity;             // what its tokens depend on: same identity, same tokens
  std::string boot;                 // changes when the backend restarts and its cache is gone
  std::int64_t context_tokens = 0;  // for one request
  int slots = 0;
};

enum class Health : unsigned char { kReady, kLoading, kDown };
std::string_view Name(Health health);

struct ProbeResult {
  Health health = Health::kDown;
  std::string why;     // where it is not ready
  BackendFacts facts;  // where it is ready
};

struct Call {
  openai::Endpoint endpoint = openai::Endpoint::kChat;
  std::string text = {};        // the request as JSON, with "stream": true
  std::string request_id = {};  // for the backend's own log
  std::string via = {};         // the routers it came through, this one last
};

struct CallEnd {
  enum class Kind : unsigned char {
    kComplete,  // the stream ended in order
    kAnswer,    // a whole JSON answer came instead of a stream: `text`
    kRefused,   // an error answer came: `status`, `text`
    kConnect,   // nothing could be sent
    kDied,      // the connection ended too soon
    kTimeout,
    kGarbage,  // what came is neither a stream nor JSON
  };
  Kind kind = Kind::kComplete;
  int status = 0;
  std::string text;
  std::string message;       // for people: what happened
  std::string content_type;  // of `text`
  std::string retry_after;   // as the backend gave it
};
std::string_view Name(CallEnd::Kind kind);

class CallSink {
 public:
  virtual ~CallSink() = default;
  // One event as it came: `raw` with the empty line that ends it, `data` its payload ("" for a
  // comment). The views die on return.
  virtual void OnEvent(std::string_view raw, std::string_view data) = 0;
  virtual void OnEnd(const CallEnd& end) = 0;
};

using CallId = std::uint64_t;

// The token ids of a prompt, with special tokens, exactly as the backend will see it.
using Tokens = std::vector<std::uint32_t>;

class Backend {
 public:
  using ProbeCallback = std::function<void(const ProbeResult&)>;
  using TokensCallback = std::function<void(Result<Tokens>)>;

  virtual ~Backend() = default;
  virtual void Probe(ProbeCallback callback) = 0;
  // kUnsupported where it has no tokenizer that answers.
  virtual void CountTokens(const openai::GenerationRequest& request, TokensCallback callback) = 0;
  // The tokens of `text` as they would follow `request`'s prompt: what an answer leaves in the
  // cache.
  virtual void CountAnswerTokens(const openai::GenerationRequest& request,
                                 const std::string& answer, TokensCallback callback) = 0;
  virtual CallId Start(Call call, CallSink* sink) = 0;
  // Stops a call; its sink is not called again. Unknown ids do nothing.
  virtual void Abort(CallId id) = 0;
  // A slow client slows its backend: no events between the two.
  virtual void Pause(CallId id) = 0;
  virtual void Resume(CallId id) = 0;

  // A backend that can be put in memory and taken out again; the others are always loaded.
  virtual bool loadable() const { return false; }
  virtual bool loaded() const { return true; }
  virtual void Load() {}
  // `done` is called when its memory is free again.
  virtual void Unload(std::function<void()> done) { done(); }
  // Whether the usage chunk must be asked for: not where every stream ends with its counts.
  virtual bool wants_usage_option() const { return true; }
  // Whether a stream leaves out the assistant's message that it continues, where a whole answer
  // begins with it: llama-server does, unless it is asked to `echo`.
  virtual bool leaves_out_prefill() const { return false; }
  // What people would look for: a URL, a command and its process.
  virtual std::string place() const = 0;
};

}  // namespace parallax::server
