// Kernel: a node bound to fixed shapes, ready to run any number of times.
//
// Role:       what bind functions return and the runtime calls.
// Ownership:  owns its prepared state (packed weights are shared, see BindContext).
// Threads:    Run is const and may be called by several threads at once, each with its own
//             arguments and workspace.
// Cost:       Run allocates nothing, but for Allocate of data-dependent outputs.
// Example:
//   return MakeKernel("relu", [n](const KernelArgs& a) -> Result<void> {
//     kernels::Relu(a.in<float>(0), a.out<float>(0), n, a.team());
//     return {};
//   });
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "base/shape.h"
#include "threads/team.h"

namespace parallax::ops {

// Gives memory for outputs whose size only the kernel knows.
class OutputAllocator {
 public:
  virtual ~OutputAllocator() = default;
  // Null with an error when memory ran out.
  virtual Result<void*> Allocate(int output, const Shape& shape) = 0;
};

// Pointers for one run. Inputs left out and outputs nobody wants are null. Zero-size tensors may
// have any pointer, null included.
class KernelArgs {
 public:
  KernelArgs(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
             Team& team, OutputAllocator* allocator = nullptr)
      : inputs_(inputs),
        outputs_(outputs),
        workspace_(static_cast<std::byte*>(workspace)),
        team_(&team),
        allocator_(allocator) {}

  template <class T>
  const T* in(int i) const {
    return static_cast<const T*>(raw_in(i));
  }
  template <class T>
  T* out(int i) const {
    return static_cast<T*>(raw_out(i));
  }
  const void* raw_in(int i) const {
    return static_cast<size_t>(i) < inputs_.size() ? inputs_[static_cast<size_t>(i)] : nullptr;
  }
  void* raw_out(int i) const {
    return static_cast<size_t>(i) < outputs_.size() ? outputs_[static_cast<size_t>(i)] : nullptr;
  }
  // workspace_bytes() bytes, aligned to kAlignment.
  std::byte* workspace() const { return workspace_; }
  Team& team() const { return *team_; }
  // Data-dependent kernels only: sets the shape of output i and gives its memory.
  template <class T>
  Result<T*> Allocate(int i, const Shape& shape) const {
    PX_ASSIGN_OR_RETURN(void* p, allocator_->Allocate(i, shape));
    return static_cast<T*>(p);
  }

 private:
  std::span<const void* const> inputs_;
  std::span<void* const> outputs_;
  std::byte* workspace_;
  Team* team_;
  OutputAllocator* allocator_;
};

class Kernel {
 public:
  Kernel(std::string name, size_t workspace_bytes, bool can_fail)
      : name_(std::move(name)), workspace_bytes_(workspace_bytes), can_fail_(can_fail) {}
  virtual ~Kernel() = default;
  // Fails only for what data decides: an index out of range, a division by zero, memory for a
  // data-dependent output.
  virtual Result<void> Run(const KernelArgs& args) const = 0;

  // Which implementation was chosen, as `bench --ops` prints it.
  const std::string& name() const { return name_; }
  size_t workspace_bytes() const { return workspace_bytes_; }
  // Whether Run checks anything: one that does not has nothing to do where its outputs are empty.
  bool can_fail() const { return can_fail_; }

 private:
  std::string name_;
  size_t workspace_bytes_;
  bool can_fail_;
};

// A kernel from a callable Result<void>(const KernelArgs&), or one that returns nothing and cannot
// fail, which owns its state by capture.
template <class F>
std::unique_ptr<Kernel> MakeKernel(std::string name, F run, size_t workspace_bytes = 0) {
  class Bound final : public Kernel {
   public:
    Bound(std::string kernel_name, F f, size_t bytes)
        : Kernel(std::move(kernel_name), bytes,
                 !std::is_void_v<std::invoke_result_t<const F&, const KernelArgs&>>),
          run_(std::move(f)) {}
    Result<void> Run(const KernelArgs& args) const override {
      if constexpr (std::is_void_v<std::invoke_result_t<const F&, const KernelArgs&>>) {
        run_(args);
        return {};
      } else {
        return run_(args);
      }
    }

   private:
    F run_;
  };
  return std::make_unique<Bound>(std::move(name), std::move(run), workspace_bytes);
}

}  // namespace parallax::ops
