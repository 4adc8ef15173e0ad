#include "server/backends/http_backend.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/asio_loop.h"
#include "server/backends/llama_tokenizer.h"
#include "server/http/address.h"
#include "server/http/fetch_text.h"
#include "server/http/sse.h"

namespace parallax::server {
namespace {

using nlohmann::json;

constexpr std::size_t kAnswerBytes = 64 << 20;  // an answer that is not a stream
constexpr std::size_t kErrorBytes = 1 << 20;

bool IsType(std::string_view content_type, std::string_view wanted) {
  return content_type.substr(0, wanted.size()) == wanted;
}

const json* At(const json& from, const char* key) {
  if (!from.is_object()) return nullptr;
  const auto found = from.find(key);
  return found == from.end() ? nullptr : &*found;
}

std::string String(const json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::int64_t Positive(const json* value) {
  if (value == nullptr || !value->is_number()) return 0;
  const double number = value->get<double>();
  return number >= 1 && number < 1e12 ? static_cast<std::int64_t>(number) : 0;
}

class HttpBackend;

// One generation: turns the pieces of an HTTP answer into events and an end.
// Its sink may abort it inside an event: then it lives on, without a sink, until that event
// returns.
class StreamCall final : public http::FetchSink, public std::enable_shared_from_this<StreamCall> {
 public:
  StreamCall(HttpBackend* owner, CallId id, CallSink* sink) : owner_(owner), id_(id), sink_(sink) {}
  void Detach() { sink_ = nullptr; }
  void OnHead(int status, const http::Headers& headers) override {
    end_.status = status;
    end_.content_type = http::FindHeader(headers, "content-type");
    end_.retry_after = http::FindHeader(headers, "retry-after");
    stream_ = status == 200 && IsType(end_.content_type, "text/event-stream");
  }
  void OnBody(std::string_view bytes) override;
  void OnEnd() override;
  void OnError(http::FetchError error, const std::string& message) override;
  http::FetchId fetch = 0;

 private:
  void End();
  HttpBackend* owner_;
  CallId id_;
  CallSink* sink_;
  CallEnd end_;
  http::SseSplitter events_;
  bool stream_ = false;
};

class HttpBackend final : public Backend {
 public:
  HttpBackend(AsioLoop& loop, const HttpBackendOptions& options)
      : loop_(loop),
        options_(options),
        client_(http::Client::Make(loop, options.origin, {})),
        tokenizer_([this](std::string body, http::TextFetcher::Callback callback) {
          Ask("POST", "/tokenize", std::move(body), options_.tokenize_ms, std::move(callback));
        }),
        questions_(*client_, kAnswerBytes) {}
  ~HttpBackend() override {
    for (const auto& [id, call] : calls_) client_->Cancel(call->fetch);
  }

  void Probe(ProbeCallback callback) override {
    if (options_.dialect == HttpDialect::kDetect) return Detect(std::move(callback));
    if (options_.dialect == HttpDialect::kOpenAi) return ProbeModels(BackendFacts(), callback);
    Ask("GET", "/health", "", options_.probe_ms, [this, callback](Result<http::Response> answer) {
      if (!answer.ok()) return Failed(answer.error().message(), callback);
      if (answer->status == 503) return callback({Health::kLoading, "it loads its model", {}});
      if (answer->status != 200) {
        return Failed(fmt::format("/health answers {}", answer->status), callback);
      }
      ProbeProperties(callback);
    });
  }

  void CountTokens(const openai::GenerationRequest& request, TokensCallback callback) override {
    if (options_.dialect != HttpDialect::kLlamaServer || request.has_media) {
      return Unsupported(std::move(callback));
    }
    if (request.endpoint == openai::Endpoint::kCompletion) {
      const json& prompt = request.body["prompt"];
      if (!prompt.is_string()) return Unsupported(std::move(callback));
      return tokenizer_.TokenizePrompt(prompt.get<std::string>(), std::move(callback));
    }
    Ask("POST", "/apply-template", request.text, options_.tokenize_ms,
        [this, callback = std::move(callback)](Result<http::Response> answer) {
          if (!answer.ok()) return callback(answer.error());
          const json parsed = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
          const json* prompt = At(parsed, "prompt");
          if (answer->status != 200 || prompt == nullptr || !prompt->is_string()) {
            return callback(
                MakeError(ErrorCode::kIo, "/apply-template answers {}", answer->status));
          }
          tokenizer_.TokenizePrompt(prompt->get<std::string>(), callback);
        });
  }

  void CountAnswerTokens(const openai::GenerationRequest&, const std::string& answer,
                         TokensCallback callback) override {
    if (options_.dialect != HttpDialect::kLlamaServer) return Unsupported(std::move(callback));
    tokenizer_.Tokenize(answer, /*add_special=*/false, std::move(callback));
  }

  CallId Start(Call call, CallSink* sink) override {
    const CallId id = ++last_id_;
    auto stream = std::make_shared<StreamCall>(this, id, sink);
    http::FetchRequest request;
    request.method = "POST";
    request.target = openai::PathOf(call.endpoint);
    request.headers = CommonHeaders();
    request.headers.emplace_back("Accept", "text/event-stream");
    if (!call.via.empty()) request.headers.emplace_back("X-Parallax-Via", call.via);
    if (!call.request_id.empty()) request.headers.emplace_back("X-Request-Id", call.request_id);
    request.body = std::move(call.text);
    stream->fetch = client_->Fetch(std::move(request), stream.get());
    calls_[id] = std::move(stream);
    return id;
  }
  void Abort(CallId id) override {
    if (const auto found = calls_.find(id); found != calls_.end()) {
      client_->Cancel(found->second->fetch);
      found->second->Detach();
      calls_.erase(found);
    }
  }
  void Pause(CallId id) override {
    if (const auto found = calls_.find(id); found != calls_.end()) {
      client_->Pause(found->second->fetch);
    }
  }
  void Resume(CallId id) override {
    if (const auto found = calls_.find(id); found != calls_.end()) {
      client_->Resume(found->second->fetch);
    }
  }
  bool wants_usage_option() const override { return options_.dialect != HttpDialect::kLlamaServer; }
  bool leaves_out_prefill() const override { return options_.dialect == HttpDialect::kLlamaServer; }
  std::string place() const override {
    return fmt::format("http://{}{}", http::Format({options_.origin.host, options_.origin.port}),
                       options_.origin.base_path);
  }

  void Remove(CallId id) { calls_.erase(id); }
  void Cancel(const StreamCall& call) { client_->Cancel(call.fetch); }

 private:
  http::Headers CommonHeaders() const {
    http::Headers headers{{"Content-Type", "application/json"}};
    if (!options_.api_key.empty()) {
      headers.emplace_back("Authorization", "Bearer " + options_.api_key);
    }
    return headers;
  }

  void Ask(std::string method, std::string target, std::string body, double wait_ms,
           http::TextFetcher::Callback callback) {
    http::FetchRequest request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.headers = CommonHeaders();
    request.body = std::move(body);
    request.connect_ms = wait_ms;
    request.first_byte_ms = wait_ms;
    request.between_ms = wait_ms;
    request.whole_ms = 2 * wait_ms;
    questions_.Fetch(std::move(request), std::move(callback));
  }

  // Callbacks never run inside the call: the answer to a question nobody can answer waits its turn.
  void Unsupported(TokensCallback callback) {
    loop_.Post([callback = std::move(callback)] {
      callback(MakeError(ErrorCode::kUnsupported, "no tokenizer answers"));
    });
  }

  // After a failure what stood before cannot be trusted: the next start is another boot.
  void Failed(const std::string& why, const ProbeCallback& callback) {
    client_->Forget();
    failed_ = true;
    tokenized_by_.clear();
    callback({Health::kDown, why, {}});
  }

  void Detect(ProbeCallback callback) {
    Ask("GET", "/props", "", options_.probe_ms, [this, callback](Result<http::Response> answer) {
      if (!answer.ok()) return Failed(answer.error().message(), callback);
      if (answer->status == 503) return callback({Health::kLoading, "it loads its model", {}});
      const json parsed = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
      options_.dialect = At(parsed, "default_generation_settings") != nullptr
                             ? HttpDialect::kLlamaServer
                             : HttpDialect::kOpenAi;
      Probe(callback);
    });
  }

  void ProbeProperties(ProbeCallback callback) {
    Ask("GET", "/props", "", options_.probe_ms, [this, callback](Result<http::Response> answer) {
      BackendFacts facts;
      if (answer.ok() && answer->status == 200) {
        const json parsed = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
        facts.slots =
            static_cast<int>(std::min<std::int64_t>(Positive(At(parsed, "total_slots")), 1024));
        if (const json* settings = At(parsed, "default_generation_settings")) {
          facts.context_tokens = Positive(At(*settings, "n_ctx"));
        }
        const std::string path = String(At(parsed, "model_path"));
        facts.identity = path + '\n' + String(At(parsed, "chat_template"));
        if (facts.identity != tokenized_by_) {
          tokenized_by_ = facts.identity;
          tokenizer_.Reset({String(At(parsed, "eos_token")), String(At(parsed, "bos_token"))});
        }
      }
      ProbeModels(std::move(facts), callback);
    });
  }

  void ProbeModels(BackendFacts facts, ProbeCallback callback) {
    Ask("GET", "/v1/models", "", options_.probe_ms,
        [this, facts = std::move(facts), callback](Result<http::Response> answer) mutable {
          if (!answer.ok()) return Failed(answer.error().message(), callback);
          if (answer->status == 401 || answer->status == 403) {
            return Failed(
                fmt::format("/v1/models answers {}: the api_key is not accepted", answer->status),
                callback);
          }
          if (answer->status == 503) return callback({Health::kLoading, "it loads its model", {}});
          if (answer->status >= 500) {
            return Failed(fmt::format("/v1/models answers {}", answer->status), callback);
          }
          const json parsed = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
          if (const json* data = At(parsed, "data"); data != nullptr && data->is_array()) {
            for (const json& model : *data) {
              std::string id = String(At(model, "id"));
              if (!id.empty()) facts.models.push_back(std::move(id));
            }
          }
          if (std::exchange(failed_, false)) ++boot_;
          facts.boot = std::to_string(boot_);
          callback({Health::kReady, "", std::move(facts)});
        });
  }

  Loop& loop_;
  HttpBackendOptions options_;
  std::unique_ptr<http::Client> client_;
  LlamaTokenizer tokenizer_;
  std::string tokenized_by_;  // the identity of the model it asks
  http::TextFetcher questions_;
  std::map<CallId, std::shared_ptr<StreamCall>> calls_;
  CallId last_id_ = 0;
  int boot_ = 1;
  bool failed_ = false;
};

void StreamCall::OnBody(std::string_view bytes) {
  if (!stream_) {
    const std::size_t most = end_.status == 200 ? kAnswerBytes : kErrorBytes;
    if (end_.text.size() + bytes.size() <= most) {
      end_.text += bytes;
      return;
    }
    end_.kind = CallEnd::Kind::kGarbage;
    end_.message = fmt::format("its answer is over {} bytes", most);
    owner_->Cancel(*this);
    return End();
  }
  const auto self = shared_from_this();
  const bool good = events_.Feed(bytes, [&](const http::SseEvent& event) {
    if (sink_ != nullptr) sink_->OnEvent(event.raw, event.data);
  });
  if (sink_ == nullptr || good) return;
  end_.kind = CallEnd::Kind::kGarbage;
  end_.message = "one event of its stream is over the limit";
  owner_->Cancel(*this);
  End();
}

void StreamCall::OnEnd() {
  const auto self = shared_from_this();
  if (stream_) {
    events_.Finish([&](const http::SseEvent& event) {
      if (sink_ != nullptr) sink_->OnEvent(event.raw, event.data);
    });
    if (sink_ == nullptr) return;
    end_.kind = CallEnd::Kind::kComplete;
    if (!events_.Rest().empty()) {
      end_.kind = CallEnd::Kind::kDied;
      end_.message = "its stream ended inside an event";
    }
  } else if (end_.status != 200) {
    end_.kind = CallEnd::Kind::kRefused;
    end_.message = fmt::format("it answered {}", end_.status);
  } else if (IsType(end_.content_type, "application/json")) {
    end_.kind = CallEnd::Kind::kAnswer;
  } else {
    end_.kind = CallEnd::Kind::kGarbage;
    end_.message = fmt::format("it answered 200 with {}, not a stream",
                               end_.content_type.empty() ? "no type" : end_.content_type);
  }
  End();
}

void StreamCall::OnError(http::FetchError error, const std::string& message) {
  switch (error) {
    case http::FetchError::kConnect:
      end_.kind = CallEnd::Kind::kConnect;
      break;
    case http::FetchError::kTimeout:
      end_.kind = CallEnd::Kind::kTimeout;
      break;
    case http::FetchError::kClosed:
      end_.kind = CallEnd::Kind::kDied;
      break;
    case http::FetchError::kMalformed:
      end_.kind = CallEnd::Kind::kGarbage;
      break;
  }
  end_.message = message;
  End();
}

void StreamCall::End() {
  const auto self = shared_from_this();
  owner_->Remove(id_);
  std::exchange(sink_, nullptr)->OnEnd(end_);
}

}  // namespace

std::string_view Name(Health health) {
  switch (health) {
    case Health::kReady:
      return "ready";
    case Health::kLoading:
      return "loading";
    case Health::kDown:
      return "down";
  }
  return "unknown";
}

std::string_view Name(CallEnd::Kind kind) {
  switch (kind) {
    case CallEnd::Kind::kComplete:
      return "complete";
    case CallEnd::Kind::kAnswer:
      return "answer";
    case CallEnd::Kind::kRefused:
      return "refused";
    case CallEnd::Kind::kConnect:
      return "connect";
    case CallEnd::Kind::kDied:
      return "died";
    case CallEnd::Kind::kTimeout:
      return "timeout";
    case CallEnd::Kind::kGarbage:
      return "garbage";
  }
  return "unknown";
}

std::unique_ptr<Backend> MakeHttpBackend(AsioLoop& loop, const HttpBackendOptions& options) {
  return std::make_unique<HttpBackend>(loop, options);
}

}  // namespace parallax::server
