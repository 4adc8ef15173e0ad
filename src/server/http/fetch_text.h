// A fetch whose whole answer is wanted at once: health, properties, tokens.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "server/http/client.h"

namespace parallax::server::http {

// Role:      for a backend's small questions, beside its streams.
// Ownership: borrows the Client, which outlives it; destroying it cancels what is under way, and
// the
//            callbacks of that are dropped uncalled.
// Threads:   the loop's thread only.
class TextFetcher {
 public:
  using Callback = std::function<void(Result<Response>)>;  // kIo where no whole answer came
  TextFetcher(Client& client, std::size_t body_bytes);
  ~TextFetcher();
  TextFetcher(const TextFetcher&) = delete;
  TextFetcher& operator=(const TextFetcher&) = delete;
  void Fetch(FetchRequest request, Callback callback);

 private:
  class Sink;
  void Finish(Sink* sink, Result<Response> result);
  Client& client_;
  std::size_t body_bytes_;
  std::map<Sink*, std::unique_ptr<Sink>> sinks_;
};

}  // namespace parallax::server::http
