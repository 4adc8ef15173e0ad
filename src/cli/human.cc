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

namespace {

// Bytes of the character that starts the text if that is one to show, else 0.
size_t ShownCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return first == '\n' || (first >= 0x20 && first != 0x7f) ? 1 : 0;
  const size_t size = first >= 0xf0 && first < 0xf8 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
  if (first >= 0xf8 || size == 0 || size > text.size()) return 0;
  uint32_t code = first & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  // U+0080 to U+009F are control characters too.
  return code < kLeast[size] || code > 0x10ffff || surrogate || code < 0xa0 ? 0 : size;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t size = ShownCharacter(text);
    if (size == 0) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
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
