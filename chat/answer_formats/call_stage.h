// The part of an answer behind its thoughts: text, and places where calls stand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "chat/answer_formats/call_reader.h"

namespace tern::chat {

class CallStage {
 public:
  explicit CallStage(std::optional<CallFormat> format);
  void feed(char c, AnswerParts& parts);
  void finish(AnswerParts& parts);
  [[nodiscard]] std::uint64_t work() const { return work_ + scanner_.work(); }  // bytes read and markers looked at

 private:
  void text(std::string_view text, AnswerParts& parts);
  void begin(std::string_view marker, AnswerParts& parts);

  std::optional<CallFormat> format_;
  MarkerScanner scanner_;
  enum class At { start, text, call, behind } at_ = At::start;
  std::string text_;
  std::string breaks_;  // blanks from a line break on, which belong to a call that follows
  std::uint64_t work_ = 0;
};

}  // namespace tern::chat
