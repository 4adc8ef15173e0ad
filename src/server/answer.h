// One client's answer while it is made: forwarded as it comes, or put together for a client that
// does not stream.
//
// Role:       between the events of a backend's call and the client's Responder.
// Ownership:  shares the Responder; owns what it holds back.
// Threads:    the loop's thread only.
// Invariants: nothing is sent before an event says something (text, a tool call, an end): until
//             then the request may go to another backend, or fail with a status of its own. From
//             then on a streaming client gets the backend's bytes, all of them, but for the usage
//             chunk that only the router had asked for.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "server/http/server.h"
#include "server/openai/aggregate.h"
#include "server/openai/chunk.h"

namespace parallax::server {

class Answer {
 public:
  Answer(openai::Endpoint endpoint, bool stream, std::shared_ptr<http::Responder> responder);

  // Headers that name backend and decision; they go out with the first byte.
  void SetHeaders(http::Headers headers) { headers_ = std::move(headers); }
  // Whether the usage chunk was asked for by the router alone.
  void StripUsage(bool strip) { strip_usage_ = strip; }

  void Event(std::string_view raw, const openai::ChunkFacts& facts, const nlohmann::json& chunk);
  // A backend answered with one JSON text although it was asked to stream.
  void Whole(std::string_view text);
  // The stream has ended in order.
  void Complete();
  // Where nothing was sent yet: this answer. Inside a stream: its body as an event (unless the
  // backend's own error was one already), then the end.
  void Fail(http::Response response);
  // Forgets what was held back: another backend starts over.
  void Restart();

  // The client has been sent something of the answer, or (not streaming) would lose what was made.
  bool committed() const { return committed_; }
  // Something of an answer came: text, a call, a reason to finish.
  bool spoke() const { return spoke_; }
  bool stream() const { return stream_; }
  http::Responder& responder() { return *responder_; }

 private:
  void Commit();
  openai::Endpoint endpoint_;
  bool stream_;
  bool strip_usage_ = false;
  std::shared_ptr<http::Responder> responder_;
  http::Headers headers_;
  openai::Aggregate aggregate_;
  std::string held_;
  bool spoke_ = false;
  bool committed_ = false;
  bool told_error_ = false;
  bool inside_event_ = false;  // what was sent last had no empty line behind it
};

}  // namespace parallax::server
