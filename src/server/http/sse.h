// Splits a stream of server-sent events into events, however the network cut it.
//
// Role:       between a backend's bytes and whoever reads its events; also what a client's stream
//             is forwarded from, so an event keeps every byte it came with.
// Threads:    a value; no sharing.
// Cost:       one pass over the bytes; holds the unfinished event only.
// Invariants: the raw texts of all events, then Rest(), are the bytes that were fed, in order.
// Source:     WHATWG HTML, "Server-sent events": lines end with LF, CRLF or CR; an empty line ends
//             an event; several data lines are joined by LF; lines that begin with ':' are
//             comments; a byte order mark at the start of the stream is none of its first line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace parallax::server::http {

struct SseEvent {
  std::string_view raw;   // with the empty line that ends it
  std::string_view data;  // "" where the event has none (a comment, a ping)
};

class SseSplitter {
 public:
  explicit SseSplitter(std::size_t event_bytes = 16 << 20) : event_bytes_(event_bytes) {}
  // Calls `on_event` for each event that `bytes` completes; the views die when it returns. False
  // where one event is over the limit: the stream is not what it says, and Feed must not go on.
  [[nodiscard]] bool Feed(std::string_view bytes, FunctionRef<void(const SseEvent&)> on_event);
  // The stream has ended. Whole lines after the last event are an event too: some servers leave out
  // the empty line behind the last one. Half a line stays in Rest().
  void Finish(FunctionRef<void(const SseEvent&)> on_event);
  // What came after the last event.
  std::string_view Rest() const { return std::string_view(pending_).substr(begin_); }

 private:
  bool TakeLine(std::size_t end);
  void Emit(std::size_t end, FunctionRef<void(const SseEvent&)> on_event);

  std::size_t event_bytes_;
  std::string pending_;
  std::string joined_;          // the data of an event with several data lines
  std::size_t begin_ = 0;       // of the event under way
  std::size_t line_ = 0;        // of its line under way
  std::size_t scanned_ = 0;     // up to here no line ends
  std::size_t data_begin_ = 0;  // of its only data line so far
  std::size_t data_size_ = 0;
  int data_lines_ = 0;
  bool at_start_ = true;
};

}  // namespace parallax::server::http
