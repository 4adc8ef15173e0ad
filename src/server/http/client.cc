#include "server/http/client.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>  // asio/awaitable.hpp 1.74 needs it and does not include it
#include <vector>

#include <fmt/format.h>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>

#include "server/asio_loop.h"
#include "server/http/address.h"

namespace parallax::server::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using beast::string_view;
using ErrorCodeRef = boost::system::error_code&;

constexpr std::size_t kReadBytes = 16 << 10;

// Hands the parts of an answer to whoever waits for them as they are parsed; keeps no body.
class AnswerParser final : public beast::http::basic_parser<false> {
 public:
  explicit AnswerParser(std::size_t head_bytes) {
    eager(true);
    header_limit(static_cast<std::uint32_t>(head_bytes));
    body_limit(std::numeric_limits<std::uint64_t>::max());  // a stream may go on for ever
  }
  int status = 0;
  Headers headers;
  std::function<void()> on_head;
  std::function<void(std::string_view)> on_body;

 private:
  static std::string_view View(string_view s) { return {s.data(), s.size()}; }
  void on_request_impl(beast::http::verb, string_view, string_view, int, ErrorCodeRef) override {}
  void on_response_impl(int code, string_view, int, ErrorCodeRef) override { status = code; }
  void on_field_impl(beast::http::field, string_view name, string_view value,
                     ErrorCodeRef) override {
    headers.emplace_back(View(name), View(value));
  }
  void on_header_impl(ErrorCodeRef) override { on_head(); }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCodeRef) override {}
  std::size_t on_body_impl(string_view body, ErrorCodeRef) override {
    on_body(View(body));
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, ErrorCodeRef) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, ErrorCodeRef) override {
    on_body(View(body));
    return body.size();
  }
  void on_finish_impl(ErrorCodeRef) override {}
};

struct Kept {
  std::unique_ptr<tcp::socket> socket;
  double since_ms;
};

