// Dropout, inference: y = x, and a mask of ones if asked for. Training (training_mode, opset 12) is
// refused: it needs random numbers that no two runtimes share.
#include <cstring>

#include "ops/core/copy.h"
#include "ops/core/infer_context.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.has_input(2)) {
    const std::optional<std::vector<int64_t>> training = c.ConstantInts(2);
    if (training && !training->empty() && (*training)[0] != 0) {
      return MakeError(ErrorCode::kUnsupported, "training_mode = true is not supported");
    }
  }
  c.SetDType(1, c.opset() >= 10 ? DType::kBool : c.dtype(0));
  PX_RETURN_IF_ERROR(c.SetSameAsInput(1, 0));
  return c.SetSameAsInput(0, 0);
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const size_t bytes = static_cast<size_t>(c.input(0).elements()) * SizeOf(c.input_type(0));
  const int64_t n = c.input(0).elements();
  const DType mask = c.has_output(1) ? c.output_type(1) : DType::kBool;
  return MakeKernel("dropout", [=](const KernelArgs& a) -> Result<void> {
    if (a.raw_in(2) != nullptr && *a.in<bool>(2)) {
      return MakeError(ErrorCode::kUnsupported, "training_mode = true is not supported");
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
                {"ratio", kFloats, 0, Arity::kOptional, 12},
                {"training_mode", kBools, 0, Arity::kOptional, 12}};
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
