#include "onnx/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace parallax {
namespace {

Error SystemError(const std::string& path, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound
                         : error == ENOMEM                   ? ErrorCode::kOutOfMemory
                                                             : ErrorCode::kIo;
  return MakeError(code, "cannot open '{}': {}", path, std::strerror(error));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(path, errno);
  struct stat info = {};
  int error = fstat(fd, &info) != 0 ? errno : 0;
  if (error == 0 && !S_ISREG(info.st_mode)) {
    close(fd);
    return MakeError(ErrorCode::kIo,
                     "cannot open '{}': not a regular file (it is mapped, so a pipe or a device "
                     "will not do)",
                     path);
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (error == 0 && size > 0) {
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) error = errno;
  }
  close(fd);
  if (error != 0) return SystemError(path, error);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace parallax