// True where the other side has neither closed nor sent what nobody asked for.
bool StillOpen(tcp::socket& socket) {
  char byte = 0;
  const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

class ClientImpl;

// One request and its answer. Kept alive by its coroutine; `client` is null once cancelled.
struct Exchange {
  ClientImpl* client = nullptr;
  FetchId id = 0;
  FetchSink* sink = nullptr;
  std::string head;  // request line and headers
  std::string body;
  FetchRequest limits;  // its time-outs
  std::unique_ptr<tcp::socket> socket;
  std::unique_ptr<asio::steady_timer> wake;
  TimerId timer = 0;
  double since_ms = 0;
  bool timed_out = false;
  bool any_byte = false;  // of the answer has come
  bool paused = false;
};

class ClientImpl final : public Client {
 public:
  ClientImpl(AsioLoop& loop, Origin origin, const Options& options)
      : loop_(loop), origin_(std::move(origin)), options_(options) {}
  ~ClientImpl() override {
    for (auto& [id, exchange] : std::map(exchanges_)) Drop(*exchange);
    Forget();
  }

  FetchId Fetch(FetchRequest request, FetchSink* sink) override {
    auto exchange = std::make_shared<Exchange>();
    exchange->client = this;
    exchange->id = ++last_id_;
    exchange->since_ms = loop_.NowMs();
    exchange->sink = sink;
    exchange->head =
        fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\n", request.method, origin_.base_path,
                    request.target, Format({origin_.host, origin_.port}));
    for (const auto& [name, value] : request.headers) {
      exchange->head += fmt::format("{}: {}\r\n", name, value);
    }
    if (!request.body.empty() || request.method == "POST") {
      exchange->head += fmt::format("Content-Length: {}\r\n", request.body.size());
    }
    exchange->head += "Connection: keep-alive\r\n\r\n";
    exchange->body = std::move(request.body);
    exchange->limits = std::move(request);
    exchange->wake = std::make_unique<asio::steady_timer>(loop_.context(),
                                                          asio::steady_timer::time_point::max());
    exchanges_[exchange->id] = exchange;
    asio::co_spawn(loop_.context(), Run(exchange), asio::detached);
    return exchange->id;
  }

  void Cancel(FetchId id) override {
    if (const auto found = exchanges_.find(id); found != exchanges_.end()) {
      Drop(*std::shared_ptr<Exchange>(found->second));
    }
  }
  void Pause(FetchId id) override {
    if (const auto found = exchanges_.find(id); found != exchanges_.end()) {
      found->second->paused = true;
      Disarm(*found->second);
    }
  }
  void Resume(FetchId id) override {
    if (const auto found = exchanges_.find(id); found != exchanges_.end()) {
      Exchange& exchange = *found->second;
      if (!std::exchange(exchange.paused, false)) return;
      // A read may have been under way all the time: its clock goes on here.
      Arm(exchange, exchange.any_byte ? exchange.limits.between_ms : exchange.limits.first_byte_ms);
      exchange.wake->cancel();
    }
  }
  void Forget() override {
    kept_.clear();
    loop_.CancelTimer(std::exchange(sweep_, 0));
  }
  std::size_t idle_connections() const override { return kept_.size(); }

 private:
  // From here on the exchange's coroutine finds nobody to tell.
  void Drop(Exchange& exchange) {
    Disarm(exchange);
    exchange.client = nullptr;
    exchange.sink = nullptr;
    boost::system::error_code ignored;
    if (exchange.socket) exchange.socket->close(ignored);
    exchange.wake->cancel();
    exchanges_.erase(exchange.id);
  }
  void Arm(Exchange& exchange, double ms) {
    Disarm(exchange);
    if (ms <= 0) return;
    exchange.timer = loop_.After(ms, [&exchange] {  // disarmed before the exchange dies
      exchange.timer = 0;
      exchange.timed_out = true;
      boost::system::error_code ignored;
      if (exchange.socket) exchange.socket->close(ignored);
    });
  }
  void Disarm(Exchange& exchange) {
    if (exchange.timer != 0) loop_.CancelTimer(exchange.timer);
    exchange.timer = 0;
  }

  std::unique_ptr<tcp::socket> TakeKept() {
    while (!kept_.empty()) {
      Kept last = std::move(kept_.back());
      kept_.pop_back();
      if (loop_.NowMs() - last.since_ms < options_.keep_ms && StillOpen(*last.socket)) {
        return std::move(last.socket);
      }
    }
    return nullptr;
  }
  void Keep(std::unique_ptr<tcp::socket> socket) {
    if (kept_.size() < options_.keep_count) kept_.push_back({std::move(socket), loop_.NowMs()});
    if (sweep_ == 0) sweep_ = loop_.After(options_.keep_ms, [this] { Sweep(); });
  }
  // Also where nothing is asked any more: of a program that ended, the pool would stay for ever.
  void Sweep() {
    sweep_ = 0;
    const double now = loop_.NowMs();
    std::erase_if(kept_, [&](const Kept& k) { return now - k.since_ms >= options_.keep_ms; });
    if (kept_.empty()) return;
    const double oldest = now - kept_.front().since_ms;  // the newest is used first
    sweep_ = loop_.After(std::max(options_.keep_ms - oldest, 1.0), [this] { Sweep(); });
  }

  void Fail(Exchange& exchange, FetchError error, const std::string& message) {
    FetchSink* sink = exchange.sink;
    Drop(exchange);
    sink->OnError(error, message);
  }

  static asio::awaitable<void> Run(std::shared_ptr<Exchange> exchange);
  // One try on one connection; true where it may be tried again on a fresh one.
  static asio::awaitable<bool> Try(std::shared_ptr<Exchange> exchange, bool kept);
  static asio::awaitable<bool> Connect(std::shared_ptr<Exchange> exchange);

  std::string Place() const { return Format({origin_.host, origin_.port}); }

  AsioLoop& loop_;
  Origin origin_;
  Options options_;
  FetchId last_id_ = 0;
  std::map<FetchId, std::shared_ptr<Exchange>> exchanges_;
  std::vector<Kept> kept_;  // the oldest first
  TimerId sweep_ = 0;
};

