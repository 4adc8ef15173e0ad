#include "kernels/resize/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/elementwise/cast.h"
#include "kernels/elementwise/split.h"
#include "kernels/move/words.h"
#include "kernels/resize/blend_f32.h"

namespace parallax::kernels {
namespace {

// Rows without a table along them are cut into pieces of this many elements.
constexpr int64_t kPiece = 4096;

template <class T>
using ComputeOf = std::conditional_t<
    std::is_same_v<T, float> || std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float, double>;

// An interpolation over [outer, rows, cols, inner]: rows and cols each by a table or as they are.
struct Stage {
  int64_t outer = 1;
  const ResizeTable* rows = nullptr;
  int64_t rows_in = 1, rows_out = 1;
  const ResizeTable* cols = nullptr;
  int64_t cols_in = 1, cols_out = 1;
  int64_t inner = 1;

  int64_t RowIn() const { return cols_in * inner; }
  int64_t RowOut() const { return cols_out * inner; }
  // Elements of a row handled at a time, and of the scratch row that holds them.
  int64_t Piece() const { return cols != nullptr ? RowOut() : std::min(RowOut(), kPiece); }
  int64_t ScratchIn() const { return cols != nullptr ? RowIn() : Piece(); }
  int64_t Elements() const { return outer * rows_out * RowOut(); }
};

// The dims as stages: the last resized one together with its neighbour before it if that is resized
// too, every other one before that on its own. At most kMaxRank.
struct Stages {
  std::array<Stage, kMaxRank> stage;
  size_t count = 0;

