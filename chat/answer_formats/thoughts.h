// The thoughts at the beginning of an answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_formats/call_stage.h"

namespace tern::chat {

struct ThoughtFormat {
  std::vector<std::string> begins, ends;
  bool opened = false;              // the template opens them, also where the prompt's end doesn't show it
  std::vector<std::string> calls;   // calls that end them without their own end, as models do
  std::vector<std::string> around;  // markers around the answer behind them
  bool special = false;             // these markers are special tokens
};
[[nodiscard]] std::optional<ThoughtFormat> thought_format(std::string_view name);

// One section of thoughts, without the blanks around it; what follows it is the answer, and not searched for another.
class ThoughtStage {
 public:
  ThoughtStage(const std::optional<ThoughtFormat>& format, std::string_view prompt_tail);
  void feed(char c, AnswerParts& parts, CallStage& answer);
  void finish(AnswerParts& parts, CallStage& answer);

 private:
  enum class At { before, thinking, answer };
  void before(char c, AnswerParts& parts, CallStage& answer);
  void thinking(char c, AnswerParts& parts, CallStage& answer);
  void think(std::string_view text, AnswerParts& parts);

  At at_ = At::answer;
  bool said_ = false;  // whether anything but blanks came since `at_` began
  std::size_t begins_ = 0, ends_ = 0;
  std::vector<std::string> calls_;
  MarkerScanner first_, last_, around_;
  std::string text_, blanks_;
};

}  // namespace tern::chat
