// Session: loads an ONNX model and runs it.
//
// Role:       the library's entry point.
// Ownership:  a Session owns the model, its packed weights, its plans and its threads.
// Threads:    calls of one Session from several threads are safe and take turns; different Sessions
//             run at once.
// Cost:       Load parses and optimises the graph; weights stay in the mapped file. The first Run
// at
//             new input shapes plans and packs weights; later ones allocate only their outputs.
// Invariants: results are the same bits in every run and for every thread count. Inputs are never
//             written. The model file must not change while a Session uses it.
// Example:
//   Result<Session> session = Session::Load("mobilenetv2.onnx", {.threads = 2});
//   Result<std::vector<Tensor>> out = session->Run({{"pixels", View<float>(pixels, shape)}});
//   std::span<const float> logits = (*out)[0].values<float>();
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/result.h"
#include "parallax/tensor.h"

namespace parallax::api {

struct SessionOptions {
  int threads = 0;                  // 0: the CPUs this process may use
  std::string allow_external = {};  // one more folder that external weights may lie in
  // Multiplies what the model says: no Winograd, no subnormal weights taken as 0, for speed.
  bool precise = false;
};

struct ValueInfo {
  std::string name;
  ElementType type = ElementType::kUndefined;
  bool ranked = false;  // whether the model says how many dimensions there are
  // -1 where the extent is not fixed. For an output: what follows from the graph, else what the
  // file claims.
  std::vector<int64_t> shape;
  std::vector<std::string> symbols;  // the name of each such extent, or ""
  bool optional = false;             // an input with a default
};

struct Input {
  std::string_view name;
  TensorView tensor;
};

class Session {
 public:
  // Errors: kNotFound, kIo, kInvalidModel, kUnsupported (lists every unsupported node).
  static Result<Session> Load(const std::string& path, const SessionOptions& options = {});
  // From memory; `model` is copied. Models with external weights cannot be loaded this way.
  static Result<Session> LoadBytes(std::span<const std::byte> model,
                                   const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const std::vector<ValueInfo>& inputs() const;
  const std::vector<ValueInfo>& outputs() const;
  // The file's metadata properties.
  const std::map<std::string, std::string>& metadata() const;

  // Outputs in the order of outputs(). Every input without a default must be given, in any order.
  // Errors: kInvalidArgument names the input with what is wanted and found; kOutOfMemory; and what
  // a node reports for its data (an index out of range), with the node's name.
  Result<std::vector<Tensor>> Run(std::span<const Input> inputs);
  Result<std::vector<Tensor>> Run(std::initializer_list<Input> inputs) {
    return Run(std::span<const Input>(inputs.begin(), inputs.size()));
  }

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace parallax::api
