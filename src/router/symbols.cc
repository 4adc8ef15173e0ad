#include "router/symbols.h"

#include <algorithm>
#include <cstring>

namespace parallax::router {
namespace {

// Odd multipliers of the splitmix64 finaliser (public domain, S. Vigna).
constexpr uint64_t kMulA = 0xbf58476d1ce4e5b9ull;
constexpr uint64_t kMulB = 0x94d049bb133111ebull;

uint64_t Mix(uint64_t h) {
  h = (h ^ (h >> 30)) * kMulA;
  h = (h ^ (h >> 27)) * kMulB;
  return h ^ (h >> 31);
}

// The state after the text before and these bytes.
uint64_t Absorb(uint64_t state, const char* bytes, size_t size) {
  while (size >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    state = (state ^ word) * kMulA;
    state ^= state >> 32;
    bytes += 8;
    size -= 8;
  }
  uint64_t word = 0;
  std::memcpy(&word, bytes, size);
  return Mix(state ^ word ^ (uint64_t{size} << 56));
}

}  // namespace

std::vector<Symbol> ByteBlocks(std::string_view text, size_t block_bytes) {
  block_bytes = std::max<size_t>(block_bytes, 1);
  std::vector<Symbol> blocks;
  blocks.reserve(text.size() / block_bytes + 1);
  uint64_t state = 0;
  for (size_t at = 0; at < text.size(); at += block_bytes) {
    const size_t size = std::min(block_bytes, text.size() - at);
    state = Absorb(state, text.data() + at, size);
    const Symbol symbol = static_cast<Symbol>(state >> 32);
    blocks.push_back(symbol == kUnknownSymbol ? 0 : symbol);
  }
  return blocks;
}

size_t CommonPrefix(SymbolSpan a, SymbolSpan b) {
  const size_t n = std::min(a.size(), b.size());
  size_t at = 0;
  // memcmp over long, then short stretches, then one by one: it does not say where it stopped.
  for (size_t stretch : {size_t{2048}, size_t{32}}) {
    while (at + stretch <= n &&
           std::memcmp(a.data() + at, b.data() + at, stretch * sizeof(Symbol)) == 0) {
      at += stretch;
    }
  }
  while (at < n && a[at] == b[at]) ++at;
  return at;
}

SymbolSpan KnownPrefix(SymbolSpan symbols) {
  const auto unknown = std::find(symbols.begin(), symbols.end(), kUnknownSymbol);
  return symbols.first(static_cast<size_t>(unknown - symbols.begin()));
}

}  // namespace parallax::router
