// Lstm: the ONNX LSTM layer, one or two directions, over a whole sequence.
//
//   i = f(W_i x + R_i h + b_i + P_i C)     o = f(W_o x + R_o h + b_o + P_o C')
//   F = f(W_f x + R_f h + b_f + P_f C)     c = g(W_c x + R_c h + b_c)
//   C' = F C + i c                         h' = o h(C')
//
// Role:       the op LSTM, on f32 and f64 (16-bit floats are converted around it).
// Ownership:  borrows every pointer for the call.
// Threads:    pure apart from outputs and workspace; products split over the caller's team.
// Cost:       one GEMM of the whole sequence with W, one small product with R a step; allocates
//             nothing.
// Invariants: the same bits for every team size. Rows past a sequence's length give zeros in y and
//             keep the state; the reverse direction starts at each sequence's own end.
// Source:     ONNX operator specification, LSTM-14.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/recurrent/activation.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class RecurrentLayout : uint8_t { kSequenceFirst, kBatchFirst };  // ONNX layout 0 and 1

struct LstmShape {
  int64_t sequence = 0, batch = 0, input = 0, hidden = 0;
  int directions = 1;
  bool first_is_reverse = false;  // direction 0 runs backwards; direction 1 always does
  RecurrentLayout layout = RecurrentLayout::kSequenceFirst;
  bool input_forget = false;     // F = 1 - i
  float clip = 0;                // bound of what activations see; 0: none
  CellFunction functions[2][3];  // f, g, h of each direction
};

// Pointers in the layouts of the ONNX operator; optional ones may be null. w and r may be packed
// (see PackLstmWeights), for f32 only: then the plain ones are null.
template <class T>
struct LstmTensors {
  const T* x = nullptr;  // [sequence, batch, input], or batch first
  const T* w = nullptr;  // [directions, 4 hidden, input], gates in the order i o f c
  const T* r = nullptr;  // [directions, 4 hidden, hidden]
  const void* packed_w = nullptr;
  const void* packed_r = nullptr;
  const T* b = nullptr;                    // [directions, 8 hidden]: of W, then of R
  const int32_t* sequence_lens = nullptr;  // [batch]
  const T* initial_h = nullptr;            // [directions, batch, hidden], or batch first
  const T* initial_c = nullptr;
  const T* p = nullptr;  // [directions, 3 hidden]: peepholes i o f
  T* y = nullptr;        // [sequence, directions, batch, hidden]
  T* y_h = nullptr;      // [directions, batch, hidden]
  T* y_c = nullptr;
};

// Bytes of workspace, 64-byte aligned, for elements of `element_size` bytes.
size_t LstmWorkspaceBytes(const LstmShape& shape, size_t element_size, int team_size);

// f32 weights as GEMM operands. `columns`: input for W, hidden for R; the source may be misaligned.
size_t PackedLstmWeightBytes(const LstmShape& shape, int64_t columns);
void PackLstmWeights(const LstmShape& shape, int64_t columns, const void* weights, void* packed);

// T is float or double.
template <class T>
void Lstm(const LstmShape& shape, const LstmTensors<T>& tensors, void* workspace, Team& team);

}  // namespace parallax::kernels
