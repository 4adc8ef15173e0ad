// A child process that is watched: started, its output's tail kept, stopped or found dead.
//
// Role:       how spawned backends live; llama_process.h gives it a restart policy.
// Ownership:  owns the child: destroying it kills what still runs. Should this process die first,
//             the kernel kills the child (PR_SET_PDEATHSIG).
// Threads:    the loop's thread only.
// Cost:       a timer every 50 ms looks at the child and takes its output.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/loop.h"

namespace parallax::server {

class ChildProcess {
 public:
  // `exited` is called once, never inside Start, with words like "exit code 1" or "signal 9".
  static Result<std::unique_ptr<ChildProcess>> Start(
      Loop& loop, const std::vector<std::string>& command,
      std::function<void(const std::string&)> exited);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Asks it and what it started to end (SIGTERM), and makes them (SIGKILL) after `grace_ms`.
  void Stop(double grace_ms);
  pid_t pid() const { return pid_; }
  // The last lines it wrote to stdout and stderr.
  const std::string& tail() const { return tail_; }

 private:
  ChildProcess(Loop& loop, pid_t pid, int output, std::function<void(const std::string&)> exited);
  void Watch();
  void Signal(int signal);
  void Drain();

  Loop& loop_;
  pid_t pid_;
  int output_;
  std::function<void(const std::string&)> exited_;
  std::string tail_;
  TimerId watch_ = 0;
  double kill_at_ms_ = 0;
};

// A TCP port of the loopback interface that nobody listens on just now.
Result<int> FreePort();

}  // namespace parallax::server
