// AsioLoop: the Loop of the running server, over Boost.Asio.
//
// Role:       made by `parallax serve`; the HTTP parts and the supervisor use its io_context.
// Threads:    Run() makes its caller the loop's thread. Stop() may be called from any thread.
#pragma once

#include <map>
#include <memory>

#include <boost/asio/io_context.hpp>

#include "server/loop.h"

namespace parallax::server {

class AsioLoop final : public Loop {
 public:
  AsioLoop();
  ~AsioLoop() override;
  AsioLoop(const AsioLoop&) = delete;
  AsioLoop& operator=(const AsioLoop&) = delete;

  // Runs until Stop(), or until nothing is left to wait for.
  void Run();
  void Stop();
  // Calls `handler` on the loop's thread each time the process gets SIGINT or SIGTERM.
  void OnSignal(std::function<void(int signal)> handler);
  boost::asio::io_context& context() { return context_; }

  double NowMs() const override;
  double WallMs() const override;
  void Post(std::function<void()> task) override;
  TimerId After(double delay_ms, std::function<void()> task) override;
  void CancelTimer(TimerId id) override;

 private:
  struct Signals;
  struct Timer;
  boost::asio::io_context context_;
  std::map<TimerId, std::unique_ptr<Timer>> timers_;
  TimerId next_timer_ = 1;
  std::unique_ptr<Signals> signals_;
};

}  // namespace parallax::server
