#include "cli/inputs.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <random>

#include <fmt/format.h>

#include "cli/npz.h"
#include "cli/usage.h"

namespace parallax::cli {
namespace {

// NAME=VALUE. Names may hold '=' themselves: the first split that gives a known name counts.
template <class IsName>
std::pair<std::string, std::string> SplitAssignment(const std::string& text, IsName is_name) {
  for (size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    if (is_name(text.substr(0, at))) return {text.substr(0, at), text.substr(at + 1)};
  }
  const size_t at = text.find('=');
  return {text.substr(0, at), text.substr(at + 1)};
}

std::optional<std::vector<int64_t>> ParseExtents(std::string_view text) {
  std::vector<int64_t> dims;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    int64_t value = 0;
    auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || (next < end && *next != 'x' && *next != ',')) {
      return std::nullopt;
    }
    if (next < end && next + 1 == end) return std::nullopt;  // "4x"
    dims.push_back(value);
    at = next < end ? next + 1 : end;
  }
  return dims;
}

std::string CheckAssignment(const std::string& text, std::string_view form) {
  const size_t at = text.find('=');
  if (at != std::string::npos && at > 0) return "";
  return fmt::format("'{}' should be {}", text, form);
}

// The parser itself would take -1 and what is too large for the largest seed.
uint64_t ParseSeed(const std::string& text) {
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, seed);
  if (text.empty() || error != std::errc() || next != end) {
    FailUsage(fmt::format("--random: '{}' should be a whole number from 0 to {}", text,
                          std::numeric_limits<uint64_t>::max()));
  }
  return seed;
}

std::string DescribeInput(const Model& model, size_t i) {
  const Value& value = model.graph.value(model.graph.inputs[i]);
  return fmt::format("'{}' {}", value.name, ToString(value.type, model.symbols));
}

std::string ListInputs(const Model& model) {
  std::vector<std::string> all;
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) all.push_back(DescribeInput(model, i));
  return fmt::format("{}", fmt::join(all, ", "));
}

// "1x3xNxN" for [batch,3,height,width].
std::string ExampleShape(const TensorType& type) {
  std::vector<std::string> dims;
  int open = 0;
  for (const Dim& d : type.dims) {
    open += d.known() ? 0 : 1;
    dims.push_back(d.known() ? std::to_string(d.extent) : "N");
  }
  if (open > 1 && !type.dims[0].known()) dims[0] = "1";
  return fmt::format("{}", fmt::join(dims, "x"));
}

// NumPy has no bf16: its bits travel as uint16.
DType AsModelType(DType found, DType wanted) {
  return wanted == DType::kBF16 && found == DType::kU16 ? wanted : found;
}

// Collects what the options say, then gives every input its type.
class Resolver {
 public:
  Resolver(const Model& model, const InputOptions& options) : model_(model), options_(options) {
    const size_t n = model.graph.inputs.size();
    arrays_.resize(n);
    shapes_.resize(n);
  }

  Result<void> Read() {
    PX_RETURN_IF_ERROR(ReadArrays());
    ReadShapes();
    BindExtents();
    return {};
  }

  // Whether neither a file nor the model has a value for the input.
  bool NeedsValue(size_t i) const {
    return !arrays_[i].defined() && (!Input(i).constant.defined() || shapes_[i]);
  }

