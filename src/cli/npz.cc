#include "cli/npz.h"

#include <zip.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "base/function_ref.h"
#include "cli/human.h"
#include "onnx/mapped_file.h"

namespace parallax::cli {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

Error Bad(const std::string& where, std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument, "{}: not a NumPy array: {}", where, what);
}

// The text after 'key': in a header such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
std::optional<std::string_view> Field(std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

DType FromDescr(std::string_view d) {
  static constexpr std::pair<std::string_view, DType> kDescr[] = {
      {"<f4", DType::kF32}, {"<f8", DType::kF64}, {"<f2", DType::kF16}, {"|i1", DType::kI8},
      {"|u1", DType::kU8},  {"<i2", DType::kI16}, {"<u2", DType::kU16}, {"<i4", DType::kI32},
      {"<u4", DType::kU32}, {"<i8", DType::kI64}, {"<u8", DType::kU64}, {"|b1", DType::kBool}};
  for (const auto& [descr, dtype] : kDescr) {
    if (descr == d) return dtype;
  }
  return DType::kUndefined;
}

std::string_view ToDescr(DType d) {
  switch (d) {
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kF16:
      return "<f2";
    case DType::kI8:
      return "|i1";
    case DType::kU8:
      return "|u1";
    case DType::kI16:
      return "<i2";
    case DType::kU16:
    case DType::kBF16:
      return "<u2";
    case DType::kI32:
      return "<i4";
    case DType::kU32:
      return "<u4";
    case DType::kI64:
      return "<i8";
    case DType::kU64:
      return "<u8";
    case DType::kBool:
      return "|b1";
    case DType::kUndefined:
    case DType::kString:
      break;
  }
  return "";
}

Result<Shape> ParseShape(std::string_view text, const std::string& where) {
  std::vector<int64_t> dims;
  if (text.empty() || text[0] != '(') return Bad(where, "bad shape");
  size_t at = 1;
  while (at < text.size() && text[at] != ')') {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (error != std::errc()) return Bad(where, "bad shape");
    dims.push_back(value);
    at = static_cast<size_t>(end - text.data());
    while (at < text.size() && (text[at] == ',' || text[at] == ' ' || text[at] == 'L')) ++at;
  }
  Result<Shape> shape = Shape::Make(dims);
  if (!shape.ok()) return shape.error().WithContext(where);
  return shape;
}

// Column-major to row-major.
Result<Tensor> ToRowMajor(const Tensor& t) {
  PX_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(t.dtype(), t.shape()));
  const size_t size = SizeOf(t.dtype());
  const int rank = t.shape().rank();
  std::vector<int64_t> index(static_cast<size_t>(rank), 0);
  for (int64_t i = 0; i < t.elements(); ++i) {
    int64_t from = 0;
    for (int d = rank; d-- > 0;) from = from * t.shape()[d] + index[static_cast<size_t>(d)];
    std::memcpy(out.mutable_bytes() + static_cast<size_t>(i) * size,
                t.bytes_begin() + static_cast<size_t>(from) * size, size);
    for (int d = rank; d-- > 0;) {
      if (++index[static_cast<size_t>(d)] < t.shape()[d]) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
  return out;
}

void SwapBytes(Tensor* t) {
  const size_t size = SizeOf(t->dtype());
  std::byte* at = t->mutable_bytes();
  for (int64_t i = 0; i < t->elements(); ++i, at += size) std::reverse(at, at + size);
}

// Reads the next `n` bytes, fewer at the end or at an error.
using ReadBytes = FunctionRef<size_t(void* to, size_t n)>;

constexpr size_t kMaxHeader = size_t{1} << 20;  // NumPy's own are some hundred bytes

// An array from its `total` bytes. Nothing of its size is allocated or read before `check` has seen
// type and shape: files claim more than memory holds, and compressed ones keep the claim.
Result<Tensor> ReadArray(ReadBytes read, uint64_t total, const std::string& where,
                         const CheckArray& check) {
  std::string start(10, '\0');
  const size_t got = read(start.data(), start.size());
  if (start.substr(0, 2) == "PK") return Bad(where, "it is an .npz file; give it with --inputs");
  if (got < start.size() || start.substr(0, kMagic.size()) != kMagic) {
    return Bad(where, "wrong magic");
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(start[i])); };
  size_t header_size = byte(8) | byte(9) << 8;
  if (byte(6) >= 2) {
    start.resize(12);
    if (read(start.data() + 10, 2) < 2) return Bad(where, "cut short");
    header_size |= byte(10) << 16 | byte(11) << 24;
  }
  if (header_size > total - start.size()) return Bad(where, "cut short");
  if (header_size > kMaxHeader) return Bad(where, "its header is too long");
  std::string header(header_size, '\0');
  if (read(header.data(), header_size) < header_size) return Bad(where, "cut short");
  const uint64_t data_size = total - start.size() - header_size;

  const auto descr = Field(header, "descr"), order = Field(header, "fortran_order"),
             shape_text = Field(header, "shape");
  if (!descr || !order || !shape_text || descr->empty() || (*descr)[0] != '\'') {
    return Bad(where, "bad header");
  }
  const std::string name(descr->substr(1, descr->find('\'', 1) - 1));
  const bool big_endian = name.starts_with('>');
  const DType dtype = FromDescr(big_endian ? "<" + name.substr(1) : name);
  if (dtype == DType::kUndefined) {
    return MakeError(ErrorCode::kUnsupported, "{}: dtype '{}' is not supported", where, name);
  }
  PX_ASSIGN_OR_RETURN(Shape shape, ParseShape(*shape_text, where));
  const size_t wanted = static_cast<size_t>(shape.elements()) * SizeOf(dtype);
  if (data_size != wanted) {
    return Bad(where, fmt::format("{}{} wants {} bytes of data, found {}", Name(dtype),
                                  shape.ToString(), wanted, data_size));
  }
  PX_RETURN_IF_ERROR(check(dtype, shape));
  PX_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(dtype, shape));
  std::byte beyond;
  if (read(t.mutable_bytes(), wanted) < wanted || read(&beyond, 1) != 0) {
    return MakeError(ErrorCode::kIo, "{}: the file is damaged", where);
  }
  if (big_endian) SwapBytes(&t);
  if (dtype == DType::kBool) {
    for (size_t i = 0; i < wanted; ++i) {
      if (t.mutable_bytes()[i] != std::byte{0}) t.mutable_bytes()[i] = std::byte{1};
    }
  }
  if (order->substr(0, 4) == "True" && shape.rank() > 1) return ToRowMajor(t);
  return t;
}

