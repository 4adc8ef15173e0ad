// Einsum: products of any number of operands summed over labels, by an equation with ellipses,
// repeated labels and extents of 1 that broadcast. f32 on SIMD, constant operands packed once where
// the product reads them as they lie; f16 and bf16 in f32, rounded once; f64 and integers (which
// wrap) portable. Since opset 12.
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "kernels/elementwise/binary.h"
#include "kernels/elementwise/cast.h"
#include "kernels/gemm/generic_gemm.h"
#include "ops/core/bind_context.h"
#include "ops/core/dims.h"
#include "ops/core/einsum_plan.h"
#include "ops/core/infer_context.h"
#include "ops/core/op_def.h"

namespace parallax::ops {
namespace {

using kernels::GemmShape;

Result<void> Infer(InferContext& c) {
  PX_ASSIGN_OR_RETURN(Equation e, ParseEquation(c.String("equation"), c.num_inputs()));
  std::map<int, Dim> dims;
  bool all_ranked = true;
  int ellipsis = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const EinsumLabels& term = e.terms[static_cast<size_t>(i)];
    std::map<int, Dim> own;
    if (c.rank(i) < 0) {
      all_ranked = false;
      for (int label : term) own[label] = Dim();
      own.erase(kEllipsis);
    } else {
      PX_ASSIGN_OR_RETURN(int axes, EllipsisAxes(term, c.rank(i), i));
      ellipsis = std::max(ellipsis, axes);
      const EinsumLabels labels = Expand(term, axes);
      for (size_t d = 0; d < labels.size(); ++d) {
        auto [at, first] = own.emplace(labels[d], c.dims(i)[d]);
        if (first) continue;
        PX_ASSIGN_OR_RETURN(at->second,
                            MergeDim(at->second, c.dims(i)[d], "extents of a repeated label"));
      }
    }
    for (const auto& [label, dim] : own) {
      auto [at, first] = dims.emplace(label, dim);
      if (first) continue;
      Result<Dim> joint = BroadcastDim(at->second, dim);
      if (!joint.ok()) {
        const std::string name = label < kEllipsis ? fmt::format("'{}'", static_cast<char>(label))
                                                   : std::string("an axis of the ellipsis");
        return Invalid("operand {}: {} has extent {}, another operand has {}", i, name, dim.extent,
                       at->second.extent);
      }
      at->second = *joint;
    }
  }
  // An operand of unknown rank may have more axes under the ellipsis.
  if (HasEllipsis(e.output) && !all_ranked) return {};
  Dims out;
  for (int label : Expand(e.output, ellipsis)) out.push_back(dims[label]);
  return c.SetDims(0, std::move(out));
}

Result<EinsumPlan> PlanOf(const ShapedContext& c) {
  PX_ASSIGN_OR_RETURN(Equation e, ParseEquation(c.String("equation"), c.num_inputs()));
  std::vector<Shape> shapes;
  int ellipsis = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    EinsumLabels& term = e.terms[static_cast<size_t>(i)];
    PX_ASSIGN_OR_RETURN(int axes, EllipsisAxes(term, c.input(i).rank(), i));
    ellipsis = std::max(ellipsis, axes);
    term = Expand(term, axes);
    shapes.push_back(c.input(i));
  }
  return PlanEinsum(e.terms, shapes, Expand(e.output, ellipsis));
}

Cost Estimate(const CostContext& c) {
  Cost cost{.op_class = OpClass::kMove};
  Result<EinsumPlan> plan = PlanOf(c);
  if (!plan.ok()) return cost;
  cost.flops = plan->flops;
  for (const EinsumStep& step : plan->steps) {
    if (std::holds_alternative<GemmShape>(step.work)) {
      cost.op_class = OpClass::kMatMul;
    } else if (cost.op_class != OpClass::kMatMul &&
               !std::holds_alternative<kernels::CopyPlan>(step.work)) {
      cost.op_class = std::holds_alternative<kernels::ReducePlan>(step.work)
                          ? OpClass::kReduce
                          : OpClass::kElementwise;
    }
  }
  return cost;
}

// A step bound for execution.
struct BoundStep {
  EinsumStep step;
  kernels::GemmPlan gemm;              // f32 only
  std::shared_ptr<const void> packed;  // the constant operand of a product
};

