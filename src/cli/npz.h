// NumPy files: .npy arrays and .npz archives of them, as tensors.
//
// Role:       how the command line takes inputs and gives outputs.
// Ownership:  values.
// Threads:    pure apart from the files.
// Invariants: an .npz appears under its name only when it is complete; where the name is a link, at
//             the place it leads to. Reading takes memory for an array only after its type and
//             shape were found right, whatever the file's size or claims.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace parallax::cli {

// Errors: kNotFound, kIo, kInvalidArgument for a file that is not NumPy's, kUnsupported for a dtype
// no tensor has. Column-major and big-endian arrays are turned into what tensors hold.
// `check` sees type and shape before the data is read.
using CheckArray = std::function<Result<void>(DType dtype, const Shape& shape)>;
Result<Tensor> ReadNpy(const std::string& path, const CheckArray& check);
// By array name. Compressed archives are read too; two arrays of one name are an error.
using CheckNamedArray =
    std::function<Result<void>(const std::string& name, DType dtype, const Shape& shape)>;
Result<std::map<std::string, Tensor>> ReadNpz(const std::string& path,
                                              const CheckNamedArray& check);

// Whether the file starts as an .npy does.
bool LooksLikeNpy(const std::string& path);

// bf16 is written as uint16, its bits. Names must be text in UTF-8.
Result<void> WriteNpz(const std::string& path,
                      const std::vector<std::pair<std::string, Tensor>>& arrays);

}  // namespace parallax::cli
