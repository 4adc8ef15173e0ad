#include "server/http/sse.h"

#include <utility>

namespace parallax::server::http {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

bool SseSplitter::Feed(std::string_view bytes, FunctionRef<void(const SseEvent&)> on_event) {
  pending_ += bytes;
  for (;;) {
    const std::size_t end = pending_.find_first_of("\r\n", scanned_);
    if (end == std::string::npos) {
      scanned_ = pending_.size();
      break;
    }
    // A CR at the end of what has come may be half of a CRLF: the next byte tells.
    if (pending_[end] == '\r' && end + 1 == pending_.size()) {
      scanned_ = end;
      break;
    }
    const std::size_t next = end + (pending_[end] == '\r' && pending_[end + 1] == '\n' ? 2 : 1);
    if (TakeLine(end)) Emit(next, on_event);
    line_ = scanned_ = next;
  }
  if (begin_ > 0) {
    pending_.erase(0, begin_);
    line_ -= begin_;
    scanned_ -= begin_;
    data_begin_ -= data_lines_ > 0 ? begin_ : data_begin_;
    begin_ = 0;
  }
  return pending_.size() <= event_bytes_;
}

void SseSplitter::Finish(FunctionRef<void(const SseEvent&)> on_event) {
  if (Rest().empty() || !(pending_.ends_with('\n') || pending_.ends_with('\r'))) return;
  if (line_ < pending_.size()) (void)TakeLine(pending_.size() - 1);  // but for the CR that waits
  Emit(pending_.size(), on_event);
}

// The line from line_ to `end`. True where it is empty: it ends the event.
bool SseSplitter::TakeLine(std::size_t end) {
  std::string_view line(pending_.data() + line_, end - line_);
  if (std::exchange(at_start_, false) && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) return true;
  if (!line.starts_with("data:") && line != "data") return false;
  std::string_view value = line.substr(line.size() == 4 ? 4 : 5);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (++data_lines_ == 1) {
    data_begin_ = static_cast<std::size_t>(value.data() - pending_.data());
    data_size_ = value.size();
  } else {
    if (data_lines_ == 2) joined_.assign(pending_, data_begin_, data_size_);
    joined_ += '\n';
    joined_ += value;
  }
  return false;
}

void SseSplitter::Emit(std::size_t end, FunctionRef<void(const SseEvent&)> on_event) {
  const std::string_view one = data_lines_ == 0
                                   ? std::string_view()
                                   : std::string_view(pending_.data() + data_begin_, data_size_);
  const SseEvent event{{pending_.data() + begin_, end - begin_},
                       data_lines_ > 1 ? std::string_view(joined_) : one};
  on_event(event);
  begin_ = end;
  data_lines_ = 0;
  data_size_ = 0;
}

}  // namespace parallax::server::http
