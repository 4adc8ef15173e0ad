#include "server/openai/aggregate.h"

#include <algorithm>

#include "base/json_text.h"

namespace parallax::server::openai {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// A client's memory is not its backend's to fill: more choices or calls than these are not kept.
constexpr long long kMaxIndex = 4096;

long long IndexOf(const json& item, long long otherwise) {
  const auto found = item.find("index");
  if (found == item.end() || !found->is_number_integer()) return otherwise;
  const long long index = found->get<long long>();
  return index >= 0 && index < kMaxIndex ? index : -1;
}

void Join(ordered_json& into, const std::string& key, const json& value);

// Tool calls come in pieces, each with the index of its call; other lists just grow.
void JoinList(ordered_json& into, const json& items) {
  for (const json& item : items) {
    const bool indexed = item.is_object() && item.contains("index");
    const long long index = indexed ? IndexOf(item, -1) : -1;
    const auto same = std::find_if(into.begin(), into.end(), [&](const ordered_json& have) {
      return index >= 0 && have.is_object() && have.contains("index") && have["index"] == index;
    });
    if (same == into.end()) {
      into.push_back(ordered_json(item));
    } else {
      for (const auto& [key, value] : item.items()) {
        if (key != "index") Join(*same, key, value);
      }
    }
  }
}

void Join(ordered_json& into, const std::string& key, const json& value) {
  const auto found = into.find(key);
  if (found == into.end() || found->is_null()) {
    into[key] = ordered_json(value);
    return;
  }
  // These name a thing and are repeated by some backends: joining would double them.
  const bool name = key == "role" || key == "type" || key == "id" || key == "finish_reason";
  if (found->is_string() && value.is_string() && !name) {
    found->get_ref<std::string&>() += value.get_ref<const std::string&>();
  } else if (found->is_array() && value.is_array()) {
    JoinList(*found, value);
  } else if (found->is_object() && value.is_object()) {
    for (const auto& [inner, item] : value.items()) Join(*found, inner, item);
  } else if (!value.is_null() && !(name && value == "")) {
    *found = ordered_json(value);
  }
}

}  // namespace

void Aggregate::Add(const json& chunk) {
  for (const auto& [key, value] : chunk.items()) {
    if (key == "choices") continue;
    if (value.is_null() && top_.contains(key)) continue;
    top_[key] = ordered_json(value);
  }
  const auto choices = chunk.find("choices");
  if (choices == chunk.end() || !choices->is_array()) return;
  for (const json& choice : *choices) {
    if (!choice.is_object()) continue;
    const long long index = IndexOf(choice, 0);
    if (index < 0) continue;
    ordered_json& joined = choices_[index];
    if (joined.is_null()) joined = ordered_json{{"index", index}};
    for (const auto& [key, value] : choice.items()) {
      if (key != "index") Join(joined, key == "delta" ? "message" : key, value);
    }
  }
}

std::string Aggregate::Finish() const {
  ordered_json answer = top_;
  if (!answer.is_object()) answer = ordered_json::object();
  answer["object"] = endpoint_ == Endpoint::kChat ? "chat.completion" : "text_completion";
  answer["choices"] = ordered_json::array();
  for (const auto& [index, choice] : choices_) {
    ordered_json whole = choice;
    if (!whole.contains("finish_reason")) whole["finish_reason"] = nullptr;
    if (endpoint_ == Endpoint::kChat) {
      ordered_json& message = whole["message"];
      if (!message.is_object()) message = ordered_json::object();
      if (!message.contains("role")) message["role"] = "assistant";
      if (!message.contains("content")) message["content"] = nullptr;
      if (const auto calls = message.find("tool_calls"); calls != message.end()) {
        for (ordered_json& call : *calls) {
          if (call.is_object()) call.erase("index");  // only pieces of a stream carry it
        }
      }
    } else if (!whole.contains("text")) {
      whole["text"] = "";
    }
    answer["choices"].push_back(std::move(whole));
  }
  return DumpJson(answer);
}

}  // namespace parallax::server::openai
