// HTTP/1.1 server: connections with keep-alive, limits and time-outs; streamed answers with
// backpressure; a client that goes away is noticed while its answer is being made.
//
// Role:       the listening side of `parallax serve`; knows nothing of what is served.
// Ownership:  the Server owns its connections. A handler gets a shared Responder and keeps it until
//             the answer is complete; dropping it unanswered cuts the connection.
// Threads:    the loop's thread only.
// Cost:       an idle connection holds its socket and one 4 KiB read buffer.
// Invariants: one answer a request, in order; at most one request of a connection is being
//             answered. A client that half-closes its side counts as gone: over TCP it cannot be
//             told from one that left, and a generation nobody reads is the worse mistake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/message.h"

namespace parallax::server {
class AsioLoop;
}

namespace parallax::server::http {

struct Limits {
  std::size_t header_bytes = 32 << 10;
  std::size_t body_bytes = 64 << 20;  // images travel in bodies
  // Of all requests that are being read or answered, together; one more byte is answered 503.
  std::size_t all_body_bytes = 256 << 20;
  std::size_t connections = 1024;  // one more is answered 503 and closed
  double header_ms = 10'000;       // from the first byte of a request to its last header
  double body_ms = 60'000;         // from the last header to the last byte of the body
  double idle_ms = 75'000;         // between two requests
  double write_ms = 30'000;        // without the client taking a byte of what is ready
};

// The answer to one request. Exactly one of Send, or Begin ... End, or Abort. No callback is called
// inside a call to it.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void Send(Response response) = 0;
  // A streamed answer: chunked for HTTP/1.1, until the connection closes for 1.0.
  virtual void Begin(int status, Headers headers) = 0;
  virtual void Write(std::string_view bytes) = 0;
  virtual void End() = 0;
  // Cuts the connection, so that the client knows the answer is not whole.
  virtual void Abort() = 0;

  // True once the client is gone: everything written is dropped from then on.
  virtual bool closed() const = 0;
  // Bytes written that the client has not taken yet; `on_drained` is called when they fall to zero.
  virtual std::size_t pending_bytes() const = 0;
  virtual void OnDrained(std::function<void()> callback) = 0;
  // Called once, when the client goes away before the answer is complete.
  virtual void OnClosed(std::function<void()> callback) = 0;
};

// What the server tells of itself, without its handler being asked.
struct ServerCounters {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;    // over the limit of connections
  std::uint64_t malformed = 0;  // requests answered 400, 413, 431 by the parser
  std::uint64_t timed_out = 0;
  std::size_t open = 0;
};

class Server {
 public:
  using Handler = std::function<void(Request, std::shared_ptr<Responder>)>;
  // Makes the body of an answer that the server gives by itself (400, 408, 413, 431, 503).
  using ErrorBody = std::function<Response(int status, std::string_view why)>;

  static Result<std::unique_ptr<Server>> Listen(AsioLoop& loop, std::string_view address,
                                                const Limits& limits, Handler handler,
                                                ErrorBody error_body);
  virtual ~Server() = default;
  // The bound address, "127.0.0.1:8080": tells the port where 0 was asked for.
  virtual std::string address() const = 0;
  virtual const ServerCounters& counts() const = 0;
  // Takes no new connection and no new request; `drained` is called when the last answer is out.
  virtual void Drain(std::function<void()> drained) = 0;
  // Cuts every connection.
  virtual void Cut() = 0;
};

}  // namespace parallax::server::http
