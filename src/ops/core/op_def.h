// OpDef: everything the runtime knows about one operator.
//
// Role:       an operator's file (src/ops/NAME.cc) returns one from `OpDef op_NAME()`; the build
//             collects them into the table of table.h. Import checks nodes against the schema part,
//             inference, cost, planning and execution call the functions.
// Ownership:  the table owns every OpDef for the life of the process.
// Threads:    immutable; the functions are pure.
// Example:    src/ops/relu.cc; docs/adding-an-operator.md.
#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "ir/attributes.h"

namespace parallax::ops {

class InferContext;
class CostContext;
class BindContext;
class Kernel;

// Opsets of the default domain that import accepts.
inline constexpr int kMinOpset = 7;
inline constexpr int kMaxOpset = 28;

// A set of element types, one bit a DType.
using TypeSet = uint32_t;
constexpr TypeSet Bit(DType d) { return TypeSet{1} << static_cast<unsigned>(d); }
template <class... D>
constexpr TypeSet Types(D... d) {
  return (Bit(d) | ...);
}
inline constexpr TypeSet kFloats = Types(DType::kF32, DType::kF64, DType::kF16, DType::kBF16);
inline constexpr TypeSet kSignedInts = Types(DType::kI8, DType::kI16, DType::kI32, DType::kI64);
inline constexpr TypeSet kUnsignedInts = Types(DType::kU8, DType::kU16, DType::kU32, DType::kU64);
inline constexpr TypeSet kInts = kSignedInts | kUnsignedInts;
inline constexpr TypeSet kIndices = Types(DType::kI32, DType::kI64);
inline constexpr TypeSet kBools = Bit(DType::kBool);
inline constexpr TypeSet kI64s = Bit(DType::kI64);
inline constexpr TypeSet kNumbers = kFloats | kInts;
inline constexpr TypeSet kAll = kNumbers | kBools;

enum class Arity : uint8_t { kOne, kOptional, kVariadic };  // variadic: the rest, at least one

// An input or output of the schema. Parameters with the same non-zero `tie` letter (and all
// members of a variadic one, unless the letter is '*') must have one element type; an output takes
// its element type from the first present input with its letter.
struct Param {
  std::string_view name;
  TypeSet types = kAll;
  char tie = 0;
  Arity arity = Arity::kOne;
  int since = 0;        // opset range in which the parameter exists
  int until = INT_MAX;  // inclusive
  // Inference reads the input's values (axes, sizes, a count). Until they are known the node stays
  // open: its output types say what valid values would give, and the runtime infers again, with
  // the values, before it runs the node. Other inputs' values are hidden from infer.
  bool steers = false;
};
constexpr Param Steers(Param p) {
  p.steers = true;
  return p;
}

struct AttributeDef {
  std::string_view name;
  AttributeType type = AttributeType::kInt;
  bool required = false;
  int since = 0;
  int until = INT_MAX;  // inclusive
};

// The output may share the input's memory.
enum class AliasKind : uint8_t {
  kView,     // the output is the input's bytes under another shape: no copy at all
  kInPlace,  // the kernel may be given one buffer for both, if sizes are equal
};
struct Alias {
  int input = 0;
  int output = 0;
  AliasKind kind = AliasKind::kInPlace;
  // In place only where no other input is the same value: the kernel reads it after it wrote
  // elsewhere (indices, updates). Elementwise kernels do not care.
  bool exclusive = false;
};

// Classes of the cost model (parallax paper, appendix A).
enum class OpClass : uint8_t {
  kMatMul,
  kConv,
  kElementwise,
  kTranscendental,
  kReduce,
  kNormalize,
  kPool,
  kMove,
  kView,
  kControl
};
std::string_view Name(OpClass c);

// Work of one node with known shapes.
struct Cost {
  OpClass op_class = OpClass::kElementwise;
  double flops = 0;          // a multiply-add counts 2
  double bytes_read = 0;     // inputs, each once
  double bytes_written = 0;  // outputs, each once
};

struct OpDef {
  std::string_view name;
  std::string_view domain = "";
  int since = 1;        // the operator's first opset version
  int until = INT_MAX;  // the last opset that has it (deprecated operators)
  std::vector<Param> inputs;
  std::vector<Param> outputs;
  std::vector<AttributeDef> attributes;
  std::vector<Alias> aliases;

  // Output shapes depend on the *values* of inputs that are only known when the node runs, even
  // when every input shape is known (NonZero). Its kernel calls KernelArgs::Allocate.
  bool data_dependent = false;
  // Runs bodies; the runtime executes it, so it has no bind (If, Loop).
  bool control_flow = false;
  // Every run may give another result (RandomNormal): never folded.
  bool nondeterministic = false;

  // Checks shapes and attribute values, sets output shapes as far as inputs are known. Required.
  Result<void> (*infer)(InferContext&) = nullptr;
  // FLOPs and class; bytes are filled by the caller. Null: elementwise, one FLOP an output element.
  Cost (*cost)(const CostContext&) = nullptr;
  // A kernel for fixed shapes. Null only for control flow.
  Result<std::unique_ptr<Kernel>> (*bind)(BindContext&) = nullptr;
};

}  // namespace parallax::ops
