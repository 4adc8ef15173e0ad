// Result<T>: a value, or an error that says what went wrong and where.
//
// Role:       the only way a failure travels between rooms; no exception crosses one.
// Ownership:  owns its value and its message.
// Threads:    a value type; no sharing.
// Cost:       success of Result<void> is one null pointer; an error allocates its text once.
// Invariants: holds either a value or an error, never neither.
// Example:
//   Result<int> r = Parse(text);
//   if (!r.ok()) return r.error();            // or: PX_ASSIGN_OR_RETURN(int v, Parse(text));
//   use(*r);
#pragma once

#include <cassert>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/core.h>

namespace parallax {

enum class ErrorCode : unsigned char {
  kInvalidArgument,  // the caller's input is wrong: a shape, a type, a name, an option
  kInvalidModel,     // the model file breaks a rule of its format
  kUnsupported,      // legal, but not implemented here
  kNotFound,         // a file or name does not exist
  kOutOfMemory,      // an allocation failed or the budget is too small
  kIo,               // the operating system refused a read or a write
  kCancelled,        // the caller asked to stop
  kInternal,         // a broken invariant of this program
};

std::string_view Name(ErrorCode code);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message)
      : detail_(std::make_unique<Detail>(Detail{code, std::move(message)})) {}
  Error(Error&&) noexcept = default;
  Error& operator=(Error&&) noexcept = default;
  Error(const Error& other) : detail_(std::make_unique<Detail>(*other.detail_)) {}
  Error& operator=(const Error& other) {
    detail_ = std::make_unique<Detail>(*other.detail_);
    return *this;
  }

  ErrorCode code() const { return detail_->code; }
  const std::string& message() const { return detail_->message; }
  // The same error with "context: " put before its message.
  Error WithContext(std::string_view context) const {
    return Error(code(), fmt::format("{}: {}", context, message()));
  }

 private:
  struct Detail {
    ErrorCode code;
    std::string message;
  };
  std::unique_ptr<Detail> detail_;
};

// Builds an Error from a format string: MakeError(kInvalidModel, "node '{}' ...", name).
template <class... Args>
Error MakeError(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit
  template <class U>
  requires(std::is_constructible_v<T, U&&> && !std::is_same_v<std::decay_t<U>, Error> &&
           !std::is_same_v<std::decay_t<U>, T> && !std::is_same_v<std::decay_t<U>, Result>)
      Result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  const Error& error() const { return std::get<1>(state_); }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}  // NOLINT: implicit
  bool ok() const { return error_ == nullptr; }
  const Error& error() const { return *error_; }

 private:
  std::unique_ptr<Error> error_;
};

}  // namespace parallax

#define PX_CONCAT_INNER(a, b) a##b
#define PX_CONCAT(a, b) PX_CONCAT_INNER(a, b)
// Returns the error of `expr` (a Result) from the calling function, if it has one.
#define PX_RETURN_IF_ERROR(expr)                   \
  do {                                             \
    auto px_status = (expr);                       \
    if (!px_status.ok()) return px_status.error(); \
  } while (false)
// Binds the value of `expr` (a Result) to `lhs`, or returns its error from the calling function.
#define PX_ASSIGN_OR_RETURN(lhs, expr) PX_ASSIGN_IMPL(PX_CONCAT(px_result_, __LINE__), lhs, expr)
#define PX_ASSIGN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                   \
  if (!tmp.ok()) return tmp.error();   \
  lhs = std::move(*tmp)
