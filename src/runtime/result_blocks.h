// ResultBlocks: memory of results that their readers are done with, kept for the results of later runs.
//
// Role:       a result belongs to whoever asked for the run. Fresh memory for each costs more than many
//             a kernel: the system clears its pages, 0.1 ms a megabyte.
// Ownership:  shared by the session and by the results, which may outlive it; borrows the allocator,
//             which outlives both.
// Threads:    results may be dropped on any thread at any time; the rest is the session's.
// Cost:       a lock for each large result.
// Invariants: what is kept was a result of one of the last two runs; nothing is after Close.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ir/tensor.h"

namespace parallax::runtime {

class ResultBlocks : public std::enable_shared_from_this<ResultBlocks> {
 public:
  explicit ResultBlocks(Allocator& allocator) : allocator_(allocator) {}
  ~ResultBlocks() { Close(); }
  ResultBlocks(const ResultBlocks&) = delete;
  ResultBlocks& operator=(const ResultBlocks&) = delete;

  // A tensor whose block comes back here when nobody refers to it any more. Error: kOutOfMemory.
  Result<Tensor> Make(DType dtype, const Shape& shape);
  // Ends a run: frees what was kept all through it.
  void EndRun();
  // Ends the session.
  void Close();
  size_t kept_bytes() const;

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
    bool idle = false;  // since the end of the run before
  };

  void* Take(size_t bytes);
  void Return(void* data, size_t bytes);

  Allocator& allocator_;
  mutable std::mutex mutex_;
  std::vector<Block> kept_;
  bool closed_ = false;
};

}  // namespace parallax::runtime
