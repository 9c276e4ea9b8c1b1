// Python literals that come byte by byte, as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_formats/json_stream.h"

namespace tern::chat {

// One literal: a number, a text, True, False, None, a list, a tuple or a dict of them. Its JSON goes to `out`.
class PythonValue {
 public:
  [[nodiscard]] Fed feed(char c, std::string& out);

 private:
  enum class At { value, first, after, string, escape, code, word, colon };
  [[nodiscard]] Fed value(char c, std::string& out);
  [[nodiscard]] Fed after(char c, std::string& out);
  [[nodiscard]] Fed string(char c, std::string& out);
  [[nodiscard]] Fed escape(char c, std::string& out);
  [[nodiscard]] Fed code(char c, std::string& out);
  [[nodiscard]] Fed word(char c, std::string& out);
  [[nodiscard]] Fed closed();

  At at_ = At::value;
  std::vector<char> open_;  // the closing brackets that are due
  bool key_ = false;        // what comes next is a dict's key
  bool comma_ = false;      // one waits for what follows it: Python allows it before a bracket
  char quote_ = 0;
  std::string word_;
  std::uint32_t code_ = 0;
  int digits_ = 0;
};

// A whole text as JSON; "" where it is no literal.
[[nodiscard]] std::string json_of_python(std::string_view text);

}  // namespace tern::chat
