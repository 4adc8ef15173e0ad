#include "server/http/server.h"

#include <list>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "server/http/address.h"
#include "server/http/connection.h"

namespace parallax::server::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr double kSweepMs = 250;

class ServerImpl final : public Server, public ConnectionOwner {
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
    for (const auto& connection : connections_) connection->Orphan();
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
  const ServerCounters& counts() const override { return counters; }

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

  void Remove(const std::shared_ptr<Connection>& connection) override {
    connections_.remove(connection);
    counters.open = connections_.size();
    CheckDrained();
  }

  AsioLoop& loop() override { return loop_; }
  const Limits& limits() const override { return limits_; }
  bool draining() const override { return draining_; }
  void Handle(Request request, std::shared_ptr<Responder> responder) override {
    handler_(std::move(request), std::move(responder));
  }
  Response MakeErrorBody(int status, std::string_view why) override {
    return error_body_(status, why);
  }

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
    ++counters.accepted;
    auto connection = std::make_shared<Connection>(this, std::move(socket), loop_.NowMs());
    const bool full = connections_.size() >= limits_.connections;
    connections_.push_back(connection);
    counters.open = connections_.size();
    connection->Start();
    if (full) {
      ++counters.refused;
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
  std::list<std::shared_ptr<Connection>> connections_;
  std::function<void()> drained_;
  TimerId sweep_ = 0;
  bool draining_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

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
