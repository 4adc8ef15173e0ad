// NumPy files: .npy arrays and .npz archives of them, as tensors.
//
// Role:       how the command line takes inputs and gives outputs.
// Ownership:  values.
// Threads:    pure apart from the files.
// Invariants: an .npz appears under its name only when it is complete.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace parallax::cli {

// Errors: kNotFound, kIo, kInvalidArgument for a file that is not NumPy's, kUnsupported for a dtype
// no tensor has. Column-major and big-endian arrays are turned into what tensors hold.
Result<Tensor> ReadNpy(const std::string& path);
// By array name. Compressed archives are read too.
Result<std::map<std::string, Tensor>> ReadNpz(const std::string& path);

// Whether the file starts as an .npy does.
bool LooksLikeNpy(const std::string& path);

// bf16 is written as uint16, its bits.
Result<void> WriteNpz(const std::string& path,
                      const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace parallax::cli
