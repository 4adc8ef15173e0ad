#include "server/child_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace parallax::server {
namespace {

constexpr double kWatchMs = 50;
constexpr std::size_t kTailBytes = 4 << 10;

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    Loop& loop, const std::vector<std::string>& command,
    std::function<void(const std::string&)> exited) {
  if (command.empty()) return MakeError(ErrorCode::kInvalidArgument, "the command is empty");
  int output[2];
  int failure[2];  // carries errno of a failed exec
  if (::pipe2(output, O_CLOEXEC) != 0) {
    return MakeError(ErrorCode::kIo, "no pipe: {}", std::strerror(errno));
  }
  if (::pipe2(failure, O_CLOEXEC) != 0) {
    const int why = errno;
    ::close(output[0]);
    ::close(output[1]);
    return MakeError(ErrorCode::kIo, "no pipe: {}", std::strerror(why));
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Only async-signal-safe calls from here on.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::setpgid(0, 0);  // Ctrl-C is for the parent, which drains first
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, 0);
    ::dup2(output[1], 1);
    ::dup2(output[1], 2);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    // Asio's sockets outlive an exec: the child would keep clients' connections and the port open.
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    ::execvp(argv[0], argv.data());
    const int why = errno;
    [[maybe_unused]] const ssize_t n = ::write(failure[1], &why, sizeof why);
    ::_exit(127);
  }
  ::close(output[1]);
  ::close(failure[1]);
  int why = pid < 0 ? errno : 0;
  if (pid > 0 && ::read(failure[0], &why, sizeof why) == static_cast<ssize_t>(sizeof why)) {
    ::waitpid(pid, nullptr, 0);
  }
  ::close(failure[0]);
  if (why != 0) {
    ::close(output[0]);
    return MakeError(ErrorCode::kIo, "cannot start {}: {}", command[0], std::strerror(why));
  }
  ::fcntl(output[0], F_SETFL, O_NONBLOCK);
  std::unique_ptr<ChildProcess> child(new ChildProcess(loop, pid, output[0], std::move(exited)));
  child->watch_ = loop.After(0, [raw = child.get()] { raw->Watch(); });
  return child;
}

ChildProcess::ChildProcess(Loop& loop, pid_t pid, int output,
                           std::function<void(const std::string&)> exited)
    : loop_(loop), pid_(pid), output_(output), exited_(std::move(exited)) {}

ChildProcess::~ChildProcess() {
  loop_.CancelTimer(watch_);
  if (pid_ > 0) {
    Signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(output_);
}

// To its process group: a command may be a script that started the server proper.
void ChildProcess::Signal(int signal) { ::kill(-pid_, signal); }

void ChildProcess::Stop(double grace_ms) {
  if (pid_ <= 0) return;
  Signal(SIGTERM);
  kill_at_ms_ = loop_.NowMs() + grace_ms;
}

void ChildProcess::Watch() {
  Drain();
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0) {
    if (kill_at_ms_ > 0 && loop_.NowMs() >= kill_at_ms_) Signal(SIGKILL);
    watch_ = loop_.After(kWatchMs, [this] { Watch(); });
    return;
  }
  Drain();
  Signal(SIGKILL);  // what it left behind holds its port and its memory
  pid_ = -1;
  std::string how = "it is gone";
  if (ended > 0 && WIFEXITED(status)) how = fmt::format("exit code {}", WEXITSTATUS(status));
  if (ended > 0 && WIFSIGNALED(status)) how = fmt::format("signal {}", WTERMSIG(status));
  const auto exited = std::move(exited_);
  exited(how);  // may destroy this
}

void ChildProcess::Drain() {
  char block[4096];
  // Bounded: a child that writes without end must not keep the loop from everything else.
  for (int i = 0; i < 64; ++i) {
    const ssize_t n = ::read(output_, block, sizeof block);
    if (n <= 0) return;
    tail_.append(block, static_cast<std::size_t>(n));
    if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
}

Result<int> FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool good = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int why = errno;
  if (fd >= 0) ::close(fd);
  if (!good) return MakeError(ErrorCode::kIo, "no free port: {}", std::strerror(why));
  return static_cast<int>(ntohs(address.sin_port));
}

}  // namespace parallax::server
