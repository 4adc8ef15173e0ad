// AttentionOperand: where Q, K or V of an attention come from, before what only moves or scales them.
//
// Role:       part of fuse_attention.cc: the way back from an operand of MatMul.
// Ownership:  plain values; the graph is borrowed for the call.
// Threads:    pure.
// Cost:       the length of the way.
// Invariants: `value`, read by `layout`, times `scale`, rows divided by their norms where
//             `normalized`, is the operand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/core/attention_layout.h"
#include "passes/rewriter.h"

namespace parallax::passes {

struct AttentionOperand {
  ValueId value = kNoValue;
  ops::AttentionLayout layout;
  double scale = 1;
  bool normalized = false;
  float epsilon = 0;
  // A Reshape on the way back whose input is scaled: it is to read `unscaled` instead of its input
  // (`scale` counts on it). kNoNode: none.
  NodeId reshape = kNoNode;
  ValueId unscaled = kNoValue;
};

enum class DepthAxis : uint8_t { kAnywhere, kLast };
enum class Factors : uint8_t { kRefused, kTaken };  // scale and norms

// The way back from `v`, which MatMul `reader` reads as an operand of these letters.
AttentionOperand OperandOf(const Rewriter& r, ValueId v, NodeId reader, std::string letters,
                           DepthAxis depth, Factors factors);

// value * scalar or value / scalar by node `i`, a Mul or Div: the factor and the value, or nothing.
struct ScaledValue {
  ValueId value = kNoValue;
  double factor = 1;
};
std::optional<ScaledValue> ScaledBy(const Rewriter& r, NodeId i);

// The letters that Transpose `n` reads where its result has `letters`.
std::string BeforeTranspose(const Node& n, const std::string& letters);
// The other way round: of its result.
std::string AfterTranspose(const Node& n, const std::string& letters);

}  // namespace parallax::passes
