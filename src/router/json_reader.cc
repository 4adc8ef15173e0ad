#include "router/json_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace parallax::router {
namespace {

// Null for what does not fit int64.
std::optional<int64_t> AsInteger(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t n = value.get<uint64_t>();
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(n);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

}  // namespace

Result<nlohmann::json> ParseJson(std::string_view text) {
  nlohmann::json document = nlohmann::json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                                                  /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    return MakeError(ErrorCode::kInvalidArgument, "not JSON ({} bytes)", text.size());
  }
  return document;
}

JsonObject::JsonObject(const Json& value, std::string path, std::optional<Error>* error)
    : value_(&value), path_(std::move(path)), error_(error) {
  if (value.is_object()) return;
  value_ = nullptr;
  if (!*error_) {
    *error_ = MakeError(ErrorCode::kInvalidArgument, "{}: an object is wanted, found {}",
                        path_.empty() ? "document" : path_, value.type_name());
  }
}

std::string JsonObject::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void JsonObject::Fail(std::string_view key, std::string_view what) {
  if (!*error_) *error_ = MakeError(ErrorCode::kInvalidArgument, "{}: {}", PathOf(key), what);
}

bool JsonObject::Has(std::string_view key) const {
  if (value_ == nullptr) return false;
  const auto it = value_->find(key);
  return it != value_->end() && !it->is_null();
}

const JsonObject::Json* JsonObject::Find(const char* key, bool required) {
  asked_.push_back(key);
  if (value_ == nullptr || *error_) return nullptr;
  const auto it = value_->find(key);
  if (it != value_->end() && !it->is_null()) return &*it;
  if (required) Fail(key, "missing");
  return nullptr;
}

int64_t JsonObject::Integer(const char* key, int64_t min, int64_t max,
                            std::optional<int64_t> fallback) {
  const Json* found = Find(key, !fallback);
  if (found == nullptr) return fallback.value_or(min);
  const std::optional<int64_t> n = AsInteger(*found);
  if (!n || *n < min || *n > max) {
    Fail(key, fmt::format("an integer from {} to {} is wanted, found {}", min, max,
                          found->is_number() ? found->dump() : found->type_name()));
    return fallback.value_or(min);
  }
  return *n;
}

double JsonObject::Number(const char* key, double min, double max, std::optional<double> fallback) {
  const Json* found = Find(key, !fallback);
  if (found == nullptr) return fallback.value_or(min);
  const double n =
      found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(n >= min && n <= max)) {
    Fail(key, fmt::format("a number from {} to {} is wanted, found {}", min, max,
                          found->is_number() ? found->dump() : found->type_name()));
    return fallback.value_or(min);
  }
  return n;
}

bool JsonObject::Boolean(const char* key, std::optional<bool> fallback) {
  const Json* found = Find(key, !fallback);
  if (found == nullptr) return fallback.value_or(false);
  if (!found->is_boolean()) {
    Fail(key, fmt::format("true or false is wanted, found {}", found->type_name()));
    return fallback.value_or(false);
  }
  return found->get<bool>();
}

std::string JsonObject::String(const char* key, std::optional<std::string_view> fallback) {
  const Json* found = Find(key, !fallback);
  if (found == nullptr) return std::string(fallback.value_or(""));
  if (!found->is_string()) {
    Fail(key, fmt::format("a string is wanted, found {}", found->type_name()));
    return "";
  }
  return found->get<std::string>();
}

JsonObject JsonObject::Object(const char* key) {
  const Json* found = Find(key, /*required=*/true);
  // After an error there is nothing to read: *value_ may be anything, or nothing.
  if (found != nullptr) return JsonObject(*found, PathOf(key), error_);
  JsonObject empty = *this;
  empty.value_ = nullptr;
  return empty;
}

const JsonObject::Json* JsonObject::Array(const char* key) {
  const Json* found = Find(key, /*required=*/false);
  if (found == nullptr || found->is_array()) return found;
  Fail(key, fmt::format("an array is wanted, found {}", found->type_name()));
  return nullptr;
}

std::vector<JsonObject> JsonObject::Objects(const char* key) {
  std::vector<JsonObject> objects;
  const Json* found = Array(key);
  if (found == nullptr) return objects;
  for (size_t i = 0; i < found->size(); ++i) {
    objects.emplace_back((*found)[i], fmt::format("{}[{}]", PathOf(key), i), error_);
  }
  return objects;
}

std::vector<int64_t> JsonObject::Integers(const char* key, int64_t min, int64_t max) {
  std::vector<int64_t> values;
  const Json* found = Array(key);
  if (found == nullptr) return values;
  for (const Json& element : *found) {
    const std::optional<int64_t> n = AsInteger(element);
    if (!n || *n < min || *n > max) {
      Fail(key, fmt::format("integers from {} to {} are wanted", min, max));
      return values;
    }
    values.push_back(*n);
  }
  return values;
}

std::vector<std::string> JsonObject::Strings(const char* key) {
  std::vector<std::string> values;
  const Json* found = Array(key);
  if (found == nullptr) return values;
  for (const Json& element : *found) {
    if (!element.is_string()) {
      Fail(key, "strings are wanted");
      return values;
    }
    values.push_back(element.get<std::string>());
  }
  return values;
}

size_t JsonObject::OneOfList(const char* key, const std::vector<std::string_view>& names,
                             std::optional<size_t> fallback) {
  const Json* found = Find(key, !fallback);
  if (found == nullptr) return fallback.value_or(0);
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    const auto it = std::find(names.begin(), names.end(), text);
    if (it != names.end()) return static_cast<size_t>(it - names.begin());
  }
  Fail(key, fmt::format("one of {} is wanted", fmt::join(names, ", ")));
  return fallback.value_or(0);
}

void JsonObject::RefuseUnknown() {
  if (value_ == nullptr) return;
  for (const auto& [key, value] : value_->items()) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) Fail(key, "unknown key");
  }
}

}  // namespace parallax::router
