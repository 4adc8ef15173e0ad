// A client of a test: takes what the server answers, leaves when it is told to.
//
// Role:       stands where a connection's Responder stands.
// Ownership:  shared by the test and the job that answers it.
// Threads:    one.
// Invariants: as server.h says of a Responder; breaking its order of calls is recorded in
//             `violation`.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/http/server.h"
#include "server/http/sse.h"
#include "server/loop.h"

namespace parallax::server::fake {

class FakeResponder final : public http::Responder {
 public:
  explicit FakeResponder(const Loop& loop) : loop_(loop), asked_ms(loop.NowMs()) {}

  void Send(http::Response response) override {
    if (status != 0) violation = "answered twice";
    if (closed_) return;
    Note(response.status, std::move(response.headers));
    body = std::move(response.body);
    Finish();
  }
  void Begin(int code, http::Headers fields) override {
    if (status != 0) violation = "begun twice";
    if (closed_) return;
    streamed = true;
    Note(code, std::move(fields));
  }
  void Write(std::string_view bytes) override {
    if (!streamed || ended) violation = "written outside an answer";
    if (closed_) return;
    if (!bytes.empty() && first_byte_ms == 0) first_byte_ms = loop_.NowMs();
    body += bytes;
    if (slow) pending_ += bytes.size();
  }
  void End() override {
    if (!streamed || ended) violation = "ended outside an answer";
    if (!closed_) Finish();
  }
  void Abort() override {
    cut = true;
    on_closed_ = nullptr;
  }
  bool closed() const override { return closed_; }
  std::size_t pending_bytes() const override { return pending_; }
  void OnDrained(std::function<void()> callback) override { on_drained_ = std::move(callback); }
  void OnClosed(std::function<void()> callback) override { on_closed_ = std::move(callback); }

  // The client takes all that waits for it.
  void Drain() {
    pending_ = 0;
    if (const auto drained = std::exchange(on_drained_, nullptr)) drained();
  }
  // The client goes away; what follows is dropped.
  void Leave() {
    if (closed_ || ended) return;
    closed_ = true;
    if (const auto gone = std::exchange(on_closed_, nullptr)) gone();
  }

  bool answered() const { return ended; }
  std::string header(std::string_view name) const {
    return std::string(http::FindHeader(headers, name));
  }
  nlohmann::json json() const {
    return nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  }
  // The data of every event of a streamed answer.
  std::vector<std::string> events() const {
    std::vector<std::string> all;
    http::SseSplitter splitter;
    (void)splitter.Feed(body, [&](const http::SseEvent& e) { all.emplace_back(e.data); });
    return all;
  }
  // The text of choice 0, streamed or not.
  std::string text() const {
    std::string whole;
    const auto add = [&](const nlohmann::json& chunk, const char* part) {
      if (!chunk.is_object() || !chunk.contains("choices")) return;
      for (const auto& choice : chunk["choices"]) {
        if (choice.value("index", 0) != 0) continue;
        const auto& holder = choice.contains(part) ? choice[part] : choice;
        const char* key = choice.contains(part) ? "content" : "text";
        if (holder.contains(key) && holder[key].is_string()) {
          whole += holder[key].get<std::string>();
        }
      }
    };
    if (!streamed) {
      add(json(), "message");
    } else {
      for (const std::string& data : events()) {
        add(nlohmann::json::parse(data, nullptr, /*allow_exceptions=*/false), "delta");
      }
    }
    return whole;
  }
  std::string error_message() const {
    const auto parsed = json();
    return parsed.is_object() && parsed.contains("error") ? parsed["error"].value("message", "")
                                                          : "";
  }

 private:
  void Note(int code, http::Headers fields) {
    status = code;
    headers = std::move(fields);
    if (first_byte_ms == 0 && !streamed) first_byte_ms = loop_.NowMs();
  }
  void Finish() {
    ended = true;
    ended_ms = loop_.NowMs();
    on_closed_ = nullptr;
    on_drained_ = nullptr;
  }

  const Loop& loop_;
  std::size_t pending_ = 0;
  bool closed_ = false;
  std::function<void()> on_closed_;
  std::function<void()> on_drained_;

 public:
  int status = 0;  // 0: nothing yet
  http::Headers headers;
  std::string body;
  bool streamed = false;
  bool ended = false;
  bool cut = false;
  bool slow = false;  // takes nothing until Drain()
  double asked_ms;
  double first_byte_ms = 0;
  double ended_ms = 0;
  std::string violation;
};

}  // namespace parallax::server::fake
