// FunctionRef: a borrowed callable, two words, never allocates.
//
// Role:       callbacks on hot paths (thread teams, visitors), where std::function would allocate.
// Ownership:  borrows the callable; it must outlive every call through the reference.
// Threads:    as safe as the callable itself.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace parallax {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, Args...>)
      FunctionRef(F&& f)  // NOLINT: implicit, as a lambda argument
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::add_pointer_t<std::remove_reference_t<F>>>(object))(
              std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace parallax
