#include "tests/ops/runner/op_case.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "ops/core/table.h"

namespace parallax::testing {
namespace {

template <class... Args>
Error Bad(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

std::vector<std::string> SplitCommas(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// Words separated by spaces; a quoted word may hold spaces.
std::vector<std::string> SplitWords(const std::string& line) {
  std::vector<std::string> words;
  size_t at = 0;
  while (at < line.size()) {
    if (std::isspace(static_cast<unsigned char>(line[at])) != 0) {
      ++at;
      continue;
    }
    if (line[at] == '#') break;
    std::string word;
    bool quoted = false;
    while (at < line.size() &&
           (quoted || std::isspace(static_cast<unsigned char>(line[at])) == 0)) {
      if (line[at] == '"') {
        quoted = !quoted;
      } else {
        word += line[at];
      }
      ++at;
    }
    words.push_back(word);
  }
  return words;
}

bool ParseInt(const std::string& text, int64_t* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool ParseNumber(const std::string& text, double* value) {
  if (text == "true" || text == "false") {
    *value = text == "true";
    return true;
  }
  char* end = nullptr;
  *value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0';
}

template <class T>
bool SetElement(const std::string& text, T* out) {
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    return error == std::errc() && end == text.data() + text.size();
  } else {
    double v;
    if (!ParseNumber(text, &v)) return false;
    *out = static_cast<T>(v);
    return true;
  }
}

// Fills with random values: uniform in [lo, hi], integers inclusive.
void FillRandom(Tensor* t, std::optional<std::pair<double, double>> range, uint64_t seed) {
  std::mt19937_64 random(seed);
  DispatchType(t->dtype(), [&]<class T>() {
    double lo = -2, hi = 2;
    if (std::is_same_v<T, bool>) lo = 0, hi = 1;
    if (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      lo = std::is_signed_v<T> ? -5 : 0, hi = 5;
    if (range) lo = range->first, hi = range->second;
    for (int64_t i = 0; i < t->elements(); ++i) {
      const double u = static_cast<double>(random() >> 11) * 0x1p-53;
      if constexpr (std::is_integral_v<T>) {
        t->mutable_data<T>()[i] = static_cast<T>(std::floor(lo + u * (hi - lo + 1)));
      } else {
        t->mutable_data<T>()[i] = T(lo + u * (hi - lo));
      }
    }
  });
}

Result<void> FillValues(const std::string& list, Tensor* t) {
  const bool fill = !list.empty() && list[0] == '=';
  const std::vector<std::string> parts = SplitCommas(fill ? list.substr(1) : list);
  const int64_t count = static_cast<int64_t>(parts.size());
  if (fill ? count != 1 : count != t->elements()) {
    return Bad("{} values for shape {}", count, t->shape().ToString());
  }
  bool good = true;
  DispatchType(t->dtype(), [&]<class T>() {
    for (int64_t i = 0; i < t->elements(); ++i) {
      good &= SetElement<T>(parts[static_cast<size_t>(fill ? 0 : i)], &t->mutable_data<T>()[i]);
    }
  });
  if (!good) return Bad("cannot read '{}'", list);
  return {};
}

// TYPE[dims] with an optional {values}; `seed` draws the values where none are written.
Result<CaseTensor> ParseTensor(const std::string& text, uint64_t seed, bool result) {
  CaseTensor t;
  const size_t bracket = text.find('['), close = text.find(']');
  if (bracket == std::string::npos || close == std::string::npos || close < bracket) {
    return Bad("'{}' should look like f32[2,3]{{...}}", text);
  }
  t.dtype = DTypeFromName(text.substr(0, bracket));
  if (SizeOf(t.dtype) == 0) return Bad("unknown type in '{}'", text);
  t.has_type = true;
  std::vector<int64_t> dims;
  for (const std::string& d : SplitCommas(text.substr(bracket + 1, close - bracket - 1))) {
    if (!ParseInt(d, &dims.emplace_back())) return Bad("bad shape in '{}'", text);
  }
  PX_ASSIGN_OR_RETURN(t.shape, Shape::Make(dims));
  std::string rest = text.substr(close + 1);
  if (rest.empty() && result) return t;
  PX_ASSIGN_OR_RETURN(t.values, Tensor::Allocate(t.dtype, t.shape));
  t.has_values = true;
  if (rest.empty()) {
    FillRandom(&t.values, std::nullopt, seed);
    return t;
  }
  if (rest.front() != '{' || rest.back() != '}') return Bad("bad values in '{}'", text);
  rest = rest.substr(1, rest.size() - 2);
  if (const size_t dots = rest.find(".."); dots != std::string::npos) {
    std::pair<double, double> range;
    if (!ParseNumber(rest.substr(0, dots), &range.first) ||
        !ParseNumber(rest.substr(dots + 2), &range.second)) {
      return Bad("bad range in '{}'", text);
    }
    FillRandom(&t.values, range, seed);
    return t;
  }
  if (t.shape.elements() == 0 && rest.empty()) return t;
  PX_RETURN_IF_ERROR(FillValues(rest, &t.values));
  return t;
}

// The kind of an attribute follows from how its value is written.
Result<Attributes::Value> ParseAttribute(const std::string& text) {
  const auto is_int = [](const std::string& s) {
    int64_t v;
    return ParseInt(s, &v);
  };
  const auto is_number = [](const std::string& s) {
    double v;
    return s != "true" && s != "false" && ParseNumber(s, &v);
  };
  if (text.starts_with('[') && text.ends_with(']')) {
    const std::vector<std::string> parts = SplitCommas(text.substr(1, text.size() - 2));
    if (std::all_of(parts.begin(), parts.end(), is_int)) {
      std::vector<int64_t> values;
      for (const std::string& p : parts) ParseInt(p, &values.emplace_back());
      return Attributes::Value(values);
    }
    if (std::all_of(parts.begin(), parts.end(), is_number)) {
      std::vector<float> values;
      for (const std::string& p : parts) values.push_back(std::strtof(p.c_str(), nullptr));
      return Attributes::Value(values);
    }
    return Attributes::Value(parts);
  }
  if (is_int(text)) {
    int64_t v = 0;
    ParseInt(text, &v);
    return Attributes::Value(v);
  }
  if (is_number(text)) return Attributes::Value(std::strtof(text.c_str(), nullptr));
  const size_t bracket = text.find('[');
  if (bracket != std::string::npos && SizeOf(DTypeFromName(text.substr(0, bracket))) != 0) {
    PX_ASSIGN_OR_RETURN(CaseTensor t, ParseTensor(text, 0, false));
    return Attributes::Value(t.values);
  }
  return Attributes::Value(text);
}

Result<void> ParseResult(const std::string& word, OpCase* c) {
  CaseTensor t;
  const size_t equals = word.find('=');
  if (word == "_") {
    t.present = false;
  } else if (equals == std::string::npos) {
    return Bad("'{}' should be NAME=...", word);
  } else if (word[equals + 1] == '{') {
    t.has_values = true;
    const std::string list = word.substr(equals + 2, word.size() - equals - 3);
    if (!word.ends_with('}')) return Bad("bad values in '{}'", word);
    for (const std::string& p : SplitCommas(list)) {
      if (!ParseNumber(p, &t.plain.emplace_back())) return Bad("cannot read '{}'", p);
    }
  } else {
    PX_ASSIGN_OR_RETURN(t, ParseTensor(word.substr(equals + 1), 0, true));
  }
  t.name = word.substr(0, equals);
  c->results.push_back(std::move(t));
  return {};
}

Result<void> ParseWord(const std::string& word, OpCase* c) {
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
  int64_t number = 0;
  if (word == "_") {
    CaseTensor left_out;
    left_out.present = false;
    c->inputs.push_back(left_out);
  } else if (word == "bench") {
    c->bench = true;
  } else if (word == "noort") {
    c->ort = false;
  } else if (key.empty() || equals == std::string::npos) {
    return Bad("cannot read '{}'", word);
  } else if (key[0] == '.') {
    PX_ASSIGN_OR_RETURN(Attributes::Value attribute, ParseAttribute(value));
    c->attributes.Set(key.substr(1), std::move(attribute));
  } else if (key == "opset" && ParseInt(value, &number)) {
    c->opset = static_cast<int>(number);
  } else if (key == "outputs" && ParseInt(value, &number)) {
    c->outputs = static_cast<int>(number);
  } else if (key == "op") {
    c->op = value;
  } else if (key == "domain") {
    c->domain = value;
  } else if (key == "model") {
    c->model = (std::filesystem::path(c->file).parent_path() / value).string();
  } else if (key == "tol") {
    c->tolerance = std::strtod(value.c_str(), nullptr);
  } else {
    PX_ASSIGN_OR_RETURN(
        CaseTensor t,
        ParseTensor(value, static_cast<uint64_t>(c->line) * 100 + c->inputs.size(), false));
    t.name = key;
    c->inputs.push_back(std::move(t));
  }
  return {};
}

Result<OpCase> ParseLine(OpCase c) {
  bool results = false;
  const std::vector<std::string> words = SplitWords(c.text);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "->") {
      results = true;
    } else if (results && words[i] == "error") {
      c.expect_error = true;
      if (i + 1 < words.size()) c.error_text = words[++i];
    } else if (results && !words[i].starts_with("tol=") && !words[i].starts_with("opset=") &&
               words[i] != "noort") {
      PX_RETURN_IF_ERROR(ParseResult(words[i], &c));
    } else {
      PX_RETURN_IF_ERROR(ParseWord(words[i], &c));
    }
  }
  if (!c.results.empty()) c.outputs = static_cast<int>(c.results.size());
  return c;
}

std::string Squeezed(std::string_view name) {
  std::string s;
  for (char ch : name) {
    if (ch != '_') s += static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  }
  return s;
}

}  // namespace

const ops::OpDef* OpOfStem(const std::string& stem) {
  for (const ops::OpDef& def : ops::AllOps()) {
    if (Squeezed(def.name) == Squeezed(stem)) return &def;
  }
  return nullptr;
}

Result<std::vector<OpCase>> ReadCases(const std::string& path) {
  std::ifstream file(path);
  if (!file) return MakeError(ErrorCode::kNotFound, "cannot open {}", path);
  const ops::OpDef* def = OpOfStem(std::filesystem::path(path).stem().string());
  std::vector<OpCase> cases;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (SplitWords(line).empty()) continue;
    OpCase c;
    c.file = path;
    c.line = number;
    c.text = line;
    if (def != nullptr) {
      c.op = def->name;
      c.domain = def->domain;
      c.opset = std::min(c.opset, def->until);
      c.opset = std::max(c.opset, def->since);
    }
    Result<OpCase> parsed = ParseLine(std::move(c));
    if (!parsed.ok()) return parsed.error().WithContext(fmt::format("{}:{}", path, number));
    cases.push_back(std::move(*parsed));
  }
  return cases;
}

Graph CaseGraph(const OpCase& c, uint64_t constant_inputs) {
  Graph g;
  g.name = "case";
  Node node;
  node.name = "node";
  node.op = c.op;
  node.domain = c.domain;
  node.opset = c.opset;
  node.attributes = c.attributes;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const CaseTensor& t = c.inputs[i];
    if (!t.present) {
      node.inputs.push_back(kNoValue);
      continue;
    }
    Value value;
    value.name = t.name;
    value.type = TensorType::Of(t.dtype, t.shape);
    const bool constant = (constant_inputs >> i & 1) != 0;
    value.origin = constant ? ValueOrigin::kConstant : ValueOrigin::kInput;
    if (constant) value.constant = t.values;
    node.inputs.push_back(g.AddValue(std::move(value)));
    if (!constant) g.inputs.push_back(node.inputs.back());
  }
  node.explicit_inputs = static_cast<int>(node.inputs.size());
  for (int o = 0; o < c.outputs; ++o) {
    if (static_cast<size_t>(o) < c.results.size() && !c.results[static_cast<size_t>(o)].present) {
      node.outputs.push_back(kNoValue);
      continue;
    }
    Value value;
    value.name = fmt::format("out{}", o);
    value.producer = 0;
    node.outputs.push_back(g.AddValue(std::move(value)));
    g.outputs.push_back(node.outputs.back());
    g.output_names.push_back(fmt::format("out{}", o));
  }
  g.nodes.push_back(std::move(node));
  return g;
}

}  // namespace parallax::testing
