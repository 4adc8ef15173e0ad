// Cors: which web pages of other origins may read the answers, and how their browsers are told.
//
// Role:       in front of the Service; off where no origin is configured, as a page that the user
//             happens to look at must not use a server on the user's own machine.
// Threads:    the loop's thread only.
// Source:     the Fetch standard, "CORS protocol". No credentials (cookies) are ever allowed; an
//             API key travels in a header, which the page must know.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/http/server.h"

namespace parallax::server {

class Cors {
 public:
  // "http://host:port" as browsers write it, or "*": any.
  explicit Cors(std::vector<std::string> origins);

  // The responder to go on with: for an allowed origin one whose answers carry the headers; nothing
  // where a browser's preliminary question was answered and nothing is left to do.
  std::shared_ptr<http::Responder> Admit(const http::Request& request,
                                         std::shared_ptr<http::Responder> responder) const;

 private:
  std::vector<std::string> origins_;
};

}  // namespace parallax::server
