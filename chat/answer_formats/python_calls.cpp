// Calls written as Python: [f(a=1), g()].
#include "chat/answer_formats/call_reader.h"
#include "chat/answer_formats/python_value.h"

namespace tern::chat {
namespace {

constexpr std::size_t kLongestName = 512;

bool in_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '-' || static_cast<unsigned char>(c) >= 0x80;
}

class PythonCalls : public CallReader {
 public:
  // `lines`: calls stand a line each and without brackets.
  PythonCalls(std::string end, bool lines) : end_text_(std::move(end)), lines_(lines), end_({end_text_}) {}

  void start(std::string_view marker) override {
    bracket_ = marker == "[";
    at_ = bracket_ || lines_ ? At::call : At::bracket;
    end_ = Choice({end_text_});
    name_.clear();
    calls_ = 0;
  }

  [[nodiscard]] Fed feed(char c, AnswerParts& parts) override {
    switch (at_) {
      case At::bracket:
        if (is_blank(c)) return Fed::more;
        at_ = At::call;
        return c == '[' ? Fed::more : Fed::broken;
      case At::call:
        return call(c, parts);
      case At::argument:
        return argument(c, parts);
      case At::value:
        return value(c, parts);
      case At::between:
        return between(c);
      case At::end: {
        std::size_t index = 0;
        return end_.feed(c, index);
      }
    }
    return Fed::broken;
  }

  [[nodiscard]] bool finish(AnswerParts& /*parts*/) override { return at_ == At::between || at_ == At::end; }

 private:
  enum class At { bracket, call, argument, value, between, end };

  [[nodiscard]] Fed call(char c, AnswerParts& parts) {
    if (name_.empty() && is_blank(c)) return Fed::more;
    if (in_name(c)) {
      name_ += c;
      return name_.size() > kLongestName ? Fed::broken : Fed::more;
    }
    if (c != '(' || name_.empty()) return Fed::broken;
    parts.name(name_);
    name_.clear();
    arguments_ = 0;
    at_ = At::argument;
    return Fed::more;
  }

  [[nodiscard]] Fed argument(char c, AnswerParts& parts) {
    if (name_.empty() && is_blank(c)) return Fed::more;
    if (c == ')' && name_.empty()) return called(parts);
    if (in_name(c)) {
      name_ += c;
      return name_.size() > kLongestName ? Fed::broken : Fed::more;
    }
    if (is_blank(c)) return Fed::more;
    if (c != '=' || name_.empty()) return Fed::broken;
    prefix_ = (arguments_++ == 0 ? "{" : ", ") + json_quoted(name_) + ": ";
    name_.clear();
    at_ = At::value;
    value_ = {};
    return Fed::more;
  }

  [[nodiscard]] Fed value(char c, AnswerParts& parts) {
    std::string out;
    const Fed fed = value_.feed(c, out);
    if (fed == Fed::broken) return fed;
    if (!out.empty()) parts.arguments(prefix_ + out);
    if (!out.empty()) prefix_.clear();
    if (fed == Fed::more) return fed;
    if (is_blank(c)) return Fed::more;  // the value goes on saying that it has ended
    if (c == ')') return called(parts);
    at_ = At::argument;
    return c == ',' ? Fed::more : Fed::broken;
  }

  [[nodiscard]] Fed called(AnswerParts& parts) {
    parts.arguments(arguments_ == 0 ? "{}" : "}");
    parts.call_whole();
    ++calls_;
    at_ = At::between;
    return Fed::more;
  }

  [[nodiscard]] Fed between(char c) {
    if (is_blank(c)) return Fed::more;
    if (lines_ && c != '<') {
      at_ = At::call;
      name_ = in_name(c) ? std::string(1, c) : "";
      return name_.empty() ? Fed::broken : Fed::more;
    }
    if (!lines_ && c == ',') {
      at_ = At::call;
      return Fed::more;
    }
    if (!lines_ && c != ']') return Fed::broken;
    at_ = At::end;
    if (!lines_) return bracket_ || end_text_.empty() ? Fed::done : Fed::more;
    std::size_t index = 0;
    return end_.feed(c, index);
  }

  std::string end_text_;
  bool lines_;
  bool bracket_ = false;
  At at_ = At::bracket;
  int arguments_ = 0, calls_ = 0;
  std::string name_, prefix_;
  PythonValue value_;
  Choice end_;
};

}  // namespace

std::optional<CallFormat> python_format(std::string_view name) {
  CallFormat format;
  if (name == "pythonic" || name == "llama4_pythonic") {
    format.bare = '[';
    format.special = name == "llama4_pythonic";
    format.begins = {"<|python_start|>"};
    format.dropped = {"<|python_end|>"};
    format.reader = std::make_unique<PythonCalls>("", false);
  } else if (name == "lfm2") {
    format.begins = {"<|tool_call_start|>"};
    format.special = true;
    format.reader = std::make_unique<PythonCalls>("<|tool_call_end|>", false);
  } else if (name == "olmo3") {
    format.begins = {"<function_calls>"};
    format.reader = std::make_unique<PythonCalls>("</function_calls>", true);
  } else {
    return std::nullopt;
  }
  return format;
}

}  // namespace tern::chat
