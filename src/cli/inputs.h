// Inputs: the tensors a command feeds to a model, from files or made up.
//
// Role:       shared by run, bench and analyze; the option texts live in AddInputOptions.
// Ownership:  values.
// Threads:    used by one thread.
// Invariants: whatever was made up because nobody gave it is written down in Assumptions, so that
//             an error it leads to can say so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ir/graph.h"

namespace parallax::cli {

struct InputOptions {
  std::string npz;                  // --inputs FILE
  std::vector<std::string> arrays;  // --input NAME=FILE
  std::vector<std::string> shapes;  // --shape NAME=1x3x640x640 or EXTENT=640
  std::optional<uint64_t> seed;     // --random SEED

  bool any() const { return !npz.empty() || !arrays.empty() || !shapes.empty(); }
};

// What happens to inputs that nobody gives.
enum class NotGiven { kRefuse, kRefuseUnlessRandom, kDraw };
// Analyses need no values: kRefuse leaves --random out.
void AddInputOptions(CLI::App* app, InputOptions* options, NotGiven not_given);

struct Assumptions {
  std::vector<std::string> open_extents;     // inputs with an extent that was taken as 1
  std::string shape_example;                 // what would set the extents of the first
  std::vector<std::string> random_integers;  // inputs with values that a model may not take

  // Which extents were taken as 1 and what would set them, or "".
  std::string OpenExtents() const;
  // The error with a line for each kind of assumption behind it. Plans depend on shapes alone.
  Error ExplainShapes(const Error& error) const;
  Error ExplainRun(const Error& error) const;
};

struct Inputs {
  std::vector<TensorType> types;  // concrete, one for each graph input
  // Undefined where the model's default stands, or where no values were asked for.
  std::vector<Tensor> tensors;
  Assumptions assumptions;
};

// Types of all inputs and values of those given in files. Open extents are those of --shape, or of
// another input that has the same symbol, else 1. Errors name the input; what the command line got
// wrong is a usage error (usage.h).
Result<Inputs> GivenInputs(const Model& model, const InputOptions& options);

// The same with every value. Inputs not given are drawn from --random or `default_seed` (floats
// from N(0,1), integers uniform in [0,1000), ones where the name contains "mask", bools true); with
// neither, an input without a default is a usage error.
Result<Inputs> MakeInputs(const Model& model, const InputOptions& options,
                          std::optional<uint64_t> default_seed);

}  // namespace parallax::cli
