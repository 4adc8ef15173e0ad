#include "server/backends/llama_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json_text.h"

namespace parallax::server {
namespace {

using nlohmann::json;

constexpr std::size_t kMemoBytes = 32 << 20;  // some 8 million bytes of different messages
// A shorter prompt is tokenized in less time than a second question takes.
constexpr std::size_t kLeastBytes = 2048;
// Prompts put together from the memo that are compared with the tokenizer's own answer: the first
// ones, then every 256th.
constexpr std::uint64_t kFirstCompared = 4;
constexpr std::uint64_t kEachCompared = 256;

// Ends of a message in widespread chat templates, beside what the model tells as its own.
constexpr std::array kEndsOfMessage = {
    "<|im_end|>",    "<end_of_turn>",         "<|eot_id|>", "<|end|>",
    "<|endoftext|>", "<｜end▁of▁sentence｜>", "</s>",       "<|END_OF_TURN_TOKEN|>",
};

Result<Tokens> ReadTokens(const Result<http::Response>& answer) {
  if (!answer.ok()) return answer.error();
  const json parsed = json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  const auto ids = parsed.is_object() ? parsed.find("tokens") : parsed.end();
  const Error wrong = MakeError(ErrorCode::kIo, "/tokenize answers {}, not tokens", answer->status);
  if (answer->status != 200 || ids == parsed.end() || !ids->is_array()) return wrong;
  Tokens tokens;
  tokens.reserve(ids->size());
  for (const json& id : *ids) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < UINT32_MAX;
    if (!fits) return wrong;
    tokens.push_back(id.get<std::uint32_t>());
  }
  return tokens;
}

}  // namespace

LlamaTokenizer::LlamaTokenizer(Ask ask) : ask_(std::move(ask)), memo_(kMemoBytes) { Reset({}); }

void LlamaTokenizer::Reset(std::vector<std::string> special) {
  std::erase(special, "");
  special.insert(special.end(), kEndsOfMessage.begin(), kEndsOfMessage.end());
  special_ = std::move(special);
  ids_.clear();
  memo_.Clear();
  trusted_ = true;
  comparable_ = 0;
  ++epoch_;
}

void LlamaTokenizer::Tokenize(const json& text, bool add_special,
                              Backend::TokensCallback callback) {
  ask_(DumpJson(json{{"content", text}, {"add_special", add_special}}),
       [callback = std::move(callback)](const Result<http::Response>& answer) {
         callback(ReadTokens(answer));
       });
}

// Twice: a text with one message has no beginning worth remembering.
std::string LlamaTokenizer::MarkerOf(const std::string& text) const {
  if (!trusted_ || text.size() < kLeastBytes) return "";
  for (const std::string& marker : special_) {
    const auto known = ids_.find(marker);
    if (known != ids_.end() && !known->second) continue;
    const std::size_t first = text.find(marker);
    if (first != std::string::npos &&
        text.find(marker, first + marker.size()) != std::string::npos) {
      return marker;
    }
  }
  return "";
}

void LlamaTokenizer::TokenizePrompt(std::string text, Backend::TokensCallback callback) {
  std::string marker = MarkerOf(text);
  if (marker.empty()) {
    ++counts_.whole;
    return Tokenize(text, /*add_special=*/true, std::move(callback));
  }
  if (!ids_.contains(marker)) {
    return Tokenize(marker, /*add_special=*/false,
                    [this, epoch = epoch_, marker, text = std::move(text),
                     callback = std::move(callback)](Result<Tokens> tokens) mutable {
                      if (!tokens.ok()) return callback(std::move(tokens));
                      if (epoch == epoch_) {
                        ids_[marker] =
                            tokens->size() == 1 ? std::optional(tokens->front()) : std::nullopt;
                      }
                      TokenizePrompt(std::move(text), std::move(callback));
                    });
  }
  TokenMemo::Known known = memo_.Find(text, marker);
  if (known.text_bytes == 0) return Whole(std::move(text), std::move(marker), std::move(callback));
  // From the last known marker on, itself included: it may take the spaces around it.
  const std::string rest = text.substr(known.text_bytes - marker.size());
  Tokenize(rest, /*add_special=*/false,
           [this, epoch = epoch_, known = std::move(known.tokens), marker = std::move(marker),
            text = std::move(text), callback = std::move(callback)](Result<Tokens> tokens) mutable {
             if (!tokens.ok()) return callback(std::move(tokens));
             if (epoch != epoch_ || tokens->empty() || tokens->front() != known.back()) {
               return Whole(std::move(text), std::move(marker), std::move(callback));
             }
             known.insert(known.end(), tokens->begin() + 1, tokens->end());
             const std::uint64_t number = comparable_++;
             if (number < kFirstCompared || number % kEachCompared == 0) {
               return Compare(std::move(text), std::move(marker), std::move(known),
                              std::move(callback));
             }
             ++counts_.rest;
             Remember(text, marker, known);
             callback(std::move(known));
           });
}

void LlamaTokenizer::Whole(std::string text, std::string marker, Backend::TokensCallback callback) {
  ++counts_.whole;
  const json content = text;
  Tokenize(content, /*add_special=*/true,
           [this, epoch = epoch_, text = std::move(text), marker = std::move(marker),
            callback = std::move(callback)](Result<Tokens> tokens) {
             if (tokens.ok() && epoch == epoch_) Remember(text, marker, *tokens);
             callback(std::move(tokens));
           });
}

void LlamaTokenizer::Compare(std::string text, std::string marker, Tokens composed,
                             Backend::TokensCallback callback) {
  Whole(std::move(text), std::move(marker),
        [this, epoch = epoch_, composed = std::move(composed),
         callback = std::move(callback)](Result<Tokens> tokens) {
          if (tokens.ok() && epoch == epoch_ && *tokens != composed) {
            ++counts_.different;
            trusted_ = false;
            memo_.Clear();
          }
          callback(std::move(tokens));
        });
}

void LlamaTokenizer::Remember(const std::string& text, const std::string& marker,
                              const Tokens& tokens) {
  const auto id = ids_.find(marker);
  if (!trusted_ || id == ids_.end() || !id->second) return;
  memo_.Store(text, tokens, {marker, *id->second});
}

}  // namespace parallax::server
