#include "server/http/connection.h"

#include <fmt/format.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "server/http/address.h"

namespace parallax::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

// What a client may send ahead of an answer that is still being made; reading stops there.
constexpr std::size_t kReadAheadBytes = 64 << 10;
// How long what a client still sends is read and dropped after the last answer: closing with unread
// bytes would reset the connection, and the answer could be lost before the client reads it.
constexpr double kLingerMs = 1'000;

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

}  // namespace

Connection::Connection(ConnectionOwner* server, tcp::socket socket, double now_ms)
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
  if (server_ != nullptr) {
    Hold(0);
    server_->Remove(self);
  }
  if (answering_ && gone) gone();
  answering_ = false;
}

void Connection::Sweep(double now_ms) {
  if (closed_) return;
  const Limits& limits = server_->limits();
  if (!writing_.empty() && now_ms - write_since_ms_ > limits.write_ms) {
    ++server_->counters.timed_out;
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
  ++server_->counters.timed_out;
  Refuse(408, wait_ == Wait::kHeader ? "the request's head took too long"
                                     : "the request's body took too long");
}

bool Connection::Hold(std::size_t bytes) {
  server_->held_bytes += bytes - held_;
  held_ = bytes;
  return server_->held_bytes <= server_->limits().all_body_bytes;
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
      parser_->header_limit(static_cast<std::uint32_t>(server_->limits().header_bytes));
      parser_->body_limit(server_->limits().body_bytes);
      wait_ = Wait::kHeader;
      since_ms_ = server_->loop().NowMs();
    }
    boost::system::error_code error;
    const bool had_header = parser_->is_header_done();
    in_.consume(parser_->put(in_.data(), error));
    if (!Hold(parser_->get().body().size())) {
      return Refuse(503, "the requests under way are too large together");
    }
    const bool more = error == beast::http::error::need_more;
    if (!had_header && parser_->is_header_done() && (!error || more)) {
      wait_ = Wait::kBody;
      since_ms_ = server_->loop().NowMs();
      const auto& head = parser_->get();
      if (head.find(beast::http::field::transfer_encoding) != head.end() && !parser_->chunked()) {
        // Where its body ends cannot be told: what follows must not be read as another request.
        return Refuse(501, "no Transfer-Encoding but chunked is understood");
      }
      // Taken now: the parser adds the fields of a trailer to those of the head, and nothing that
      // decides about a request, such as its key, may come after its body.
      request_ = Request{.method = std::string(head.method_string()),
                         .target = std::string(head.target()),
                         .headers = {},
                         .body = {},
                         .peer = peer_};
      for (const auto& field : head) {
        request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
      }
      parser_->eager(true);
      // Not where some of its body has come: a client that sends all at once does not wait for it.
      if (!parser_->is_done() && in_.size() == 0 && head.version() >= 11 &&
          beast::iequals(head[beast::http::field::expect], "100-continue")) {
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
      ++server_->counters.malformed;
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
    request_.body = std::move(message.body());
    keep_alive_ = message.keep_alive() && !server_->draining();
    chunked_ = message.version() >= 11;
    head_request_ = request_.method == "HEAD";
    answering_ = true;
    ended_ = false;
    wait_ = Wait::kAnswer;
    ++serial_;
    server_->Handle(std::move(request_),
                    std::make_shared<ResponderImpl>(shared_from_this(), serial_));
  }
}

void Connection::Refuse(int status, std::string_view why) {
  parser_.reset();
  Hold(0);
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
  Hold(0);
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

}  // namespace parallax::server::http
