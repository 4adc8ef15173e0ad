// Dropout: y = x, and a mask of ones if asked for, in inference and when nothing is dropped
// (ratio 0). Other training (training_mode, opset 12) is refused: it needs random numbers that no
// two runtimes share. The mask is of the data's type until opset 9, bools since 10.
#include <cstring>
#include <optional>

#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

constexpr double kDefaultRatio = 0.5;

double ReadFloat(DType dtype, const std::byte* bytes) {
  double value = 0;
  DispatchType(dtype, [&]<class T>() {
    T v;
    std::memcpy(&v, bytes, sizeof v);
    value = static_cast<double>(v);
  });
  return value;
}

Error Training(double ratio) {
  return MakeError(ErrorCode::kUnsupported, "training_mode = true with ratio {} is not supported",
                   ratio);
}

Result<void> CheckSingle(const InferContext& c, int i, std::string_view name) {
  if (!c.has_input(i)) return {};
  if (std::optional<Shape> s = c.type(i).shape(); s && s->elements() != 1) {
    return Invalid("{} should have one element, has shape {}", name, s->ToString());
  }
  return {};
}

Result<void> Infer(InferContext& c) {
  PX_RETURN_IF_ERROR(CheckSingle(c, 1, "ratio"));
  PX_RETURN_IF_ERROR(CheckSingle(c, 2, "training_mode"));
  if (const Tensor* training = c.has_input(2) ? c.constant(2) : nullptr) {
    // A ratio that is not known yet is looked at when it runs.
    std::optional<double> ratio;
    if (!c.has_input(1)) ratio = kDefaultRatio;
    if (const Tensor* t = c.has_input(1) ? c.constant(1) : nullptr) {
      ratio = ReadFloat(t->dtype(), t->bytes_begin());
    }
    const bool trains = *reinterpret_cast<const unsigned char*>(training->bytes_begin()) != 0;
    if (trains && ratio && *ratio != 0) return Training(*ratio);
  }
  c.SetDType(1, c.opset() >= 10 ? DType::kBool : c.dtype(0));
  PX_RETURN_IF_ERROR(c.SetSameAsInput(1, 0));
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const size_t bytes = static_cast<size_t>(c.input(0).elements()) * SizeOf(c.input_type(0));
  const int64_t n = c.input(0).elements();
  const DType ratio_type = c.has_input(1) ? c.input_type(1) : DType::kF32;
  const DType mask = c.has_output(1) ? c.output_type(1) : DType::kBool;
  return MakeKernel("dropout", [=](const KernelArgs& a) -> Result<void> {
    if (a.raw_in(2) != nullptr && *a.in<bool>(2)) {
      const double ratio =
          a.raw_in(1) != nullptr ? ReadFloat(ratio_type, a.in<std::byte>(1)) : kDefaultRatio;
      if (ratio != 0) return Training(ratio);
    }
    if (a.raw_out(0) != nullptr && bytes > 0 && a.raw_in(0) != a.raw_out(0)) {
      std::memcpy(a.raw_out(0), a.raw_in(0), bytes);
    }
    if (a.raw_out(1) != nullptr) {
      DispatchType(mask, [&]<class T>() {
        for (int64_t i = 0; i < n; ++i) a.out<T>(1)[i] = T(1);
      });
    }
    return {};
  });
}

}  // namespace

OpDef op_dropout() {
  OpDef def;
  def.name = "Dropout";
  def.inputs = {{"data", kFloats, 'T'},
                Steers({"ratio", kFloats, 0, Arity::kOptional, 12}),
                Steers({"training_mode", kBools, 0, Arity::kOptional, 12})};
  def.outputs = {{"output", kFloats, 'T'}, {"mask", kFloats | kBools, 0, Arity::kOptional}};
  def.attributes = {{.name = "ratio", .type = AttributeType::kFloat, .until = 11},
                    {.name = "seed", .since = 12}};
  def.aliases = {{.input = 0, .output = 0}};
  def.infer = Infer;
  def.cost = MoveCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
