// LSTM: every direction, layout (opset 14), peepholes, clip, input_forget, sequence lengths,
// initial state and activation function. Since opset 7. f32 on GEMM with constant weights packed
// once; f64 portable; f16 and bf16 through f32.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "kernels/elementwise/cast.h"
#include "kernels/gemm/gemm.h"
#include "kernels/recurrent/lstm.h"
#include "ops/core/bind_context.h"
#include "ops/core/dims.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {
namespace {

using kernels::CellActivation;
using kernels::CellFunction;
using kernels::LstmShape;
using kernels::LstmTensors;

Result<int> DirectionsOf(const NodeContext& c) {
  const std::string_view direction = c.String("direction", "forward");
  if (direction == "forward" || direction == "reverse") return 1;
  if (direction == "bidirectional") return 2;
  return Invalid("direction is '{}'", direction);
}

struct NamedFunction {
  std::string_view name;
  CellActivation kind;
  float alpha, beta;  // defaults
  bool uses_alpha, uses_beta;
};
constexpr NamedFunction kFunctions[] = {
    {"relu", CellActivation::kRelu, 0, 0, false, false},
    {"tanh", CellActivation::kTanh, 0, 0, false, false},
    {"sigmoid", CellActivation::kSigmoid, 0, 0, false, false},
    {"affine", CellActivation::kAffine, 1, 0, true, true},
    {"leakyrelu", CellActivation::kLeakyRelu, 0.01f, 0, true, false},
    {"thresholdedrelu", CellActivation::kThresholdedRelu, 1, 0, true, false},
    {"scaledtanh", CellActivation::kScaledTanh, 1, 1, true, true},
    {"hardsigmoid", CellActivation::kHardSigmoid, 0.2f, 0.5f, true, true},
    {"elu", CellActivation::kElu, 1, 0, true, false},
    {"softsign", CellActivation::kSoftsign, 0, 0, false, false},
    {"softplus", CellActivation::kSoftplus, 0, 0, false, false}};

// The activations in order; alpha and beta lists give values to those that take one, in turn.
Result<std::vector<CellFunction>> FunctionsOf(const NodeContext& c, int directions) {
  std::vector<std::string> names;
  if (const std::vector<std::string>* given = c.node().attributes.Strings("activations")) {
    names = *given;
  } else {
    for (int d = 0; d < directions; ++d) names.insert(names.end(), {"sigmoid", "tanh", "tanh"});
  }
  if (names.size() != static_cast<size_t>(3 * directions)) {
    return Invalid("activations has {} names, should have {}", names.size(), 3 * directions);
  }
  const std::vector<float>* alphas = c.node().attributes.Floats("activation_alpha");
  const std::vector<float>* betas = c.node().attributes.Floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<CellFunction> functions;
  for (std::string name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
    const auto* f = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                 [&](const NamedFunction& n) { return n.name == name; });
    if (f == std::end(kFunctions)) return Invalid("activation '{}' is not known", name);
    CellFunction function{f->kind, f->alpha, f->beta};
    if (f->uses_alpha && alphas != nullptr && next_alpha < alphas->size()) {
      function.alpha = (*alphas)[next_alpha++];
    }
    if (f->uses_beta && betas != nullptr && next_beta < betas->size()) {
      function.beta = (*betas)[next_beta++];
    }
    functions.push_back(function);
  }
  return functions;
}

bool BatchFirst(const NodeContext& c) { return c.Int("layout", 0) == 1; }

// Input i, if given, has these extents.
Result<void> CheckInput(const InferContext& c, int i, const Dims& wanted) {
  if (!c.has_input(i) || c.rank(i) < 0) return {};
  const Dims& found = c.dims(i);
  bool fits = found.size() == wanted.size();
  for (size_t d = 0; fits && d < found.size(); ++d) {
    fits = !found[d].known() || !wanted[d].known() || found[d].extent == wanted[d].extent;
  }
  if (!fits) {
    return Invalid("input {} has shape {}, should be {}", i, DimsToString(found),
                   DimsToString(wanted));
  }
  return {};
}

