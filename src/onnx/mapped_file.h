// MappedFile: a file's bytes in memory without reading them in.
//
// Role:       model files and external weights; pages are loaded when touched and can be dropped.
// Ownership:  owns the mapping; hold the shared_ptr while any pointer into it is used.
// Threads:    immutable.
// Invariants: the file must not shrink while it is mapped (the system then raises SIGBUS).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace parallax {

class MappedFile {
 public:
  // Errors: kNotFound, kIo (a folder, no permission), kOutOfMemory (no address space left).
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  size_t size_;
};

}  // namespace parallax
