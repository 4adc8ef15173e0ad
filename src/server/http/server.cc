#include "server/http/server.h"

#include <array>
#include <list>
#include <optional>
#include <utility>  // asio/awaitable.hpp 1.74 needs it and does not include it

#include <fmt/format.h>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/asio_loop.h"
#include "server/http/address.h"

namespace parallax::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using Parser = beast::http::request_parser<beast::http::string_body>;

constexpr std::size_t kReadBytes = 4 << 10;
// What a client may send ahead of an answer that is still being made; reading stops there.
constexpr std::size_t kReadAheadBytes = 64 << 10;
constexpr double kSweepMs = 250;
// How long what a client still sends is read and dropped after the last answer: closing with unread
// bytes would reset the connection, and the answer could be lost before the client reads it.
constexpr double kLingerMs = 1'000;

class ServerImpl;

// One client's connection: a coroutine that always reads, so that the client's leaving is seen at
// once, and one that writes what the answers leave in `out_`.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ServerImpl* server, tcp::socket socket, double now_ms);

  void Start();
  void Close();
  // Closes the connection where a limit of time has passed.
  void Sweep(double now_ms);
  void StopAfterAnswer();
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
  asio::awaitable<void> Read();
  asio::awaitable<void> WriteLoop();
  void Consume();
  void Refuse(int status, std::string_view why);
  void Answered();

  ServerImpl* server_;
  tcp::socket socket_;
  asio::steady_timer wake_writer_;
  asio::steady_timer wake_reader_;
  std::array<char, kReadBytes> read_;
  beast::flat_buffer in_;  // what came and is not parsed yet
  std::optional<Parser> parser_;
  std::string out_;      // what the answer left
  std::string writing_;  // what the socket has now
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

  friend class ServerImpl;
};

class ResponderImpl final : public Responder {
 public:
  ResponderImpl(std::shared_ptr<Connection> connection, std::uint64_t serial)
      : connection_(std::move(connection)), serial_(serial) {}
  ~ResponderImpl() override {
    if (!ended_) ResponderImpl::Abort();
  }

  void Send(Response response) override {
    if (ended_) return;
    connection_->Begin(serial_, response.status, response.headers, response.body.size());
    connection_->Write(serial_, response.body);
    End();
  }
  void Begin(int status, Headers headers) override {
    if (!ended_) connection_->Begin(serial_, status, headers, std::nullopt);
  }
  void Write(std::string_view bytes) override {
    if (!ended_) connection_->Write(serial_, bytes);
  }
  void End() override {
    if (ended_) return;
    ended_ = true;
    connection_->End(serial_);
  }
  void Abort() override {
    if (ended_) return;
    ended_ = true;
    if (!connection_->Wanted(serial_)) return;
    connection_->on_closed = nullptr;  // it is not the client who goes
    connection_->Close();
  }
  bool closed() const override { return !ended_ && !connection_->Wanted(serial_); }
  std::size_t pending_bytes() const override {
    return connection_->Wanted(serial_) ? connection_->pending_bytes() : 0;
  }
  void OnDrained(std::function<void()> callback) override {
    if (connection_->Wanted(serial_)) connection_->on_drained = std::move(callback);
  }
  void OnClosed(std::function<void()> callback) override {
    if (connection_->Wanted(serial_)) connection_->on_closed = std::move(callback);
  }

 private:
  std::shared_ptr<Connection> connection_;
  std::uint64_t serial_;
  bool ended_ = false;
};

class ServerImpl final : public Server {
 public:
  ServerImpl(AsioLoop& loop, tcp::acceptor acceptor, const Limits& limits, Handler handler,
             ErrorBody error_body)
      : loop_(loop),
        acceptor_(std::move(acceptor)),
        limits_(limits),
        handler_(std::move(handler)),
        error_body_(std::move(error_body)) {}
  ~ServerImpl() override {
    *alive_ = false;
    loop_.CancelTimer(sweep_);
    for (const auto& connection : connections_) connection->server_ = nullptr;
    Cut();
  }

  void Start() {
    // The coroutine holds `alive`: it may be resumed after the server is gone.
    asio::co_spawn(loop_.context(), Accept(this, alive_), asio::detached);
    Sweep();
  }

  std::string address() const override {
    boost::system::error_code ignored;
    const tcp::endpoint bound = acceptor_.local_endpoint(ignored);
    return Format({bound.address().to_string(), bound.port()});
  }
  const ServerCounters& counters() const override { return counters_; }

