#include "server/records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace parallax::server {

Records::~Records() {
  if (file_ >= 0) ::close(file_);
}

Result<void> Records::Open(const std::string& path) {
  // Not waiting: a pipe that nobody reads may lose records, and nothing else.
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  if (file_ < 0) {
    return MakeError(ErrorCode::kIo, "cannot write decisions to {}: {}", path,
                     std::strerror(errno));
  }
  struct stat info {};
  char last = '\n';
  if (::fstat(file_, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
      ::pread(file_, &last, 1, info.st_size - 1) == 1 && last != '\n') {
    (void)Append("\n");
  }
  return {};
}

void Records::Add(const router::Decision& decision) {
  const bool known = !by_id_.insert_or_assign(decision.id, decision).second;
  if (known) return;
  order_.push_back(decision.id);
  if (order_.size() > keep_) {
    by_id_.erase(order_.front());
    order_.pop_front();
  }
}

void Records::Finish(const router::Decision& decision) {
  Add(decision);
  if (file_ < 0) return;
  ++(Append(router::ToJson(decision) + "\n") ? written_ : lost_);
}

bool Records::Append(const std::string& line) {
  struct stat before {};
  const bool regular = ::fstat(file_, &before) == 0 && S_ISREG(before.st_mode);
  ssize_t n = 0;
  do {
    n = ::write(file_, line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(line.size())) return true;
  last_error_ = n < 0 ? std::strerror(errno) : "the disk is full";
  if (n > 0 && regular && ::ftruncate(file_, before.st_size) != 0) {
    last_error_ += ", and half a record could not be taken back";
  }
  return false;
}

const router::Decision* Records::Find(std::string_view id) const {
  const auto found = by_id_.find(std::string(id));
  return found == by_id_.end() ? nullptr : &found->second;
}

}  // namespace parallax::server
