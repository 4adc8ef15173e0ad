// Models in ONNX's text form, for tests of graphs that one node cannot express, and real ones.
#pragma once

#include <string>

#include "ir/graph.h"

namespace parallax::testing {

// The serialised model; the parser is libonnx's own. Errors carry its message.
Result<std::string> ParseTextModel(const std::string& text);
// Parses, imports and runs the graph passes.
Result<Model> ImportText(const std::string& text);
Result<Model> ImportTextFile(const std::string& path);
// A model file, models/NAME.graph.onnx included: weights such a file lacks are zero.
Result<Model> ImportModelFile(const std::string& path);

}  // namespace parallax::testing
