#include "kernels/move/pad.h"

#include <array>

#include "kernels/elementwise/split.h"
#include "kernels/move/words.h"

namespace parallax::kernels {
namespace {

constexpr int64_t kOutside = -1;

// Where an axis of extent n is read for coordinate i, or kOutside for the constant.
int64_t MapCoordinate(PadMode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (n == 0) return kOutside;
  switch (mode) {
    case PadMode::kConstant:
      return kOutside;
    case PadMode::kEdge:
      return i < 0 ? 0 : n - 1;
    case PadMode::kWrap: {
      const int64_t r = i % n;
      return r < 0 ? r + n : r;
    }
    case PadMode::kReflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1);
      int64_t r = i % period;
      if (r < 0) r += period;
      return r < n ? r : period - r;
    }
  }
  return kOutside;
}

struct PadAxis {
  int64_t in, begin, out;
};

template <class T>
void PadTyped(PadMode mode, std::span<const PadAxis> axes, int64_t inner, const T* in, T value,
              T* out, Team& team) {
  // The last axis makes rows; coordinates of the others are looked up per row.
  const PadAxis last = axes.back();
  const size_t outer = axes.size() - 1;
  int64_t rows = 1;
  for (size_t k = 0; k < outer; ++k) rows *= axes[k].out;
  const int64_t row = last.out * inner;
  // Part of a row that copies straight.
  const int64_t lo = std::clamp<int64_t>(last.begin, 0, last.out);
  const int64_t hi = std::clamp<int64_t>(last.begin + last.in, lo, last.out);
  if (row == 0) return;
  ForRanges(rows, RowsPerTask(row), team, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r;
      int64_t offset = 0;
      int64_t stride = last.in * inner;
      bool outside = false;
      for (size_t k = outer; k-- > 0;) {
        const int64_t i = MapCoordinate(mode, rest % axes[k].out - axes[k].begin, axes[k].in);
        rest /= axes[k].out;
        outside |= i == kOutside;
        offset += i * stride;
        stride *= axes[k].in;
      }
      T* to = out + r * row;
      if (outside) {
        std::fill(to, to + row, value);
        continue;
      }
      const T* from = in + offset;
      const auto single = [&](int64_t x) {
        const int64_t i = MapCoordinate(mode, x - last.begin, last.in);
        if (i == kOutside) {
          std::fill(to + x * inner, to + (x + 1) * inner, value);
        } else {
          CopyRun(from + i * inner, to + x * inner, inner);
        }
      };
      for (int64_t x = 0; x < lo; ++x) single(x);
      if (hi > lo) CopyRun(from + (lo - last.begin) * inner, to + lo * inner, (hi - lo) * inner);
      for (int64_t x = hi; x < last.out; ++x) single(x);
    }
  });
}

}  // namespace

void Pad(PadMode mode, size_t elem_size, const Shape& shape, std::span<const int64_t> begin,
         std::span<const int64_t> end, const void* in, const void* value, void* out, Team& team) {
  // Runs of axes that keep their extent become one; trailing ones are the inner block.
  std::array<PadAxis, kMaxRank> axes;
  size_t count = 0;
  bool mergeable = false;
  for (size_t k = 0; k < begin.size(); ++k) {
    const int64_t extent = shape[static_cast<int>(k)];
    const bool plain = begin[k] == 0 && end[k] == 0;
    if (plain && mergeable) {
      axes[count - 1].in *= extent;
      axes[count - 1].out *= extent;
    } else {
      axes[count++] = {extent, begin[k], extent + begin[k] + end[k]};
    }
    mergeable = plain;
  }
  int64_t inner = 1;
  if (mergeable) inner = axes[--count].in;
  if (count == 0) axes[count++] = {1, 0, 1};
  DispatchSize(elem_size, [&]<class T>() {
    T fill = 0;
    if (value != nullptr) std::memcpy(&fill, value, sizeof fill);
    PadTyped<T>(mode, {axes.data(), count}, inner, static_cast<const T*>(in), fill,
                static_cast<T*>(out), team);
  });
}

}  // namespace parallax::kernels
