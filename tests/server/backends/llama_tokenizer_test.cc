#include "server/backends/llama_tokenizer.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace parallax::server {
namespace {

using nlohmann::json;

// /tokenize as a table: <|im_end|> is token 2, <|im_start|> 1, the beginning of a text 0 where wanted,
// any other byte itself plus 1000.
struct Vocabulary {
  bool has_markers = true;
  bool merges_after_marker = false;  // the byte behind a marker has another id inside a long text

  Tokens Encode(const std::string& text, bool add_special) const {
    Tokens tokens;
    if (add_special) tokens.push_back(0);
    for (std::size_t i = 0; i < text.size();) {
      if (has_markers && text.compare(i, 10, "<|im_end|>") == 0) {
        tokens.push_back(2);
        i += 10;
        if (merges_after_marker && i > 11 && i < text.size()) {
          tokens.push_back(5000);
          ++i;
        }
      } else if (has_markers && text.compare(i, 12, "<|im_start|>") == 0) {
        tokens.push_back(1);
        i += 12;
      } else {
        tokens.push_back(1000 + static_cast<unsigned char>(text[i++]));
      }
    }
    return tokens;
  }
};

struct Fixture {
  Vocabulary vocabulary;
  std::vector<json> asked;
  std::deque<std::pair<json, http::TextFetcher::Callback>> waiting;
  LlamaTokenizer tokenizer{[this](std::string body, http::TextFetcher::Callback callback) {
    asked.push_back(json::parse(body));
    waiting.emplace_back(asked.back(), std::move(callback));
  }};

  void AnswerOne() {
    auto [question, callback] = std::move(waiting.front());
    waiting.pop_front();
    const Tokens tokens = vocabulary.Encode(question["content"], question["add_special"]);
    callback(http::Response{200, {}, json{{"tokens", tokens}}.dump()});
  }
  Result<Tokens> Count(const std::string& text) {
    Result<Tokens> result = MakeError(ErrorCode::kInternal, "no answer");
    tokenizer.TokenizePrompt(text, [&](Result<Tokens> tokens) { result = std::move(tokens); });
    while (!waiting.empty()) AnswerOne();
    return result;
  }
  std::size_t BytesAsked(std::size_t since) const {
    std::size_t bytes = 0;
    for (std::size_t i = since; i < asked.size(); ++i) {
      bytes += asked[i]["content"].get_ref<const std::string&>().size();
    }
    return bytes;
  }
};

std::string Turn(const std::string& role, const std::string& text) {
  return "<|im_start|>" + role + "\n" + text + "<|im_end|>\n";
}
std::string Conversation(int turns, char salt) {
  std::string text = Turn("system", std::string(3000, salt));
  for (int i = 0; i < turns; ++i) {
    text += Turn("user", std::to_string(i)) + Turn("assistant", std::string(20, 'a'));
  }
  return text + Turn("user", "and now?") + "<|im_start|>assistant\n";
}

TEST(LlamaTokenizer, AsksOnlyForWhatIsNew) {
  Fixture f;
  for (int turns = 0; turns < 12; ++turns) {
    const std::string text = Conversation(turns, 's');
    const std::size_t before = f.asked.size();
    const auto tokens = f.Count(text);
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ(*tokens, f.vocabulary.Encode(text, true)) << turns;
    if (turns > 5) {
      EXPECT_LT(f.BytesAsked(before), 200U) << turns;  // of over 3,000
    }
  }
  EXPECT_EQ(f.tokenizer.counts().different, 0U);
  EXPECT_GT(f.tokenizer.counts().rest, 5U);
  // A newcomer with the same system prompt shares it.
  const std::size_t before = f.asked.size();
  const std::string other =
      Turn("system", std::string(3000, 's')) + Turn("user", "who?") + "<|im_start|>assistant\n";
  EXPECT_EQ(*f.Count(other), f.vocabulary.Encode(other, true));
  EXPECT_LT(f.BytesAsked(before), 200U);
}

TEST(LlamaTokenizer, ShortPromptsAndThoseWithoutSpecialTokensAreAskedForWhole) {
  Fixture f;
  const std::string brief = Turn("user", "hi") + Turn("assistant", "hello") + Turn("user", "bye");
  const std::string plain(5000, 'p');
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*f.Count(brief), f.vocabulary.Encode(brief, true));
    EXPECT_EQ(*f.Count(plain), f.vocabulary.Encode(plain, true));
  }
  EXPECT_EQ(f.asked.size(), 6U);
  EXPECT_EQ(f.tokenizer.counts().whole, 6U);
}

