// Symbols: what the prefix index compares prompts by. Token ids, or hashes of blocks of bytes.
//
// Role:       the server makes them once a request; PrefixIndex stores and compares them.
// Ownership:  spans borrow; ByteBlocks returns its own vector.
// Threads:    pure.
// Cost:       ByteBlocks: about 1 ns a byte; CommonPrefix: as fast as memcmp.
// Invariants: kUnknownSymbol never matches anything, itself included.
// Example:
//   std::vector<Symbol> blocks = ByteBlocks(prompt, 64);
//   size_t shared = CommonPrefix(blocks, stored);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace parallax::router {

using Symbol = uint32_t;
using SymbolSpan = std::span<const Symbol>;

// A position whose token id nobody knows (generated text that was not tokenised again).
inline constexpr Symbol kUnknownSymbol = UINT32_MAX;

// One symbol for each block of `block_bytes` bytes (>= 1) of the text, and one for a shorter rest.
// Each is a hash of everything up to the block's end, so equal symbols at a place mean equal text
// up to there but for a chance of 2^-32 (a false match costs one wrong prediction, which the
// reported reuse corrects). Never kUnknownSymbol.
std::vector<Symbol> ByteBlocks(std::string_view text, size_t block_bytes);

// Length of the longest common prefix. Where both hold kUnknownSymbol it counts them as equal: cut
// one of the two with KnownPrefix first.
size_t CommonPrefix(SymbolSpan a, SymbolSpan b);

// The part before the first kUnknownSymbol.
SymbolSpan KnownPrefix(SymbolSpan symbols);

}  // namespace parallax::router
