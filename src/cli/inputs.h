// Inputs: the tensors a command feeds to a model, from files or made up.
//
// Role:       shared by run, bench and analyze; the option texts live in AddInputOptions.
// Ownership:  values.
// Threads:    used by one thread.
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
  std::vector<std::string> shapes;  // --shape NAME=1x3x640x640
  std::optional<uint64_t> seed;     // --random SEED
};

void AddInputOptions(CLI::App* app, InputOptions* options);

// The concrete type of every graph input: symbolic extents are 1 unless --shape, or an array given
// for that input, says otherwise. Errors name the input.
Result<std::vector<TensorType>> InputTypes(const Model& model, const InputOptions& options);

// One tensor per graph input. Inputs not given are drawn from `default_seed` or --random (floats
// from N(0,1), integers uniform in [0,1000), ones where the name contains "mask", bools true); with
// neither, an input without a default is an error.
Result<std::vector<Tensor>> MakeInputs(const Model& model, const InputOptions& options,
                                       std::optional<uint64_t> default_seed);

}  // namespace parallax::cli
