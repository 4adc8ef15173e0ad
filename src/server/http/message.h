// The plain values of HTTP that the server's parts exchange; no socket, no Boost.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parallax::server::http {

using Headers = std::vector<std::pair<std::string, std::string>>;  // names as they came

struct Request {
  std::string method;
  std::string target;  // path and query, as it came
  Headers headers;
  std::string body;
  std::string peer;  // address and port of the client, for logs
};

struct Response {
  int status = 200;
  Headers headers;
  std::string body;
};

// The first header of that name, whatever its case; empty where there is none.
std::string_view FindHeader(const Headers& headers, std::string_view name);
// "Not Found" for 404; "Unknown" for a number HTTP does not know.
std::string_view ReasonPhrase(int status);
// The target before '?'.
std::string_view Path(std::string_view target);

}  // namespace parallax::server::http
