// LlamaTokenizer: token ids from a llama-server's /tokenize, which is asked for as few as possible.
//
// Role:       part of the llama-server backend, which gives it the way to ask.
// Ownership:  whoever owns it drops the questions under way before it goes.
// Threads:    the loop's thread only; callbacks never run inside the call that takes them.
// Invariants: what TokenizePrompt answers is what /tokenize says of the whole text. Where that
//             follows from a TokenMemo, the first times and now and then both are asked and
//             compared; after a difference this tokenizer's memo stays off until Reset.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/backend.h"
#include "server/backends/token_memo.h"
#include "server/http/fetch_text.h"

namespace parallax::server {

class LlamaTokenizer {
 public:
  // Sends a body to /tokenize.
  using Ask = std::function<void(std::string body, http::TextFetcher::Callback callback)>;
  explicit LlamaTokenizer(Ask ask);

  void Tokenize(const nlohmann::json& text, bool add_special, Backend::TokensCallback callback);
  // A prompt with its special tokens, remembered by the messages it consists of.
  void TokenizePrompt(std::string text, Backend::TokensCallback callback);
  // Another model may answer: what is remembered may be another's. `special` are special tokens of
  // the model, as far as it tells them.
  void Reset(std::vector<std::string> special);

  struct Counts {
    std::uint64_t whole = 0;      // prompts asked for whole
    std::uint64_t rest = 0;       // prompts of which only the end was asked for
    std::uint64_t different = 0;  // comparisons that failed
  };
  const Counts& counts() const { return counts_; }

 private:
  // The special token at which this text is cut, "" for none.
  std::string MarkerOf(const std::string& text) const;
  void Whole(std::string text, std::string marker, Backend::TokensCallback callback);
  void Compare(std::string text, std::string marker, Tokens composed,
               Backend::TokensCallback callback);
  void Remember(const std::string& text, const std::string& marker, const Tokens& tokens);

  Ask ask_;
  TokenMemo memo_;
  std::vector<std::string> special_;  // tried in this order
  // Of those asked for: absent where it is no token of its own in this vocabulary.
  std::map<std::string, std::optional<std::uint32_t>> ids_;
  bool trusted_ = true;
  std::uint64_t comparable_ = 0;
  std::uint64_t epoch_ = 0;  // answers to questions from before a Reset are not remembered
  Counts counts_;
};

}  // namespace parallax::server