Result<void> Infer(InferContext& c) {
  PX_ASSIGN_OR_RETURN(int directions, DirectionsOf(c));
  PX_RETURN_IF_ERROR(FunctionsOf(c, directions));
  if (c.Int("layout", 0) != 0 && c.Int("layout", 0) != 1) {
    return Invalid("layout is {}", c.Int("layout", 0));
  }
  if (c.rank(0) < 0 || c.rank(1) < 0 || c.rank(2) < 0) return {};
  if (c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3) {
    return Invalid("X, W and R should have rank 3, have {}, {} and {}", c.rank(0), c.rank(1),
                   c.rank(2));
  }
  const bool batch_first = BatchFirst(c);
  const Dim batch = c.dims(0)[batch_first ? 0 : 1], sequence = c.dims(0)[batch_first ? 1 : 0];
  const Dim& input = c.dims(0)[2];
  const Dim& hidden = c.dims(2)[2];
  if (c.has_attribute("hidden_size") && hidden.known() &&
      hidden.extent != c.Int("hidden_size", 0)) {
    return Invalid("hidden_size is {}, R has {}", c.Int("hidden_size", 0), hidden.extent);
  }
  PX_ASSIGN_OR_RETURN(Dim gates, MulDims(hidden, Dim(4)));
  PX_ASSIGN_OR_RETURN(Dim biases, MulDims(hidden, Dim(8)));
  PX_ASSIGN_OR_RETURN(Dim peepholes, MulDims(hidden, Dim(3)));
  const Dim dirs(directions);
  PX_RETURN_IF_ERROR(CheckInput(c, 1, {dirs, gates, input}));
  PX_RETURN_IF_ERROR(CheckInput(c, 2, {dirs, gates, hidden}));
  PX_RETURN_IF_ERROR(CheckInput(c, 3, {dirs, biases}));
  PX_RETURN_IF_ERROR(CheckInput(c, 4, {batch}));
  const Dims state = batch_first ? Dims{batch, dirs, hidden} : Dims{dirs, batch, hidden};
  PX_RETURN_IF_ERROR(CheckInput(c, 5, state));
  PX_RETURN_IF_ERROR(CheckInput(c, 6, state));
  PX_RETURN_IF_ERROR(CheckInput(c, 7, {dirs, peepholes}));
  PX_RETURN_IF_ERROR(c.SetDims(
      0, batch_first ? Dims{batch, sequence, dirs, hidden} : Dims{sequence, dirs, batch, hidden}));
  PX_RETURN_IF_ERROR(c.SetDims(1, state));
  return c.SetDims(2, state);
}

Cost Estimate(const CostContext& c) {
  const double rows = static_cast<double>(c.input(0)[0]) * static_cast<double>(c.input(0)[1]);
  return {.op_class = OpClass::kMatMul,
          .flops = 2.0 * rows * static_cast<double>(c.input(1).elements() + c.input(2).elements())};
}

Result<LstmShape> ShapeOf(const BindContext& c) {
  LstmShape s;
  PX_ASSIGN_OR_RETURN(s.directions, DirectionsOf(c));
  PX_ASSIGN_OR_RETURN(std::vector<CellFunction> functions, FunctionsOf(c, s.directions));
  for (size_t i = 0; i < functions.size(); ++i) s.functions[i / 3][i % 3] = functions[i];
  s.first_is_reverse = c.String("direction", "forward") == "reverse";
  s.layout = BatchFirst(c) ? kernels::RecurrentLayout::kBatchFirst
                           : kernels::RecurrentLayout::kSequenceFirst;
  s.batch = c.input(0)[BatchFirst(c) ? 0 : 1];
  s.sequence = c.input(0)[BatchFirst(c) ? 1 : 0];
  s.input = c.input(0)[2];
  s.hidden = c.input(2)[2];
  s.input_forget = c.Int("input_forget", 0) != 0;
  s.clip = c.Float("clip", 0.0f);
  return s;
}

template <class T>
LstmTensors<T> Arguments(const KernelArgs& a) {
  LstmTensors<T> t;
  t.x = a.in<T>(0);
  t.w = a.in<T>(1);
  t.r = a.in<T>(2);
  t.b = a.in<T>(3);
  t.sequence_lens = a.in<int32_t>(4);
  t.initial_h = a.in<T>(5);
  t.initial_c = a.in<T>(6);
  t.p = a.in<T>(7);
  t.y = a.out<T>(0);
  t.y_h = a.out<T>(1);
  t.y_c = a.out<T>(2);
  return t;
}

Result<std::unique_ptr<Kernel>> BindF32(BindContext& c, const LstmShape& shape) {
  std::shared_ptr<const void> packed[2];
  for (int i : {1, 2}) {
    if (c.constant(i) == nullptr) continue;
    const int64_t columns = i == 1 ? shape.input : shape.hidden;
    PX_ASSIGN_OR_RETURN(
        packed[i - 1],
        c.Pack(i, fmt::format("lstm d{} {}", shape.directions, kernels::SimdTargetName()),
               kernels::PackedLstmWeightBytes(shape, columns),
               [&shape, columns](const Tensor& source, void* out) {
                 kernels::PackLstmWeights(shape, columns, source.bytes_begin(), out);
               }));
  }
  return MakeKernel(
      "lstm_f32",
      [shape, w = packed[0], r = packed[1]](const KernelArgs& a) {
        LstmTensors<float> t = Arguments<float>(a);
        t.packed_w = w.get();
        t.packed_r = r.get();
        kernels::Lstm<float>(shape, t, a.workspace(), a.team());
      },
      kernels::LstmWorkspaceBytes(shape, sizeof(float), c.team_size()));
}

