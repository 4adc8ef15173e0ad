#include "kernels/conv/chain.h"

#include <algorithm>

#include "base/allocator.h"
#include "base/checked.h"
#include "kernels/conv/conv_paths.h"
#include "kernels/gemm/panel.h"

namespace parallax::kernels {
namespace {

// Tasks a worker: with one each a core that is slower, or was away, would be waited for.
constexpr int64_t kTasksPerWorker = 2;

struct Rows {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

int64_t RowFloats(const ConvShape& s) { return s.out[1] * s.out_channels; }

// The input rows that `out` of its output rows read.
Rows InputRows(const ConvShape& s, Rows out) {
  const int64_t reach = (s.kernel[0] - 1) * s.dilations[0] + 1;
  Rows in;
  in.begin = std::clamp<int64_t>(out.begin * s.strides[0] - s.pads_begin[0], 0, s.in[0]);
  in.end = std::clamp<int64_t>((out.end - 1) * s.strides[0] - s.pads_begin[0] + reach, in.begin,
                               s.in[0]);
  return in;
}

// Most rows behind stage `i` that `rows` rows of the output keep.
int64_t BufferRows(std::span<const ConvShape> stages, size_t i, int64_t rows) {
  for (size_t next = stages.size() - 1; next > i; --next) {
    const ConvShape& s = stages[next];
    rows = std::min((rows - 1) * s.strides[0] + (s.kernel[0] - 1) * s.dilations[0] + 1, s.in[0]);
  }
  return rows;
}

int64_t BufferFloats(std::span<const ConvShape> stages, size_t i, int64_t rows) {
  return RoundUp(BufferRows(stages, i, rows) * RowFloats(stages[i]),
                 static_cast<int64_t>(kAlignment / 4));
}

int64_t ChainBytes(std::span<const ConvShape> stages, int64_t rows) {
  int64_t bytes = 0;
  for (size_t i = 0; i + 1 < stages.size(); ++i) bytes += 4 * BufferFloats(stages, i, rows);
  return bytes;
}

// The last rows of a tensor, in a ring of `capacity` rows whose first place is that of row `origin`.
struct Band {
  Rows rows;
  int64_t capacity = 0, origin = 0;

  int64_t Place(int64_t row) const { return (row - origin) % capacity; }
  // How many rows from `row` on follow it in memory.
  int64_t Following(int64_t row) const { return capacity - Place(row); }
};

void RunPointwiseRows(const ConvPlan& plan, const ConvArgs& args, int64_t rows) {
  const ConvShape& s = plan.shape;
  PanelTask t;
  t.rows = rows * s.out[1];
  t.columns = s.out_channels;
  t.k = s.in_channels;
  t.a = args.input;
  t.a_row = s.in_channels;
  t.a_k = 1;
  t.b_panels = true;
  t.b = args.packed;
  t.out.c = args.output;
  t.out.ldc = s.out_channels;
  t.out.column_bias = args.bias;
  t.out.residual = args.epilogue.first_residual();
  t.out.clamp = args.clamps();
  t.out.lo = args.lo();
  t.out.hi = args.hi();
  if (args.epilogue.finishes()) {
    t.finish = &args.epilogue;
    t.finish_residual = args.epilogue.residual_last ? args.epilogue.residual : nullptr;
  }
  RunPanelTask(t);
}

// Output rows `rows` of the stage into args.output, from the rows of its input that are at hand, in the ring
// at args.input. Of a 1x1 convolution these follow each other.
void RunRows(const ConvPlan& plan, ConvArgs args, Rows rows, const Band& in) {
  const ConvShape& s = plan.shape;
  if (plan.algorithm == ConvAlgorithm::kPointwise) {
    args.input += in.Place(rows.begin) * s.in[1] * s.in_channels;
    RunPointwiseRows(plan, args, rows.size());
    return;
  }
  // The same convolution of a picture that has these rows only, from its first output row on: what
  // lies outside of it lies outside of the whole picture too.
  ConvAxes axes = MakeAxes(s);
  axes.rows.in = in.rows.size();
  axes.rows.out = rows.size();
  axes.rows.pad += in.rows.begin - rows.begin * s.strides[0];
  RunDepthwiseLastPart(plan, axes, args, {.rows = rows.size(), .channels = s.out_channels},
                       {.rows = in.capacity, .first = in.Place(in.rows.begin)});
}

class Chain {
 public:
  Chain(const ConvChainPlan& plan, std::span<const ConvStage> stages, const float* input,
        float* output, std::byte* slice)
      : plan_(plan), stages_(stages), input_(input), output_(output) {
    auto* at = reinterpret_cast<float*>(slice);
    for (size_t i = 0; i < plan.buffer_floats.size(); ++i) {
      buffers_[i] = at;
      kept_[i].capacity = plan.buffer_floats[i] / RowFloats(shape(i));
      at += plan.buffer_floats[i];
    }
  }

  // Rows of the output of image `image`, each after those before it.
  void Run(int64_t image, Rows rows) {
    for (size_t i = 0; i < plan_.buffer_floats.size(); ++i) kept_[i].rows = {};
    for (Rows step; rows.begin < rows.end; rows.begin = step.end) {
      step = {rows.begin, std::min(rows.begin + plan_.rows_per_step, rows.end)};
      Step(image, step);
    }
  }