  explicit Stages(const ResizePlan& plan) {
    const size_t n = plan.dims.size();
    std::array<int64_t, kMaxRank> extent;
    size_t last = n;
    for (size_t i = 0; i < n; ++i) {
      extent[i] = plan.dims[i].in;
      if (plan.dims[i].table >= 0) last = i;
    }
    const auto product = [&](size_t begin, size_t end) {
      int64_t p = 1;
      for (size_t i = begin; i < end; ++i) p *= extent[i];
      return p;
    };
    for (size_t i = 0; i < n && last < n; ++i) {
      if (plan.dims[i].table < 0) continue;
      const ResizeTable* table = &plan.tables[static_cast<size_t>(plan.dims[i].table)];
      Stage& s = stage[count++];
      s.outer = product(0, i);
      if (i + 1 == last && plan.dims[last].table >= 0) {
        s.rows = table;
        s.cols = &plan.tables[static_cast<size_t>(plan.dims[last].table)];
        s.inner = product(last + 1, n);
      } else if (i == last && product(i + 1, n) == 1) {
        s.cols = table;
      } else {
        s.rows = table;
        s.inner = product(i + 1, n);
      }
      if (s.rows != nullptr) {
        s.rows_in = s.rows->in;
        s.rows_out = s.rows->out;
      }
      if (s.cols != nullptr) {
        s.cols_in = s.cols->in;
        s.cols_out = s.cols->out;
      }
      extent[i] = plan.dims[i].out;
      if (s.rows != nullptr && s.cols != nullptr) break;
    }
  }
};

// What an axis of T needs as weights.
const float* Weights(const ResizeTable& t, float) { return t.weight.data(); }
const double* Weights(const ResizeTable& t, double) { return t.weight64.data(); }

void BlendTaps(const float* in, int64_t stride, const int32_t* index, const float* weight, int taps,
               float* out, int64_t n) {
  BlendF32(in, stride, index, weight, taps, out, n);
}
template <class T>
void BlendTaps(const T* in, int64_t stride, const int32_t* index, const ComputeOf<T>* weight,
               int taps, ComputeOf<T>* out, int64_t n) {
  using V = ComputeOf<T>;
  std::fill(out, out + n, V(0));
  for (int t = 0; t < taps; ++t) {
    const T* row = in + index[t] * stride;
    for (int64_t i = 0; i < n; ++i) out[i] += weight[t] * static_cast<V>(row[i]);
  }
}

template <class T>
void Widen(const T* in, ComputeOf<T>* out, int64_t n) {
  CastSerial(kDTypeOf<T>, kDTypeOf<ComputeOf<T>>, in, out, n);
}

// V to T: floats round to nearest, integers clamp and truncate. Rounding to f32 before truncating
// absorbs the last bits of weights whose sum should have been exact.
template <class T, class V>
void Narrow(const V* in, T* out, int64_t n) {
  if constexpr (std::is_integral_v<T>) {
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest());
    constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
    for (int64_t i = 0; i < n; ++i) {
      double v = in[i];
      if constexpr (sizeof(T) <= 2) v = static_cast<double>(static_cast<float>(v));
      out[i] = v <= kLow    ? std::numeric_limits<T>::lowest()
               : v >= kHigh ? std::numeric_limits<T>::max()
                            : static_cast<T>(v);
    }
  } else {
    CastSerial(kDTypeOf<V>, kDTypeOf<T>, in, out, n);
  }
}

// Along a row: out[x, i] = sum_t weight * in[index, i].
template <class V>
void Interpolate(const ResizeTable& table, const V* in, int64_t inner, V* out) {
  const V* weight = Weights(table, V());
  const int32_t* index = table.index.data();
  const int taps = table.taps;
  if (inner > 1) {
    for (int64_t x = 0; x < table.out; ++x) {
      BlendTaps(in, inner, index + x * taps, weight + x * taps, taps, out + x * inner, inner);
    }
  } else if (taps == 2) {
    for (int64_t x = 0; x < table.out; ++x) {
      out[x] = weight[2 * x] * in[index[2 * x]] + weight[2 * x + 1] * in[index[2 * x + 1]];
    }
  } else {
    for (int64_t x = 0; x < table.out; ++x) {
      V y = 0;
      for (int t = 0; t < taps; ++t) y += weight[x * taps + t] * in[index[x * taps + t]];
      out[x] = y;
    }
  }
}

// From T or V to T or V, whichever the stage stands between.
template <class From, class To>
void RunStage(const Stage& s, const From* in, To* out, std::byte* scratch, Team& team) {
  using V = ComputeOf<From>;
  const int64_t piece = s.Piece();
  const int64_t pieces = piece == 0 ? 0 : CeilDiv(s.RowOut(), piece);
  const int64_t tasks = s.outer * s.rows_out * pieces;
  const int64_t grain = RowsPerTask(piece);
  const int64_t scratch_in = s.ScratchIn();
  team.Run(CeilDiv(tasks, grain), [&](int64_t group, int worker) {
    V* row = reinterpret_cast<V*>(scratch) + worker * (scratch_in + piece);
    V* result = row + scratch_in;
    for (int64_t task = group * grain; task < std::min(tasks, (group + 1) * grain); ++task) {
      const int64_t at = task % pieces * piece;  // 0 when there is a table along the row
      const int64_t y = task / pieces % s.rows_out;
      const int64_t o = task / pieces / s.rows_out;
      const int64_t n_out = std::min(piece, s.RowOut() - at);
      const int64_t n_in = s.cols != nullptr ? s.RowIn() : n_out;
      const From* image = in + o * s.rows_in * s.RowIn() + at;
      To* to = out + (o * s.rows_out + y) * s.RowOut() + at;
      V* target = result;
      if constexpr (std::is_same_v<To, V>) target = to;

      const V* source = row;
      if (s.rows != nullptr) {
        const int64_t first = y * s.rows->taps;
        V* blended = s.cols != nullptr ? row : target;
        BlendTaps(image, s.RowIn(), s.rows->index.data() + first, Weights(*s.rows, V()) + first,
                  s.rows->taps, blended, n_in);
        source = blended;
      } else if constexpr (std::is_same_v<From, V>) {
        source = image + y * s.RowIn();
      } else {
        Widen(image + y * s.RowIn(), row, n_in);
      }
      if (s.cols != nullptr) Interpolate(*s.cols, source, s.inner, target);
      if constexpr (!std::is_same_v<To, V>) Narrow<To, V>(target, to, n_out);
    }
  });
}

// Rows of raw elements by the tables' indices.
template <class T>
void RunNearest(const ResizePlan& plan, const T* in, T* out, Team& team) {
  // The last resized dim makes rows of blocks; those before it are looked up per row.
  size_t last = 0;
  for (size_t i = 0; i < plan.dims.size(); ++i) {
    if (plan.dims[i].table >= 0) last = i;
  }
  const ResizeDim& dim = plan.dims[last];
  const ResizeTable& table = plan.tables[static_cast<size_t>(dim.table)];
  int64_t inner = 1;
  for (size_t i = last + 1; i < plan.dims.size(); ++i) inner *= plan.dims[i].in;
  int64_t rows = 1;
  for (size_t i = 0; i < last; ++i) rows *= plan.dims[i].out;
  const int64_t row_out = dim.out * inner;
  if (row_out == 0) return;
  ForRanges(rows, RowsPerTask(row_out), team, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r;
      int64_t offset = 0;
      int64_t stride = dim.in * inner;
      for (size_t i = last; i-- > 0;) {
        const ResizeDim& d = plan.dims[i];
        const int64_t at = rest % d.out;
        rest /= d.out;
        const int64_t from =
            d.table < 0 ? at
                        : plan.tables[static_cast<size_t>(d.table)].index[static_cast<size_t>(at)];
        offset += from * stride;
        stride *= d.in;
      }
      const T* from = in + offset;
      T* to = out + r * row_out;
      const int32_t* index = table.index.data();
      if (inner == 1) {
        for (int64_t x = 0; x < dim.out; ++x) to[x] = from[index[x]];
      } else {
        for (int64_t x = 0; x < dim.out; ++x) {
          CopyRun(from + index[x] * inner, to + x * inner, inner);
        }
      }
    }
  });
}

