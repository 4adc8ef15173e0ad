#include "server/http/fetch_text.h"

#include <utility>

namespace parallax::server::http {

class TextFetcher::Sink final : public FetchSink {
 public:
  Sink(TextFetcher* owner, Callback callback) : owner_(owner), callback_(std::move(callback)) {}
  void OnHead(int status, const Headers& headers) override {
    answer_.status = status;
    answer_.headers = headers;
  }
  void OnBody(std::string_view bytes) override {
    if (answer_.body.size() + bytes.size() > owner_->body_bytes_) {
      owner_->client_.Cancel(id);
      return owner_->Finish(
          this, MakeError(ErrorCode::kIo, "the answer is over {} bytes", owner_->body_bytes_));
    }
    answer_.body += bytes;
  }
  void OnEnd() override { owner_->Finish(this, std::move(answer_)); }
  void OnError(FetchError, const std::string& message) override {
    owner_->Finish(this, MakeError(ErrorCode::kIo, "{}", message));
  }
  FetchId id = 0;

 private:
  friend class TextFetcher;
  TextFetcher* owner_;
  Callback callback_;
  Response answer_;
};

TextFetcher::TextFetcher(Client& client, std::size_t body_bytes)
    : client_(client), body_bytes_(body_bytes) {}

TextFetcher::~TextFetcher() {
  for (const auto& [sink, owned] : sinks_) client_.Cancel(sink->id);
}

void TextFetcher::Fetch(FetchRequest request, Callback callback) {
  auto sink = std::make_unique<Sink>(this, std::move(callback));
  Sink* raw = sink.get();
  raw->id = client_.Fetch(std::move(request), raw);
  sinks_[raw] = std::move(sink);
}

void TextFetcher::Finish(Sink* sink, Result<Response> result) {
  // The sink dies before its callback runs, which may destroy this object.
  const auto node = sinks_.extract(sink);
  const Callback callback = std::move(node.mapped()->callback_);
  callback(std::move(result));
}

}  // namespace parallax::server::http