  // After Read, once.
  Result<Inputs> Resolve() {
    Inputs inputs;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const Value& value = Input(i);
      if (arrays_[i].defined()) {
        inputs.types.push_back(TensorType::Of(arrays_[i].dtype(), arrays_[i].shape()));
      } else if (!NeedsValue(i)) {
        inputs.types.push_back(TensorType::Of(value.constant.dtype(), value.constant.shape()));
      } else {
        PX_ASSIGN_OR_RETURN(Shape shape, ShapeOf(i, &inputs.assumptions));
        inputs.types.push_back(TensorType::Of(value.type.dtype, shape));
      }
    }
    inputs.tensors = std::move(arrays_);
    return inputs;
  }

 private:
  const Value& Input(size_t i) const { return model_.graph.value(model_.graph.inputs[i]); }
  int Find(std::string_view name) const { return model_.graph.FindInput(name); }

  Result<void> ReadArrays() {
    if (!options_.npz.empty()) {
      Result<std::map<std::string, Tensor>> file =
          ReadNpz(options_.npz, [&](const std::string& name, DType dtype, const Shape& shape) {
            const int i = Find(name);
            if (i >= 0) return CheckArrayOf(static_cast<size_t>(i), dtype, shape);
            // Feeding a constant is harmless when the file lists it, but most likely a mistake.
            return Result<void>(MakeError(ErrorCode::kInvalidArgument,
                                          "{}: the model has no input '{}'; it has {}",
                                          options_.npz, name, ListInputs(model_)));
          });
      if (!file.ok()) {
        if (!LooksLikeNpy(options_.npz)) return file.error();
        FailUsage(
            fmt::format("--inputs: '{0}' is one array, not an .npz file of them by name: "
                        "give --input {1}={0}",
                        options_.npz, arrays_.empty() ? "NAME" : Input(0).name));
      }
      for (auto& [name, tensor] : *file) {
        SetArray(static_cast<size_t>(Find(name)), std::move(tensor));
      }
    }
    for (const std::string& text : options_.arrays) {
      const auto [name, path] =
          SplitAssignment(text, [&](const std::string& n) { return Find(n) >= 0; });
      const int i = Find(name);
      if (i < 0) {
        FailUsage(fmt::format("--input: the model has no input '{}'; it has {}", name,
                              ListInputs(model_)));
      }
      PX_ASSIGN_OR_RETURN(Tensor tensor, ReadNpy(path, [&](DType dtype, const Shape& shape) {
                            return CheckArrayOf(static_cast<size_t>(i), dtype, shape);
                          }));
      SetArray(static_cast<size_t>(i), std::move(tensor));
    }
    return {};
  }

  Result<void> CheckArrayOf(size_t i, DType dtype, const Shape& shape) const {
    return CheckInput(model_, i, AsModelType(dtype, Input(i).type.dtype), shape);
  }

  // REQUIRES: CheckArrayOf.
  void SetArray(size_t i, Tensor tensor) {
    const DType dtype = AsModelType(tensor.dtype(), Input(i).type.dtype);
    arrays_[i] = dtype == tensor.dtype()
                     ? std::move(tensor)
                     : Tensor::Wrap(dtype, tensor.shape(), tensor.bytes_begin(), tensor.owner());
  }

  // The symbol of that name, if an input has it.
  SymbolId FindSymbol(const std::string& name) const {
    for (ValueId v : model_.graph.inputs) {
      for (const Dim& d : model_.graph.value(v).type.dims) {
        if (!d.known() && d.symbol != 0 && model_.symbols.NameOf(d.symbol) == name) return d.symbol;
      }
    }
    return 0;
  }

  void ReadShapes() {
    for (const std::string& text : options_.shapes) {
      const auto [name, value] = SplitAssignment(
          text, [&](const std::string& n) { return Find(n) >= 0 || FindSymbol(n) != 0; });
      const std::optional<std::vector<int64_t>> extents = ParseExtents(value);
      const int i = Find(name);
      const SymbolId symbol = FindSymbol(name);
      if (i < 0 && symbol == 0) {
        FailUsage(fmt::format("--shape: the model has no input and no open extent '{}'; it has {}",
                              name, ListInputs(model_)));
      }
      if (!extents || (i < 0 && extents->size() != 1)) {
        FailUsage(fmt::format("--shape {}: '{}' should look like {}", name, value,
                              i < 0 ? "640" : "1x3x224x224"));
      }
      if (i >= 0) {
        SetShape(static_cast<size_t>(i), *extents);
      } else {
        asked_[symbol] = (*extents)[0];
      }
    }
  }

  void SetShape(size_t i, const std::vector<int64_t>& extents) {
    const std::string& name = Input(i).name;
    if (arrays_[i].defined()) {
      FailUsage(fmt::format("--shape {}: a file gives this input, and with it its shape", name));
    }
    Result<Shape> shape = Shape::Make(extents);
    if (!shape.ok()) FailUsage(fmt::format("--shape {}: {}", name, shape.error().message()));
    Result<void> fits = CheckInput(model_, i, Input(i).type.dtype, *shape);
    if (!fits.ok()) FailUsage(fmt::format("--shape: {}", fits.error().message()));
    shapes_[i] = *shape;
  }

  // Gives every symbol the extent that a file, --shape INPUT or --shape EXTENT says.
  void BindExtents() {
    bound_ = asked_;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (!arrays_[i].defined() && !shapes_[i]) continue;
      const Shape& shape = arrays_[i].defined() ? arrays_[i].shape() : *shapes_[i];
      const TensorType& type = Input(i).type;
      for (int d = 0; d < type.rank(); ++d) {
        const Dim& dim = type.dims[static_cast<size_t>(d)];
        if (dim.known() || dim.symbol == 0) continue;
        if (auto it = asked_.find(dim.symbol); it != asked_.end() && it->second != shape[d]) {
          FailUsage(fmt::format("--shape {}={}: input '{}' is given as {}",
                                model_.symbols.NameOf(dim.symbol), it->second, Input(i).name,
                                shape.ToString()));
        }
        bound_.emplace(dim.symbol, shape[d]);
      }
    }
  }

  Result<Shape> ShapeOf(size_t i, Assumptions* assumptions) const {
    if (shapes_[i]) return *shapes_[i];
    const Value& value = Input(i);
    if (!value.type.ranked) {
      FailUsage(
          fmt::format("input '{0}' has no rank in the model: give --shape {0}=...", value.name));
    }
    std::vector<int64_t> extents;
    std::string_view open_name;
    bool open = false;
    for (const Dim& d : value.type.dims) {
      const auto it = d.known() ? bound_.end() : bound_.find(d.symbol);
      extents.push_back(d.known() ? d.extent : it != bound_.end() ? it->second : 1);
      if (d.known() || it != bound_.end()) continue;
      open = true;
      if (d.symbol != 0) open_name = model_.symbols.NameOf(d.symbol);
    }
    if (open) {
      assumptions->open_extents.push_back(DescribeInput(model_, i));
      if (assumptions->shape_example.empty()) {
        assumptions->shape_example =
            fmt::format("--shape {}={}", value.name, ExampleShape(value.type));
        if (!open_name.empty() && Find(open_name) < 0) {
          assumptions->shape_example += fmt::format(" or --shape {}=N", open_name);
        }
      }
    }
    Result<Shape> shape = Shape::Make(extents);
    if (!shape.ok()) return shape.error().WithContext(fmt::format("input '{}'", value.name));
    return shape;
  }

  const Model& model_;
  const InputOptions& options_;
  std::vector<Tensor> arrays_;                 // by input; undefined where no file gives it
  std::vector<std::optional<Shape>> shapes_;   // by input
  std::map<SymbolId, int64_t> asked_, bound_;  // by --shape EXTENT; by anything
};

