// HTTP/1.1 client: a pool of kept connections to one origin, streamed answers, backpressure.
//
// Role:       how backends that speak HTTP are reached.
// Ownership:  the Client owns its connections; the caller owns its FetchSink and keeps it alive
//             until OnEnd, OnError or Cancel.
// Threads:    the loop's thread only; a sink is never called inside Fetch.
// Cost:       a kept connection saves a round trip; one that stood longer than `keep_ms` or that
//             the other side closed is not used again.
// Invariants: a request is sent twice only where its first try went out on a kept connection that
//             died without one byte of answer: the race of an idle close, not a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/message.h"

namespace parallax::server {
class AsioLoop;
}

namespace parallax::server::http {

struct Origin {
  std::string host;  // name or address; IPv6 without brackets
  std::uint16_t port = 80;
  std::string base_path;  // "" or "/v1": put before every target
};

// "http://host:port/base". Refuses https, credentials, queries, and what is not a URL.
Result<Origin> ParseOrigin(std::string_view url);

enum class FetchError : unsigned char {
  kConnect,    // refused, unreachable, unknown name
  kTimeout,    // connecting or waiting for the next bytes took too long
  kClosed,     // the connection ended before the answer did
  kMalformed,  // the answer is not HTTP, or its head is too large
};
std::string_view Name(FetchError error);

class FetchSink {
 public:
  virtual ~FetchSink() = default;
  virtual void OnHead(int status, const Headers& headers) = 0;
  virtual void OnBody(std::string_view bytes) = 0;  // any cut of the body; the bytes die on return
  virtual void OnEnd() = 0;
  virtual void OnError(FetchError error, const std::string& message) = 0;
};

struct FetchRequest {
  std::string method = "GET";
  std::string target;
  Headers headers;  // Host, Connection and Content-Length are the client's business
  std::string body;
  double connect_ms = 2'000;
  double first_byte_ms = 0;  // 0: waits for ever
  double between_ms = 0;     // longest silence inside the body; 0: any
  double whole_ms = 0;       // from Fetch to the last byte; 0: any. Looked at when bytes come.
};

using FetchId = std::uint64_t;

class Client {
 public:
  struct Options {
    double keep_ms = 4'000;       // llama-server closes an idle connection after 5 s
    std::size_t keep_count = 64;  // idle connections at most
    std::size_t head_bytes = 64 << 10;
  };

  static std::unique_ptr<Client> Make(AsioLoop& loop, Origin origin, const Options& options);
  virtual ~Client() = default;
  virtual FetchId Fetch(FetchRequest request, FetchSink* sink) = 0;
  // Closes the connection of a fetch; its sink is not called again. Unknown ids do nothing.
  virtual void Cancel(FetchId id) = 0;
  // Stops and resumes reading, so that a slow reader slows the sender.
  virtual void Pause(FetchId id) = 0;
  virtual void Resume(FetchId id) = 0;
  // Drops the kept connections, for an origin that has restarted.
  virtual void Forget() = 0;
  virtual std::size_t idle_connections() const = 0;
};

}  // namespace parallax::server::http
