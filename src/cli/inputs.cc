#include "cli/inputs.h"

#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <random>

#include "cli/npz.h"

namespace parallax::cli {
namespace {

Error Usage(std::string message) { return Error(ErrorCode::kInvalidArgument, std::move(message)); }

Result<std::pair<std::string, std::string>> SplitAssignment(const std::string& text,
                                                            std::string_view option) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) {
    return Usage(fmt::format("{} '{}' should be NAME=VALUE", option, text));
  }
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

Result<Shape> ParseShape(const std::string& text, const std::string& name) {
  std::vector<int64_t> dims;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    int64_t value = 0;
    auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || (next < end && *next != 'x' && *next != ',')) {
      return Usage(fmt::format("--shape {}: '{}' should look like 1x3x224x224", name, text));
    }
    dims.push_back(value);
    at = next < end ? next + 1 : end;
  }
  Result<Shape> shape = Shape::Make(dims);
  if (!shape.ok()) return shape.error().WithContext("--shape " + name);
  return shape;
}

// NumPy has no bf16: its bits travel as uint16.
Tensor AsModelType(Tensor t, DType wanted) {
  if (wanted == DType::kBF16 && t.dtype() == DType::kU16) {
    return Tensor::Wrap(wanted, t.shape(), t.bytes_begin(), t.owner());
  }
  return t;
}

Result<std::map<std::string, Tensor>> ReadArrays(const Model& model, const InputOptions& options) {
  std::map<std::string, Tensor> arrays;
  if (!options.npz.empty()) {
    PX_ASSIGN_OR_RETURN(arrays, ReadNpz(options.npz));
  }
  for (const std::string& text : options.arrays) {
    PX_ASSIGN_OR_RETURN(auto assignment, SplitAssignment(text, "--input"));
    PX_ASSIGN_OR_RETURN(arrays[assignment.first], ReadNpy(assignment.second));
  }
  for (auto& [name, tensor] : arrays) {
    const int i = model.graph.FindInput(name);
    if (i < 0) {
      // Feeding a constant is harmless when the file lists it, but most likely a mistake.
      std::string known;
      for (ValueId v : model.graph.inputs) known += " '" + model.graph.value(v).name + "'";
      return Usage(fmt::format("the model has no input '{}'; it has:{}", name, known));
    }
    tensor = AsModelType(std::move(tensor),
                         model.graph.value(model.graph.inputs[static_cast<size_t>(i)]).type.dtype);
  }
  return arrays;
}

Result<std::map<std::string, Shape>> ReadShapes(const Model& model, const InputOptions& options) {
  std::map<std::string, Shape> shapes;
  for (const std::string& text : options.shapes) {
    PX_ASSIGN_OR_RETURN(auto assignment, SplitAssignment(text, "--shape"));
    if (model.graph.FindInput(assignment.first) < 0) {
      return Usage(fmt::format("--shape: the model has no input '{}'", assignment.first));
    }
    PX_ASSIGN_OR_RETURN(shapes[assignment.first], ParseShape(assignment.second, assignment.first));
  }
  return shapes;
}

Result<Shape> ShapeOf(const Model& model, const Value& value,
                      const std::map<std::string, Shape>& shapes) {
  if (auto it = shapes.find(value.name); it != shapes.end()) {
    const Shape& given = it->second;
    bool fits = !value.type.ranked || value.type.rank() == given.rank();
    for (int d = 0; fits && d < value.type.rank(); ++d) {
      const Dim& dim = value.type.dims[static_cast<size_t>(d)];
      fits = !dim.known() || dim.extent == given[d];
    }
    if (!fits) {
      return Usage(fmt::format("--shape {}: wanted {}, found {}", value.name,
                               ToString(value.type, model.symbols), given.ToString()));
    }
    return given;
  }
  if (!value.type.ranked) {
    return Usage(fmt::format("input '{}' has no rank in the model: give --shape {}=...", value.name,
                             value.name));
  }
  Shape shape;
  for (const Dim& d : value.type.dims) shape.Append(d.known() ? d.extent : 1);
  return shape;
}

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

Result<Tensor> RandomTensor(const Value& value, const Shape& shape, Random* random) {
  PX_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(value.type.dtype, shape));
  const bool mask = value.name.find("mask") != std::string::npos;
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

}  // namespace

void AddInputOptions(CLI::App* app, InputOptions* options) {
  app->add_option("--inputs", options->npz, "Inputs from an .npz file, by name")->type_name("FILE");
  app->add_option("--input", options->arrays, "One input from an .npy file (repeatable)")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app->add_option("--random", options->seed, "Draw inputs not given from this seed")
      ->type_name("SEED");
  app->add_option("--shape", options->shapes,
                  "Shape of an input with symbolic extents, else 1 each (repeatable)")
      ->type_name("NAME=1x3x640x640")
      ->allow_extra_args(false);
}

Result<std::vector<TensorType>> InputTypes(const Model& model, const InputOptions& options) {
  PX_ASSIGN_OR_RETURN(auto arrays, ReadArrays(model, options));
  PX_ASSIGN_OR_RETURN(auto shapes, ReadShapes(model, options));
  std::vector<TensorType> types;
  for (ValueId v : model.graph.inputs) {
    const Value& value = model.graph.value(v);
    if (auto it = arrays.find(value.name); it != arrays.end()) {
      types.push_back(TensorType::Of(it->second.dtype(), it->second.shape()));
      continue;
    }
    PX_ASSIGN_OR_RETURN(Shape shape, ShapeOf(model, value, shapes));
    types.push_back(TensorType::Of(value.type.dtype, shape));
  }
  return types;
}

Result<std::vector<Tensor>> MakeInputs(const Model& model, const InputOptions& options,
                                       std::optional<uint64_t> default_seed) {
  PX_ASSIGN_OR_RETURN(auto arrays, ReadArrays(model, options));
  PX_ASSIGN_OR_RETURN(auto shapes, ReadShapes(model, options));
  const std::optional<uint64_t> seed = options.seed ? options.seed : default_seed;
  Random random(seed.value_or(0));
  std::vector<Tensor> inputs;
  std::string missing;
  for (ValueId v : model.graph.inputs) {
    const Value& value = model.graph.value(v);
    Tensor tensor;
    if (auto it = arrays.find(value.name); it != arrays.end()) {
      tensor = it->second;
    } else if (!value.constant.defined()) {
      if (!seed) {
        missing += fmt::format("\n  '{}' {}", value.name, ToString(value.type, model.symbols));
        continue;
      }
      PX_ASSIGN_OR_RETURN(Shape shape, ShapeOf(model, value, shapes));
      PX_ASSIGN_OR_RETURN(tensor, RandomTensor(value, shape, &random));
    }
    inputs.push_back(std::move(tensor));
  }
  if (!missing.empty()) {
    return Usage(
        fmt::format("inputs are missing (give --inputs, --input or --random SEED):{}", missing));
  }
  return inputs;
}

}  // namespace parallax::cli
