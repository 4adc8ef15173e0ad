#include "parallax/session.h"

#include <new>
#include <stdexcept>
#include <type_traits>

#include "onnx/import.h"
#include "passes/passes.h"
#include "runtime/session.h"

namespace parallax::api {
namespace {

// The public enums mirror the internal ones, value by value.
static_assert(static_cast<int>(ElementType::kF32) == static_cast<int>(DType::kF32));
static_assert(static_cast<int>(ElementType::kBool) == static_cast<int>(DType::kBool));
static_assert(static_cast<int>(ErrorKind::kInvalidArgument) ==
              static_cast<int>(ErrorCode::kInvalidArgument));
static_assert(static_cast<int>(ErrorKind::kInternal) == static_cast<int>(ErrorCode::kInternal));

Error ToPublic(const parallax::Error& error) {
  return {static_cast<ErrorKind>(error.code()), error.message()};
}

ValueInfo InfoOf(const Model& model, const std::string& name, const TensorType& type) {
  ValueInfo info;
  info.name = name;
  info.type = static_cast<ElementType>(type.dtype);
  info.ranked = type.ranked;
  for (const Dim& d : type.dims) {
    info.shape.push_back(d.known() ? d.extent : -1);
    info.symbols.emplace_back(d.known() || d.symbol == 0 ? "" : model.symbols.NameOf(d.symbol));
  }
  return info;
}

parallax::Result<parallax::Tensor> FromView(const Input& input) {
  const TensorView& v = input.tensor;
  parallax::Result<Shape> shape = Shape::Make(v.shape);
  if (!shape.ok()) return shape.error().WithContext(fmt::format("input '{}'", input.name));
  const DType dtype = static_cast<DType>(v.type);
  if (parallax::SizeOf(dtype) == 0) {
    return MakeError(ErrorCode::kInvalidArgument, "input '{}' has no element type", input.name);
  }
  const size_t wanted = static_cast<size_t>(shape->elements()) * parallax::SizeOf(dtype);
  if (v.bytes != wanted || (v.data == nullptr && wanted > 0)) {
    return MakeError(ErrorCode::kInvalidArgument, "input '{}': {}{} wants {} bytes, found {}",
                     input.name, parallax::Name(dtype), shape->ToString(), wanted,
                     v.data == nullptr ? 0 : v.bytes);
  }
  parallax::Tensor tensor = parallax::Tensor::Wrap(dtype, *shape, v.data);
  if (!tensor.aligned()) {
    return MakeError(ErrorCode::kInvalidArgument, "input '{}' is not aligned for {}", input.name,
                     parallax::Name(dtype));
  }
  return tensor;
}

}  // namespace

std::string_view Name(ElementType type) { return parallax::Name(static_cast<DType>(type)); }
size_t SizeOf(ElementType type) { return parallax::SizeOf(static_cast<DType>(type)); }

int64_t Tensor::elements() const {
  if (type_ == ElementType::kUndefined) return 0;
  int64_t n = 1;
  for (int64_t d : shape_) n *= d;
  return n;
}

struct Session::State {
  std::unique_ptr<runtime::Session> session;
  std::vector<ValueInfo> inputs, outputs;

  const Graph& graph() const { return session->model().graph; }

  static parallax::Result<std::unique_ptr<State>> Make(Model model, const SessionOptions& options) {
    PX_RETURN_IF_ERROR(passes::Optimize(&model));
    auto state = std::make_unique<State>();
    for (ValueId v : model.graph.inputs) {
      const Value& value = model.graph.value(v);
      state->inputs.push_back(InfoOf(model, value.name, value.type));
      state->inputs.back().optional = value.constant.defined();
    }
    for (size_t i = 0; i < model.graph.outputs.size(); ++i) {
      state->outputs.push_back(InfoOf(model, model.graph.output_names[i], model.output_types[i]));
    }
    runtime::SessionOptions inner;
    inner.threads = options.threads == 0 ? UsableCpus() : options.threads;
    inner.execution.precise = options.precise;
    PX_ASSIGN_OR_RETURN(state->session, runtime::Session::Create(std::move(model), inner));
    return state;
  }

  parallax::Result<std::vector<parallax::Tensor>> Run(std::span<const Input> given) {
    std::vector<parallax::Tensor> tensors(inputs.size());
    for (const Input& input : given) {
      const int i = graph().FindInput(input.name);
      if (i < 0) {
        return MakeError(ErrorCode::kInvalidArgument, "the model has no input '{}'", input.name);
      }
      parallax::Tensor& tensor = tensors[static_cast<size_t>(i)];
      if (tensor.defined()) {
        return MakeError(ErrorCode::kInvalidArgument, "input '{}' is given twice", input.name);
      }
      PX_ASSIGN_OR_RETURN(tensor, FromView(input));
    }
    return session->Run(tensors);
  }
};

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const std::vector<ValueInfo>& Session::inputs() const { return state_->inputs; }
const std::vector<ValueInfo>& Session::outputs() const { return state_->outputs; }
const std::map<std::string, std::string>& Session::metadata() const {
  return state_->session->model().metadata;
}

namespace {

// Runs f; nothing that the standard library throws leaves the public functions.
template <class F>
std::invoke_result_t<F> Guarded(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kOutOfMemory, "out of memory"};
  } catch (const std::length_error&) {  // a container larger than any memory
    return Error{ErrorKind::kOutOfMemory, "out of memory"};
  } catch (const std::exception& e) {
    return Error{ErrorKind::kInternal, e.what()};
  }
}

}  // namespace

Result<Session> Session::Load(const std::string& path, const SessionOptions& options) {
  return Guarded([&]() -> Result<Session> {
    onnx_import::ImportOptions import;
    import.allow_external = options.allow_external;
    parallax::Result<Model> model = onnx_import::ImportFile(path, import);
    if (!model.ok()) return ToPublic(model.error());
    parallax::Result<std::unique_ptr<State>> state = State::Make(std::move(*model), options);
    if (!state.ok()) return ToPublic(state.error().WithContext(path));
    return Session(std::move(*state));
  });
}

Result<Session> Session::LoadBytes(std::span<const std::byte> model,
                                   const SessionOptions& options) {
  return Guarded([&]() -> Result<Session> {
    auto copy = std::make_shared<std::vector<std::byte>>(model.begin(), model.end());
    parallax::Result<Model> imported = onnx_import::ImportBytes(*copy, copy, {});
    if (!imported.ok()) return ToPublic(imported.error());
    parallax::Result<std::unique_ptr<State>> state = State::Make(std::move(*imported), options);
    if (!state.ok()) return ToPublic(state.error());
    return Session(std::move(*state));
  });
}

Result<std::vector<Tensor>> Session::Run(std::span<const Input> inputs) {
  return Guarded([&]() -> Result<std::vector<Tensor>> {
    parallax::Result<std::vector<parallax::Tensor>> results = state_->Run(inputs);
    if (!results.ok()) return ToPublic(results.error());
    std::vector<Tensor> outputs;
    for (const parallax::Tensor& t : *results) {
      Tensor out;
      out.type_ = static_cast<ElementType>(t.dtype());
      out.shape_.assign(t.shape().dims().begin(), t.shape().dims().end());
      out.data_ = std::shared_ptr<const void>(t.owner(), t.bytes_begin());
      outputs.push_back(std::move(out));
    }
    return outputs;
  });
}

}  // namespace parallax::api
