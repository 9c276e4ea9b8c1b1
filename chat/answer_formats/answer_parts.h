// The parts of an answer as its readers find them, and the text of a call that may yet turn out to be none.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/answer_parser.h"

namespace tern::chat {

// A call is told once its name and the first of its arguments are known; with `whole_calls`, once it is whole. Until
// then its text is kept, and given as content where the call breaks.
class AnswerParts {
 public:
  AnswerParts(bool parallel_calls, bool whole_calls) : parallel_calls_(parallel_calls), whole_calls_(whole_calls) {}

  void reasoning(std::string_view text) { add(AnswerPart::Kind::reasoning, text); }
  void content(std::string_view text) { add(AnswerPart::Kind::content, text); }

  void begin(std::string_view marker) { raw_ = marker; }  // a place where calls stand
  void read(char c) { raw_ += c; }                        // of it
  void name(std::string name, std::string id = {});
  void arguments(std::string_view text);
  void call_whole();
  // The place ends, or can't go on: what was read since its last call is left out, or given as content.
  void end();
  void break_off(bool unread);  // the last byte read isn't of it

  [[nodiscard]] std::vector<AnswerPart> take() { return std::exchange(parts_, {}); }

 private:
  void add(AnswerPart::Kind kind, std::string_view text);
  void tell();

  bool parallel_calls_, whole_calls_;
  bool named_ = false, told_ = false;
  std::int64_t calls_ = 0;  // whole ones, or broken ones that were told
  std::string raw_, name_, id_, arguments_;
  std::vector<AnswerPart> parts_;
};

}  // namespace tern::chat
