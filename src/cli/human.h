// Human: numbers and tables for people, never used in JSON.
//
// Role:       what the commands print without --json.
// Threads:    pure.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace parallax::cli {

std::string HumanBytes(double bytes);                              // "1.5 MiB"
std::string HumanCount(double count, std::string_view unit = "");  // "12.30 GFLOPs", "16 FLOPs"
std::string HumanMilliseconds(double ms);                          // "17.82 ms", "3.1 us", "2.50 s"

// The width of a column that holds all of `texts`, at least `least` characters.
int ColumnWidth(int least, const std::vector<std::string>& texts);

// The text with what a terminal would act on, or cannot show, written as \x1b: control characters
// but line feeds, and bytes that are not UTF-8. Names come from files that anybody may have made.
std::string Printable(std::string_view text);

// To stdout. Refused writes are main's to report.
template <class... Args>
void Print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = Printable(fmt::format(format, std::forward<Args>(args)...));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace parallax::cli
