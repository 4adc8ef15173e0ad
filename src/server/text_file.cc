#include "server/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace parallax::server {

Result<std::string> ReadTextFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (file == nullptr) {
    return MakeError(ErrorCode::kNotFound, "cannot read {}: {}", path, std::strerror(errno));
  }
  std::string text;
  char block[64 << 10];
  while (const std::size_t n = std::fread(block, 1, sizeof block, file.get())) {
    text.append(block, n);
    if (text.size() > kMaxTextBytes) {
      return MakeError(ErrorCode::kIo, "cannot read {}: it is over {} bytes", path, kMaxTextBytes);
    }
  }
  if (std::ferror(file.get()) != 0) {
    return MakeError(ErrorCode::kIo, "cannot read {}: {}", path, std::strerror(errno));
  }
  return text;
}

}  // namespace parallax::server