asio::awaitable<void> ClientImpl::Run(std::shared_ptr<Exchange> exchange) {
  // Whether the frame starts inside Fetch or after it is co_spawn's business: a sink must not be
  // called before Fetch has returned its id, and the fetch may be cancelled by the time it starts.
  if (exchange->client == nullptr) co_return;
  boost::system::error_code ignored;
  asio::steady_timer turn(exchange->client->loop_.context(), asio::steady_timer::duration(0));
  co_await turn.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (exchange->client == nullptr) co_return;
  exchange->socket = exchange->client->TakeKept();
  if (exchange->socket) {
    const bool again = co_await Try(exchange, true);
    if (!again) co_return;
  }
  const bool connected = co_await Connect(exchange);
  if (!connected) co_return;
  (void)co_await Try(exchange, false);
}

asio::awaitable<bool> ClientImpl::Connect(std::shared_ptr<Exchange> exchange) {
  ClientImpl* client = exchange->client;
  exchange->socket = std::make_unique<tcp::socket>(client->loop_.context());
  client->Arm(*exchange, exchange->limits.connect_ms);
  boost::system::error_code error;
  tcp::resolver resolver(client->loop_.context());
  const auto found =
      co_await resolver.async_resolve(client->origin_.host, std::to_string(client->origin_.port),
                                      asio::redirect_error(asio::use_awaitable, error));
  if (exchange->client == nullptr) co_return false;
  if (!error && !exchange->timed_out) {
    // Each address in turn; asio::async_connect would reopen a socket that the time-out closed.
    for (const auto& entry : found) {
      boost::system::error_code ignored;
      exchange->socket->close(ignored);
      co_await exchange->socket->async_connect(entry.endpoint(),
                                               asio::redirect_error(asio::use_awaitable, error));
      if (exchange->client == nullptr) co_return false;
      if (!error || exchange->timed_out) break;
    }
  }
  client->Disarm(*exchange);
  if (exchange->timed_out) {
    client->Fail(*exchange, FetchError::kTimeout,
                 fmt::format("{} did not take the connection within {:.0f} ms", client->Place(),
                             exchange->limits.connect_ms));
    co_return false;
  }
  if (error) {
    client->Fail(*exchange, FetchError::kConnect,
                 fmt::format("{}: {}", client->Place(), error.message()));
    co_return false;
  }
  exchange->socket->set_option(tcp::no_delay(true), error);
  co_return true;
}

