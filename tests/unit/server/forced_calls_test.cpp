#include "server/forced_calls.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace tern::server {
namespace {

using chat::AnswerPart;

constexpr std::string_view kAnswer =
    R"([{"name": "add", "parameters": {"a": [1, {"}": "]\"\\"}], "b": {"name": "no", "parameters": 2}}},)"
    R"( {"name":"s\"ay","parameters":{}}])";

std::unique_ptr<chat::AnswerParser> parser_of(ToolChoice::Kind kind, bool whole) {
  return forced_parser({kind, "pick"}, whole, chat::make_answer_parser({}).value());
}

// Parts that belong together joined, as a client joins them.
std::vector<AnswerPart> joined(std::vector<AnswerPart> parts) {
  std::vector<AnswerPart> out;
  for (AnswerPart& part : parts) {
    if (part.kind != AnswerPart::Kind::call && !out.empty() && out.back().kind == part.kind &&
        out.back().call == part.call) {
      out.back().text += part.text;
    } else {
      out.push_back(std::move(part));
    }
  }
  return out;
}

std::vector<AnswerPart> read(std::string_view text, std::size_t cut, bool whole) {
  const auto parser = parser_of(ToolChoice::Kind::required, whole);
  std::vector<AnswerPart> all;
  for (std::size_t at = 0; at < text.size(); at += cut) {
    for (AnswerPart& part : parser->push(text.substr(at, cut))) all.push_back(std::move(part));
  }
  for (AnswerPart& part : parser->finish()) all.push_back(std::move(part));
  return joined(std::move(all));
}

AnswerPart call(std::string name, std::int64_t number) {
  return {.kind = AnswerPart::Kind::call, .text = std::move(name), .call = number};
}
AnswerPart arguments(std::string text, std::int64_t number) {
  return {.kind = AnswerPart::Kind::arguments, .text = std::move(text), .call = number};
}

TEST(ForcedCalls, AreReadAlikeInAnyCuts) {
  const std::vector<AnswerPart> expected = {
      call("add", 0), arguments(R"({"a": [1, {"}": "]\"\\"}], "b": {"name": "no", "parameters": 2}})", 0),
      call("s\"ay", 1), arguments("{}", 1)};
  for (const bool whole : {false, true}) {
    for (std::size_t cut = 1; cut <= kAnswer.size(); ++cut) EXPECT_EQ(read(kAnswer, cut, whole), expected) << cut;
  }
}

// What has been drawn of the arguments is told at once, and the closing of the list is nothing's.
TEST(ForcedCalls, AreToldAsTheyAreDrawn) {
  const auto parser = parser_of(ToolChoice::Kind::required, false);
  EXPECT_EQ(parser->push(R"([{"na)"), std::vector<AnswerPart>{});
  EXPECT_EQ(parser->push(R"(me": "add")"), std::vector<AnswerPart>{call("add", 0)});
  EXPECT_EQ(parser->push(R"(, "parameters": {"a")"), std::vector<AnswerPart>{arguments(R"({"a")", 0)});
  EXPECT_EQ(parser->push(": 12"), std::vector<AnswerPart>{arguments(": 12", 0)});
  EXPECT_EQ(parser->push("}}]"), std::vector<AnswerPart>{arguments("}", 0)});
  EXPECT_EQ(parser->finish(), std::vector<AnswerPart>{});
}

TEST(ForcedCalls, AreTextWhereTheyBreakOffInAWholeAnswer) {
  for (const std::size_t end : {std::size_t{1}, std::size_t{40}, kAnswer.size() - 1}) {
    const std::string_view text = kAnswer.substr(0, end);
    const AnswerPart content{.kind = AnswerPart::Kind::content, .text = std::string(text)};
    EXPECT_EQ(read(text, 7, true), std::vector<AnswerPart>{content});
    for (const AnswerPart& part : read(text, 7, false)) EXPECT_NE(part.kind, AnswerPart::Kind::content);
  }
  EXPECT_EQ(read("", 1, true), std::vector<AnswerPart>{});
}

TEST(ForcedCalls, OfANamedToolAreItsArguments) {
  const auto parser = parser_of(ToolChoice::Kind::named, true);
  EXPECT_EQ(parser->push(R"({"a")"), (std::vector<AnswerPart>{call("pick", 0), arguments(R"({"a")", 0)}));
  EXPECT_EQ(parser->push(": 1}"), std::vector<AnswerPart>{arguments(": 1}", 0)});
}

}  // namespace
}  // namespace tern::server