using ReadPlace = FunctionRef<const std::byte*(const EinsumPlace&)>;

template <class T>
void RunStep(const BoundStep& bound, DType dtype, ReadPlace at, std::byte* out, void* scratch,
             Team& team) {
  const EinsumStep& s = bound.step;
  const std::byte* a = at(s.a);
  if (const auto* copy = std::get_if<kernels::CopyPlan>(&s.work)) {
    kernels::StridedCopy(*copy, sizeof(T), a, out, team);
  } else if (const auto* sum = std::get_if<kernels::ReducePlan>(&s.work)) {
    kernels::Reduce(kernels::ReduceOp::kSum, dtype, *sum, a, out, team);
  } else if (const auto* product = std::get_if<kernels::BroadcastPlan>(&s.work)) {
    kernels::Binary(kernels::BinaryOp::kMul, dtype, *product, a, at(s.b), out, team);
  } else if constexpr (std::is_same_v<T, float>) {
    const auto operand = [&](kernels::PackedOperand side, const EinsumPlace& place) {
      return static_cast<const float*>(bound.packed != nullptr && bound.gemm.shape.packed == side
                                           ? bound.packed.get()
                                           : at(place));
    };
    kernels::Gemm(bound.gemm, operand(kernels::PackedOperand::kA, s.a),
                  operand(kernels::PackedOperand::kB, s.b), reinterpret_cast<float*>(out), {},
                  scratch, team);
  } else if constexpr (std::is_integral_v<T>) {
    using Acc = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;  // wraps
    kernels::GenericGemm<Acc>(std::get<GemmShape>(s.work), reinterpret_cast<const T*>(a),
                              reinterpret_cast<const T*>(at(s.b)), reinterpret_cast<T*>(out), {},
                              team);
  } else {
    kernels::GenericGemm<T>(std::get<GemmShape>(s.work), reinterpret_cast<const T*>(a),
                            reinterpret_cast<const T*>(at(s.b)), reinterpret_cast<T*>(out), {},
                            team);
  }
}

bool SharedByBatch(const int64_t* strides, const GemmShape& g) {
  for (int i = 0; i < g.batch.rank; ++i) {
    if (strides[i] != 0 && g.batch.extents[i] > 1) return false;
  }
  return true;
}

// Packs a constant operand that the product reads as it lies.
Result<void> PackConstant(BindContext& c, GemmShape* g, BoundStep* bound) {
  const auto constant = [&](const EinsumPlace& place) {
    return place.kind == EinsumPlace::Kind::kOperand &&
           c.constant(static_cast<int>(place.at)) != nullptr;
  };
  const int64_t m = g->m, n = g->n, k = g->k;
  if (constant(bound->step.b) && SharedByBatch(g->batch.b_strides, *g)) {
    g->packed = kernels::PackedOperand::kB;
    const auto trans = g->trans_b;
    const int64_t ld = g->ldb;
    PX_ASSIGN_OR_RETURN(bound->packed,
                        c.Pack(static_cast<int>(bound->step.b.at),
                               fmt::format("gemm_b k{} n{} t{} ld{} {}", k, n,
                                           static_cast<int>(trans), ld, kernels::SimdTargetName()),
                               kernels::PackedBBytes(k, n), [=](const Tensor& source, void* out) {
                                 kernels::PackB(k, n, trans, ld, source.bytes_begin(), out);
                               }));
  } else if (constant(bound->step.a) && SharedByBatch(g->batch.a_strides, *g)) {
    g->packed = kernels::PackedOperand::kA;
    const auto trans = g->trans_a;
    const int64_t ld = g->lda;
    PX_ASSIGN_OR_RETURN(bound->packed,
                        c.Pack(static_cast<int>(bound->step.a.at),
                               fmt::format("gemm_a m{} k{} t{} ld{} {}", m, k,
                                           static_cast<int>(trans), ld, kernels::SimdTargetName()),
                               kernels::PackedABytes(m, k), [=](const Tensor& source, void* out) {
                                 kernels::PackA(m, k, trans, ld, source.bytes_begin(), out);
                               }));
  }
  return {};
}