asio::awaitable<bool> ClientImpl::Try(std::shared_ptr<Exchange> exchange, bool kept) {
  ClientImpl* client = exchange->client;
  tcp::socket& socket = *exchange->socket;
  std::optional<AnswerParser> answer;
  // 1xx only announces the answer; 101 would be one, but nobody asks for another protocol here.
  const auto interim = [&] {
    return answer->status >= 100 && answer->status < 200 && answer->status != 101;
  };
  const auto fresh = [&] {
    answer.emplace(client->options_.head_bytes);
    answer->on_head = [&] {
      if (!interim() && exchange->sink) exchange->sink->OnHead(answer->status, answer->headers);
    };
    answer->on_body = [&](std::string_view bytes) {
      if (exchange->sink) exchange->sink->OnBody(bytes);
    };
  };
  fresh();

  client->Arm(*exchange, exchange->limits.first_byte_ms);
  boost::system::error_code error;
  const std::array<asio::const_buffer, 2> parts{asio::buffer(exchange->head),
                                                asio::buffer(exchange->body)};
  co_await asio::async_write(socket, parts, asio::redirect_error(asio::use_awaitable, error));
  if (exchange->client == nullptr) co_return false;
  // A refusing server may answer and close before it has read all: the answer is still read.

  beast::flat_buffer in;
  exchange->any_byte = false;
  bool at_end = false;
  while (!answer->is_done()) {
    while (exchange->paused) {
      boost::system::error_code ignored;
      co_await exchange->wake->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      if (exchange->client == nullptr) co_return false;
    }
    const std::size_t n = co_await socket.async_read_some(
        in.prepare(kReadBytes), asio::redirect_error(asio::use_awaitable, error));
    if (exchange->client == nullptr) co_return false;
    if (exchange->timed_out) {
      client->Fail(*exchange, FetchError::kTimeout,
                   fmt::format("{} sent nothing for {:.0f} ms", client->Place(),
                               exchange->any_byte ? exchange->limits.between_ms
                                                  : exchange->limits.first_byte_ms));
      co_return false;
    }
    if (error) {
      client->Disarm(*exchange);
      if (!exchange->any_byte && kept) co_return true;
      at_end = error == asio::error::eof && exchange->any_byte;
      if (at_end) answer->put_eof(error);
      if (exchange->client == nullptr) co_return false;
      if (at_end && !error && answer->is_done()) break;
      client->Fail(
          *exchange, FetchError::kClosed,
          exchange->any_byte
              ? fmt::format("{} closed the connection inside its answer", client->Place())
              : fmt::format("{} closed the connection without an answer", client->Place()));
      co_return false;
    }
    exchange->any_byte = true;
    const double whole_ms = exchange->limits.whole_ms;
    if (whole_ms > 0 && client->loop_.NowMs() - exchange->since_ms > whole_ms) {
      client->Fail(
          *exchange, FetchError::kTimeout,
          fmt::format("{} did not end its answer in {:.0f} ms", client->Place(), whole_ms));
      co_return false;
    }
    in.commit(n);
    client->Arm(*exchange, exchange->limits.between_ms);
    while (in.size() > 0 && !answer->is_done()) {
      in.consume(answer->put(in.data(), error));
      if (exchange->client == nullptr) co_return false;  // a sink cancelled
      if (error) break;
      if (answer->is_done() && interim()) fresh();
    }
    if (error && error != beast::http::error::need_more) {
      client->Fail(*exchange, FetchError::kMalformed,
                   fmt::format("{} does not answer HTTP: {}", client->Place(), error.message()));
      co_return false;
    }
    if (in.size() > client->options_.head_bytes) {
      client->Fail(*exchange, FetchError::kMalformed,
                   fmt::format("{} does not answer HTTP: a head without end", client->Place()));
      co_return false;
    }
    if (exchange->paused) client->Disarm(*exchange);
  }
  FetchSink* sink = exchange->sink;
  const bool keep = answer->keep_alive() && !at_end && in.size() == 0;
  std::unique_ptr<tcp::socket> done = std::move(exchange->socket);
  client->Drop(*exchange);
  if (keep) client->Keep(std::move(done));
  sink->OnEnd();
  co_return false;
}

}  // namespace

std::string_view Name(FetchError error) {
  switch (error) {
    case FetchError::kConnect:
      return "connect";
    case FetchError::kTimeout:
      return "timeout";
    case FetchError::kClosed:
      return "closed";
    case FetchError::kMalformed:
      return "malformed";
  }
  return "unknown";
}

Result<Origin> ParseOrigin(std::string_view url) {
  const auto wrong = [&](std::string_view why) {
    return MakeError(ErrorCode::kInvalidArgument, "'{}' is not a backend's URL: {}", url, why);
  };
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://")) return wrong("https is not spoken here, only http");
  if (!url.starts_with(kScheme)) return wrong("it must begin with http://");
  std::string_view rest = url.substr(kScheme.size());
  if (rest.find_first_of("?# \t\r\n@") != std::string_view::npos) {
    return wrong("only http://HOST[:PORT][/PATH] is understood");
  }
  Origin origin;
  const std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    origin.base_path = rest.substr(slash);
    const auto without_slashes = [&] {
      while (origin.base_path.ends_with('/')) origin.base_path.pop_back();
    };
    without_slashes();
    // OpenAI's clients are given base URLs with the version; requests bring it with them.
    if (origin.base_path.ends_with("/v1")) {
      origin.base_path.resize(origin.base_path.size() - 3);
      without_slashes();
    }
    rest = rest.substr(0, slash);
  }
  const bool has_port =
      rest.find(':', rest.starts_with('[') ? rest.find(']') : 0) != std::string_view::npos;
  auto address = ParseAddress(has_port ? std::string(rest) : fmt::format("{}:80", rest));
  if (!address.ok()) return wrong("host or port is not understood");
  if (address->host.empty()) return wrong("no host");
  if (address->port == 0) return wrong("port 0");
  origin.host = address->host;
  origin.port = address->port;
  return origin;
}

std::unique_ptr<Client> Client::Make(AsioLoop& loop, Origin origin, const Options& options) {
  return std::make_unique<ClientImpl>(loop, std::move(origin), options);
}

}  // namespace parallax::server::http
