// Operator cases: the rows of tests/ops/*.cases, parsed.
//
// Role:       read by the case suite, by the exporter that hands them to ONNX Runtime, and by the
//             operator benchmark. The format is described in docs/adding-an-operator.md.
// Ownership:  values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/core/op_def.h"

namespace parallax::testing {

struct CaseTensor {
  std::string name;
  bool present = true;  // false: `_`, left out
  bool has_type = false;
  DType dtype = DType::kUndefined;
  Shape shape;
  bool has_values = false;
  Tensor values;              // inputs: always; results: when has_values
  std::vector<double> plain;  // results written without a type: y={1,2}
};

struct OpCase {
  std::string file;
  int line = 0;
  std::string text;
  std::string op;
  std::string domain;
  int opset = 21;
  std::vector<CaseTensor> inputs;
  std::vector<CaseTensor> results;
  int outputs = 1;
  Attributes attributes;
  std::optional<double> tolerance;  // relative
  bool expect_error = false;
  std::string error_text;
  bool bench = false;
  bool ort = true;    // compared with ONNX Runtime
  std::string model;  // a graph in ONNX's text form, beside the cases file, instead of one node

  std::string Where() const { return file + ":" + std::to_string(line); }
};

// Every row of the file. Errors name file and line.
Result<std::vector<OpCase>> ReadCases(const std::string& path);

// A graph of one node with the case's inputs, constants where bit i of `constant_inputs` is set.
Graph CaseGraph(const OpCase& c, uint64_t constant_inputs);

// The operator a cases file named STEM.cases is about, or null.
const ops::OpDef* OpOfStem(const std::string& stem);

}  // namespace parallax::testing
