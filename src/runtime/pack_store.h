// PackStore: packed constants of a session, one copy for all its plans.
//
// Role:       the PackCache that bind functions see.
// Ownership:  kernels hold what they asked for; the store keeps only weak references, so a packing
//             lives as long as some plan uses it.
// Threads:    used under the session's lock.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "base/allocator.h"
#include "ops/core/bind_context.h"

namespace parallax::runtime {

class PackStore final : public ops::PackCache {
 public:
  explicit PackStore(Allocator& allocator) : allocator_(allocator) {}

  Result<std::shared_ptr<const void>> Get(
      const Tensor& source, std::string_view layout, size_t bytes,
      const std::function<void(const Tensor&, void*)>& pack) override;

  // Bytes of all packings in use.
  size_t bytes() const;

 private:
  // Address, shape and layout name a packing; the weak owner tells whether the address still
  // belongs to the same constant.
  using Key = std::tuple<const void*, std::string, size_t>;
  struct Entry {
    std::weak_ptr<const void> source;
    std::weak_ptr<const void> packed;
  };
  Allocator& allocator_;
  std::map<Key, Entry> entries_;
};

}  // namespace parallax::runtime
