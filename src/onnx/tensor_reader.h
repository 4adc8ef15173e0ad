// TensorReader: TensorProto to Tensor, with payloads inside the model file, in its fields, or in
// external files.
//
// Role:       used by the graph builder for initializers and tensor attributes.
// Ownership:  tensors share the mappings they point into.
// Threads:    used by one thread.
// Invariants: no byte outside a mapped file is read; external files stay inside the model's folder
//             unless the options allow another place.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "ir/tensor.h"
#include "onnx/mapped_file.h"

namespace onnx {
class TensorProto;
class SparseTensorProto;
}  // namespace onnx

namespace parallax::onnx_import {

// "float16", "complex64"... for messages.
std::string OnnxTypeName(int onnx_type);

class TensorReader {
 public:
  // `file`: the model's bytes, kept alive by `file_owner`. `model_path` is empty when the model
  // does not come from a file: external data is then refused. `allowed_folder`: one more folder
  // external data may lie in, empty for none.
  TensorReader(std::span<const std::byte> file, std::shared_ptr<const void> file_owner,
               std::string model_path, std::string allowed_folder)
      : file_(file),
        file_owner_(std::move(file_owner)),
        model_path_(std::move(model_path)),
        allowed_folder_(std::move(allowed_folder)) {}

  // Errors name the tensor, and wanted and found byte counts where sizes disagree.
  Result<Tensor> Read(const ::onnx::TensorProto& proto);
  // A sparse tensor made dense.
  Result<Tensor> ReadSparse(const ::onnx::SparseTensorProto& proto);

 private:
  Result<Tensor> ReadExternal(const ::onnx::TensorProto& proto, DType dtype, const Shape& shape);
  Result<std::shared_ptr<const MappedFile>> OpenExternal(const std::string& location);

  std::span<const std::byte> file_;
  std::shared_ptr<const void> file_owner_;
  std::string model_path_;
  std::string allowed_folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> external_;
};

}  // namespace parallax::onnx_import
