#include "server/log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace parallax::server {
namespace {

// 2021-03-04 05:06:07.089 UTC.
constexpr double kTime = 1614834367089;

TEST(Log, Text) {
  EXPECT_EQ(FormatText({Severity::kInfo, "request", "a to b", {}}, kTime),
            "2021-03-04T05:06:07.089Z a to b");
  EXPECT_EQ(FormatText({Severity::kWarning, "x", "careful", {}}, kTime),
            "2021-03-04T05:06:07.089Z warning: careful");
  // No rounding up into a second that does not exist.
  EXPECT_EQ(FormatText({Severity::kInfo, "", "m", {}}, kTime + 910.99),
            "2021-03-04T05:06:07.999Z m");
}

// What backends and clients wrote may not look like another entry, nor steer a terminal.
TEST(Log, OneEntryIsOneLine) {
  const LogEntry entry{Severity::kInfo, "x", "a\nb\r\x1b[31mc\x7f\tz \xe4\xb8\xad", {}};
  const std::string line = FormatText(entry, 0);
  EXPECT_TRUE(line.ends_with(R"( a\x0ab\x0d\x1b[31mc\x7f\x09z )"
                             "\xe4\xb8\xad"))
      << line;
}

TEST(Log, Json) {
  const std::string line = FormatJson(
      {Severity::kError, "request", "a \"b\"\n\xFF", {{"id", "d1"}, {"backend", "cpu"}}}, kTime);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["time"], "2021-03-04T05:06:07.089Z");
  EXPECT_EQ(parsed["severity"], "error");
  EXPECT_EQ(parsed["event"], "request");
  EXPECT_EQ(parsed["message"], "a \"b\"\n\xEF\xBF\xBD");
  EXPECT_EQ(parsed["id"], "d1");
  EXPECT_EQ(parsed["backend"], "cpu");
}

}  // namespace
}  // namespace parallax::server