// Normal values by Box and Muller, so that a seed gives the same inputs with every library.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  double Uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  double Normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * Uniform());
  }

 private:
  std::mt19937_64 bits_;
};

bool IsMask(const Value& value) { return value.name.find("mask") != std::string::npos; }

Result<Tensor> RandomTensor(const Value& value, const Shape& shape, Random* random) {
  PX_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(value.type.dtype, shape));
  const bool mask = IsMask(value);
  DispatchType(value.type.dtype, [&]<class T>() {
    T* out = t.mutable_data<T>();
    for (int64_t i = 0; i < t.elements(); ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        out[i] = true;
      } else if constexpr (std::is_integral_v<T>) {
        const double limit = std::min(1000.0, static_cast<double>(std::numeric_limits<T>::max()));
        out[i] = mask ? T{1} : static_cast<T>(random->Uniform() * limit);
      } else {
        out[i] = T(mask ? 1.0 : random->Normal());
      }
    }
  });
  return t;
}

// At most three, for a message.
std::string Some(const std::vector<std::string>& all) {
  constexpr size_t kMost = 3;
  const std::vector<std::string> some(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kMost)));
  std::string text = fmt::format("{}", fmt::join(some, ", "));
  if (all.size() > kMost) text += fmt::format(" and {} more", all.size() - kMost);
  return text;
}

}  // namespace

