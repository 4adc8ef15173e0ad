// Real loopback sockets for tests: a loop that runs in the test's thread, and raw peers beside it.
//
// Role:       the other side of the HTTP server and client, free to break every rule of HTTP.
// Ownership:  a World owns its loop; peers own their sockets.
// Threads:    one: Until() runs the loop a little and asks again.
// Invariants: nothing here waits longer than kPatience, and no test passes because of how long
//             something took.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>
#include <boost/asio/executor_work_guard.hpp>

#include "server/asio_loop.h"

namespace parallax::server::fake {

inline constexpr auto kPatience = std::chrono::seconds(30);

struct World {
  AsioLoop loop;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      loop.context().get_executor()};

  // Runs the loop until `done`; false where that takes too long.
  template <class Done>
  bool Until(Done done) {
    const auto last = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > last) return false;
      loop.context().run_one_for(std::chrono::milliseconds(2));
      loop.context().poll();
    }
    return true;
  }
  // Time for what should not happen.
  void Idle(int ms) {
    const auto last = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    while (std::chrono::steady_clock::now() < last) {
      loop.context().run_one_for(std::chrono::milliseconds(2));
    }
  }
};

// One TCP connection, never blocking.
class Peer {
 public:
  Peer() = default;
  explicit Peer(int fd) : fd_(fd) {
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  Peer(Peer&& other) noexcept { *this = std::move(other); }
  Peer& operator=(Peer&& other) noexcept {
    Close();
    fd_ = std::exchange(other.fd_, -1);
    in_ = std::move(other.in_);
    eof_ = other.eof_;
    reset_ = other.reset_;
    return *this;
  }
  ~Peer() { Close(); }

  static Peer Connect(std::uint16_t port, int receive_bytes = 0) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_bytes > 0) {
      ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    }
    const sockaddr_in address = Loopback(port);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(fd);
      return {};
    }
    return Peer(fd);
  }
  static sockaddr_in Loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  bool connected() const { return fd_ >= 0; }
  // As much as the kernel takes now.
  std::size_t Send(std::string_view bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    return sent;
  }
  // Everything received so far; looks for more.
  const std::string& Read(std::size_t most = SIZE_MAX) {
    char block[64 << 10];
    while (fd_ >= 0 && !eof_ && in_.size() < most) {
      const ssize_t n = ::recv(fd_, block, sizeof block, 0);
      if (n > 0) {
        in_.append(block, static_cast<std::size_t>(n));
        continue;
      }
      if (n == 0) eof_ = true;
      if (n < 0 && errno != EAGAIN && errno != EINTR) eof_ = reset_ = true;
      break;
    }
    return in_;
  }
  bool Has(std::string_view text) { return Read().find(text) != std::string::npos; }
  bool Ended() {
    Read();
    return eof_;
  }
  bool reset() const { return reset_; }
  void Clear() { in_.clear(); }
  void HalfClose() { ::shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Closes with a reset.
  void Reset() {
    const linger at_once{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    Close();
  }

 private:
  int fd_ = -1;
  std::string in_;
  bool eof_ = false;
  bool reset_ = false;
};

// A listening socket; whoever connects is handed out as a Peer.
class Listener {
 public:
  explicit Listener(int backlog = 16)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address = Peer::Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, backlog), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { Close(); }
  std::uint16_t port() const { return port_; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // False where nobody has come.
  bool Accept(Peer& peer) {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return false;
    peer = Peer(fd);
    ++accepted;
    return true;
  }
  int accepted = 0;

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

// "127.0.0.1:8080" -> 8080
inline std::uint16_t PortOf(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

}  // namespace parallax::server::fake
