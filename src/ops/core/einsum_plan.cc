#include "ops/core/einsum_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "ops/core/node_context.h"

namespace parallax::ops {
namespace {

using kernels::GemmShape;
using Kind = EinsumPlace::Kind;

struct Axis {
  int label = 0;
  int64_t extent = 1, stride = 1;
};
using Axes = std::vector<Axis>;  // extents of 1 are never kept

// A tensor on its way: an operand as it lies, or a temporary.
struct Value {
  EinsumPlace place;
  Axes axes;
};

const Axis* Find(const Axes& axes, int label) {
  for (const Axis& a : axes) {
    if (a.label == label) return &a;
  }
  return nullptr;
}
bool Has(const Axes& axes, int label) { return Find(axes, label) != nullptr; }

// The axes with these labels, in that order; labels that `axes` lacks are left out.
Axes Select(const Axes& axes, const EinsumLabels& labels) {
  Axes out;
  for (int label : labels) {
    if (const Axis* a = Find(axes, label)) out.push_back(*a);
  }
  return out;
}
EinsumLabels LabelsOf(const Axes& axes) {
  EinsumLabels labels;
  for (const Axis& a : axes) labels.push_back(a.label);
  return labels;
}
EinsumLabels Joined(EinsumLabels a, const EinsumLabels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double Size(const Axes& axes) {
  double n = 1;
  for (const Axis& a : axes) n *= static_cast<double>(a.extent);
  return n;
}
int64_t Elements(const Axes& axes) {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.extent;
  return n;
}

// The same axes, packed row by row.
Axes Packed(Axes axes) {
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    axes[i].stride = stride;
    stride *= axes[i].extent;
  }
  return axes;
}
bool IsPacked(const Axes& axes) {
  const Axes packed = Packed(axes);
  return std::equal(axes.begin(), axes.end(), packed.begin(),
                    [](const Axis& x, const Axis& y) { return x.stride == y.stride; });
}

// Several axes as one, or nothing where their strides do not follow from each other.
std::optional<Axis> Merge(const Axes& axes) {
  if (axes.empty()) return Axis{};
  Axis merged = axes[0];
  for (size_t i = 1; i < axes.size(); ++i) {
    if (merged.stride != axes[i].stride * axes[i].extent) return std::nullopt;
    merged.extent *= axes[i].extent;
    merged.stride = axes[i].stride;
  }
  return merged;
}

// A matrix as GEMM reads it.
struct Matrix {
  kernels::Transpose trans = kernels::Transpose::kNo;
  int64_t ld = 0;
};
std::optional<Matrix> AsMatrix(const Axes& rows, const Axes& columns) {
  const std::optional<Axis> r = Merge(rows), c = Merge(columns);
  if (!r || !c) return std::nullopt;
  // A single row has no step to the next one: any valid one will do.
  if (c->extent <= 1 || c->stride == 1) {
    return Matrix{kernels::Transpose::kNo,
                  r->extent <= 1 ? std::max<int64_t>(1, c->extent) : r->stride};
  }
  if (r->extent <= 1 || r->stride == 1) return Matrix{kernels::Transpose::kYes, c->stride};
  return std::nullopt;
}

// How a pair of operands becomes one batched matrix product.
struct Product {
  bool swapped = false;  // the second operand is the left matrix
  EinsumLabels batch, m, n, k;
  std::optional<Matrix> a, b, c;  // nothing: through a packed copy
  double copied = std::numeric_limits<double>::infinity();
};

class Planner {
 public:
  Planner(const std::vector<EinsumLabels>& terms, std::span<const Shape> shapes,
          const EinsumLabels& output) {
    for (size_t i = 0; i < terms.size(); ++i) {
      values_.push_back(Operand(static_cast<int64_t>(i), terms[i], shapes[i]));
    }
    for (int label : output) {
      for (const Value& v : values_) {
        if (const Axis* a = Find(v.axes, label)) {
          result_.push_back(*a);
          break;
        }
      }
    }
    result_ = Packed(result_);
  }

  Result<EinsumPlan> Run() {
    while (values_.size() > 1) {
      const auto [i, j] = CheapestPair();
      Value b = std::move(values_[j]);
      values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(j));
      Value a = std::move(values_[i]);
      values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(i));
      if (values_.empty()) {
        PX_RETURN_IF_ERROR(Contract(std::move(a), std::move(b), /*last=*/true));
        return std::move(plan_);
      }
      PX_ASSIGN_OR_RETURN(Value joined, Contract(std::move(a), std::move(b), /*last=*/false));
      values_.push_back(std::move(joined));
    }
    PX_RETURN_IF_ERROR(Finish(values_[0]));
    return std::move(plan_);
  }