 private:
  void Step(int64_t image, Rows out) {
    const size_t last = plan_.stages.size() - 1;
    Rows wanted[kMaxStages];
    wanted[last] = out;
    for (size_t i = last; i > 0; --i) wanted[i - 1] = InputRows(shape(i), wanted[i]);
    for (size_t i = 0; i < last; ++i) {
      Band& kept = kept_[i];
      const Rows& rows = wanted[i];
      if (rows.begin < kept.rows.begin || rows.begin >= kept.rows.end) {  // none is there
        kept.rows = {rows.begin, rows.begin};
        kept.origin = rows.begin;
      }
      kept.rows.begin = rows.begin;
      while (kept.rows.end < rows.end) {
        Rows fresh = {kept.rows.end, rows.end};
        fresh.end = std::min(fresh.end, fresh.begin + kept.Following(fresh.begin));
        RunStage(i, image, fresh, buffers_[i] + kept.Place(fresh.begin) * RowFloats(shape(i)),
                 nullptr);
        kept.rows.end = fresh.end;
      }
    }
    const int64_t at = (image * shape(last).out[0] + out.begin) * RowFloats(shape(last));
    const float* residual = stages_[last].epilogue.residual;
    RunStage(last, image, out, output_ + at, residual != nullptr ? residual + at : nullptr);
  }

  void RunStage(size_t i, int64_t image, Rows rows, float* to, const float* residual) {
    const ConvShape& s = shape(i);
    ConvArgs args;
    args.packed = static_cast<const float*>(stages_[i].packed);
    args.bias = stages_[i].bias;
    args.epilogue = stages_[i].epilogue;
    args.epilogue.residual = residual;
    args.output = to;
    if (i == 0) {
      args.input = input_ + image * s.in[0] * s.in[1] * s.in_channels;
      RunRows(plan_.stages[i], args, rows, {.rows = {0, s.in[0]}, .capacity = s.in[0]});
    } else {
      args.input = buffers_[i - 1];
      RunRows(plan_.stages[i], args, rows, kept_[i - 1]);
    }
  }

  const ConvShape& shape(size_t i) const { return plan_.stages[i].shape; }

  const ConvChainPlan& plan_;
  std::span<const ConvStage> stages_;
  const float* input_;
  float* output_;
  // Behind each stage but the last.
  Band kept_[kMaxStages];
  float* buffers_[kMaxStages] = {};
};

}  // namespace

bool SupportsConvChain(std::span<const ConvShape> stages) {
  if (stages.size() < 2 || stages.size() > kMaxStages) return false;
  for (size_t i = 0; i < stages.size(); ++i) {
    const ConvShape& s = stages[i];
    if (s.layout != ConvLayout::kChannelsLast || s.rank != 2 || s.batch < 1 || s.in_channels < 1 ||
        s.out_channels < 1 || s.InSize() < 1 || s.OutSize() < 1) {
      return false;
    }
    const ConvAlgorithm algorithm = PlanConv(s).algorithm;
    if (algorithm != ConvAlgorithm::kPointwise && algorithm != ConvAlgorithm::kDepthwiseLast) {
      return false;
    }
    if (i == 0) continue;
    const ConvShape& before = stages[i - 1];
    if (s.batch != before.batch || s.in_channels != before.out_channels ||
        s.in[0] != before.out[0] || s.in[1] != before.out[1]) {
      return false;
    }
  }
  return true;
}

ConvChainPlan PlanConvChain(std::span<const ConvShape> stages) {
  ConvChainPlan plan;
  for (const ConvShape& s : stages) plan.stages.push_back(PlanConv(s));
  const int64_t rows = stages.back().out[0];
  plan.rows_per_step = 1;
  while (plan.rows_per_step < rows && ChainBytes(stages, plan.rows_per_step + 1) <= kChainBytes) {
    ++plan.rows_per_step;
  }
  for (size_t i = 0; i + 1 < stages.size(); ++i) {
    plan.buffer_floats.push_back(BufferFloats(stages, i, plan.rows_per_step));
  }
  plan.worker_bytes = static_cast<size_t>(ChainBytes(stages, plan.rows_per_step));
  return plan;
}

size_t ConvChainWorkspaceBytes(const ConvChainPlan& plan, int team_size) {
  return plan.worker_bytes * static_cast<size_t>(team_size);
}

void ConvChain(const ConvChainPlan& plan, const float* input, std::span<const ConvStage> stages,
               float* output, void* workspace, Team& team) {
  const ConvShape& last = plan.stages.back().shape;
  // The cut may follow the team: no element depends on it.
  const int64_t want = team.size() == 1 ? 1 : team.size() * kTasksPerWorker;
  const int64_t wanted_blocks = CeilDiv(want, last.batch);
  const int64_t rows_per_task =
      std::max(CeilDiv(last.out[0], wanted_blocks), std::min(plan.rows_per_step, last.out[0]));
  const int64_t blocks = CeilDiv(last.out[0], rows_per_task);
  team.Run(last.batch * blocks, [&](int64_t task, int worker) {
    std::byte* slice =
        static_cast<std::byte*>(workspace) + plan.worker_bytes * static_cast<size_t>(worker);
    const int64_t begin = task % blocks * rows_per_task;
    Chain(plan, stages, input, output, slice)
        .Run(task / blocks, {begin, std::min(begin + rows_per_task, last.out[0])});
  });
}

}  // namespace parallax::kernels
