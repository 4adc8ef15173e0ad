// JSON as text, against a parser that reads it.
#include "server/openai/json_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include <nlohmann/json.hpp>

namespace parallax::server::openai {
namespace {

using nlohmann::ordered_json;

TEST(JsonText, Depth) {
  EXPECT_EQ(Measure("1").depth, 0U);
  EXPECT_EQ(Measure("[]").depth, 1U);
  EXPECT_EQ(Measure(R"({"a":[{"b":"[[[["}]})").depth, 3U);
  EXPECT_EQ(Measure(R"(["\"[[[", [[]]])").depth, 3U);
  EXPECT_EQ(Measure("]]][").depth, 1U);
  EXPECT_EQ(Measure(std::string(1'000'000, '[')).depth, 1'000'000U);
  EXPECT_EQ(Measure("\"[").depth, 0U);
}

TEST(JsonText, MembersAreAsWritten) {
  const auto members = Members("{ \"a\" :\t[1, 2] , \"b\\n\":{\"c\":\"}\"},\"d\":1e3\n}");
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[0].key, "a");
  EXPECT_EQ(members[0].value, "[1, 2]");
  EXPECT_EQ(members[1].key, "b\\n");
  EXPECT_EQ(members[1].value, R"({"c":"}"})");
  EXPECT_EQ(members[2].value, "1e3");
  EXPECT_TRUE(Members(" { } ").empty());
}

TEST(JsonText, WithMemberLeavesTheRest) {
  EXPECT_EQ(WithMember("{}", "a", "1"), R"({"a":1})");
  EXPECT_EQ(WithMember(" { } ", "a", "1"), R"( {"a":1 } )");
  EXPECT_EQ(WithMember(R"({ "x" : 1.50 })", "a", "true"), R"({"a":true, "x" : 1.50 })");
  EXPECT_EQ(WithMember(R"({"a" : [1,2] , "x":1e400})", "a", "0"), R"({"a" : 0 , "x":1e400})");
  EXPECT_EQ(WithMember(R"({"b":{"a":1}})", "a", "0"), R"({"a":0,"b":{"a":1}})");
  // Parsers take the last of two.
  EXPECT_EQ(WithMember(R"({"a":1,"a":2})", "a", "3"), R"({"a":1,"a":3})");
  EXPECT_EQ(WithMember(R"({"\u0061":1})", "a", "3"), R"({"\u0061":3})");
  EXPECT_EQ(WithMember(R"({"a\"":1})", "a", "3"), R"({"a":3,"a\"":1})");
}

class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}
  ordered_json Value(int depth) {
    switch (random_() % (depth > 0 ? 8 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return random_() % 2 == 0;
      case 2:
        return static_cast<std::int64_t>(random_()) - 2'000'000'000;
      case 3:
        return static_cast<double>(random_()) / 7.0;
      case 4:
      case 5:
        return Text();
      case 6: {
        ordered_json list = ordered_json::array();
        for (std::size_t i = random_() % 4; i > 0; --i) list.push_back(Value(depth - 1));
        return list;
      }
      default:
        return Object(depth - 1);
    }
  }
  ordered_json Object(int depth) {
    ordered_json object = ordered_json::object();
    for (std::size_t i = random_() % 6; i > 0; --i) object[Text()] = Value(depth);
    return object;
  }
  std::string Text() {
    static const std::vector<std::string> kParts = {"a", "stream", "\"", "\\", "{", "}",  "[", "]",
                                                    ",", ":",      "\n", "\t", " ", "中", "/"};
    std::string text;
    for (std::size_t i = random_() % 4; i > 0; --i) text += kParts[random_() % kParts.size()];
    return text;
  }
  std::mt19937& random() { return random_; }

 private:
  std::mt19937 random_;
};

// Random objects in random layout: the members a parser finds, and one of them changed.
TEST(JsonText, AgreesWithAParser) {
  Maker make(3);
  for (int round = 0; round < 3000; ++round) {
    const ordered_json object = make.Object(3);
    const int indent = static_cast<int>(make.random()() % 4) - 1;
    const std::string text = object.dump(indent, ' ', make.random()() % 2 == 0);
    const auto members = Members(text);
    ASSERT_EQ(members.size(), object.size()) << text;
    std::size_t i = 0;
    for (const auto& [key, value] : object.items()) {
      ASSERT_EQ(ordered_json::parse('"' + std::string(members[i].key) + '"'), key) << text;
      ASSERT_EQ(ordered_json::parse(members[i].value), value) << text;
      ++i;
    }
    const std::string replacement = make.Value(2).dump();
    const std::string changed = WithMember(text, "stream", replacement);
    ordered_json expected = object;
    expected["stream"] = ordered_json::parse(replacement);
    // Compared without order: a new member stands in front.
    ASSERT_EQ(nlohmann::json::parse(changed), nlohmann::json(expected)) << text;
    ASSERT_EQ(Measure(text).depth > 0, true);
  }
}

}  // namespace
}  // namespace parallax::server::openai
