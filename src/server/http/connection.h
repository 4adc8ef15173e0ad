// Connection: one client of the HTTP server, from its first byte to its last.
//
// Role:       reads requests, hands them to its owner one at a time, writes what the answers leave.
// Ownership:  held by its owner's list and by its own two coroutines, so it outlives both.
// Threads:    the loop's thread only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>  // asio/awaitable.hpp 1.74 needs it and does not include it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/asio_loop.h"
#include "server/http/server.h"

namespace parallax::server::http {

class Connection;

// What connections need of their server.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual AsioLoop& loop() = 0;
  virtual const Limits& limits() const = 0;
  virtual bool draining() const = 0;
  virtual void Handle(Request request, std::shared_ptr<Responder> responder) = 0;
  virtual Response MakeErrorBody(int status, std::string_view why) = 0;
  // The connection is closed.
  virtual void Remove(const std::shared_ptr<Connection>& connection) = 0;

  ServerCounters counters;
  std::size_t held_bytes = 0;  // of the bodies of requests that are read or answered now
};

// One client's connection: a coroutine that always reads, so that the client's leaving is seen at
// once, and one that writes what the answers leave in `out_`.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionOwner* server, boost::asio::ip::tcp::socket socket, double now_ms);

  void Start();
  void Close();
  // Closes the connection where a limit of time has passed.
  void Sweep(double now_ms);
  void StopAfterAnswer();
  // Answers by itself and closes after that.
  void Refuse(int status, std::string_view why);
  // The server ends before the coroutines do: nothing of it may be used any more.
  void Orphan() { server_ = nullptr; }
  bool answering() const { return answering_; }

  // The side of the Responder; `serial` tells a late call from one that is still wanted.
  void Begin(std::uint64_t serial, int status, const Headers& headers,
             std::optional<std::size_t> length);
  void Write(std::uint64_t serial, std::string_view bytes);
  void End(std::uint64_t serial);
  bool Wanted(std::uint64_t serial) const { return answering_ && serial == serial_ && !closed_; }
  bool head_request() const { return head_request_; }
  std::size_t pending_bytes() const { return out_.size() + writing_.size(); }
  std::function<void()> on_drained;
  std::function<void()> on_closed;

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  boost::asio::awaitable<void> Read();
  boost::asio::awaitable<void> WriteLoop();
  void Consume();
  // Counts the bytes of its request's body among those of all; false where they are too many.
  bool Hold(std::size_t bytes);
  void Answered();

  ConnectionOwner* server_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer wake_writer_;
  boost::asio::steady_timer wake_reader_;
  std::array<char, 4 << 10> read_;
  boost::beast::flat_buffer in_;  // what came and is not parsed yet
  std::optional<Parser> parser_;
  Request request_;       // what the parser has completed: the head, then the body
  std::size_t held_ = 0;  // bytes of its request's body, counted in ConnectionOwner::held_bytes
  std::string out_;       // what the answer left
  std::string writing_;   // what the socket has now
  std::string peer_;
  std::uint64_t serial_ = 0;
  double since_ms_;  // when the present wait began
  enum class Wait : unsigned char { kIdle, kHeader, kBody, kAnswer, kLinger } wait_ = Wait::kIdle;
  bool answering_ = false;
  bool chunked_ = false;
  bool keep_alive_ = true;
  bool head_request_ = false;
  bool half_closed_ = false;
  bool ended_ = false;
  bool closed_ = false;
  double write_since_ms_ = 0;
};

}  // namespace parallax::server::http
