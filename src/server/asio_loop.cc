#include "server/asio_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

namespace parallax::server {
namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct AsioLoop::Timer {
  asio::steady_timer timer;
};

struct AsioLoop::Signals {
  Signals(asio::io_context& context, std::function<void(int)> on_signal)
      : set(context, SIGINT, SIGTERM, SIGHUP), handler(std::move(on_signal)) {}
  asio::signal_set set;
  std::function<void(int)> handler;

  void Wait() {
    set.async_wait([this](const boost::system::error_code& error, int signal) {
      if (error) return;
      Wait();
      handler(signal);
    });
  }
};

AsioLoop::AsioLoop() : context_(1) {}
AsioLoop::~AsioLoop() = default;

void AsioLoop::Run() { context_.run(); }
void AsioLoop::Stop() { context_.stop(); }

void AsioLoop::OnSignal(std::function<void(int)> handler) {
  signals_ = std::make_unique<Signals>(context_, std::move(handler));
  signals_->Wait();
}

double AsioLoop::NowMs() const { return Milliseconds(Clock::now().time_since_epoch()).count(); }

double AsioLoop::WallMs() const {
  return Milliseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

void AsioLoop::Post(std::function<void()> task) { asio::post(context_, std::move(task)); }

TimerId AsioLoop::After(double delay_ms, std::function<void()> task) {
  const TimerId id = next_timer_++;
  auto& entry = timers_[id];
  entry = std::make_unique<Timer>(Timer{asio::steady_timer(context_)});
  // A bound, for the clock counts nanoseconds in 63 bits: three years are as good as for ever.
  constexpr double kLongestMs = 1e11;
  entry->timer.expires_after(std::chrono::duration_cast<Clock::duration>(
      Milliseconds(delay_ms > 0 ? std::min(delay_ms, kLongestMs) : 0)));
  entry->timer.async_wait([this, id, task = std::move(task)](const boost::system::error_code& e) {
    // A timer cancelled after it expired still comes here without an error: the table decides.
    if (e || timers_.erase(id) == 0) return;
    task();
  });
  return id;
}

void AsioLoop::CancelTimer(TimerId id) { timers_.erase(id); }

}  // namespace parallax::server
