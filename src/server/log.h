// What the server has to say to its operator; the caller decides where and in which form.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parallax::server {

enum class Severity : unsigned char { kInfo, kWarning, kError };
std::string_view Name(Severity severity);  // "info", "warning", "error"

struct LogEntry {
  Severity severity = Severity::kInfo;
  std::string event;    // a short fixed name: "request", "backend_down"
  std::string message;  // one sentence
  std::vector<std::pair<std::string, std::string>> fields;
};

using LogSink = std::function<void(const LogEntry&)>;

// One line without its end: text for people, or a JSON object.
std::string FormatText(const LogEntry& entry, double wall_ms);
std::string FormatJson(const LogEntry& entry, double wall_ms);

}  // namespace parallax::server
