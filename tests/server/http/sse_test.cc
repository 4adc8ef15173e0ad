// Server-sent events, cut everywhere.
#include "server/http/sse.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace parallax::server::http {
namespace {

struct Seen {
  std::vector<std::string> data;
  std::string raw;   // all of it, with what is left
  std::string rest;  // after Finish

  bool operator==(const Seen&) const = default;
};

// Feeds `pieces` one after another.
Seen Read(const std::vector<std::string>& pieces, bool finish = true) {
  SseSplitter splitter;
  Seen seen;
  const auto take = [&](const SseEvent& event) {
    seen.raw += event.raw;
    seen.data.emplace_back(event.data);
  };
  for (const std::string& piece : pieces) EXPECT_TRUE(splitter.Feed(piece, take));
  if (finish) splitter.Finish(take);
  seen.rest = splitter.Rest();
  seen.raw += seen.rest;
  return seen;
}

using Strings = std::vector<std::string>;

TEST(SseSplitter, Events) {
  EXPECT_EQ(Read({"data: a\n\ndata:b\n\n"}).data, (Strings{"a", "b"}));
  EXPECT_EQ(Read({"data:  a \n\n"}).data, (Strings{" a "}));  // one space belongs to the colon
  EXPECT_EQ(Read({"data: a\ndata: b\ndata\ndata:\n\n"}).data, (Strings{"a\nb\n\n"}));
  EXPECT_EQ(Read({": ping\n\ndata: a\n\n"}).data, (Strings{"", "a"}));
  EXPECT_EQ(Read({"event: x\nid: 7\nretry: 10\ndata: a\n\n"}).data, (Strings{"a"}));
  EXPECT_EQ(Read({"datax: a\nxdata: b\n data: c\n\n"}).data, (Strings{""}));
  EXPECT_EQ(Read({"data: a\r\n\r\ndata: b\r\rdata: c\n\n"}).data, (Strings{"a", "b", "c"}));
  EXPECT_EQ(Read({"\xEF\xBB\xBF"
                  "data: a\n\n\xEF\xBB\xBF"
                  "data: b\n\n"})
                .data,
            (Strings{"a", ""}));
  EXPECT_EQ(Read({"\n\n\r\n"}).data, (Strings{"", "", ""}));
  EXPECT_EQ(Read({}).data, Strings());
}

// Some servers leave out the last empty line; half a line is no event.
TEST(SseSplitter, TheEndOfTheStream) {
  EXPECT_EQ(Read({"data: a\n"}).data, (Strings{"a"}));
  EXPECT_EQ(Read({"data: a\n"}).rest, "");
  EXPECT_EQ(Read({"data: a\r\n\r"}).data, (Strings{"a"}));
  EXPECT_EQ(Read({"data: a\r\r"}).data, (Strings{"a"}));
  EXPECT_EQ(Read({"data: a\r"}).data, (Strings{"a"}));
  EXPECT_EQ(Read({"data: a\ndata: b\r"}).data, (Strings{"a\nb"}));
  EXPECT_EQ(Read({"data: a\n\ndata: b"}).data, (Strings{"a"}));
  EXPECT_EQ(Read({"data: a\n\ndata: b"}).rest, "data: b");
  EXPECT_EQ(Read({"data: a\n\ndata: b\ndata: c"}).rest, "data: b\ndata: c");
  EXPECT_EQ(Read({"data: a"}, false).data, Strings());
}

// 中 cut after its first bytes, line ends in segments of their own, comments, CRLF, CR, no BOM
// lost.
const std::string kNasty =
    "\xEF\xBB\xBF: hello\r\n\r\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"\xE4\xB8\xAD\"}}]}\n\n"
    ": ping\n\n"
    "data: one\r\ndata: two\r\n\r\n"
    "data:\r\r"
    "event: x\ndata: \xF0\x9F\x98\x80\xEF\xBF\xBD\n\r\n"
    "id\n\n\n"
    "data: [DONE]\n\n";

TEST(SseSplitter, EveryTwoCuts) {
  const Seen whole = Read({kNasty});
  EXPECT_EQ(whole.raw, kNasty);
  EXPECT_EQ(whole.rest, "");
  EXPECT_EQ(whole.data,
            (Strings{"", "{\"choices\":[{\"delta\":{\"content\":\"\xE4\xB8\xAD\"}}]}", "",
                     "one\ntwo", "", "\xF0\x9F\x98\x80\xEF\xBF\xBD", "", "", "[DONE]"}));
  for (std::size_t a = 0; a <= kNasty.size(); ++a) {
    for (std::size_t b = a; b <= kNasty.size(); ++b) {
      ASSERT_EQ(Read({kNasty.substr(0, a), kNasty.substr(a, b - a), kNasty.substr(b)}), whole)
          << a << ", " << b;
    }
  }
  Strings bytes;
  for (const char c : kNasty) bytes.emplace_back(1, c);
  EXPECT_EQ(Read(bytes), whole);
}

// Streams of random lines, cut at random: as the whole at once.
TEST(SseSplitter, RandomStreams) {
  std::mt19937 random(11);
  const Strings lines = {"data: x", "data:", "data",         ": c", "event: e",
                         "",        "",      "\xE4\xB8\xAD", "dat"};
  const Strings ends = {"\n", "\r\n", "\r"};
  for (int round = 0; round < 500; ++round) {
    std::string stream;
    for (std::size_t i = random() % 12; i > 0; --i) {
      stream += lines[random() % lines.size()] + ends[random() % ends.size()];
    }
    Strings pieces;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t n = 1 + random() % 5;
      pieces.push_back(stream.substr(at, n));
      at += n;
    }
    const Seen whole = Read({stream});
    ASSERT_EQ(Read(pieces), whole) << stream;
    ASSERT_EQ(whole.raw, stream);
  }
}

TEST(SseSplitter, AnEventOverTheLimit) {
  SseSplitter splitter(100);
  int events = 0;
  const auto count = [&](const SseEvent&) { ++events; };
  // Many small events at once are no large one.
  std::string many;
  for (int i = 0; i < 100; ++i) many += "data: abcdefgh\n\n";
  EXPECT_TRUE(splitter.Feed(many, count));
  EXPECT_EQ(events, 100);
  EXPECT_TRUE(splitter.Feed("data: " + std::string(90, 'x'), count));
  EXPECT_FALSE(splitter.Feed("12345", count));
}

}  // namespace
}  // namespace parallax::server::http
