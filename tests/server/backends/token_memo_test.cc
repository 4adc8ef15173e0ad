#include "server/backends/token_memo.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace parallax::server {
namespace {

using Tokens = TokenMemo::Tokens;
const TokenMemo::Marker kEnd{"<e>", 1};

// A tokenizer that splits at the special token and whose other tokens depend on their neighbours: each
// letter's id depends on the letters before it back to the last special token.
Tokens Tokenize(std::string_view text) {
  Tokens tokens;
  std::uint32_t state = 7;
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, 3) == kEnd.text) {
      tokens.push_back(kEnd.token);
      state = 7;
      i += 3;
    } else {
      state = state * 31 + static_cast<unsigned char>(text[i++]);
      if (state % 3 != 0) tokens.push_back(100 + state % 1000);  // some letters make no token
    }
  }
  return tokens;
}

Tokens Compose(TokenMemo& memo, const std::string& text) {
  TokenMemo::Known known = memo.Find(text, kEnd.text);
  const Tokens rest = Tokenize(std::string_view(text).substr(known.text_bytes));
  known.tokens.insert(known.tokens.end(), rest.begin(), rest.end());
  return known.tokens;
}

TEST(TokenMemo, KnowsTheLongestBeginningOfWholeMessages) {
  TokenMemo memo(1 << 20);
  const std::string first = "system<e>hello<e>ans";
  EXPECT_EQ(memo.Find(first, kEnd.text).text_bytes, 0U);
  memo.Store(first, Tokenize(first), kEnd);
  const TokenMemo::Known next = memo.Find("system<e>hello<e>answer<e>more<e>", kEnd.text);
  EXPECT_EQ(next.text_bytes, std::string("system<e>hello<e>").size());
  EXPECT_EQ(next.tokens, Tokenize("system<e>hello<e>"));
  EXPECT_EQ(memo.Find("system<e>other<e>", kEnd.text).text_bytes, 9U);
  EXPECT_EQ(memo.Find("system", kEnd.text).text_bytes, 0U);
  // The same message after other ones is another segment.
  EXPECT_EQ(memo.Find("hello<e>", kEnd.text).text_bytes, 0U);
  EXPECT_EQ(memo.Find("", kEnd.text).text_bytes, 0U);
  memo.Clear();
  EXPECT_EQ(memo.bytes(), 0U);
  EXPECT_EQ(memo.Find(first, kEnd.text).text_bytes, 0U);
}

TEST(TokenMemo, StoresNothingWhereTheTokenizerDoesNotCutThere) {
  TokenMemo memo(1 << 20);
  memo.Store("a<e>b<e>", {100, 101, 102, 103, 1}, kEnd);  // one of the two is spelt out
  memo.Store("a<e>b", {5}, kEnd);
  memo.Store("ab", {1, 5}, kEnd);
  EXPECT_EQ(memo.bytes(), 0U);
}

TEST(TokenMemo, StaysWithinItsBytesAndKeepsWhatIsUsed) {
  constexpr std::size_t kMost = 64 << 10;
  TokenMemo memo(kMost);
  const std::string system = std::string(4000, 's') + "<e>";
  memo.Store(system, Tokenize(system), kEnd);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = system + std::to_string(i) + std::string(500, 'x') + "<e>";
    EXPECT_EQ(memo.Find(text, kEnd.text).text_bytes, system.size());
    memo.Store(text, Tokenize(text), kEnd);
    ASSERT_LE(memo.bytes(), kMost);
    EXPECT_EQ(memo.Find(text, kEnd.text).text_bytes, text.size());
  }
  // One text over the limit leaves nothing of itself half known.
  const std::string huge = std::string(kMost, 'h') + "<e>";
  memo.Store(huge, Tokenize(huge), kEnd);
  EXPECT_LE(memo.bytes(), kMost);
  EXPECT_EQ(memo.Find(huge, kEnd.text).text_bytes, 0U);
}

// Any sequence of texts and evictions: what it composes is what the tokenizer says of the whole.
TEST(TokenMemo, ComposesWhatTheTokenizerSays) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    TokenMemo memo(seed % 2 == 0 ? 3000 : 1 << 20);
    std::vector<std::string> texts = {""};
    for (int step = 0; step < 60; ++step) {
      std::string text = texts[random() % texts.size()];
      for (auto messages = random() % 4; messages > 0; --messages) {
        for (auto letters = random() % 6; letters > 0; --letters) {
          text += static_cast<char>('a' + random() % 3);
        }
        if (random() % 5 != 0) text += "<e>";
      }
      ASSERT_EQ(Compose(memo, text), Tokenize(text)) << "seed " << seed << ": " << text;
      memo.Store(text, Tokenize(text), kEnd);
      texts.push_back(std::move(text));
    }
  }
}

}  // namespace
}  // namespace parallax::server