// f16 and bf16: every float tensor has an f32 copy in the workspace.
Result<std::unique_ptr<Kernel>> BindHalf(BindContext& c, const LstmShape& shape) {
  const DType dtype = c.input_type(0);
  struct Copy {
    int64_t elements = 0;
    size_t offset = 0;
  };
  std::array<Copy, 8> in;
  std::array<Copy, 3> out;
  size_t at = 0;
  const auto place = [&at](Copy* copy, int64_t n) {
    *copy = {n, at};
    at += static_cast<size_t>(
        RoundUp(n * static_cast<int64_t>(sizeof(float)), static_cast<int64_t>(kAlignment)));
  };
  for (int i = 0; i < 8; ++i) {
    if (i != 4 && c.has_input(i)) place(&in[static_cast<size_t>(i)], c.input(i).elements());
  }
  for (int i = 0; i < 3; ++i) {
    if (c.has_output(i)) place(&out[static_cast<size_t>(i)], c.output(i).elements());
  }
  return MakeKernel(
      "lstm_via_f32",
      [=](const KernelArgs& a) {
        std::array<const void*, 8> inputs = {};
        std::array<void*, 3> outputs = {};
        for (int i = 0; i < 8; ++i) {
          const size_t k = static_cast<size_t>(i);
          if (a.raw_in(i) == nullptr || i == 4) {
            inputs[k] = a.raw_in(i);
            continue;
          }
          inputs[k] = a.workspace() + in[k].offset;
          kernels::Cast(dtype, DType::kF32, a.raw_in(i), a.workspace() + in[k].offset,
                        in[k].elements, a.team());
        }
        for (int i = 0; i < 3; ++i) {
          const size_t k = static_cast<size_t>(i);
          if (a.raw_out(i) != nullptr) outputs[k] = a.workspace() + out[k].offset;
        }
        const KernelArgs wide(inputs, outputs, nullptr, a.team());
        kernels::Lstm<float>(shape, Arguments<float>(wide), a.workspace() + at, a.team());
        for (int i = 0; i < 3; ++i) {
          const size_t k = static_cast<size_t>(i);
          if (a.raw_out(i) == nullptr) continue;
          kernels::Cast(DType::kF32, dtype, outputs[k], a.raw_out(i), out[k].elements, a.team());
        }
      },
      at + kernels::LstmWorkspaceBytes(shape, sizeof(float), c.team_size()));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(LstmShape shape, ShapeOf(c));
  if (c.input_type(0) == DType::kF32) return BindF32(c, shape);
  if (c.input_type(0) != DType::kF64) return BindHalf(c, shape);
  return MakeKernel(
      "lstm_f64",
      [shape](const KernelArgs& a) {
        kernels::Lstm<double>(shape, Arguments<double>(a), a.workspace(), a.team());
      },
      kernels::LstmWorkspaceBytes(shape, sizeof(double), c.team_size()));
}

}  // namespace

OpDef op_lstm() {
  OpDef def;
  def.name = "LSTM";
  def.since = 7;
  def.inputs = {{"X", kFloats, 'T'},
                {"W", kFloats, 'T'},
                {"R", kFloats, 'T'},
                {"B", kFloats, 'T', Arity::kOptional},
                {"sequence_lens", Bit(DType::kI32), 0, Arity::kOptional},
                {"initial_h", kFloats, 'T', Arity::kOptional},
                {"initial_c", kFloats, 'T', Arity::kOptional},
                {"P", kFloats, 'T', Arity::kOptional}};
  def.outputs = {{"Y", kFloats, 'T', Arity::kOptional},
                 {"Y_h", kFloats, 'T', Arity::kOptional},
                 {"Y_c", kFloats, 'T', Arity::kOptional}};
  def.attributes = {{.name = "activation_alpha", .type = AttributeType::kFloats},
                    {.name = "activation_beta", .type = AttributeType::kFloats},
                    {.name = "activations", .type = AttributeType::kStrings},
                    {.name = "clip", .type = AttributeType::kFloat},
                    {.name = "direction", .type = AttributeType::kString},
                    {.name = "hidden_size"},
                    {.name = "input_forget"},
                    {.name = "layout", .since = 14}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
