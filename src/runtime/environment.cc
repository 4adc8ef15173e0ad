#include "runtime/environment.h"

namespace parallax::runtime {

Result<std::byte*> Environment::Arena(int depth, size_t bytes) {
  const size_t i = static_cast<size_t>(depth);
  if (arenas_.size() <= i) arenas_.resize(i + 1);
  if (!arenas_[i].defined() || arenas_[i].bytes() < bytes) {
    arenas_[i] = Tensor();  // give the old one back first
    PX_ASSIGN_OR_RETURN(
        arenas_[i], Tensor::Allocate(DType::kU8, Shape{static_cast<int64_t>(bytes)}, allocator));
  }
  return arenas_[i].mutable_bytes();
}

size_t Environment::arena_bytes() const {
  size_t sum = 0;
  for (const Tensor& t : arenas_) sum += t.defined() ? t.bytes() : 0;
  return sum;
}

}  // namespace parallax::runtime