std::string NpyHeader(const Tensor& t) {
  std::string shape;
  for (int64_t d : t.shape().dims()) shape += fmt::format("{}, ", d);
  if (t.shape().rank() > 1) shape.resize(shape.size() - 2);
  if (t.shape().rank() == 1) shape.resize(shape.size() - 1);
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 ToDescr(t.dtype()), shape);
  dict.append(63 - (10 + dict.size()) % 64, ' ');  // data starts at a multiple of 64
  dict += '\n';
  std::string out(kMagic);
  out += std::string("\x01\x00", 2);
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict;
}

struct Discard {
  void operator()(zip_t* z) const { zip_discard(z); }
};

std::string ZipMessage(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

Result<Tensor> ReadEntry(zip_t* archive, zip_uint64_t i, uint64_t size, const std::string& where,
                         const CheckArray& check) {
  zip_file_t* file = zip_fopen_index(archive, i, 0);
  if (file == nullptr) return MakeError(ErrorCode::kIo, "{}: {}", where, zip_strerror(archive));
  const auto read = [&](void* to, size_t n) {
    size_t got = 0;
    while (got < n) {
      const zip_int64_t part = zip_fread(file, static_cast<std::byte*>(to) + got, n - got);
      if (part <= 0) break;
      got += static_cast<size_t>(part);
    }
    return got;
  };
  Result<Tensor> tensor = ReadArray(read, size, where, check);
  zip_fclose(file);
  return tensor;
}

// A name that is not text would be cut (at a zero byte) or refused with no more than "invalid".
bool IsText(std::string_view name) {
  std::string shown;
  for (char c : name) {
    if (c == '\0') return false;
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)
      shown += c;  // control characters may be
  }
  return Printable(shown) == shown;
}

