#include "onnx/skeleton.h"

#include <cstdint>
#include <cstring>
#include <limits>

namespace parallax::onnx_import {
namespace {

// Messages on the way to a TensorProto. Field numbers: onnx.proto.
enum class Message { kModel, kGraph, kNode, kAttribute, kTensor, kSparseTensor, kFunction, kOther };

Message ChildOf(Message parent, uint32_t field) {
  switch (parent) {
    case Message::kModel:
      return field == 7 ? Message::kGraph : field == 25 ? Message::kFunction : Message::kOther;
    case Message::kGraph:
      return field == 1    ? Message::kNode
             : field == 5  ? Message::kTensor
             : field == 15 ? Message::kSparseTensor
                           : Message::kOther;
    case Message::kFunction:
      return field == 7 ? Message::kNode : Message::kOther;
    case Message::kNode:
      return field == 5 ? Message::kAttribute : Message::kOther;
    case Message::kAttribute:
      return field == 5 || field == 10    ? Message::kTensor
             : field == 6 || field == 11  ? Message::kGraph
             : field == 22 || field == 23 ? Message::kSparseTensor
                                          : Message::kOther;
    case Message::kSparseTensor:
      return field == 1 || field == 2 ? Message::kTensor : Message::kOther;
    case Message::kTensor:
    case Message::kOther:
      return Message::kOther;
  }
  return Message::kOther;
}

// Prose for people, in any message: nobody reads it here, and files may hold gigabytes of it.
bool IsDocString(Message message, uint32_t field) {
  switch (message) {
    case Message::kModel:
    case Message::kNode:
      return field == 6;
    case Message::kGraph:
      return field == 10;
    case Message::kAttribute:
      return field == 13;
    case Message::kTensor:
      return field == 12;
    case Message::kFunction:
      return field == 8;
    case Message::kSparseTensor:
    case Message::kOther:
      return false;
  }
  return false;
}

// protobuf reads messages of up to 2 GiB; what is left of a longer one is refused before it is
// copied.
constexpr size_t kMaxBytes = std::numeric_limits<int>::max();
constexpr uint32_t kRawDataField = 9;
constexpr uint32_t kTrainingField = 20;  // of ModelProto: not needed to run the model
constexpr int kMaxDepth = 90;            // protobuf itself refuses 100

void AppendVarint(uint64_t v, std::string* out) {
  while (v >= 0x80) {
    out->push_back(static_cast<char>(v | 0x80));
    v >>= 7;
  }
  out->push_back(static_cast<char>(v));
}

void AppendBytes(uint32_t field, std::string_view bytes, std::string* out) {
  AppendVarint((uint64_t{field} << 3) | 2, out);
  AppendVarint(bytes.size(), out);
  out->append(bytes);
}

// external_data (13) takes {key = 1, value = 2}.
void AppendExternal(std::string_view key, std::string_view value, std::string* out) {
  std::string entry;
  AppendBytes(1, key, &entry);
  AppendBytes(2, value, &entry);
  AppendBytes(13, entry, out);
}

class Walker {
 public:
  explicit Walker(std::span<const std::byte> file) : file_(file) {}

  Result<void> Copy(Message message, size_t begin, size_t end, int depth, std::string* out) {
    if (depth > kMaxDepth) return Broken(begin, "messages are nested too deeply");
    size_t at = begin;
    while (at < end) {
      const size_t start = at;
      uint64_t key, length;
      if (!ReadVarint(&at, end, &key) || key >> 3 == 0 || key >> 35 != 0) {
        return Broken(start, "bad field key");
      }
      const uint32_t field = static_cast<uint32_t>(key >> 3);
      switch (key & 7) {
        case 0:
          if (!ReadVarint(&at, end, &length)) return Broken(start, "bad number");
          break;
        case 1:
          at += 8;
          break;
        case 5:
          at += 4;
          break;
        case 2: {
          if (!ReadVarint(&at, end, &length) || length > end - at) {
            return Broken(start, "a field runs past the end of its message: the file is cut short");
          }
          const size_t body = at;
          at += length;
          PX_RETURN_IF_ERROR(CopyField(message, field, start, body, at, depth, out));
          continue;
        }
        default:
          return Broken(start, "bad wire type");
      }
      if (at > end) return Broken(start, "a field runs past the end of its message");
      PX_RETURN_IF_ERROR(Append(start, at, out));
    }
    return {};
  }

 private:
  Result<void> CopyField(Message message, uint32_t field, size_t start, size_t body, size_t end,
                         int depth, std::string* out) {
    if (message == Message::kModel && field == kTrainingField) return {};
    if (IsDocString(message, field)) return {};
    if (message == Message::kTensor && field == kRawDataField && end - body >= kInlineBytes) {
      AppendExternal("location", kSelfLocation, out);
      AppendExternal("offset", std::to_string(body), out);
      AppendExternal("length", std::to_string(end - body), out);
      AppendVarint((14u << 3) | 0, out);  // data_location = EXTERNAL
      AppendVarint(1, out);
      return {};
    }
    const Message child = ChildOf(message, field);
    if (child == Message::kOther) {
      return Append(start, end, out);
    }
    std::string copy;
    PX_RETURN_IF_ERROR(Copy(child, body, end, depth + 1, &copy));
    AppendBytes(field, copy, out);
    return {};
  }

  Result<void> Append(size_t begin, size_t end, std::string* out) {
    if (end - begin > kMaxBytes - copied_) {
      return MakeError(ErrorCode::kUnsupported,
                       "the model has more than {} bytes besides its tensors", kMaxBytes);
    }
    copied_ += end - begin;
    out->append(reinterpret_cast<const char*>(file_.data()) + begin, end - begin);
    return {};
  }

  bool ReadVarint(size_t* at, size_t end, uint64_t* value) const {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (*at >= end) return false;
      const uint64_t byte = std::to_integer<uint64_t>(file_[(*at)++]);
      *value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  static Error Broken(size_t at, std::string_view what) {
    return MakeError(ErrorCode::kInvalidModel, "not a readable ONNX model: {} (byte {})", what, at);
  }

  std::span<const std::byte> file_;
  size_t copied_ = 0;
};

}  // namespace

Result<std::string> MakeSkeleton(std::span<const std::byte> file) {
  std::string out;
  PX_RETURN_IF_ERROR(Walker(file).Copy(Message::kModel, 0, file.size(), 0, &out));
  return out;
}

}  // namespace parallax::onnx_import
