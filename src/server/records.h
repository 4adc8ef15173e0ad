// The decisions made lately, and the file they are appended to.
//
// Role:       /v1/decisions and the status page read it; `replay` reads the file.
// Ownership:  owns its decisions and the file.
// Threads:    the loop's thread only.
// Cost:       one write() a finished request; at most `keep` decisions in memory.
// Invariants: the file holds whole lines: a write that the disk takes only in part is taken back. A
//             full disk loses records, counted, and never a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "router/decision.h"

namespace parallax::server {

class Records {
 public:
  explicit Records(std::size_t keep = 1024) : keep_(keep) {}
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  // Opens `path` for appending, creates it where it is not. A last line without its end (a crash in
  // the middle of a write) gets one, so that the next record stands on a line of its own.
  Result<void> Open(const std::string& path);

  // Keeps a decision that was made; its outcome comes later.
  void Add(const router::Decision& decision);
  // Replaces the decision of that id, or adds it, and appends it to the file.
  void Finish(const router::Decision& decision);

  const router::Decision* Find(std::string_view id) const;
  // Newest last.
  const std::deque<std::string>& order() const { return order_; }
  std::uint64_t written() const { return written_; }
  std::uint64_t lost() const { return lost_; }
  // Why the last record was lost; "" where none was.
  const std::string& last_error() const { return last_error_; }

 private:
  bool Append(const std::string& line);
  std::size_t keep_;
  std::deque<std::string> order_;
  std::unordered_map<std::string, router::Decision> by_id_;
  int file_ = -1;
  std::uint64_t written_ = 0;
  std::uint64_t lost_ = 0;
  std::string last_error_;
};

}  // namespace parallax::server