// What is written is the file a link leads to: replacing the link would leave its target, which the
// user meant, as it was.
std::string FollowLinks(std::string path) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (int i = 0; i < 40 && fs::is_symlink(path, error); ++i) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path =
        target.is_absolute() ? target.string() : (fs::path(path).parent_path() / target).string();
  }
  return path;
}

}  // namespace

Result<Tensor> ReadNpy(const std::string& path, const CheckArray& check) {
  PX_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  std::span<const std::byte> rest = file->bytes();
  const auto read = [&](void* to, size_t n) {
    n = std::min(n, rest.size());
    if (n > 0) std::memcpy(to, rest.data(), n);
    rest = rest.subspan(n);
    return n;
  };
  return ReadArray(read, file->bytes().size(), path, check);
}

bool LooksLikeNpy(const std::string& path) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  return file.ok() && (*file)->bytes().size() >= kMagic.size() &&
         std::memcmp((*file)->bytes().data(), kMagic.data(), kMagic.size()) == 0;
}

Result<std::map<std::string, Tensor>> ReadNpz(const std::string& path,
                                              const CheckNamedArray& check) {
  PX_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source =
      zip_source_buffer_create(file->bytes().data(), file->bytes().size(), 0, &error);
  zip_t* opened = source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY, &error);
  if (opened == nullptr) {
    const std::string message = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (source != nullptr) zip_source_free(source);
    return MakeError(ErrorCode::kInvalidArgument, "cannot read '{}': {}", path, message);
  }
  zip_error_fini(&error);
  std::unique_ptr<zip_t, Discard> archive(opened);
  std::map<std::string, Tensor> arrays;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0) {
      return MakeError(ErrorCode::kIo, "{}: {}", path, zip_strerror(archive.get()));
    }
    std::string name = stat.name;
    const std::string where = fmt::format("{}:{}", path, name);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (arrays.contains(name)) {
      return MakeError(ErrorCode::kInvalidArgument, "{}: holds two arrays named '{}'", path, name);
    }
    const CheckArray check_this = [&](DType dtype, const Shape& shape) {
      return check(name, dtype, shape);
    };
    PX_ASSIGN_OR_RETURN(arrays[name], ReadEntry(archive.get(), static_cast<zip_uint64_t>(i),
                                                stat.size, where, check_this));
  }
  return arrays;
}

Result<void> WriteNpz(const std::string& given_path,
                      const std::vector<std::pair<std::string, Tensor>>& arrays) {
  for (const auto& [name, tensor] : arrays) {
    if (IsText(name)) continue;
    return MakeError(ErrorCode::kInvalidArgument,
                     "cannot write '{}': the output name '{}' is not text in UTF-8", given_path,
                     Printable(name));
  }
  const std::string path = FollowLinks(given_path);
  int code = 0;
  std::unique_ptr<zip_t, Discard> archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (archive == nullptr) {
    return MakeError(ErrorCode::kIo, "cannot write '{}': {}", path, ZipMessage(code));
  }
  std::vector<std::string> entries;  // libzip reads them when it closes the archive
  entries.reserve(arrays.size());
  for (const auto& [name, tensor] : arrays) {
    std::string entry = NpyHeader(tensor);
    entry.append(reinterpret_cast<const char*>(tensor.bytes_begin()), tensor.bytes());
    entries.push_back(std::move(entry));
    zip_source_t* source =
        zip_source_buffer(archive.get(), entries.back().data(), entries.back().size(), 0);
    const zip_int64_t index = source == nullptr
                                  ? -1
                                  : zip_file_add(archive.get(), (name + ".npy").c_str(), source,
                                                 ZIP_FL_OVERWRITE | ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      if (source != nullptr) zip_source_free(source);
      return MakeError(ErrorCode::kIo, "cannot write '{}': {}", path, zip_strerror(archive.get()));
    }
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive.get()) != 0) {
    return MakeError(ErrorCode::kIo, "cannot write '{}': {}", path, zip_strerror(archive.get()));
  }
  (void)archive.release();  // closed
  return {};
}

}  // namespace parallax::cli
