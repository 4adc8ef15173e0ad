#include "cli/human.h"

#include <algorithm>

#include <fmt/format.h>

namespace parallax::cli {

std::string HumanBytes(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = -1;
  while (bytes >= 1024 && unit < 3) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string HumanCount(double count, std::string_view unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T"};
  int prefix = 0;
  while (count >= 1000 && prefix < 4) {
    count /= 1000;
    ++prefix;
  }
  std::string text = fmt::format("{:.{}f}", count, prefix == 0 ? 0 : 2);
  if (prefix > 0 || !unit.empty()) text += fmt::format(" {}{}", kPrefixes[prefix], unit);
  return text;
}

std::string HumanMilliseconds(double ms) {
  if (ms < 1) return fmt::format("{:.1f} us", ms * 1e3);
  if (ms < 1000) return fmt::format("{:.2f} ms", ms);
  return fmt::format("{:.2f} s", ms / 1e3);
}

int ColumnWidth(int least, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    // Bytes that continue a UTF-8 character take no column of their own.
    const auto characters =
        std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xc0') != '\x80'; });
    least = std::max(least, static_cast<int>(characters));
  }
  return least;
}

}  // namespace parallax::cli
