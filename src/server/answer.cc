#include "server/answer.h"

#include <utility>

namespace parallax::server {
namespace {

// A backend that sends so much without saying anything is not waited for any longer.
constexpr std::size_t kHoldBytes = 64 << 10;

}  // namespace

Answer::Answer(openai::Endpoint endpoint, bool stream, std::shared_ptr<http::Responder> responder)
    : endpoint_(endpoint),
      stream_(stream),
      responder_(std::move(responder)),
      aggregate_(endpoint) {}

void Answer::Commit() {
  if (std::exchange(committed_, true)) return;
  http::Headers headers = headers_;
  headers.emplace_back("Content-Type", "text/event-stream");
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");  // proxies of the nginx family hold streams back
  responder_->Begin(200, std::move(headers));
  responder_->Write(std::exchange(held_, {}));
}

void Answer::Event(std::string_view raw, const openai::ChunkFacts& facts,
                   const nlohmann::json& chunk) {
  if (facts.has_delta || !facts.finish_reason.empty()) spoke_ = true;
  if (!stream_) {
    if (facts.is_json) aggregate_.Add(chunk);
    return;
  }
  if (facts.usage_only && strip_usage_) return;
  if (committed_) {
    told_error_ |= facts.error.has_value();
    return responder_->Write(raw);
  }
  held_ += raw;
  if (spoke_ || held_.size() > kHoldBytes) Commit();
}

void Answer::Whole(std::string_view text) {
  committed_ = true;
  http::Headers headers = headers_;
  headers.emplace_back("Content-Type", "application/json");
  responder_->Send({200, std::move(headers), std::string(text)});
}

void Answer::Complete() {
  if (!stream_) return Whole(aggregate_.Finish());
  Commit();
  responder_->End();
}

void Answer::Fail(http::Response response) {
  if (!committed_) {
    committed_ = true;
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    return responder_->Send(std::move(response));
  }
  if (!told_error_) {
    // One line: an event's data has no room for the line ends of a pretty body.
    std::erase_if(response.body, [](char c) { return c == '\n' || c == '\r'; });
    responder_->Write("data: " + response.body + "\n\n");
  }
  responder_->End();
}

void Answer::Restart() {
  held_.clear();
  aggregate_ = openai::Aggregate(endpoint_);
  spoke_ = false;
}

}  // namespace parallax::server
