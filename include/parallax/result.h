// Result: a value, or what went wrong. The library neither throws nor prints nor aborts.
//
// Role:       returned by every call that can fail.
// Ownership:  owns its value and its message.
// Threads:    a value type.
// Cost:       a success costs what its value costs; an error holds one string.
// Invariants: holds either a value or an error.
// Example:
//   parallax::api::Result<Session> session = Session::Load("model.onnx");
//   if (!session.ok()) return Fail(session.error().message);
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace parallax::api {

enum class ErrorKind : unsigned char {
  kInvalidArgument,  // the caller's input is wrong: a shape, a type, a name, an option
  kInvalidModel,     // the model file breaks a rule of its format
  kUnsupported,      // legal, but not implemented
  kNotFound,         // a file or name does not exist
  kOutOfMemory,      // an allocation failed
  kIo,               // the operating system refused a read or a write
  kCancelled,        // the caller asked to stop
  kInternal,         // a broken invariant of the library: please report it
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  // Names what and why: node, operator, shapes wanted and found.
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  // REQUIRES: !ok().
  const Error& error() const { return *std::get_if<1>(&state_); }
  // REQUIRES: ok(), here and below.
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace parallax::api
