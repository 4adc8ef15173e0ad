#include "server/http/sse.h"

namespace parallax::server::http {

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
    const std::string_view line(pending_.data() + line_, end - line_);
    if (line.empty()) {
      const SseEvent event{{pending_.data() + begin_, next - begin_},
                           data_lines_ > 1
                               ? std::string_view(joined_)
                               : std::string_view(pending_.data() + data_begin_, data_size_)};
      on_event(event);
      begin_ = next;
      data_lines_ = 0;
      data_size_ = 0;
    } else if (line.starts_with("data:")) {
      std::string_view value = line.substr(5);
      if (value.starts_with(' ')) value.remove_prefix(1);
      if (++data_lines_ == 1) {
        data_begin_ = static_cast<std::size_t>(value.data() - pending_.data());
        data_size_ = value.size();
      } else {
        if (data_lines_ == 2) joined_.assign(pending_, data_begin_, data_size_);
        joined_ += '\n';
        joined_ += value;
      }
    }
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

}  // namespace parallax::server::http
