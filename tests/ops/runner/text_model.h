// Models in ONNX's text form, for tests of graphs that one node cannot express.
#pragma once

#include <string>

#include "ir/graph.h"

namespace parallax::testing {

// The serialised model; the parser is libonnx's own. Errors carry its message.
Result<std::string> ParseTextModel(const std::string& text);
// Parses, imports and runs the graph passes.
Result<Model> ImportText(const std::string& text);
Result<Model> ImportTextFile(const std::string& path);

}  // namespace parallax::testing