// Writes the extrapolation value over every output that some axis puts outside the input.
template <class T>
void Extrapolate(const ResizePlan& plan, T* out) {
  T value;
  CastSerial(DType::kF32, kDTypeOf<T>, &plan.options.extrapolation_value, &value, 1);
  for (size_t i = 0; i < plan.dims.size(); ++i) {
    if (plan.dims[i].table < 0) continue;
    const ResizeTable& table = plan.tables[static_cast<size_t>(plan.dims[i].table)];
    int64_t outer = 1;
    int64_t inner = 1;
    for (size_t k = 0; k < i; ++k) outer *= plan.dims[k].out;
    for (size_t k = i + 1; k < plan.dims.size(); ++k) inner *= plan.dims[k].out;
    for (int64_t o = 0; o < outer; ++o) {
      for (int32_t x : table.outside) {
        T* to = out + (o * table.out + x) * inner;
        std::fill(to, to + inner, value);
      }
    }
  }
}

struct Buffers {
  size_t stage = 0;    // bytes of one intermediate tensor
  size_t scratch = 0;  // bytes of the workers' rows
};

constexpr size_t kAlign = 64;
size_t Align(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

Buffers FindBuffers(const Stages& stages, size_t compute_size, int team_size) {
  Buffers b;
  for (size_t i = 0; i < stages.count; ++i) {
    const Stage& s = stages.stage[i];
    const size_t row = static_cast<size_t>(s.ScratchIn() + s.Piece()) * compute_size;
    b.scratch = std::max(b.scratch, Align(row * static_cast<size_t>(team_size)));
    if (i + 1 == stages.count) break;
    b.stage = std::max(b.stage, Align(static_cast<size_t>(s.Elements()) * compute_size));
  }
  return b;
}

size_t ComputeSize(DType dtype) {
  return IsFloat(dtype) && dtype != DType::kF64 ? sizeof(float) : sizeof(double);
}

template <class T>
void RunStages(const ResizePlan& plan, const T* in, T* out, std::byte* workspace, Team& team) {
  using V = ComputeOf<T>;
  const Stages stages(plan);
  const Buffers bytes = FindBuffers(stages, sizeof(V), team.size());
  std::byte* scratch = workspace;
  V* buffer[2];
  for (size_t k : {0, 1}) {
    buffer[k] = reinterpret_cast<V*>(workspace + bytes.scratch + k * bytes.stage);
  }
  for (size_t i = 0; i < stages.count; ++i) {
    const Stage& s = stages.stage[i];
    const bool first = i == 0;
    const bool last = i + 1 == stages.count;
    V* next = buffer[i % 2];
    const V* previous = buffer[(i + 1) % 2];
    if (first && last) {
      RunStage<T, T>(s, in, out, scratch, team);
    } else if (first) {
      RunStage<T, V>(s, in, next, scratch, team);
    } else if (last) {
      RunStage<V, T>(s, previous, out, scratch, team);
    } else {
      RunStage<V, V>(s, previous, next, scratch, team);
    }
  }
}

}  // namespace

size_t ResizeWorkspaceBytes(const ResizePlan& plan, DType dtype, int team_size) {
  if (plan.options.mode == ResizeMode::kNearest || plan.tables.empty()) return 0;
  const Buffers b = FindBuffers(Stages(plan), ComputeSize(dtype), team_size);
  return b.scratch + 2 * b.stage;
}

void Resize(const ResizePlan& plan, DType dtype, const void* in, void* out, void* workspace,
            Team& team) {
  if (plan.out_shape.elements() == 0) return;
  if (plan.tables.empty()) return Cast(dtype, dtype, in, out, plan.out_shape.elements(), team);
  if (plan.options.mode == ResizeMode::kNearest) {
    DispatchSize(SizeOf(dtype), [&]<class T>() {
      RunNearest<T>(plan, static_cast<const T*>(in), static_cast<T*>(out), team);
    });
  } else {
    DispatchType(dtype, [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>) {
        RunStages<T>(plan, static_cast<const T*>(in), static_cast<T*>(out),
                     static_cast<std::byte*>(workspace), team);
      }
    });
  }
  DispatchType(dtype, [&]<class T>() { Extrapolate<T>(plan, static_cast<T*>(out)); });
}

}  // namespace parallax::kernels
