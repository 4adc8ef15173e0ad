#include "server/http/address.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace parallax::server::http {
namespace {

bool IsAlnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// A name or an IPv4 address; with `v6` an IPv6 address, whose zone may stand behind a '%'.
bool IsHost(std::string_view host, bool v6) {
  if (v6 && host.find(':') == std::string_view::npos) return false;
  return std::all_of(host.begin(), host.end(), [&](char c) {
    return IsAlnum(c) || c == '.' || c == '-' || c == '_' || (v6 && (c == ':' || c == '%'));
  });
}

}  // namespace

Result<Address> ParseAddress(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return MakeError(ErrorCode::kInvalidArgument, "'{}' is not an address (HOST:PORT): {}", text,
                     why);
  };
  Address address;
  std::string_view port;
  const bool v6 = text.starts_with('[');
  if (v6) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong("'[' without ']'");
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!port.starts_with(':')) return wrong("no port");
    port.remove_prefix(1);
  } else {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return wrong("no port");
    address.host = text.substr(0, colon);
    if (address.host.find(':') != std::string::npos) return wrong("an IPv6 host wants brackets");
    port = text.substr(colon + 1);
  }
  if (!IsHost(address.host, v6)) return wrong("the host is neither a name nor an address");
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return wrong("the port is not a number from 0 to 65535");
  }
  return address;
}

std::string Format(const Address& address) {
  return address.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", address.host, address.port)
             : fmt::format("[{}]:{}", address.host, address.port);
}

}  // namespace parallax::server::http
