#include "onnx/tensor_reader.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include <onnx/onnx_pb.h>

#include "onnx/skeleton.h"
#include "ops/core/cast_op.h"

namespace parallax::onnx_import {
namespace {

using ::onnx::TensorProto;

// Files that keep a graph and drop its weights hold tensors of a shape and no element.
std::string_view WithoutData(int64_t found) {
  return found == 0 ? " (is this a graph without its weights?)" : "";
}

template <class T, class Source>
Result<Tensor> FromField(const Source& field, DType dtype, const Shape& shape) {
  if (field.size() != shape.elements()) {
    return MakeError(ErrorCode::kInvalidModel, "shape {} wants {} elements, found {}{}",
                     shape.ToString(), shape.elements(), field.size(), WithoutData(field.size()));
  }
  PX_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(dtype, shape));
  T* out = reinterpret_cast<T*>(t.mutable_bytes());
  for (int i = 0; i < field.size(); ++i) {
    if constexpr (std::is_same_v<T, bool>) {
      out[i] = field.Get(i) != 0;
    } else {
      out[i] = static_cast<T>(field.Get(i));
    }
  }
  return t;
}

// Values kept in the typed fields of the proto: which field holds which type is fixed by
// onnx.proto.
Result<Tensor> FromFields(const TensorProto& proto, DType dtype, const Shape& shape) {
  switch (dtype) {
    case DType::kF32:
      return FromField<float>(proto.float_data(), dtype, shape);
    case DType::kF64:
      return FromField<double>(proto.double_data(), dtype, shape);
    case DType::kI64:
      return FromField<int64_t>(proto.int64_data(), dtype, shape);
    case DType::kU64:
      return FromField<uint64_t>(proto.uint64_data(), dtype, shape);
    case DType::kU32:
      return FromField<uint32_t>(proto.uint64_data(), dtype, shape);
    case DType::kI32:
      return FromField<int32_t>(proto.int32_data(), dtype, shape);
    case DType::kI16:
      return FromField<int16_t>(proto.int32_data(), dtype, shape);
    case DType::kI8:
      return FromField<int8_t>(proto.int32_data(), dtype, shape);
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return FromField<uint16_t>(proto.int32_data(), dtype, shape);
    case DType::kU8:
      return FromField<uint8_t>(proto.int32_data(), dtype, shape);
    case DType::kBool:
      return FromField<bool>(proto.int32_data(), dtype, shape);
    case DType::kUndefined:
    case DType::kString:
      break;
  }
  return MakeError(ErrorCode::kInternal, "no field for type {}", Name(dtype));
}

// Wraps bytes of the model's, or (`mapped`) of a file's mapping. Small misaligned tensors are copied at once: only large ones are worth
// the care of reading them misaligned.
Result<Tensor> FromBytes(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                         const std::shared_ptr<const void>& owner, bool mapped) {
  constexpr size_t kCopyBelow = 4096;
  const size_t wanted = static_cast<size_t>(shape.elements()) * SizeOf(dtype);
  if (bytes.size() != wanted) {
    return MakeError(ErrorCode::kInvalidModel, "{}{} wants {} bytes, found {}{}", Name(dtype),
                     shape.ToString(), wanted, bytes.size(),
                     WithoutData(static_cast<int64_t>(bytes.size())));
  }
  Tensor t = mapped ? Tensor::Map(dtype, shape, bytes.data(), owner)
                    : Tensor::Wrap(dtype, shape, bytes.data(), owner);
  if (owner != nullptr && dtype != DType::kBool && (t.aligned() || wanted >= kCopyBelow)) return t;
  PX_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(dtype, shape));
  if (dtype == DType::kBool) {  // any non-zero byte is true; kernels rely on 0 and 1
    for (size_t i = 0; i < wanted; ++i) {
      copy.mutable_bytes()[i] = bytes[i] == std::byte{0} ? std::byte{0} : std::byte{1};
    }
  } else if (wanted > 0) {
    std::memcpy(copy.mutable_bytes(), bytes.data(), wanted);
  }
  return copy;
}

