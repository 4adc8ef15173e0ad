#include "server/log.h"

#include <cmath>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace parallax::server {
namespace {

std::string Timestamp(double wall_ms) {
  const double seconds = std::floor(wall_ms / 1000);
  const auto utc = fmt::gmtime(static_cast<std::time_t>(seconds));
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03.0f}Z", utc, std::floor(wall_ms - seconds * 1000));
}

}  // namespace

std::string_view Name(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "unknown";
}

std::string FormatText(const LogEntry& entry, double wall_ms) {
  std::string line = Timestamp(wall_ms);
  if (entry.severity != Severity::kInfo) line += fmt::format(" {}:", Name(entry.severity));
  line += ' ';
  // A message may hold what a backend or a client wrote: one entry stays one line of text.
  for (const char c : entry.message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

std::string FormatJson(const LogEntry& entry, double wall_ms) {
  nlohmann::ordered_json line{{"time", Timestamp(wall_ms)},
                              {"severity", Name(entry.severity)},
                              {"event", entry.event},
                              {"message", entry.message}};
  for (const auto& [key, value] : entry.fields) line[key] = value;
  return DumpJson(line);
}

}  // namespace parallax::server
