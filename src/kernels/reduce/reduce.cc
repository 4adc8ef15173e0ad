#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <cstddef>

#include "kernels/elementwise/split.h"
#include "kernels/move/words.h"
#include "kernels/reduce/reducer.h"

namespace parallax::kernels {
namespace {

// Accumulators on the stack: one block of columns, or the partial results of a split reduction.
constexpr int64_t kColumns = 256;
constexpr int64_t kPartials = 4096;
// Fewer tasks than this, of at least twice kChunk inputs each, are split along the reduction.
constexpr int64_t kFewTasks = 16;
constexpr int64_t kChunk = 32768;
constexpr int64_t kMaxChunks = 32;

// Some loops of a plan, counted through in order.
struct Loops {
  int rank = 0;
  std::array<int64_t, kMaxRank> extent = {};
  std::array<int64_t, kMaxRank> stride = {};

  void Add(int64_t loop_extent, int64_t loop_stride) {
    const size_t i = static_cast<size_t>(rank++);
    extent[i] = loop_extent;
    stride[i] = loop_stride;
  }
  int64_t Offset(int64_t index) const {
    int64_t offset = 0;
    for (size_t i = static_cast<size_t>(rank); i-- > 0;) {
      offset += index % extent[i] * stride[i];
      index /= extent[i];
    }
    return offset;
  }
};

// The plan taken apart: results are [outer, cols], each the reduction of [reduced, run] inputs.
struct Walk {
  Loops outer;  // kept loops but the columns
  int64_t outer_count = 1;
  int64_t cols = 1;  // kept loop along memory, or 1
  Loops reduced;     // reduced loops but the run
  int64_t run = 1;   // innermost reduced loop: along memory if cols is 1, else rows of `step`
  int64_t step = 1;
};

Walk MakeWalk(const ReducePlan& plan) {
  Walk w;
  int last_reduced = -1;
  for (int i = 0; i < plan.rank; ++i) {
    if (plan.reduced[static_cast<size_t>(i)]) last_reduced = i;
  }
  std::array<int64_t, kMaxRank> strides = {};
  int64_t stride = 1;
  for (int i = plan.rank; i-- > 0;) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= plan.extent[static_cast<size_t>(i)];
  }
  for (int k = 0; k < plan.rank; ++k) {
    const size_t i = static_cast<size_t>(k);
    if (k == last_reduced) {
      w.run = plan.extent[i];
      w.step = strides[i];
    } else if (plan.reduced[i]) {
      w.reduced.Add(plan.extent[i], strides[i]);
    } else if (k == plan.rank - 1) {
      w.cols = plan.extent[i];
    } else {
      w.outer.Add(plan.extent[i], strides[i]);
      w.outer_count *= plan.extent[i];
    }
  }
  return w;
}

// Takes inputs [begin, end) of the reduced index space (reduced loops, then the run) into `cols`
// accumulators, from `in`, the first input of the first of them.
void Take(const Reducer& reducer, const Walk& w, const std::byte* in, int64_t begin, int64_t end,
          int64_t cols, void* acc) {
  for (int64_t i = begin; i < end;) {
    const int64_t at = i % w.run;
    const int64_t n = std::min(end - i, w.run - at);
    const int64_t offset = w.reduced.Offset(i / w.run) + at * w.step;
    const std::byte* from = in + static_cast<size_t>(offset) * reducer.in_size;
    if (w.cols == 1) {
      reducer.run(from, n, acc);
    } else {
      reducer.rows(from, w.step, n, cols, acc);
    }
    i += n;
  }
}

// Rows of at most kShortRun inputs each: blocks of them are transposed, then reduced as columns.
constexpr int64_t kShortRun = 16;

template <class T>
void ReduceShortRows(const Reducer& reducer, const T* in, int64_t rows, int64_t run, std::byte* out,
                     Team& team) {
  constexpr int64_t kBlock = 64;
  ForRanges(rows, RoundUp(RowsPerTask(run), kBlock), team, [&](int64_t begin, int64_t end) {
    T columns[kBlock * kShortRun];
    alignas(16) std::byte acc[static_cast<size_t>(kBlock) * kMaxAccSize];
    for (int64_t r = begin; r < end; r += kBlock) {
      const int64_t n = std::min(kBlock, end - r);
      for (int64_t k = 0; k < run; ++k) {
        for (int64_t i = 0; i < n; ++i) columns[k * n + i] = in[(r + i) * run + k];
      }
      reducer.init(acc, n);
      reducer.rows(columns, n, run, n, acc);
      reducer.finish(acc, n, run, out + static_cast<size_t>(r) * reducer.out_size);
    }
  });
}

}  // namespace