std::optional<uint64_t> ParseCount(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

bool Inside(const std::filesystem::path& file, const std::filesystem::path& folder) {
  const std::filesystem::path relative = file.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

std::string OnnxTypeName(int onnx_type) {
  if (onnx_type == TensorProto::UNDEFINED) return "an undefined type";
  if (TensorProto::DataType_IsValid(onnx_type)) {
    return TensorProto::DataType_Name(static_cast<TensorProto::DataType>(onnx_type));
  }
  return fmt::format("type number {}", onnx_type);
}

Result<Tensor> TensorReader::Read(const TensorProto& proto) {
  const std::string context = fmt::format("tensor '{}'", proto.name());
  const DType dtype = ops::DTypeFromOnnx(proto.data_type());
  if (dtype == DType::kUndefined) {
    return MakeError(ErrorCode::kUnsupported, "{} is of {}, which is not supported", context,
                     OnnxTypeName(proto.data_type()));
  }
  Result<Shape> shape = Shape::Make({proto.dims().data(), static_cast<size_t>(proto.dims_size())});
  if (!shape.ok()) return shape.error().WithContext(context);
  if (proto.has_segment()) {
    return MakeError(ErrorCode::kUnsupported, "{} is stored in segments", context);
  }
  Result<Tensor> result = Tensor();
  if (proto.data_location() == TensorProto::EXTERNAL) {
    result = ReadExternal(proto, dtype, *shape);
  } else if (proto.has_raw_data()) {
    // A small payload inside the skeleton, which dies after import: a null owner makes a copy.
    result = FromBytes(dtype, *shape,
                       std::as_bytes(std::span(proto.raw_data().data(), proto.raw_data().size())),
                       nullptr, /*mapped=*/false);
  } else {
    result = FromFields(proto, dtype, *shape);
  }
  if (!result.ok()) return result.error().WithContext(context);
  return result;
}

Result<Tensor> TensorReader::ReadExternal(const TensorProto& proto, DType dtype,
                                          const Shape& shape) {
  std::string location;
  std::optional<uint64_t> offset = 0, length;
  for (const auto& entry : proto.external_data()) {  // of repeated keys the last one counts
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset" && !(offset = ParseCount(entry.value()))) {
      return MakeError(ErrorCode::kInvalidModel, "bad external offset '{}'", entry.value());
    }
    if (entry.key() == "length" && !(length = ParseCount(entry.value()))) {
      return MakeError(ErrorCode::kInvalidModel, "bad external length '{}'", entry.value());
    }
  }
  std::span<const std::byte> bytes = file_;
  std::shared_ptr<const void> owner = file_owner_;
  if (location != kSelfLocation) {
    PX_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> external, OpenExternal(location));
    bytes = external->bytes();
    owner = external;
  }
  const uint64_t wanted = static_cast<uint64_t>(shape.elements()) * SizeOf(dtype);
  const uint64_t count = length.value_or(wanted);
  if (*offset > bytes.size() || count > bytes.size() - *offset) {
    return MakeError(
        ErrorCode::kInvalidModel,
        "external file '{}' is too short: wanted {} bytes at offset {}, found {} bytes", location,
        count, *offset, bytes.size());
  }
  // A model that is imported from memory lies in its caller's.
  const bool mapped = location != kSelfLocation || !model_path_.empty();
  return FromBytes(dtype, shape, bytes.subspan(*offset, count), owner, mapped);
}

Result<std::shared_ptr<const MappedFile>> TensorReader::OpenExternal(const std::string& location) {
  namespace fs = std::filesystem;
  if (model_path_.empty()) {
    return MakeError(ErrorCode::kInvalidModel,
                     "external data '{}' needs a model that is loaded from a file", location);
  }
  if (location.empty() || location.find('\0') != std::string::npos) {
    return MakeError(ErrorCode::kInvalidModel, "external data has no file name");
  }
  if (auto it = external_.find(location); it != external_.end()) return it->second;
  std::error_code error;
  const fs::path model(model_path_);
  const fs::path folder = fs::canonical(model.has_parent_path() ? model.parent_path() : ".", error);
  const fs::path file = fs::weakly_canonical(folder / location, error);
  // The folder of the model as named, and the folder its file really lies in: stores that keep
  // files elsewhere link both the model and its weights.
  const fs::path real_folder = fs::canonical(model, error).parent_path();
  bool allowed = !fs::path(location).is_absolute() &&
                 Inside(fs::path(location).lexically_normal(), ".") &&
                 (Inside(file, folder) || Inside(file, real_folder));
  if (!allowed && !allowed_folder_.empty()) {
    allowed = Inside(file, fs::weakly_canonical(allowed_folder_, error));
  }
  if (!allowed) {
    return MakeError(ErrorCode::kInvalidModel,
                     "external data '{}' lies outside the model's folder; --allow-external PATH "
                     "would permit it",
                     location);
  }
  PX_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> mapped, MappedFile::Open(file.string()));
  external_[location] = mapped;
  return mapped;
}

Result<Tensor> TensorReader::ReadSparse(const ::onnx::SparseTensorProto& proto) {
  PX_ASSIGN_OR_RETURN(Tensor mapped, Read(proto.values()));
  PX_ASSIGN_OR_RETURN(Tensor values, mapped.Aligned());
  PX_ASSIGN_OR_RETURN(Tensor indices, Read(proto.indices()));
  PX_ASSIGN_OR_RETURN(Shape shape,
                      Shape::Make({proto.dims().data(), static_cast<size_t>(proto.dims_size())}));
  const auto broken = [&] {
    return MakeError(ErrorCode::kInvalidModel,
                     "sparse tensor '{}': indices {} do not fit values {} and shape {}",
                     proto.values().name(), indices.shape().ToString(), values.shape().ToString(),
                     shape.ToString());
  };
  std::vector<int64_t> index;
  const int64_t count = values.elements();
  if (!ReadInts(indices, std::numeric_limits<int64_t>::max(), &index)) return broken();
  const bool linear = indices.shape().rank() == 1;
  if (static_cast<int64_t>(index.size()) != (linear ? count : count * shape.rank()))
    return broken();
  PX_ASSIGN_OR_RETURN(Tensor dense, Tensor::Allocate(values.dtype(), shape));
  if (dense.bytes() > 0) std::memset(dense.mutable_bytes(), 0, dense.bytes());
  const size_t size = SizeOf(values.dtype());
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    if (linear) {
      at = index[static_cast<size_t>(i)];
    } else {
      for (int d = 0; d < shape.rank(); ++d) {
        const int64_t x = index[static_cast<size_t>(i * shape.rank() + d)];
        if (x < 0 || x >= shape[d]) return broken();
        at = at * shape[d] + x;
      }
    }
    if (at < 0 || at >= shape.elements()) return broken();
    std::memcpy(dense.mutable_bytes() + static_cast<size_t>(at) * size,
                values.bytes_begin() + static_cast<size_t>(i) * size, size);
  }
  return dense;
}

}  // namespace parallax::onnx_import
