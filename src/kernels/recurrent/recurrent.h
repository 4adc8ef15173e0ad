// Recurrent: the ONNX layers RNN, GRU and LSTM over whole sequences, one or two directions.
//
//   RNN   h' = f(W x + R h + b)
//   GRU   z = f(W_z x + R_z h + b_z)       r = f(W_r x + R_r h + b_r)
//         n = g(W_h x + R_h (r h) + b_h), or g(W_h x + wb_h + r (R_h h + rb_h)) where
//         linear_before_reset            h' = (1 - z) n + z h
//   LSTM  i = f(W_i x + R_i h + b_i + P_i c)   F = f(W_f x + R_f h + b_f + P_f c), or 1 - i where
//         input_forget                   n = g(W_c x + R_c h + b_c)
//         c' = F c + i n                 o = f(W_o x + R_o h + b_o + P_o c')   h' = o h(c')
//
// Role:       the ops RNN, GRU and LSTM on f32; generic_recurrent.h has the other types.
// Ownership:  borrows every pointer for the call. Packed weights are plain memory of the caller
//             (64-byte aligned) in a layout of the running CPU's best target.
// Threads:    pure apart from outputs and workspace; one call uses one Team.
// Cost:       x W^T as large products over some hundred rows at a time, which bounds the workspace
//             whatever the sequence; then for each step one product with R for all directions and
//             sequences together, and the cells. R is packed once a call where the caller did not
//             pack it. Allocates nothing.
// Invariants: the same bits for every team size. A sequence shorter than the others stops at its
//             own end: its later rows of y are 0, its final state is that of its last step, and the
//             reverse direction starts there. A sequence of length 0 has a final state of 0 (ONNX
//             does not say; ONNX Runtime does so). `clip` bounds what f and g see; h(c') is not
//             clipped (as ONNX Runtime).
// Source:     ONNX operator specifications RNN-22, GRU-22, LSTM-22.
// Example:
//   RecurrentPlan plan = PlanRecurrent(shape, {.w = true, .r = true});   // both packed before
//   Recurrent(plan, tensors, workspace, team);         // RecurrentWorkspaceBytes(plan,
//   team.size())
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/gemm/gemm.h"
#include "kernels/recurrent/cell_function.h"
#include "threads/team.h"

namespace parallax::kernels {

enum class CellKind : uint8_t { kRnn, kGru, kLstm };
constexpr int64_t GatesOf(CellKind kind) {
  return kind == CellKind::kRnn ? 1 : kind == CellKind::kGru ? 3 : 4;
}
// Activation functions of one direction: f; f g; f g h.
constexpr int FunctionsOf(CellKind kind) {
  return kind == CellKind::kRnn ? 1 : kind == CellKind::kGru ? 2 : 3;
}

enum class RecurrentLayout : uint8_t { kSequenceFirst, kBatchFirst };  // ONNX layout 0 and 1

struct RecurrentShape {
  CellKind cell = CellKind::kLstm;
  int64_t sequence = 0, batch = 0, input = 0, hidden = 0;
  int directions = 1;
  bool first_is_reverse = false;  // direction 0 runs backwards; direction 1 always does
  RecurrentLayout layout = RecurrentLayout::kSequenceFirst;
  bool has_sequence_lens = false;
  bool linear_before_reset = false;  // GRU
  bool input_forget = false;         // LSTM
  float clip = std::numeric_limits<float>::infinity();
  CellFunction functions[2][3];  // of each direction
};

// Pointers in the layouts of the ONNX operators; optional ones may be null. Gates are in the order
// z r h (GRU) and i o f c (LSTM).
template <class T>
struct RecurrentTensors {
  const T* x = nullptr;  // [sequence, batch, input]; batch first: [batch, sequence, input]
  const T* w = nullptr;  // [directions, gates hidden, input]
  const T* r = nullptr;  // [directions, gates hidden, hidden]
  const T* b = nullptr;  // [directions, 2 gates hidden]: of W, then of R
  // [batch], each in [0, sequence]; null unless has_sequence_lens.
  const int32_t* sequence_lens = nullptr;
  const T* initial_h = nullptr;  // [directions, batch, hidden]; batch first: [batch, directions, .]
  const T* initial_c = nullptr;  // LSTM
  const T* p = nullptr;          // LSTM [directions, 3 hidden]: peepholes i o f
  T* y = nullptr;    // [sequence, directions, batch, hidden]; or [batch, sequence, directions, .]
  T* y_h = nullptr;  // as initial_h
  T* y_c = nullptr;
};

// f32 weights as operands of the products. Sources may be misaligned; destinations are 64-byte
// aligned; the sizes are exact.
size_t PackedInputBytes(const RecurrentShape& shape);
void PackInputWeights(const RecurrentShape& shape, const void* w, void* packed);
size_t PackedRecurrenceBytes(const RecurrentShape& shape);
void PackRecurrenceWeights(const RecurrentShape& shape, const void* r, void* packed);

// Which weights the caller packed: RecurrentTensors::w and r then point to the packed form.
struct RecurrentPacking {
  bool w = false, r = false;
};

// What does not change between calls with one shape.
struct RecurrentPlan {
  RecurrentShape shape;
  RecurrentPacking packed;
  bool packs_r = false;        // packs R into the workspace at the start of a call
  int64_t chunk_steps = 0;     // steps whose x W^T is computed together
  GemmPlan input, input_tail;  // of a whole chunk, and of the last one
  GemmPlan recurrence;         // all gates, but for GRU without linear_before_reset: z and r only
  GemmPlan candidate;          // GRU without linear_before_reset: R_h (r h)
  // Offsets into the workspace, in bytes.
  size_t bias = 0, rows = 0, xw = 0, gates = 0, reset = 0, h = 0, c = 0, r = 0, scratch = 0;
};

// REQUIRES: directions * batch * hidden * 128 and directions * hidden * (input + hidden) * 128 fit
// int64.
RecurrentPlan PlanRecurrent(const RecurrentShape& shape, RecurrentPacking packed);
size_t RecurrentWorkspaceBytes(const RecurrentPlan& plan, int team_size);
void Recurrent(const RecurrentPlan& plan, const RecurrentTensors<float>& tensors, void* workspace,
               Team& team);

}  // namespace parallax::kernels
