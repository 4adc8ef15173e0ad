// parallax::FusedMatMul: activation(alpha A' B' + bias + residual), or activation(alpha A' B' +
// bias) + residual; A and B may be batched and have their last two axes swapped. Made by passes, f32
// only.
//
// Inputs A, B (rank >= 2), optional bias of one value a column (leading extents of 1 allowed),
// optional residual of the output's shape. Attributes alpha, transA, transB and those of an epilogue
// (epilogue_op.h).
#include "ops/core/dims.h"
#include "ops/core/epilogue_op.h"
#include "ops/core/mat_mul_op.h"

namespace parallax::ops {
namespace {

Result<void> Infer(InferContext& c) {
  if (c.rank(0) == 1 || c.rank(1) == 1) return Invalid("an operand is a vector");
  PX_RETURN_IF_ERROR(InferMatMul(c));
  const Result<kernels::Epilogue> epilogue = ReadEpilogue(c);
  if (!epilogue.ok()) return epilogue.error();
  return {};
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  const Shape& out = c.output(0);
  kernels::GemmEpilogue epilogue;
  epilogue.alpha = c.Float("alpha", 1.0f);
  PX_ASSIGN_OR_RETURN(epilogue.then, ReadEpilogue(c));
  GemmAddends addends;
  if (c.has_input(2)) {
    const Shape& bias = c.input(2);
    const int64_t columns = out[out.rank() - 1];
    if (bias.rank() == 0 || bias.elements() != columns || bias[bias.rank() - 1] != columns) {
      return Invalid("the bias is {}, the output {}", bias.ToString(), out.ToString());
    }
    addends.bias = 2;
  }
  if (c.has_input(3)) {
    if (!(c.input(3) == out)) {
      return Invalid("the residual is {}, the output {}", c.input(3).ToString(), out.ToString());
    }
    addends.residual = 3;
  }
  return BindGemm(c, MatMulShape(c.input(0), c.input(1), TransposesOf(c)), epilogue, addends);
}

}  // namespace

OpDef op_fused_mat_mul() {
  OpDef def;
  def.name = "FusedMatMul";
  def.domain = "parallax";
  def.inputs = {{"A", Bit(DType::kF32), 'T'},
                {"B", Bit(DType::kF32), 'T'},
                {"bias", Bit(DType::kF32), 'T', Arity::kOptional},
                {"R", Bit(DType::kF32), 'T', Arity::kOptional}};
  def.outputs = {{"Y", Bit(DType::kF32), 'T'}};
  def.attributes = {
      {.name = "alpha", .type = AttributeType::kFloat}, {.name = "transA"}, {.name = "transB"}};
  for (const AttributeDef& a : EpilogueAttributes()) def.attributes.push_back(a);
  def.infer = Infer;
  def.cost = MatMulCost;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
