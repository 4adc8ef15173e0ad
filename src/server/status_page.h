// The page at "/": plain HTML with a little script that reads /status.json once a second.
#pragma once

#include <string_view>

namespace parallax::server {

std::string_view StatusPage();

}  // namespace parallax::server
