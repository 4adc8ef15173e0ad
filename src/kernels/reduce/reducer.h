// Reducer: what Reduce needs to know of one operator on one element type, as functions on raw
// accumulators, so that the loops over axes are compiled once.
//
// Role:       reduce.cc walks the plan and calls these on long runs.
// Ownership:  borrows everything.
// Threads:    pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/reduce/reduce.h"

namespace parallax::kernels {

struct Reducer {
  size_t in_size = 0;
  size_t out_size = 0;
  size_t acc_size = 0;  // at most kMaxAccSize, alignment at most 8
  // Sets n accumulators to the reduction of nothing.
  void (*init)(void* acc, int64_t n) = nullptr;
  // Takes in a run of n inputs along memory.
  void (*run)(const void* in, int64_t n, void* acc) = nullptr;
  // Takes in in[r * stride + c] for accumulator c, rows in order.
  void (*rows)(const void* in, int64_t stride, int64_t rows, int64_t cols, void* acc) = nullptr;
  // acc[i] takes in other[i].
  void (*merge)(void* acc, const void* other, int64_t n) = nullptr;
  // Writes n results; each accumulator holds `count` inputs.
  void (*finish)(const void* acc, int64_t n, int64_t count, void* out) = nullptr;
};

inline constexpr size_t kMaxAccSize = 16;

// REQUIRES: ReduceSupports(op, dtype).
Reducer FindReducer(ReduceOp op, DType dtype);
// Parts of it: f32, f16, bf16 (reducer_float.cc) and f64, integers, bool (reducer_scalar.cc).
Reducer FindFloatReducer(ReduceOp op, DType dtype);
Reducer FindScalarReducer(ReduceOp op, DType dtype);

// A Reducer from a type with: In, Out, Acc, Identity(), Run, Rows, Merge(Acc&, Acc), Finish(Acc,
// count), all static.
template <class P>
Reducer ReducerOf() {
  using Acc = typename P::Acc;
  static_assert(sizeof(Acc) <= kMaxAccSize && alignof(Acc) <= 8);
  Reducer r;
  r.in_size = sizeof(typename P::In);
  r.out_size = sizeof(typename P::Out);
  r.acc_size = sizeof(Acc);
  r.init = [](void* acc, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(acc)[i] = P::Identity();
  };
  r.run = [](const void* in, int64_t n, void* acc) {
    P::Run(static_cast<const typename P::In*>(in), n, *static_cast<Acc*>(acc));
  };
  r.rows = [](const void* in, int64_t stride, int64_t rows, int64_t cols, void* acc) {
    P::Rows(static_cast<const typename P::In*>(in), stride, rows, cols, static_cast<Acc*>(acc));
  };
  r.merge = [](void* acc, const void* other, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      P::Merge(static_cast<Acc*>(acc)[i], static_cast<const Acc*>(other)[i]);
    }
  };
  r.finish = [](const void* acc, int64_t n, int64_t count, void* out) {
    for (int64_t i = 0; i < n; ++i) {
      static_cast<typename P::Out*>(out)[i] = P::Finish(static_cast<const Acc*>(acc)[i], count);
    }
  };
  return r;
}

}  // namespace parallax::kernels
