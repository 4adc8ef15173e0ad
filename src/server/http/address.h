// "127.0.0.1:8080", "[::1]:0" and ":8080" to their parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace parallax::server::http {

struct Address {
  std::string host;  // numeric or a name; IPv6 without brackets; "" stays ""
  std::uint16_t port = 0;
};

// The host may be left out (":8080"), the port may not.
Result<Address> ParseAddress(std::string_view text);
// With brackets around an IPv6 host.
std::string Format(const Address& address);

}  // namespace parallax::server::http