TEST(LlamaTokenizer, AMarkerThatIsNoTokenOfTheVocabularyIsNotUsed) {
  Fixture f;
  f.vocabulary.has_markers = false;  // a base model with a chat template of another's
  for (int turns = 0; turns < 4; ++turns) {
    const std::string text = Conversation(turns, 's');
    EXPECT_EQ(*f.Count(text), f.vocabulary.Encode(text, true));
  }
  EXPECT_EQ(f.asked.size(), 5U);  // the marker once
  EXPECT_EQ(f.tokenizer.counts().rest, 0U);
}

// A tokenizer for which the cut is none: found by comparison, the right answer given, never again.
TEST(LlamaTokenizer, ADifferenceIsFoundAndEndsTheMemo) {
  Fixture f;
  f.vocabulary.merges_after_marker = true;
  for (int turns = 0; turns < 8; ++turns) {
    const std::string text = Conversation(turns, 's');
    EXPECT_EQ(*f.Count(text), f.vocabulary.Encode(text, true)) << turns;
  }
  EXPECT_EQ(f.tokenizer.counts().different, 1U);
  EXPECT_EQ(f.tokenizer.counts().rest, 0U);
  // Another model gets its chance.
  f.vocabulary.merges_after_marker = false;
  f.tokenizer.Reset({});
  for (int turns = 0; turns < 8; ++turns) {
    const std::string text = Conversation(turns, 't');
    EXPECT_EQ(*f.Count(text), f.vocabulary.Encode(text, true)) << turns;
  }
  EXPECT_GT(f.tokenizer.counts().rest, 0U);
}

// The model changes between question and answer: the old one's tokens are not kept.
TEST(LlamaTokenizer, AnswersFromBeforeAResetAreNotRemembered) {
  Fixture f;
  const std::string text = Conversation(3, 's');
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(f.Count(text).ok());
  int answers = 0;
  f.tokenizer.TokenizePrompt(text, [&](const Result<Tokens>&) { ++answers; });
  auto late = std::move(f.waiting.front());
  f.waiting.pop_front();
  f.tokenizer.Reset({});
  late.second(http::Response{200, {}, R"({"tokens":[2,77,78]})"});
  while (!f.waiting.empty()) f.AnswerOne();
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(*f.Count(text), f.vocabulary.Encode(text, true));
}

TEST(LlamaTokenizer, ErrorsAreTheCallersAndNothingIsStored) {
  Fixture f;
  const std::string text = Conversation(3, 's');
  for (int round = 0; round < 4; ++round) {
    Result<Tokens> result = Tokens{};
    f.tokenizer.TokenizePrompt(text, [&](Result<Tokens> tokens) { result = std::move(tokens); });
    while (!f.waiting.empty()) {
      auto callback = std::move(f.waiting.front().second);
      f.waiting.pop_front();
      if (round % 2 == 0) {
        callback(MakeError(ErrorCode::kIo, "gone"));
      } else {
        callback(http::Response{500, {}, "{}"});
      }
    }
    EXPECT_EQ(result.error().code(), ErrorCode::kIo);
  }
  EXPECT_EQ(*f.Count(text), f.vocabulary.Encode(text, true));
}

}  // namespace
}  // namespace parallax::server