// Bytes of `n` elements, up to a cache line.
size_t Room(int64_t n, size_t element) {
  return static_cast<size_t>(
      RoundUp(n * static_cast<int64_t>(element), static_cast<int64_t>(kAlignment)));
}

Result<std::unique_ptr<Kernel>> Bind(BindContext& c) {
  PX_ASSIGN_OR_RETURN(EinsumPlan plan, PlanOf(c));
  const DType dtype = c.output_type(0);
  const bool half = dtype == DType::kF16 || dtype == DType::kBF16;
  const bool f32 = dtype == DType::kF32 || half;
  const size_t element = half ? sizeof(float) : SizeOf(dtype);

  std::vector<BoundStep> steps;
  size_t scratch_bytes = 0;
  const char* name = "einsum_copy";
  for (EinsumStep& step : plan.steps) {
    BoundStep& bound = steps.emplace_back(BoundStep{std::move(step), {}, nullptr});
    if (std::holds_alternative<kernels::ReducePlan>(bound.step.work)) name = "einsum_sum";
    if (std::holds_alternative<kernels::BroadcastPlan>(bound.step.work)) name = "einsum_multiply";
    if (auto* g = std::get_if<GemmShape>(&bound.step.work)) {
      name = "einsum_gemm";
      if (!f32) continue;
      if (!half) PX_RETURN_IF_ERROR(PackConstant(c, g, &bound));
      bound.gemm = kernels::PlanGemm(*g);
      scratch_bytes =
          std::max(scratch_bytes, kernels::GemmWorkspaceBytes(bound.gemm, c.team_size()));
    }
  }

  // Workspace: temporaries, f32 copies of 16-bit operands and of the result, GEMM's own.
  size_t bytes = Room(plan.temporary_elements, element);
  std::vector<std::pair<int64_t, size_t>> copies;  // elements and offset
  const int64_t results = c.output(0).elements();
  size_t result_at = 0;
  if (half) {
    for (int i = 0; i < c.num_inputs(); ++i) {
      copies.emplace_back(c.input(i).elements(), bytes);
      bytes += Room(copies.back().first, element);
    }
    result_at = bytes;
    bytes += Room(results, element);
  }
  const size_t scratch_at = bytes;
  return MakeKernel(
      fmt::format("{}{}", name,
                  half  ? "_via_f32"
                  : f32 ? ""
                        : "_portable"),
      [=, steps = std::move(steps)](const KernelArgs& a) {
        const auto write = [&](const EinsumPlace& p) {
          if (p.kind == EinsumPlace::Kind::kTemporary) {
            return a.workspace() + static_cast<size_t>(p.at) * element;
          }
          return half ? a.workspace() + result_at : a.out<std::byte>(0);
        };
        const auto read = [&](const EinsumPlace& p) -> const std::byte* {
          if (p.kind != EinsumPlace::Kind::kOperand) return write(p);
          return half ? a.workspace() + copies[static_cast<size_t>(p.at)].second
                      : a.in<std::byte>(static_cast<int>(p.at));
        };
        for (size_t i = 0; i < copies.size(); ++i) {
          kernels::Cast(dtype, DType::kF32, a.raw_in(static_cast<int>(i)),
                        a.workspace() + copies[i].second, copies[i].first, a.team());
        }
        std::byte* scratch = a.workspace() + scratch_at;
        DispatchType(half ? DType::kF32 : dtype, [&]<class T>() {
          if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
            for (const BoundStep& s : steps) {
              RunStep<T>(s, kDTypeOf<T>, read, write(s.step.out), scratch, a.team());
            }
          }
        });
        if (half) {
          kernels::Cast(DType::kF32, dtype, a.workspace() + result_at, a.raw_out(0), results,
                        a.team());
        }
      },
      scratch_at + scratch_bytes);
}

}  // namespace

OpDef op_einsum() {
  OpDef def;
  def.name = "Einsum";
  def.since = 12;
  def.inputs = {{"Inputs", kNumbers, 'T', Arity::kVariadic}};
  def.outputs = {{"Output", kNumbers, 'T'}};
  def.attributes = {{.name = "equation", .type = AttributeType::kString, .required = true}};
  def.infer = Infer;
  def.cost = Estimate;
  def.bind = Bind;
  return def;
}

}  // namespace parallax::ops
