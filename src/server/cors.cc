#include "server/cors.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace parallax::server {
namespace {

class CorsResponder final : public http::Responder {
 public:
  CorsResponder(std::shared_ptr<http::Responder> inner, http::Headers headers)
      : inner_(std::move(inner)), headers_(std::move(headers)) {}

  void Send(http::Response response) override {
    Append(response.headers);
    inner_->Send(std::move(response));
  }
  void Begin(int status, http::Headers headers) override {
    Append(headers);
    inner_->Begin(status, std::move(headers));
  }
  void Write(std::string_view bytes) override { inner_->Write(bytes); }
  void End() override { inner_->End(); }
  void Abort() override { inner_->Abort(); }
  bool closed() const override { return inner_->closed(); }
  std::size_t pending_bytes() const override { return inner_->pending_bytes(); }
  void OnDrained(std::function<void()> callback) override {
    inner_->OnDrained(std::move(callback));
  }
  void OnClosed(std::function<void()> callback) override { inner_->OnClosed(std::move(callback)); }

 private:
  void Append(http::Headers& headers) const {
    headers.insert(headers.end(), headers_.begin(), headers_.end());
  }
  std::shared_ptr<http::Responder> inner_;
  http::Headers headers_;
};

}  // namespace

Cors::Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {
  // As people paste them from an address line.
  for (std::string& origin : origins_) {
    while (origin.ends_with('/')) origin.pop_back();
  }
}

std::shared_ptr<http::Responder> Cors::Admit(const http::Request& request,
                                             std::shared_ptr<http::Responder> responder) const {
  const std::string_view origin = http::FindHeader(request.headers, "origin");
  const auto allowed = std::find_if(origins_.begin(), origins_.end(), [&](const std::string& one) {
    return one == "*" || one == origin;
  });
  if (origin.empty() || allowed == origins_.end()) return responder;
  http::Headers headers = {{"Access-Control-Allow-Origin", *allowed}, {"Vary", "Origin"}};
  const bool question = request.method == "OPTIONS" &&
                        !http::FindHeader(request.headers, "access-control-request-method").empty();
  if (question) {
    headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
    headers.emplace_back("Access-Control-Allow-Headers",
                         "Authorization, Content-Type, X-Api-Key, X-Parallax-Backend");
    headers.emplace_back("Access-Control-Max-Age", "86400");
    responder->Send({204, std::move(headers), ""});
    return nullptr;
  }
  headers.emplace_back("Access-Control-Expose-Headers",
                       "X-Parallax-Backend, X-Parallax-Decision, Retry-After");
  return std::make_shared<CorsResponder>(std::move(responder), std::move(headers));
}

}  // namespace parallax::server