  void Drain(std::function<void()> drained) override {
    boost::system::error_code ignored;
    draining_ = true;
    acceptor_.close(ignored);
    drained_ = std::move(drained);
    for (const auto& connection : std::list(connections_)) connection->StopAfterAnswer();
    CheckDrained();
  }

  void Cut() override {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    for (const auto& connection : std::list(connections_)) connection->Close();
  }

  void Remove(const std::shared_ptr<Connection>& connection) {
    connections_.remove(connection);
    counters_.open = connections_.size();
    CheckDrained();
  }

  AsioLoop& loop() { return loop_; }
  const Limits& limits() const { return limits_; }
  bool draining() const { return draining_; }
  ServerCounters& mutable_counters() { return counters_; }
  void Handle(Request request, std::shared_ptr<Responder> responder) {
    handler_(std::move(request), std::move(responder));
  }
  Response MakeErrorBody(int status, std::string_view why) { return error_body_(status, why); }

 private:
  static asio::awaitable<void> Accept(ServerImpl* server, std::shared_ptr<bool> alive) {
    while (*alive) {
      boost::system::error_code error;
      tcp::socket socket =
          co_await server->acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (!*alive || error == asio::error::operation_aborted ||
          error == asio::error::bad_descriptor) {
        co_return;
      }
      if (error) {
        // Out of descriptors: the connection waits in the backlog; trying at once would spin.
        asio::steady_timer pause(server->loop_.context(), std::chrono::milliseconds(50));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        if (!*alive) co_return;
        continue;
      }
      server->Accepted(std::move(socket));
    }
  }

  void Accepted(tcp::socket socket) {
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    ++counters_.accepted;
    auto connection = std::make_shared<Connection>(this, std::move(socket), loop_.NowMs());
    const bool full = connections_.size() >= limits_.connections;
    connections_.push_back(connection);
    counters_.open = connections_.size();
    connection->Start();
    if (full) {
      ++counters_.refused;
      connection->Refuse(503, "too many connections");
    }
  }

  void Sweep() {
    const double now = loop_.NowMs();
    for (const auto& connection : std::list(connections_)) connection->Sweep(now);
    sweep_ = loop_.After(kSweepMs, [this] { Sweep(); });
  }

  void CheckDrained() {
    if (!draining_ || !connections_.empty() || !drained_) return;
    loop_.Post(std::exchange(drained_, nullptr));
  }

  AsioLoop& loop_;
  tcp::acceptor acceptor_;
  Limits limits_;
  Handler handler_;
  ErrorBody error_body_;
  ServerCounters counters_;
  std::list<std::shared_ptr<Connection>> connections_;
  std::function<void()> drained_;
  TimerId sweep_ = 0;
  bool draining_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Connection::Connection(ServerImpl* server, tcp::socket socket, double now_ms)
    : server_(server),
      socket_(std::move(socket)),
      wake_writer_(socket_.get_executor(), asio::steady_timer::time_point::max()),
      wake_reader_(socket_.get_executor(), asio::steady_timer::time_point::max()),
      since_ms_(now_ms) {
  boost::system::error_code error;
  const tcp::endpoint end = socket_.remote_endpoint(error);
  if (!error) peer_ = Format({end.address().to_string(), end.port()});
}

void Connection::Start() {
  // Each coroutine keeps the connection alive until it ends.
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->Read(); }, asio::detached);
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->WriteLoop(); },
      asio::detached);
}

void Connection::Close() {
  if (closed_) return;
  const auto self = shared_from_this();
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
  wake_writer_.cancel();
  wake_reader_.cancel();
  const auto gone = std::exchange(on_closed, nullptr);
  on_drained = nullptr;
  if (server_ != nullptr) server_->Remove(self);
  if (answering_ && gone) gone();
  answering_ = false;
}

void Connection::Sweep(double now_ms) {
  if (closed_) return;
  const Limits& limits = server_->limits();
  if (!writing_.empty() && now_ms - write_since_ms_ > limits.write_ms) {
    ++server_->mutable_counters().timed_out;
    return Close();
  }
  const double waited = now_ms - since_ms_;
  switch (wait_) {
    case Wait::kIdle:
      if (waited > limits.idle_ms) Close();
      return;
    case Wait::kHeader:
      if (waited > limits.header_ms) break;
      return;
    case Wait::kBody:
      if (waited > limits.body_ms) break;
      return;
    case Wait::kAnswer:
      return;
    case Wait::kLinger:
      if (waited > kLingerMs) Close();
      return;
  }
  ++server_->mutable_counters().timed_out;
  Refuse(408, wait_ == Wait::kHeader ? "the request's head took too long"
                                     : "the request's body took too long");
}

