// Import: ONNX bytes to a verified Model.
//
// Role:       first stage of everything; the only room that knows protobuf.
// Ownership:  the Model shares the file's mapping where weights point into it.
// Threads:    pure; different imports may run at once.
// Cost:       one pass over the message headers, one shape inference; weights are not read.
// Invariants: a Model that comes back satisfies Graph::Verify, every node satisfies its schema, and
//             every value has a type; or, with keep_unsupported, names what it lacks.
// Example:
//   PX_ASSIGN_OR_RETURN(Model model, onnx_import::ImportFile("model.onnx", {}));
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace parallax::onnx_import {

struct ImportOptions {
  // One more folder that external data may lie in; empty: the model's own folder only.
  std::string allow_external;
  // Not null: nodes nobody implements are listed here instead of being an error. Shapes are then
  // the declared ones, and the model cannot run.
  std::vector<std::string>* unsupported = nullptr;
};

// Errors: kNotFound, kIo; kInvalidModel says what is wrong and where; kUnsupported lists every
// unsupported node, one a line, with node, domain::operator and opset.
Result<Model> ImportFile(const std::string& path, const ImportOptions& options);

// From memory; external data is refused. `owner` keeps `bytes` alive as long as weights need them;
// null: weights are copied.
Result<Model> ImportBytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                          const ImportOptions& options);

}  // namespace parallax::onnx_import
