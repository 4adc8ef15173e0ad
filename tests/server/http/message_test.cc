#include "server/http/message.h"

#include <gtest/gtest.h>

namespace parallax::server::http {
namespace {

TEST(Message, HeadersAndPaths) {
  const Headers headers = {{"Content-Type", "a"}, {"X", ""}, {"content-type", "b"}};
  EXPECT_EQ(FindHeader(headers, "CONTENT-type"), "a");
  EXPECT_EQ(FindHeader(headers, "x"), "");
  EXPECT_EQ(FindHeader(headers, "content-typ"), "");
  EXPECT_EQ(Path("/a?b?c"), "/a");
  EXPECT_EQ(Path("/a"), "/a");
  EXPECT_EQ(Path("?"), "");
  EXPECT_EQ(ReasonPhrase(404), "Not Found");
  EXPECT_EQ(ReasonPhrase(799), "Unknown");
}

}  // namespace
}  // namespace parallax::server::http
