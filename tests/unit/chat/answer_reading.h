// An answer read in one go and in cuts, and its parts joined.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_parser.h"

namespace tern::chat {

struct ReadCall {
  std::string name, arguments, id = {};
  friend bool operator==(const ReadCall&, const ReadCall&) = default;
  friend std::ostream& operator<<(std::ostream& out, const ReadCall& call) {
    return out << call.name << '(' << call.arguments << ")#" << call.id;
  }
};

struct ReadAnswer {
  std::string reasoning, content;
  std::vector<ReadCall> calls;
  friend bool operator==(const ReadAnswer&, const ReadAnswer&) = default;
  friend std::ostream& operator<<(std::ostream& out, const ReadAnswer& answer) {
    out << "thought <" << answer.reasoning << "> said <" << answer.content << '>';
    for (const ReadCall& call : answer.calls) out << ' ' << call;
    return out;
  }
};

inline void join_parts(const std::vector<AnswerPart>& parts, ReadAnswer& answer) {
  for (const AnswerPart& part : parts) {
    switch (part.kind) {
      case AnswerPart::Kind::reasoning:
        answer.reasoning += part.text;
        break;
      case AnswerPart::Kind::content:
        answer.content += part.text;
        break;
      case AnswerPart::Kind::call:
        EXPECT_EQ(part.call, static_cast<std::int64_t>(answer.calls.size()));
        answer.calls.push_back({part.text, {}, part.id});
        break;
      case AnswerPart::Kind::arguments:
        ASSERT_EQ(part.call + 1, static_cast<std::int64_t>(answer.calls.size()));
        answer.calls.back().arguments += part.text;
        break;
    }
  }
}

inline ReadAnswer read_pieces(const ParserOptions& options, const std::vector<std::string_view>& pieces) {
  const auto parser = make_answer_parser(options).value();
  ReadAnswer answer;
  for (const std::string_view piece : pieces) join_parts(parser->push(piece), answer);
  join_parts(parser->finish(), answer);
  return answer;
}

// Whole, cut in two everywhere, and byte by byte: the same.
inline ReadAnswer read_answer(const ParserOptions& options, std::string_view text) {
  const ReadAnswer whole = read_pieces(options, {text});
  for (std::size_t i = 1; i < text.size(); ++i) {
    EXPECT_EQ(read_pieces(options, {text.substr(0, i), text.substr(i)}), whole) << "cut at " << i << " of " << text;
  }
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(read_pieces(options, bytes), whole) << text;
  return whole;
}

}  // namespace tern::chat
