#include "router/symbols.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

namespace parallax::router {
namespace {

TEST(ByteBlocks, ShareExactlyTheBlocksOfACommonPrefix) {
  std::mt19937 random(1);
  std::string base(4000, ' ');
  for (char& c : base) c = static_cast<char>(random());
  for (size_t block : {1u, 3u, 8u, 16u, 64u, 100u}) {
    const std::vector<Symbol> blocks = ByteBlocks(base, block);
    EXPECT_EQ(blocks.size(), (base.size() + block - 1) / block);
    for (size_t at : {0u, 1u, 63u, 64u, 65u, 1000u, 3999u}) {
      std::string other = base;
      other[at] = static_cast<char>(other[at] ^ 1);
      EXPECT_EQ(CommonPrefix(blocks, ByteBlocks(other, block)), at / block) << block << " " << at;
      // A prefix shares its whole blocks; its rest is a symbol of its own.
      const std::vector<Symbol> cut = ByteBlocks(base.substr(0, at), block);
      EXPECT_EQ(CommonPrefix(blocks, cut), at / block);
    }
    EXPECT_EQ(ByteBlocks(base, block), blocks);
  }
}

// What follows a difference differs too: symbols are chained.
TEST(ByteBlocks, DependOnEverythingBefore) {
  const std::string tail(640, 'x');
  const std::vector<Symbol> a = ByteBlocks(std::string(64, 'a') + tail, 64);
  const std::vector<Symbol> b = ByteBlocks(std::string(64, 'b') + tail, 64);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NE(a[i], b[i]);
  // Equal blocks at different places differ as well.
  EXPECT_EQ(std::set<Symbol>(a.begin(), a.end()).size(), a.size());
}

TEST(ByteBlocks, TellTrailingZerosApart) {
  EXPECT_NE(ByteBlocks(std::string_view("abc", 3), 16),
            ByteBlocks(std::string_view("abc\0", 4), 16));
  EXPECT_TRUE(ByteBlocks("", 16).empty());
  EXPECT_EQ(ByteBlocks("ab", 0).size(), 2u);
}

TEST(ByteBlocks, AreNeverTheUnknownSymbol) {
  std::mt19937 random(2);
  std::string text(1 << 20, ' ');
  for (char& c : text) c = static_cast<char>(random());
  for (Symbol s : ByteBlocks(text, 1)) ASSERT_NE(s, kUnknownSymbol);
}

TEST(CommonPrefix, FindsTheFirstDifferenceAnywhere) {
  std::vector<Symbol> a(10'000);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<Symbol>(i * 7);
  EXPECT_EQ(CommonPrefix(a, a), a.size());
  EXPECT_EQ(CommonPrefix(a, {}), 0u);
  for (size_t at = 0; at < a.size(); at += at < 100 ? 1 : 97) {
    std::vector<Symbol> b = a;
    ++b[at];
    ASSERT_EQ(CommonPrefix(a, b), at);
    b.resize(at);
    ASSERT_EQ(CommonPrefix(a, b), at);
    ASSERT_EQ(CommonPrefix(b, a), at);
  }
}

TEST(KnownPrefix, EndsAtTheFirstUnknown) {
  const std::vector<Symbol> s = {1, 2, kUnknownSymbol, 4};
  EXPECT_EQ(KnownPrefix(s).size(), 2u);
  EXPECT_EQ(KnownPrefix({}).size(), 0u);
}

}  // namespace
}  // namespace parallax::router
