// TokenMemo: tokens of prompts' beginnings, so that a next turn tokenizes only its end.
//
// Role:       between a backend and its tokenizer. Pure: it is told texts and tokens, it asks
//             nobody.
// Ownership:  owns what it remembers, at most `max_bytes`; the least recently used segment goes
//             first.
// Threads:    one caller at a time.
// Cost:       O(length of the text) for both calls.
// Invariants: a text is cut behind each marker, a special token such as "<|im_end|>". Tokenizers
//             split a text at special tokens before anything else, so the tokens before one do not
//             depend on what follows it, whole messages are shared by all the prompts that begin
//             with them, and a segment is known only together with everything before it.
// Example:
//   TokenMemo memo(32 << 20);
//   memo.Store(turn_1, tokens_1, {"<|im_end|>", 2});
//   TokenMemo::Known known = memo.Find(turn_2, "<|im_end|>");
//   // known.tokens: those of turn_2's first known.text_bytes bytes, with the marker at their end
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace parallax::server {

class TokenMemo {
 public:
  using Tokens = std::vector<std::uint32_t>;
  struct Marker {
    std::string text;
    std::uint32_t token = 0;
  };
  struct Known {
    Tokens tokens;
    std::size_t text_bytes = 0;  // 0: nothing of it is known
  };

  explicit TokenMemo(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  TokenMemo(const TokenMemo&) = delete;  // the index points into the list
  TokenMemo& operator=(const TokenMemo&) = delete;

  Known Find(std::string_view text, std::string_view marker);
  // `tokens` are those of the whole text. Nothing is stored where the marker's token is not in them
  // as often as its text is in the text: such a tokenizer does not cut there.
  void Store(std::string_view text, const Tokens& tokens, const Marker& marker);
  void Clear();

  std::size_t bytes() const { return bytes_; }

 private:
  using SegmentId = std::uint64_t;  // never used twice; 0: the beginning
  struct Key {
    SegmentId parent;
    std::string_view text;  // inside the segment
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Segment {
    SegmentId id;
    SegmentId parent;
    std::string text;
    Tokens tokens;
  };
  using Place = std::list<Segment>::iterator;

  void Touch(const std::vector<Place>& path);
  static std::size_t Cost(const Segment& segment);

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  SegmentId last_id_ = 0;
  std::list<Segment> segments_;  // the most recently used first
  std::unordered_map<Key, Place, KeyHash> index_;
};

}  // namespace parallax::server
