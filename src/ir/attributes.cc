#include "ir/attributes.h"

namespace parallax {

std::string_view Name(AttributeType type) {
  switch (type) {
    case AttributeType::kInt:
      return "int";
    case AttributeType::kFloat:
      return "float";
    case AttributeType::kString:
      return "string";
    case AttributeType::kInts:
      return "ints";
    case AttributeType::kFloats:
      return "floats";
    case AttributeType::kStrings:
      return "strings";
    case AttributeType::kTensor:
      return "tensor";
    case AttributeType::kGraph:
      return "graph";
  }
  return "?";
}

void Attributes::Set(std::string name, Value value) {
  for (Entry& e : entries_) {
    if (e.name == name) {
      e.value = std::move(value);
      return;
    }
  }
  entries_.push_back({std::move(name), std::move(value)});
}

const Attributes::Entry* Attributes::Find(std::string_view name) const {
  for (const Entry& e : entries_) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

int64_t Attributes::Int(std::string_view name, int64_t fallback) const {
  const int64_t* v = Get<int64_t>(name);
  return v == nullptr ? fallback : *v;
}
float Attributes::Float(std::string_view name, float fallback) const {
  const float* v = Get<float>(name);
  return v == nullptr ? fallback : *v;
}
std::string_view Attributes::String(std::string_view name, std::string_view fallback) const {
  const std::string* v = Get<std::string>(name);
  return v == nullptr ? fallback : std::string_view(*v);
}
const std::vector<int64_t>* Attributes::Ints(std::string_view name) const {
  return Get<std::vector<int64_t>>(name);
}
const std::vector<float>* Attributes::Floats(std::string_view name) const {
  return Get<std::vector<float>>(name);
}
const std::vector<std::string>* Attributes::Strings(std::string_view name) const {
  return Get<std::vector<std::string>>(name);
}
const Tensor* Attributes::TensorValue(std::string_view name) const { return Get<Tensor>(name); }

}  // namespace parallax
