// Streams of server-sent events, cut anywhere: the same events whatever the cut, and every byte of
// the stream in them or in the rest. The first byte chooses the cuts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/sse.h"

using parallax::server::http::SseEvent;
using parallax::server::http::SseSplitter;

namespace {

struct Seen {
  std::vector<std::string> raw;
  std::vector<std::string> data;
  std::string rest;
  bool operator==(const Seen&) const = default;
};

// Pieces of 1 to `most` bytes, in an order that `seed` gives.
Seen Read(std::string_view stream, std::size_t most, std::uint32_t seed) {
  SseSplitter splitter;
  Seen seen;
  const auto take = [&](const SseEvent& event) {
    seen.raw.emplace_back(event.raw);
    seen.data.emplace_back(event.data);
  };
  while (!stream.empty()) {
    seed = seed * 1664525U + 1013904223U;
    const std::size_t n = std::min(stream.size(), 1 + (seed >> 16) % most);
    if (!splitter.Feed(stream.substr(0, n), take)) __builtin_trap();  // far below its limit
    stream.remove_prefix(n);
  }
  splitter.Finish(take);
  seen.rest = splitter.Rest();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Seen whole = Read(stream, SIZE_MAX, 0);
  std::string all;
  for (const std::string& raw : whole.raw) all += raw;
  if (all + whole.rest != stream) __builtin_trap();
  if (!(Read(stream, 1 + data[0] % 7, data[0]) == whole)) __builtin_trap();
  if (!(Read(stream, 1, 0) == whole)) __builtin_trap();
  return 0;
}