std::string Assumptions::OpenExtents() const {
  if (open_extents.empty()) return "";
  return fmt::format("open extents of {} were taken as 1; set them with {}", Some(open_extents),
                     shape_example);
}

Error Assumptions::ExplainShapes(const Error& error) const {
  if (open_extents.empty()) return error;
  return MakeError(error.code(), "{}\n  {}", error.message(), OpenExtents());
}

Error Assumptions::ExplainRun(const Error& error) const {
  Error explained = ExplainShapes(error);
  if (random_integers.empty()) return explained;
  return MakeError(error.code(),
                   "{}\n  the values of {} were random, from 0 to 999; give fitting ones with "
                   "--input NAME=FILE.npy",
                   explained.message(), Some(random_integers));
}

void AddInputOptions(CLI::App* app, InputOptions* options, NotGiven not_given) {
  app->add_option("--inputs", options->npz, "Inputs from an .npz file, by name")
      ->type_name("FILE")
      ->check([](const std::string& path) { return path.empty() ? "the path is empty" : ""; });
  app->add_option("--input", options->arrays, "One input from an .npy file (repeatable)")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return CheckAssignment(text, "NAME=FILE"); });
  if (not_given != NotGiven::kRefuse) {
    const std::string what =
        "Draw inputs that are not given: floats from N(0,1), integers from 0 to 999, bools true, "
        "ones where the name has \"mask\"";
    app->add_option_function<std::string>(
           "--random", [options](const std::string& text) { options->seed = ParseSeed(text); },
           what + (not_given == NotGiven::kDraw ? " (without this option from seed 0)"
                                                : " (without this option: an error)"))
        ->type_name("SEED");
  }
  app->add_option("--shape", options->shapes,
                  "Shape of an input that is not given, or size of an open extent by its name "
                  "(repeatable); open extents are 1 otherwise")
      ->type_name("NAME=1x3x640x640")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        return CheckAssignment(text, "NAME=1x3x640x640 or EXTENT=640");
      });
}

Result<Inputs> GivenInputs(const Model& model, const InputOptions& options) {
  Resolver resolver(model, options);
  PX_RETURN_IF_ERROR(resolver.Read());
  return resolver.Resolve();
}

Result<Inputs> MakeInputs(const Model& model, const InputOptions& options,
                          std::optional<uint64_t> default_seed) {
  const std::optional<uint64_t> seed = options.seed ? options.seed : default_seed;
  Resolver resolver(model, options);
  PX_RETURN_IF_ERROR(resolver.Read());
  const size_t count = model.graph.inputs.size();
  std::string missing;
  std::vector<bool> drawn(count);
  for (size_t i = 0; i < count; ++i) {
    drawn[i] = resolver.NeedsValue(i);
    if (drawn[i] && !seed) missing += "\n  " + DescribeInput(model, i);
  }
  if (!missing.empty()) {
    FailUsage("inputs are missing (give --inputs, --input or --random SEED):" + missing);
  }
  PX_ASSIGN_OR_RETURN(Inputs inputs, resolver.Resolve());
  Random random(seed.value_or(0));
  for (size_t i = 0; i < count; ++i) {
    if (!drawn[i]) continue;
    const Value& value = model.graph.value(model.graph.inputs[i]);
    PX_ASSIGN_OR_RETURN(inputs.tensors[i], RandomTensor(value, *inputs.types[i].shape(), &random));
    if (!IsFloat(value.type.dtype) && value.type.dtype != DType::kBool && !IsMask(value)) {
      inputs.assumptions.random_integers.push_back(DescribeInput(model, i));
    }
  }
  return inputs;
}

}  // namespace parallax::cli
