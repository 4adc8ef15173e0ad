// ReadTextFile: a configuration, a request or a model file, whole.
//
// Role:       every text that serve and route are given by path is read here.
// Threads:    pure but for the file system.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace parallax::server {

// No such text is near this; a device that never ends must not fill the memory.
inline constexpr std::size_t kMaxTextBytes = 64 << 20;

// Errors name the path and what the system says: kNotFound where it cannot be opened, kIo where it
// cannot be read (a folder) or is over kMaxTextBytes.
Result<std::string> ReadTextFile(const std::string& path);

}  // namespace parallax::server