void Connection::StopAfterAnswer() {
  keep_alive_ = false;
  if (!answering_ && wait_ != Wait::kLinger) Close();
}

asio::awaitable<void> Connection::Read() {
  for (;;) {
    while (!closed_ && in_.size() >= kReadAheadBytes && answering_) {
      boost::system::error_code ignored;
      co_await wake_reader_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    if (closed_) co_return;
    boost::system::error_code error;
    // Not into in_: the writer consumes from it meanwhile, when an answer ends and the next request
    // is there already.
    const std::size_t n = co_await socket_.async_read_some(
        asio::buffer(read_), asio::redirect_error(asio::use_awaitable, error));
    if (closed_) co_return;
    if (error) {
      // With a refusal on its way out, the writer closes after it.
      if (!(ended_ && pending_bytes() > 0)) Close();
      half_closed_ = true;
      co_return;
    }
    in_.commit(asio::buffer_copy(in_.prepare(n), asio::buffer(read_, n)));
    Consume();
  }
}

// Parses what has come, unless a request is being answered: then it waits for its turn.
void Connection::Consume() {
  if (wait_ == Wait::kLinger) in_.consume(in_.size());
  while (!closed_ && !answering_ && in_.size() > 0) {
    if (!parser_) {
      parser_.emplace();
      parser_->eager(true);
      parser_->header_limit(static_cast<std::uint32_t>(server_->limits().header_bytes));
      parser_->body_limit(server_->limits().body_bytes);
      wait_ = Wait::kHeader;
      since_ms_ = server_->loop().NowMs();
    }
    boost::system::error_code error;
    const bool had_header = parser_->is_header_done();
    in_.consume(parser_->put(in_.data(), error));
    const bool more = error == beast::http::error::need_more;
    if (!had_header && parser_->is_header_done() && (!error || more)) {
      wait_ = Wait::kBody;
      since_ms_ = server_->loop().NowMs();
      const auto& head = parser_->get();
      if (head.find(beast::http::field::transfer_encoding) != head.end() && !parser_->chunked()) {
        // Where its body ends cannot be told: what follows must not be read as another request.
        return Refuse(501, "no Transfer-Encoding but chunked is understood");
      }
      // Nothing of its body may have come: one that sends all at once does not wait for it.
      if (!parser_->is_done() && parser_->get().version() >= 11 &&
          beast::iequals(parser_->get()[beast::http::field::expect], "100-continue")) {
        out_ += "HTTP/1.1 100 Continue\r\n\r\n";
        wake_writer_.cancel();
      }
    }
    if (more) {
      // The parser keeps nothing of an unfinished head, of the request or of a chunk: all of it must
      // stay in the buffer.
      if (in_.size() > server_->limits().header_bytes) {
        return Refuse(431, parser_->is_header_done() ? "the head of a chunk is too large"
                                                     : "the request's head is too large");
      }
      return;
    }
    if (error) {
      ++server_->mutable_counters().malformed;
      if (error == beast::http::error::body_limit) {
        return Refuse(
            413, fmt::format("the request's body is over {} bytes", server_->limits().body_bytes));
      }
      if (error == beast::http::error::header_limit) {
        return Refuse(431, fmt::format("the request's head is over {} bytes",
                                       server_->limits().header_bytes));
      }
      return Refuse(400, fmt::format("the request is not HTTP: {}", error.message()));
    }
    if (!parser_->is_done()) continue;

    auto message = parser_->release();
    parser_.reset();
    Request request;
    request.method = std::string(message.method_string());
    request.target = std::string(message.target());
    for (const auto& field : message) {
      request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    request.body = std::move(message.body());
    request.peer = peer_;
    keep_alive_ = message.keep_alive() && !server_->draining();
    chunked_ = message.version() >= 11;
    head_request_ = request.method == "HEAD";
    answering_ = true;
    ended_ = false;
    wait_ = Wait::kAnswer;
    ++serial_;
    server_->Handle(std::move(request),
                    std::make_shared<ResponderImpl>(shared_from_this(), serial_));
  }
}

void Connection::Refuse(int status, std::string_view why) {
  keep_alive_ = false;
  answering_ = true;
  chunked_ = true;
  head_request_ = false;
  ended_ = false;
  wait_ = Wait::kAnswer;
  ++serial_;
  ResponderImpl(shared_from_this(), serial_).Send(server_->MakeErrorBody(status, why));
}

void Connection::Begin(std::uint64_t serial, int status, const Headers& headers,
                       std::optional<std::size_t> length) {
  if (!Wanted(serial)) return;
  out_ += fmt::format("HTTP/1.1 {} {}\r\n", status, ReasonPhrase(status));
  for (const auto& [name, value] : headers) out_ += fmt::format("{}: {}\r\n", name, value);
  if (length) {
    // RFC 9110, 8.6: not with 204, which has no body.
    if (status != 204) out_ += fmt::format("Content-Length: {}\r\n", *length);
    chunked_ = false;
  } else if (chunked_) {
    out_ += "Transfer-Encoding: chunked\r\n";
  } else {
    keep_alive_ = false;  // HTTP/1.0: the end of the connection is the end of the body
  }
  out_ += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  wake_writer_.cancel();
}

void Connection::Write(std::uint64_t serial, std::string_view bytes) {
  if (!Wanted(serial) || bytes.empty() || head_request_) return;
  if (chunked_) {
    out_ += fmt::format("{:x}\r\n", bytes.size());
    out_ += bytes;
    out_ += "\r\n";
  } else {
    out_ += bytes;
  }
  wake_writer_.cancel();
}

void Connection::End(std::uint64_t serial) {
  if (!Wanted(serial)) return;
  if (chunked_ && !head_request_) out_ += "0\r\n\r\n";
  ended_ = true;
  wake_writer_.cancel();
}

asio::awaitable<void> Connection::WriteLoop() {
  boost::system::error_code error;
  for (;;) {
    while (out_.empty() && !closed_) {
      if (ended_ && answering_) Answered();
      if (closed_ || !out_.empty()) continue;
      co_await wake_writer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
    if (closed_) co_return;
    writing_.swap(out_);
    write_since_ms_ = server_->loop().NowMs();
    // In pieces: a client that takes some of a large answer is slow, not gone.
    for (std::size_t sent = 0; sent < writing_.size();) {
      sent += co_await socket_.async_write_some(
          asio::buffer(writing_.data() + sent, writing_.size() - sent),
          asio::redirect_error(asio::use_awaitable, error));
      if (closed_) co_return;
      if (error) {
        Close();
        co_return;
      }
      write_since_ms_ = server_->loop().NowMs();
    }
    writing_.clear();
    if (writing_.capacity() > (64 << 10)) writing_.shrink_to_fit();
    if (out_.empty() && on_drained && !ended_) {
      const auto drained = on_drained;  // it may set another
      drained();
    }
  }
}

// The last byte of an answer is out: the connection takes the next request, or ends.
void Connection::Answered() {
  answering_ = false;
  on_closed = nullptr;
  on_drained = nullptr;
  if (!keep_alive_ || half_closed_ || server_->draining()) {
    boost::system::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    if (half_closed_) return Close();
    wait_ = Wait::kLinger;
    since_ms_ = server_->loop().NowMs();
    wake_reader_.cancel();
    return;
  }
  wait_ = Wait::kIdle;
  since_ms_ = server_->loop().NowMs();
  wake_reader_.cancel();
  Consume();
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Listen(AsioLoop& loop, std::string_view address,
                                               const Limits& limits, Handler handler,
                                               ErrorBody error_body) {
  PX_ASSIGN_OR_RETURN(const Address wanted, ParseAddress(address));
  boost::system::error_code error;
  const auto failed = [&] {
    return MakeError(ErrorCode::kIo, "cannot listen on {}: {}", address, error.message());
  };
  tcp::resolver resolver(loop.context());
  const auto found = resolver.resolve(wanted.host.empty() ? "127.0.0.1" : wanted.host,
                                      std::to_string(wanted.port), tcp::resolver::passive, error);
  if (error) return failed();
  const tcp::endpoint endpoint = *found.begin();
  tcp::acceptor acceptor(loop.context());
  acceptor.open(endpoint.protocol(), error);
  if (error) return failed();
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor.bind(endpoint, error);
  if (error) return failed();
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return failed();
  auto server = std::make_unique<ServerImpl>(loop, std::move(acceptor), limits, std::move(handler),
                                             std::move(error_body));
  server->Start();
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace parallax::server::http