ReducePlan MakeReducePlan(const Shape& shape, std::span<const int64_t> axes) {
  std::array<bool, kMaxRank> reduced = {};
  for (int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
  ReducePlan plan;
  for (int k = 0; k < shape.rank(); ++k) {
    const int64_t extent = shape[k];
    const bool is_reduced = reduced[static_cast<size_t>(k)];
    (is_reduced ? plan.per_output : plan.outputs) *= extent;
    if (extent == 1) continue;
    const size_t last = static_cast<size_t>(plan.rank) - 1;
    if (plan.rank > 0 && plan.reduced[last] == is_reduced) {
      plan.extent[last] *= extent;
      continue;
    }
    const size_t next = static_cast<size_t>(plan.rank++);
    plan.extent[next] = extent;
    plan.reduced[next] = is_reduced;
  }
  return plan;
}

bool ReduceSupports(ReduceOp op, DType dtype) {
  if (dtype == DType::kBool) return op == ReduceOp::kMax || op == ReduceOp::kMin;
  return IsFloat(dtype) || IsInteger(dtype);
}

void Reduce(ReduceOp op, DType dtype, const ReducePlan& plan, const void* in, void* out,
            Team& team) {
  const Reducer reducer = FindReducer(op, dtype);
  const std::byte* from = static_cast<const std::byte*>(in);
  std::byte* to = static_cast<std::byte*>(out);
  const int64_t per_output = plan.per_output;
  if (plan.outputs == 0) return;
  Walk w;
  if (per_output > 0) {
    w = MakeWalk(plan);
  } else {
    w.cols = plan.outputs;  // nothing is read
  }
  if (per_output > 0 && w.cols == 1 && w.reduced.rank == 0 && w.outer.rank == 1 &&
      w.run <= kShortRun) {
    return DispatchSize(reducer.in_size, [&]<class T>() {
      ReduceShortRows(reducer, reinterpret_cast<const T*>(from), plan.outputs, w.run, to, team);
    });
  }
  const int64_t blocks = CeilDiv(w.cols, kColumns);
  const int64_t tasks = w.outer_count * blocks;  // each one block of columns of one outer index

  const int64_t inputs = plan.outputs * per_output;
  const int64_t chunks =
      std::min({kMaxChunks, inputs / (tasks * kChunk), kPartials / plan.outputs});
  if (tasks < kFewTasks && chunks >= 2) {
    // Whole runs of 512 a chunk, so that they stay full.
    const int64_t chunk = RoundUp(CeilDiv(per_output, chunks), 512);
    alignas(16) std::byte partials[static_cast<size_t>(kPartials) * kMaxAccSize];
    const size_t set = static_cast<size_t>(plan.outputs) * reducer.acc_size;
    team.Run(tasks * chunks, [&](int64_t task, int) {
      const int64_t part = task % chunks;
      const int64_t outer = task / chunks / blocks;
      const int64_t col = task / chunks % blocks * kColumns;
      const int64_t cols = std::min(kColumns, w.cols - col);
      std::byte* acc = partials + static_cast<size_t>(part) * set +
                       static_cast<size_t>(outer * w.cols + col) * reducer.acc_size;
      reducer.init(acc, cols);
      const int64_t begin = std::min(per_output, part * chunk);
      const int64_t end = std::min(per_output, begin + chunk);
      const int64_t offset = w.outer.Offset(outer) + col;
      Take(reducer, w, from + static_cast<size_t>(offset) * reducer.in_size, begin, end, cols, acc);
    });
    for (int64_t part = 1; part < chunks; ++part) {
      reducer.merge(partials, partials + static_cast<size_t>(part) * set, plan.outputs);
    }
    reducer.finish(partials, plan.outputs, per_output, to);
    return;
  }

  const int64_t work = std::min(w.cols, kColumns) * std::max<int64_t>(per_output, 1);
  ForRanges(tasks, RowsPerTask(work), team, [&](int64_t begin, int64_t end) {
    alignas(16) std::byte acc[static_cast<size_t>(kColumns) * kMaxAccSize];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t outer = task / blocks;
      const int64_t col = task % blocks * kColumns;
      const int64_t cols = std::min(kColumns, w.cols - col);
      reducer.init(acc, cols);
      const int64_t offset = w.outer.Offset(outer) + col;
      Take(reducer, w, from + static_cast<size_t>(offset) * reducer.in_size, 0, per_output, cols,
           acc);
      reducer.finish(acc, cols, per_output,
                     to + static_cast<size_t>(outer * w.cols + col) * reducer.out_size);
    }
  });
}

Reducer FindReducer(ReduceOp op, DType dtype) {
  const bool f32 = IsFloat(dtype) && dtype != DType::kF64;
  return f32 ? FindFloatReducer(op, dtype) : FindScalarReducer(op, dtype);
}

}  // namespace parallax::kernels
