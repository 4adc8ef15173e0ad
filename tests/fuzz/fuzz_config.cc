// Configuration files, flags, URLs and addresses of arbitrary bytes: refused with a reason or read,
// never a crash; an address is written and read back as the same value.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/config.h"
#include "server/http/address.h"
#include "server/http/client.h"

using namespace parallax::server;

namespace {

template <class T>
bool Read(const parallax::Result<T>& result) {
  if (!result.ok() && result.error().message().empty()) __builtin_trap();
  return result.ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = ParseConfig(text, "fuzz.toml");
  if (Read(config)) (void)Read(Validate(*config));
  const auto flag = ParseBackendFlag(text);
  if (Read(flag)) {
    Config with;
    with.backends.push_back(*flag);
    (void)Read(Validate(with));
  }
  const auto origin = http::ParseOrigin(text);
  if (Read(origin) && (origin->host.empty() || origin->port == 0)) __builtin_trap();
  const auto address = http::ParseAddress(text);
  if (Read(address)) {
    const auto again = http::ParseAddress(http::Format(*address));
    if (!again.ok() || again->host != address->host || again->port != address->port) {
      __builtin_trap();
    }
  }
  return 0;
}
