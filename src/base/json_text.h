// DumpJson: a JSON value as text, whatever bytes its strings hold.
//
// Role:       how every room prints JSON: names come from files and clients and may be no UTF-8, on
//             which nlohmann's plain dump() throws. What is no UTF-8 becomes U+FFFD.
// Threads:    pure.
#pragma once

#include <string>

namespace parallax {

// Json is nlohmann::json or nlohmann::ordered_json. One line where `indent` is negative.
template <class Json>
std::string DumpJson(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace parallax