 private:
  static Value Operand(int64_t i, const EinsumLabels& labels, const Shape& shape) {
    Value v{{Kind::kOperand, i}, {}};
    int64_t stride = 1;
    for (int d = shape.rank(); d-- > 0;) {
      const int label = labels[static_cast<size_t>(d)];
      // A repeated label walks the diagonal.
      auto same = std::find_if(v.axes.begin(), v.axes.end(),
                               [&](const Axis& a) { return a.label == label; });
      if (same != v.axes.end()) {
        same->stride += stride;
      } else if (shape[d] != 1) {
        v.axes.insert(v.axes.begin(), {label, shape[d], stride});
      }
      stride *= shape[d];
    }
    return v;
  }

  bool Needed(int label) const {
    return Has(result_, label) || std::any_of(values_.begin(), values_.end(),
                                              [&](const Value& v) { return Has(v.axes, label); });
  }

  // Multiplications that contracting i and j takes, once labels of one of them alone are summed.
  double PairCost(size_t i, size_t j) const {
    const auto elsewhere = [&](int label) {
      if (Has(result_, label)) return true;
      for (size_t k = 0; k < values_.size(); ++k) {
        if (k != i && k != j && Has(values_[k].axes, label)) return true;
      }
      return false;
    };
    const Axes& a = values_[i].axes;
    const Axes& b = values_[j].axes;
    double cost = 1;
    for (const Axis& x : a) {
      if (Has(b, x.label) || elsewhere(x.label)) cost *= static_cast<double>(x.extent);
    }
    for (const Axis& x : b) {
      if (!Has(a, x.label) && elsewhere(x.label)) cost *= static_cast<double>(x.extent);
    }
    return cost;
  }
  std::pair<size_t, size_t> CheapestPair() const {
    std::pair<size_t, size_t> best = {0, 1};
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < values_.size(); ++i) {
      for (size_t j = i + 1; j < values_.size(); ++j) {
        const double cost = PairCost(i, j);
        if (cost < least) {
          least = cost;
          best = {i, j};
        }
      }
    }
    return best;
  }

  // Temporaries: first gap that is large enough. Offsets are multiples of 64 elements, so that
  // every type starts at a cache line.
  struct Block {
    int64_t begin = 0, end = 0;
  };
  Result<Value> Temporary(const Axes& order) {
    int64_t n = 1;
    for (const Axis& a : order) {
      const std::optional<int64_t> product = CheckedMul(n, a.extent);
      if (!product || *product > kMaxTemporary) {
        return Invalid("an intermediate result has too many elements");
      }
      n = *product;
    }
    n = RoundUp(std::max<int64_t>(n, 1), 64);
    int64_t begin = 0;
    auto next = live_.begin();
    for (; next != live_.end() && next->begin < begin + n; ++next) begin = next->end;
    live_.insert(next, {begin, begin + n});
    plan_.temporary_elements = std::max(plan_.temporary_elements, begin + n);
    return Value{{Kind::kTemporary, begin}, Packed(order)};
  }
  void Release(const EinsumPlace& place) {
    if (place.kind != Kind::kTemporary) return;
    std::erase_if(live_, [&](const Block& b) { return b.begin == place.at; });
  }

  template <class Work>
  void Emit(const EinsumPlace& a, const EinsumPlace& b, const EinsumPlace& out, const Work& work,
            double flops) {
    plan_.steps.push_back({a, b, out, work});
    plan_.flops += flops;
    Release(a);
    if (b.kind != Kind::kResult) Release(b);
  }

  Result<void> EmitCopy(const Value& from, const Value& to) {
    std::array<int64_t, kernels::kMaxCopyRank> extents = {}, src = {}, dst = {};
    const size_t rank = from.axes.size();
    if (rank > extents.size()) return Invalid("an intermediate result has {} axes", rank);
    for (size_t i = 0; i < rank; ++i) {
      extents[i] = from.axes[i].extent;
      src[i] = from.axes[i].stride;
      dst[i] = Find(to.axes, from.axes[i].label)->stride;
    }
    Emit(from.place, {}, to.place,
         kernels::MakeCopyPlan({extents.data(), rank}, {src.data(), rank}, {dst.data(), rank}), 0);
    return {};
  }
  // A packed copy with the axes in this order.
  Result<Value> Reordered(const Value& v, const EinsumLabels& order) {
    PX_ASSIGN_OR_RETURN(Value copy, Temporary(Select(v.axes, order)));
    PX_RETURN_IF_ERROR(EmitCopy(v, copy));
    return copy;
  }

  // The sum over all labels but `kept`, in that order; into `target` if given.
  Result<Value> Sum(Value v, const EinsumLabels& kept, const Value* target) {
    EinsumLabels summed;
    for (const Axis& a : v.axes) {
      if (std::find(kept.begin(), kept.end(), a.label) == kept.end()) summed.push_back(a.label);
    }
    // In place where v is packed and its kept axes are in order already.
    if (!IsPacked(v.axes) || v.axes.size() > static_cast<size_t>(kMaxRank) ||
        LabelsOf(Select(v.axes, kept)) != KeptInPlace(v.axes, kept)) {
      PX_ASSIGN_OR_RETURN(v, Reordered(v, Joined(kept, summed)));
    }
    Shape shape;
    std::vector<int64_t> axes;
    if (v.axes.size() <= static_cast<size_t>(kMaxRank)) {
      for (size_t i = 0; i < v.axes.size(); ++i) {
        shape.Append(v.axes[i].extent);
        if (std::find(kept.begin(), kept.end(), v.axes[i].label) == kept.end()) {
          axes.push_back(static_cast<int64_t>(i));
        }
      }
    } else {  // reordered above: kept, then summed
      shape = {Elements(Select(v.axes, kept)), Elements(Select(v.axes, summed))};
      axes = {1};
    }
    Value out;
    if (target != nullptr) {
      out = *target;
    } else {
      PX_ASSIGN_OR_RETURN(out, Temporary(Select(v.axes, kept)));
    }
    Emit(v.place, {}, out.place, kernels::MakeReducePlan(shape, axes), Size(v.axes));
    return out;
  }
  static EinsumLabels KeptInPlace(const Axes& axes, const EinsumLabels& kept) {
    EinsumLabels labels;
    for (const Axis& a : axes) {
      if (std::find(kept.begin(), kept.end(), a.label) != kept.end()) labels.push_back(a.label);
    }
    return labels;
  }

  // One tensor is left: what is not in the result is summed, the rest put in order.
  Result<void> Finish(const Value& v) {
    const Value target{{Kind::kResult, 0}, result_};
    if (v.axes.size() == result_.size()) return EmitCopy(v, target);
    PX_RETURN_IF_ERROR(Sum(v, LabelsOf(result_), &target));
    return {};
  }

  // Sums out of `v` what neither `other` nor anything else needs.
  Result<Value> SumAlone(Value v, const Value& other) {
    EinsumLabels kept;
    for (const Axis& a : v.axes) {
      if (Has(other.axes, a.label) || Needed(a.label)) kept.push_back(a.label);
    }
    if (kept.size() == v.axes.size()) return v;
    return Sum(std::move(v), kept, nullptr);
  }

  // The product of two tensors, summed over the labels that nothing else needs.
  Result<Value> Contract(Value a, Value b, bool last) {
    PX_ASSIGN_OR_RETURN(a, SumAlone(std::move(a), b));
    PX_ASSIGN_OR_RETURN(b, SumAlone(std::move(b), a));
    EinsumLabels batch, m, n, k;
    for (const Axis& x : a.axes) {
      (!Has(b.axes, x.label) ? m : Needed(x.label) ? batch : k).push_back(x.label);
    }
    for (const Axis& x : b.axes) {
      if (!Has(a.axes, x.label)) n.push_back(x.label);
    }
    const size_t rank = batch.size() + m.size() + n.size();
    if (k.empty() && rank <= static_cast<size_t>(kMaxRank)) {
      return Multiply(std::move(a), std::move(b),
                      last ? LabelsOf(result_) : Joined(Joined(batch, m), n), last);
    }
    const Product p = ChooseProduct(a, b, {batch, m, n, k}, last);
    return MatMul(std::move(a), std::move(b), p, last);
  }

  // Elementwise, broadcast to axes in `order`.
  Result<Value> Multiply(Value a, Value b, const EinsumLabels& order, bool last) {
    Axes joined;
    for (int label : order) {
      joined.push_back(*(Has(a.axes, label) ? Find(a.axes, label) : Find(b.axes, label)));
    }
    Shape shapes[2];
    for (Value* v : {&a, &b}) {
      const Axes in_order = Select(v->axes, order);
      if (IsPacked(in_order)) {
        v->axes = in_order;
      } else {
        PX_ASSIGN_OR_RETURN(*v, Reordered(*v, order));
      }
      for (int label : order) {
        const Axis* x = Find(v->axes, label);
        shapes[v == &b ? 1 : 0].Append(x == nullptr ? 1 : x->extent);
      }
    }
    Value out{{Kind::kResult, 0}, result_};
    if (!last) {
      PX_ASSIGN_OR_RETURN(out, Temporary(joined));
    }
    Emit(a.place, b.place, out.place, kernels::MakeBroadcastPlan(shapes[0], shapes[1]),
         Size(joined));
    return out;
  }

  struct Groups {
    EinsumLabels batch, m, n, k;
  };
  // The choice of sides and orders that copies the fewest elements.
  Product ChooseProduct(const Value& a, const Value& b, const Groups& g, bool last) const {
    const auto ordered = [](const Axes& axes, const EinsumLabels& labels) {
      EinsumLabels out;
      for (const Axis& x : axes) {
        if (std::find(labels.begin(), labels.end(), x.label) != labels.end()) {
          out.push_back(x.label);
        }
      }
      return out;
    };
    Product best;
    for (int choice = 0; choice < (last ? 16 : 2); ++choice) {
      Product p;
      p.k = ordered((choice & 1) != 0 ? b.axes : a.axes, g.k);
      EinsumLabels m = ordered((choice & 2) != 0 ? result_ : a.axes, g.m);
      EinsumLabels n = ordered((choice & 4) != 0 ? result_ : b.axes, g.n);
      p.batch = ordered(last ? result_ : a.axes, g.batch);
      p.swapped = (choice & 8) != 0;
      const Axes& left = p.swapped ? b.axes : a.axes;
      const Axes& right = p.swapped ? a.axes : b.axes;
      p.m = p.swapped ? n : m;
      p.n = p.swapped ? m : n;
      p.a = AsMatrix(Select(left, p.m), Select(left, p.k));
      p.b = AsMatrix(Select(right, p.k), Select(right, p.n));
      p.copied = (p.a ? 0 : Size(left)) + (p.b ? 0 : Size(right));
      if (last) {
        p.c = AsMatrix(Select(result_, p.m), Select(result_, p.n));
        if (p.c && p.c->trans == kernels::Transpose::kYes) p.c.reset();
        if (!p.c) p.copied += Size(result_);
      }
      if (p.copied < best.copied) best = std::move(p);
    }
    return best;
  }

  Result<Value> MatMul(Value a, Value b, const Product& p, bool last) {
    if (p.swapped) std::swap(a, b);
    GemmShape g;
    const auto extent = [](const Axes& axes, const EinsumLabels& labels) {
      return Elements(Select(axes, labels));
    };
    g.m = extent(a.axes, p.m);
    g.n = extent(b.axes, p.n);
    g.k = extent(a.axes, p.k);
    if (p.a) {
      g.trans_a = p.a->trans;
      g.lda = p.a->ld;
    } else {
      PX_ASSIGN_OR_RETURN(a, Reordered(a, Joined(Joined(p.batch, p.m), p.k)));
    }
    if (p.b) {
      g.trans_b = p.b->trans;
      g.ldb = p.b->ld;
    } else {
      PX_ASSIGN_OR_RETURN(b, Reordered(b, Joined(Joined(p.batch, p.k), p.n)));
    }
    Axes joined = Select(a.axes, Joined(p.batch, p.m));
    for (const Axis& x : Select(b.axes, p.n)) joined.push_back(x);
    Value out{{Kind::kResult, 0}, result_};
    if (last && p.c) {
      g.ldc = p.c->ld;
    } else {
      PX_ASSIGN_OR_RETURN(out, Temporary(joined));
    }
    PX_RETURN_IF_ERROR(SetBatch(p.batch, a.axes, b.axes, out.axes, &g.batch));
    Emit(a.place, b.place, out.place, g, 2 * Size(joined) * static_cast<double>(g.k));
    if (last && !p.c) {
      PX_RETURN_IF_ERROR(EmitCopy(out, {{Kind::kResult, 0}, result_}));
    }
    return out;
  }

  static Result<void> SetBatch(const EinsumLabels& labels, const Axes& a, const Axes& b,
                               const Axes& c, kernels::GemmBatch* batch) {
    for (int label : labels) {
      const Axis *x = Find(a, label), *y = Find(b, label), *z = Find(c, label);
      int i = batch->rank - 1;
      const bool merges = i >= 0 && batch->a_strides[i] == x->stride * x->extent &&
                          batch->b_strides[i] == y->stride * y->extent &&
                          batch->c_strides[i] == z->stride * z->extent;
      if (!merges) {
        if (batch->rank == kMaxRank) return Invalid("an intermediate result has too many axes");
        i = batch->rank++;
        batch->extents[i] = 1;
      }
      batch->extents[i] *= x->extent;
      batch->a_strides[i] = x->stride;
      batch->b_strides[i] = y->stride;
      batch->c_strides[i] = z->stride;
    }
    return {};
  }

  // Elements: far above any memory, and safe to multiply by an element's size.
  static constexpr int64_t kMaxTemporary = int64_t{1} << 48;

  std::vector<Value> values_;  // not yet contracted
  Axes result_;
  std::vector<Block> live_;  // temporaries in use, by address
  EinsumPlan plan_;
};

}  // namespace

Result<EinsumPlan> PlanEinsum(const std::vector<EinsumLabels>& terms, std::span<const Shape> shapes,
                              const EinsumLabels& output) {
  return Planner(terms, shapes, output).Run();
}

}  // namespace parallax::ops
