// JsonObject: reads an object of untrusted JSON key by key; the first thing wrong is remembered by
// path.
//
// Role:       under Decision's FromJson and ParseModelFile; internal to the room.
// Ownership:  borrows the parsed document and the error slot.
// Threads:    one reader at a time.
// Invariants: never throws and never fails but through the slot; after the first error every read
//             gives its fallback or an empty value, so callers check once at the end.
// Example:
//   std::optional<Error> error;
//   JsonObject top(document, "", &error);
//   int64_t g = top.Integer("g", 0, kLimit);
//   top.RefuseUnknown();
//   if (error) return *error;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace parallax::router {

class JsonObject {
 public:
  using Json = nlohmann::json;

  // `value` should be an object: anything else is an error at `path` ("" for the document).
  JsonObject(const Json& value, std::string path, std::optional<Error>* error);

  bool Has(std::string_view key) const;  // there, and not null

  // Without a fallback the key must be there. Null counts as absent.
  int64_t Integer(const char* key, int64_t min, int64_t max, std::optional<int64_t> fallback = {});
  double Number(const char* key, double min, double max, std::optional<double> fallback = {});
  bool Boolean(const char* key, std::optional<bool> fallback = {});
  std::string String(const char* key, std::optional<std::string_view> fallback = {});
  JsonObject Object(const char* key);
  // Elements of an array of objects; empty where the key is absent.
  std::vector<JsonObject> Objects(const char* key);
  std::vector<int64_t> Integers(const char* key, int64_t min, int64_t max);
  std::vector<std::string> Strings(const char* key);

  // One of `names`, by its index.
  template <class Names>
  size_t OneOf(const char* key, const Names& names, std::optional<size_t> fallback = {}) {
    return OneOfList(key, std::vector<std::string_view>(std::begin(names), std::end(names)),
                     fallback);
  }

  // An error for each key that nobody has asked for.
  void RefuseUnknown();
  // An error at `key`.
  void Fail(std::string_view key, std::string_view what);

 private:
  const Json* Find(const char* key, bool required);
  const Json* Array(const char* key);  // null where it is absent, or no array: an error then
  size_t OneOfList(const char* key, const std::vector<std::string_view>& names,
                   std::optional<size_t> fallback);
  std::string PathOf(std::string_view key) const;

  const Json* value_;
  std::string path_;
  std::optional<Error>* error_;
  std::vector<std::string_view> asked_;
};

// The document, or an error that says that it is no JSON.
Result<nlohmann::json> ParseJson(std::string_view text);

}  // namespace parallax::router
