#include "ops/core/recurrent_op.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "kernels/recurrent/generic_recurrent.h"
#include "ops/core/dims.h"

namespace parallax::ops {
namespace {

using kernels::CellActivation;
using kernels::CellFunction;
using kernels::CellKind;
using kernels::RecurrentShape;
using kernels::RecurrentTensors;

enum Input { kX, kW, kR, kB, kSequenceLens, kInitialH, kInitialC, kP };

struct NamedFunction {
  std::string_view name;  // in lower case: exporters differ
  CellActivation kind;
  bool takes_alpha = false, takes_beta = false;
  float alpha = 0, beta = 0;  // defaults: those of the operators of that name
};
constexpr NamedFunction kFunctions[] = {
    {"relu", CellActivation::kRelu},
    {"tanh", CellActivation::kTanh},
    {"sigmoid", CellActivation::kSigmoid},
    {"affine", CellActivation::kAffine, true, true, 1.0f, 0.0f},
    {"leakyrelu", CellActivation::kLeakyRelu, true, false, 0.01f},
    {"thresholdedrelu", CellActivation::kThresholdedRelu, true, false, 1.0f},
    {"scaledtanh", CellActivation::kScaledTanh, true, true, 1.0f, 1.0f},
    {"hardsigmoid", CellActivation::kHardSigmoid, true, true, 0.2f, 0.5f},
    {"elu", CellActivation::kElu, true, false, 1.0f},
    {"softsign", CellActivation::kSoftsign},
    {"softplus", CellActivation::kSoftplus}};

Result<const NamedFunction*> FindFunction(const std::string& name) {
  std::string lower = name;
  std::transform(name.begin(), name.end(), lower.begin(),
                 [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
  for (const NamedFunction& f : kFunctions) {
    if (f.name == lower) return &f;
  }
  return Invalid("activation '{}' is not known", name);
}

// Everything that attributes say. Extents are left at 0.
Result<RecurrentShape> ReadAttributes(const NodeContext& c, CellKind cell) {
  RecurrentShape s;
  s.cell = cell;
  const std::string_view direction = c.String("direction", "forward");
  if (direction == "bidirectional") {
    s.directions = 2;
  } else if (direction == "reverse") {
    s.first_is_reverse = true;
  } else if (direction != "forward") {
    return Invalid("direction is '{}', should be forward, reverse or bidirectional", direction);
  }
  const int64_t layout = c.Int("layout", 0);
  if (layout != 0 && layout != 1) return Invalid("layout is {}, should be 0 or 1", layout);
  if (layout == 1) s.layout = kernels::RecurrentLayout::kBatchFirst;
  s.linear_before_reset = c.Int("linear_before_reset", 0) != 0;
  s.input_forget = c.Int("input_forget", 0) != 0;
  if (c.has_attribute("clip")) {
    s.clip = c.Float("clip", 0.0f);
    if (!(s.clip > 0)) return Invalid("clip is {}, should be above 0", s.clip);
  }
  if (c.has_attribute("hidden_size") && c.Int("hidden_size", 0) < 1) {
    return Invalid("hidden_size is {}", c.Int("hidden_size", 0));
  }

  const int each = kernels::FunctionsOf(cell);
  const size_t wanted = static_cast<size_t>(each * s.directions);
  std::vector<std::string> names;
  if (const std::vector<std::string>* given = c.node().attributes.Strings("activations")) {
    names = *given;
    // The schema's default of RNN has two whatever the direction.
    if (cell == CellKind::kRnn && names.size() == 2) names.resize(wanted);
  } else {
    for (int d = 0; d < s.directions; ++d) {
      if (cell != CellKind::kRnn) names.push_back("sigmoid");
      while (names.size() < static_cast<size_t>((d + 1) * each)) names.push_back("tanh");
    }
  }
  if (names.size() != wanted) {
    return Invalid("activations has {} names, should have {}", names.size(), wanted);
  }
  // The lists give values to those functions that take one, in turn.
  const std::vector<float>* alphas = c.node().attributes.Floats("activation_alpha");
  const std::vector<float>* betas = c.node().attributes.Floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    PX_ASSIGN_OR_RETURN(const NamedFunction* f, FindFunction(names[i]));
    CellFunction function{f->kind, f->alpha, f->beta};
    if (f->takes_alpha && alphas != nullptr && next_alpha < alphas->size()) {
      function.alpha = (*alphas)[next_alpha++];
    }
    if (f->takes_beta && betas != nullptr && next_beta < betas->size()) {
      function.beta = (*betas)[next_beta++];
    }
    s.functions[i / static_cast<size_t>(each)][i % static_cast<size_t>(each)] = function;
  }
  return s;
}

bool BatchFirst(const RecurrentShape& s) {
  return s.layout == kernels::RecurrentLayout::kBatchFirst;
}

// Input i, where given, has extents that agree with `wanted`, which become more precise.
Result<void> Agree(const InferContext& c, int i, std::string_view name,
                   std::initializer_list<Dim*> wanted) {
  if (!c.has_input(i) || c.rank(i) < 0) return {};
  const Dims& found = c.dims(i);
  Dims should;
  for (const Dim* d : wanted) should.push_back(*d);
  bool fits = found.size() == should.size();
  for (size_t k = 0; fits && k < found.size(); ++k) {
    Result<Dim> merged = MergeDim(should[k], found[k], name);
    fits = merged.ok();
    if (fits) *wanted.begin()[k] = *merged;
  }
  if (!fits) {
    return Invalid("{} has shape {}, should be {}", name, DimsToString(found),
                   DimsToString(should));
  }
  return {};
}

// Input i, a list of `times` values a hidden unit.
Result<void> AgreeMultiple(const InferContext& c, int i, std::string_view name, Dim directions,
                           const Dim& hidden, int64_t times) {
  PX_ASSIGN_OR_RETURN(Dim total, MulDims(hidden, Dim(times)));
  return Agree(c, i, name, {&directions, &total});
}

Result<void> CheckLengths(const RecurrentShape& s, const int32_t* lens) {
  for (int64_t b = 0; lens != nullptr && b < s.batch; ++b) {
    if (lens[b] < 0 || lens[b] > s.sequence) {
      return MakeError(ErrorCode::kInvalidArgument, "sequence_lens[{}] is {}, should be in [0, {}]",
                       b, lens[b], s.sequence);
    }
  }
  return {};
}

template <class T>
RecurrentTensors<T> Arguments(const KernelArgs& a) {
  RecurrentTensors<T> t;
  t.x = a.in<T>(kX);
  t.w = a.in<T>(kW);
  t.r = a.in<T>(kR);
  t.b = a.in<T>(kB);
  t.sequence_lens = a.in<int32_t>(kSequenceLens);
  t.initial_h = a.in<T>(kInitialH);
  t.initial_c = a.in<T>(kInitialC);
  t.p = a.in<T>(kP);
  t.y = a.out<T>(0);
  t.y_h = a.out<T>(1);
  t.y_c = a.out<T>(2);
  return t;
}

std::string_view CellName(CellKind cell) {
  return cell == CellKind::kRnn ? "rnn" : cell == CellKind::kGru ? "gru" : "lstm";
}

Result<std::unique_ptr<Kernel>> BindF32(BindContext& c, const RecurrentShape& s) {
  std::shared_ptr<const void> w, r;
  const std::string layout =
      fmt::format("{}{} d{} h{} {}", CellName(s.cell), s.linear_before_reset ? " linear" : "",
                  s.directions, s.hidden, kernels::SimdTargetName());
  if (c.constant(kW) != nullptr) {
    PX_ASSIGN_OR_RETURN(
        w, c.Pack(kW, fmt::format("{} w i{}", layout, s.input), kernels::PackedInputBytes(s),
                  [&s](const Tensor& source, void* out) {
                    kernels::PackInputWeights(s, source.bytes_begin(), out);
                  }));
  }
  if (c.constant(kR) != nullptr) {
    PX_ASSIGN_OR_RETURN(r, c.Pack(kR, layout + " r", kernels::PackedRecurrenceBytes(s),
                                  [&s](const Tensor& source, void* out) {
                                    kernels::PackRecurrenceWeights(s, source.bytes_begin(), out);
                                  }));
  }
  const kernels::RecurrentPlan plan =
      kernels::PlanRecurrent(s, {.w = w != nullptr, .r = r != nullptr});
  return MakeKernel(
      fmt::format("{}_f32", CellName(s.cell)),
      [=](const KernelArgs& a) -> Result<void> {
        RecurrentTensors<float> t = Arguments<float>(a);
        PX_RETURN_IF_ERROR(CheckLengths(plan.shape, t.sequence_lens));
        if (w != nullptr) t.w = static_cast<const float*>(w.get());
        if (r != nullptr) t.r = static_cast<const float*>(r.get());
        kernels::Recurrent(plan, t, a.workspace(), a.team());
        return {};
      },
      kernels::RecurrentWorkspaceBytes(plan, c.team_size()));
}

template <class Acc, class T>
std::unique_ptr<Kernel> BindGeneric(const RecurrentShape& s) {
  return MakeKernel(
      fmt::format("{}_portable", CellName(s.cell)),
      [s](const KernelArgs& a) -> Result<void> {
        const RecurrentTensors<T> t = Arguments<T>(a);
        PX_RETURN_IF_ERROR(CheckLengths(s, t.sequence_lens));
        kernels::GenericRecurrent<Acc, T>(s, t, a.workspace(), a.team());
        return {};
      },
      kernels::GenericRecurrentBytes<Acc>(s));
}

}  // namespace

OpDef RecurrentDef(std::string_view name) {
  OpDef def;
  def.name = name;
  def.inputs = {{"X", kFloats, 'T'},
                {"W", kFloats, 'T'},
                {"R", kFloats, 'T'},
                {"B", kFloats, 'T', Arity::kOptional},
                {"sequence_lens", Bit(DType::kI32), 0, Arity::kOptional},
                {"initial_h", kFloats, 'T', Arity::kOptional}};
  def.outputs = {{"Y", kFloats, 'T', Arity::kOptional}, {"Y_h", kFloats, 'T', Arity::kOptional}};
  def.attributes = {{.name = "activation_alpha", .type = AttributeType::kFloats},
                    {.name = "activation_beta", .type = AttributeType::kFloats},
                    {.name = "activations", .type = AttributeType::kStrings},
                    {.name = "clip", .type = AttributeType::kFloat},
                    {.name = "direction", .type = AttributeType::kString},
                    {.name = "hidden_size"},
                    {.name = "layout", .since = 14}};
  def.cost = RecurrentCost;
  return def;
}

Result<void> InferRecurrent(InferContext& c, CellKind cell) {
  PX_ASSIGN_OR_RETURN(RecurrentShape s, ReadAttributes(c, cell));
  Dim directions(s.directions), sequence, batch, input, hidden, gates;
  if (c.has_attribute("hidden_size")) hidden = Dim(c.Int("hidden_size", 0));
  // R first: it says what hidden is where the attribute does not.
  PX_RETURN_IF_ERROR(Agree(c, kR, "R", {&directions, &gates, &hidden}));
  PX_ASSIGN_OR_RETURN(Dim rows, MulDims(hidden, Dim(kernels::GatesOf(cell))));
  PX_RETURN_IF_ERROR(Agree(c, kR, "R", {&directions, &rows, &hidden}));
  if (BatchFirst(s)) {
    PX_RETURN_IF_ERROR(Agree(c, kX, "X", {&batch, &sequence, &input}));
  } else {
    PX_RETURN_IF_ERROR(Agree(c, kX, "X", {&sequence, &batch, &input}));
  }
  PX_RETURN_IF_ERROR(Agree(c, kW, "W", {&directions, &rows, &input}));
  PX_RETURN_IF_ERROR(AgreeMultiple(c, kB, "B", directions, hidden, 2 * kernels::GatesOf(cell)));
  PX_RETURN_IF_ERROR(Agree(c, kSequenceLens, "sequence_lens", {&batch}));
  for (int i : {kInitialH, kInitialC}) {
    const std::string_view name = i == kInitialH ? "initial_h" : "initial_c";
    if (BatchFirst(s)) {
      PX_RETURN_IF_ERROR(Agree(c, i, name, {&batch, &directions, &hidden}));
    } else {
      PX_RETURN_IF_ERROR(Agree(c, i, name, {&directions, &batch, &hidden}));
    }
  }
  PX_RETURN_IF_ERROR(AgreeMultiple(c, kP, "P", directions, hidden, 3));

  const Dims state =
      BatchFirst(s) ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  PX_RETURN_IF_ERROR(c.SetDims(0, BatchFirst(s) ? Dims{batch, sequence, directions, hidden}
                                                : Dims{sequence, directions, batch, hidden}));
  PX_RETURN_IF_ERROR(c.SetDims(1, state));
  return c.SetDims(2, state);
}

Cost RecurrentCost(const CostContext& c) {
  const double rows = static_cast<double>(c.input(kX).Elements(0, 2));
  const double weights =
      static_cast<double>(c.input(kW).elements()) + static_cast<double>(c.input(kR).elements());
  return {.op_class = OpClass::kMatMul, .flops = 2.0 * rows * weights};
}

Result<std::unique_ptr<Kernel>> BindRecurrent(BindContext& c, CellKind cell) {
  PX_ASSIGN_OR_RETURN(RecurrentShape s, ReadAttributes(c, cell));
  s.batch = c.input(kX)[BatchFirst(s) ? 0 : 1];
  s.sequence = c.input(kX)[BatchFirst(s) ? 1 : 0];
  s.input = c.input(kX)[2];
  s.hidden = c.input(kR)[2];
  s.has_sequence_lens = c.has_input(kSequenceLens);
  // Workspace holds at most this many bytes a state or a row of weights.
  std::optional<int64_t> units = CheckedAdd(s.batch, s.input);
  if (units) units = CheckedAdd(*units, s.hidden + 64);
  if (units) units = CheckedMul(*units, s.hidden + 64);
  if (units) units = CheckedMul(*units, 1024);
  if (!units) return Invalid("batch {} and hidden size {} are too large", s.batch, s.hidden);
  switch (c.input_type(kX)) {
    case DType::kF32:
      return BindF32(c, s);
    case DType::kF64:
      return BindGeneric<double, double>(s);
    case DType::kF16:
      return BindGeneric<float, F16>(s);
    default:
      return BindGeneric<float, BF16>(s);
  }
}

}  // namespace parallax::ops
