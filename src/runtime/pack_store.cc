#include "runtime/pack_store.h"

namespace parallax::runtime {
Result<std::shared_ptr<const void>> PackStore::Get(
    const Tensor& source, std::string_view layout, size_t bytes,
    const std::function<void(const Tensor&, void*)>& pack) {
  const Key key(source.bytes_begin(), fmt::format("{}{}", layout, source.shape().ToString()),
                bytes);
  if (auto it = entries_.find(key); it != entries_.end()) {
    std::shared_ptr<const void> owner = it->second.source.lock();
    std::shared_ptr<const void> packed = it->second.packed.lock();
    if (packed != nullptr && owner != nullptr && owner == source.owner()) return packed;
  }
  PX_ASSIGN_OR_RETURN(Tensor memory,
                      Tensor::Allocate(DType::kU8, Shape{static_cast<int64_t>(bytes)}, allocator_));
  pack(source, memory.mutable_bytes());
  source.DropPages();  // whoever reads the original too only reads it from the file again
  entries_[key] = {source.owner(), memory.owner()};
  return memory.owner();
}

size_t PackStore::bytes() const {
  size_t sum = 0;
  for (const auto& [key, entry] : entries_) {
    if (!entry.packed.expired()) sum += std::get<2>(key);
  }
  return sum;
}

}  // namespace parallax::runtime
