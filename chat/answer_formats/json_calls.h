// Calls as JSON objects with a name and arguments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_formats/call_reader.h"

namespace tern::chat {

// One object.
class JsonCall {
 public:
  explicit JsonCall(bool strict) : strict_(strict) {}
  [[nodiscard]] Fed feed(char c, AnswerParts& parts);  // from the opening brace

 private:
  enum class At { open, first_key, key, in_key, colon, value, name, id, arguments, other, after };
  [[nodiscard]] Fed value(char c, AnswerParts& parts);
  [[nodiscard]] Fed after(char c, AnswerParts& parts);
  [[nodiscard]] bool known() const;
  bool strict_;  // keys of a call and no others
  At at_ = At::open;
  bool has_name_ = false, has_arguments_ = false, has_id_ = false;
  std::string key_, name_, id_, out_;
  JsonString string_;
  JsonValue other_;
  JsonArguments arguments_;
};

struct JsonLayout {
  bool array = false;             // objects may stand in brackets
  std::vector<std::string> ends;  // what may stand behind them
  bool strict = false;
  std::string between = {};  // what separates objects without brackets, beside blanks
};

class JsonCalls : public CallReader {
 public:
  explicit JsonCalls(JsonLayout layout) : layout_(std::move(layout)), call_(layout_.strict), end_(layout_.ends) {}
  void start(std::string_view marker) override;
  [[nodiscard]] Fed feed(char c, AnswerParts& parts) override;
  [[nodiscard]] bool finish(AnswerParts& parts) override;

 private:
  enum class At { before, call, between, after, end };
  [[nodiscard]] Fed begin_call(char c, AnswerParts& parts);
  [[nodiscard]] Fed behind(char c, AnswerParts& parts);
  JsonLayout layout_;
  At at_ = At::before;
  bool in_array_ = false, comma_ = false;
  JsonCall call_;
  Choice end_;
};

}  // namespace tern::chat
