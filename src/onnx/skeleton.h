// Skeleton of a model file: the same protobuf without its large tensor payloads and doc strings.
//
// Role:       first step of import. Parsing the whole file with protobuf would copy every weight
//             to the heap; the skeleton is small, and payloads stay where the file is mapped.
// Ownership:  the result is self-contained; payload offsets refer to the given bytes.
// Threads:    pure.
// Cost:       one pass over the message headers: payload bytes are not touched.
// Invariants: a dropped raw_data of a TensorProto is replaced by external_data entries with
//             location kSelfLocation and its offset and length in the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace parallax::onnx_import {

// Not a legal file name, so it cannot collide with a real location.
inline constexpr std::string_view kSelfLocation("\0self", 5);

// Payloads below this many bytes stay inside the skeleton.
inline constexpr size_t kInlineBytes = 512;

// Error kInvalidModel, with the byte offset, when the wire format is broken.
Result<std::string> MakeSkeleton(std::span<const std::byte> file);

}  // namespace parallax::onnx_import
