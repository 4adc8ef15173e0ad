// The table of operators, and the check of a node against its schema.
//
// Role:       import, inference and runtime look operators up here.
// Ownership:  the table lives as long as the process; pointers into it stay valid.
// Threads:    immutable after its first use, which is thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "ir/graph.h"
#include "ops/core/op_def.h"

namespace parallax::ops {

// Every operator, sorted by domain and name.
std::span<const OpDef> AllOps();

// The operator of that name in force at `opset`, or null.
const OpDef* FindOp(std::string_view domain, std::string_view name, int opset);

// Whether any opset has that operator: tells "unknown" from "not in this opset".
bool IsKnownOp(std::string_view domain, std::string_view name);

// Arity, attribute names and types, required attributes. Element types are checked by inference,
// which knows them.
Result<void> CheckSchema(const OpDef& def, const Node& node);

// The schema parameter of input or output i (the last one repeats when variadic), or null.
const Param* InputParam(const OpDef& def, int opset, int i);
const Param* OutputParam(const OpDef& def, int opset, int i);

}  // namespace parallax::ops
