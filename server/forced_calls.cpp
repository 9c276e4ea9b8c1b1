#include "server/forced_calls.h"

#include <utility>

#include "base/strings.h"
#include "io/json.h"

namespace tern::server {
namespace {

using chat::AnswerPart;
using io::Json;

Json parameters_of(const Json& tool) {
  const Json* parameters = tool["function"].find("parameters");
  if (parameters != nullptr && parameters->is_object() && !parameters->empty()) return *parameters;
  Json any = Json::object();
  any["type"] = "object";
  return any;
}

// A list of {"name": ..., "parameters": {...}} out of text in any cuts: a call is told as soon as its name is whole,
// and of its parameters each character as it comes. What is no such list ends the reading; nothing is told twice.
class CallScanner {
 public:
  std::vector<AnswerPart> push(std::string_view text) {
    std::vector<AnswerPart> parts;
    for (const char c : text) take(c, parts);
    return parts;
  }
  // Whether the list has been read to its end, and each of its calls is whole.
  [[nodiscard]] bool complete() const { return complete_; }

 private:
  enum class Value { none, key, name, parameters, other };

  // Where the characters of one value at the depth of a call's members begin and end is all that is to be known: the
  // grammar has drawn nothing but JSON.
  void take(char c, std::vector<AnswerPart>& parts) {
    if (in_string_) {
      keep(c, parts);
      if (std::exchange(escaped_, false)) return;
      escaped_ = c == '\\';
      in_string_ = c != '"';
      if (!in_string_ && depth_ == kMembers) end_string(parts);
      return;
    }
    switch (c) {
      case '"':
        in_string_ = true;
        if (depth_ == kMembers && value_ == Value::none) value_ = Value::key;
        break;
      case '[':
      case '{':
        ++depth_;
        if (depth_ <= kMembers) return;
        break;
      case ']':
      case '}':
        if (depth_ == kMembers) end_call();
        complete_ = --depth_ == 0;
        if (depth_ < kMembers) return;
        break;
      case ',':
        if (depth_ > kMembers) break;
        value_ = Value::none;
        return;
      case ':':
        if (depth_ > kMembers) break;
        value_ = key_ == "name" ? Value::name : key_ == "parameters" ? Value::parameters : Value::other;
        text_.clear();
        return;
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        if (depth_ <= kMembers) return;
        break;
      default:
        break;
    }
    keep(c, parts);
  }

  void keep(char c, std::vector<AnswerPart>& parts) {
    if (value_ == Value::key || value_ == Value::name) {
      text_ += c;
    } else if (value_ == Value::parameters) {
      if (parts.empty() || parts.back().kind != AnswerPart::Kind::arguments || parts.back().call != number_) {
        parts.push_back({.kind = AnswerPart::Kind::arguments, .call = number_});
      }
      parts.back().text += c;
    }
  }

  // Of a key, or of the name.
  void end_string(std::vector<AnswerPart>& parts) {
    if (value_ != Value::key && value_ != Value::name) return;
    const auto read = io::parse_json(text_, "calls");
    std::string text = read && read->is_string() ? read->text() : std::string();
    text_.clear();
    if (value_ == Value::key) {
      key_ = std::move(text);
    } else {
      parts.push_back({.kind = AnswerPart::Kind::call, .text = std::move(text), .call = number_});
    }
  }

  void end_call() {
    ++number_;
    value_ = Value::none;
  }

  static constexpr int kMembers = 2;  // the list, a call in it
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false, complete_ = false;
  Value value_ = Value::none;
  std::string key_, text_;
  std::int64_t number_ = 0;
};

class ForcedParser : public chat::AnswerParser {
 public:
  ForcedParser(ToolChoice choice, bool whole, std::unique_ptr<chat::AnswerParser> inner)
      : choice_(std::move(choice)), whole_(whole), inner_(std::move(inner)) {}

  std::vector<AnswerPart> push(std::string_view text) override { return read(inner_->push(text)); }

  std::vector<AnswerPart> finish() override {
    std::vector<AnswerPart> parts = read(inner_->finish());
    if (!held_text_.empty() && !scanner_.complete()) {
      parts.push_back({.kind = AnswerPart::Kind::content, .text = std::move(held_text_)});
    } else {
      for (AnswerPart& part : held_) parts.push_back(std::move(part));
    }
    return parts;
  }

 private:
  std::vector<AnswerPart> read(std::vector<AnswerPart> parts) {
    std::vector<AnswerPart> out;
    for (AnswerPart& part : parts) {
      if (part.kind != AnswerPart::Kind::content) {
        out.push_back(std::move(part));
      } else if (choice_.kind == ToolChoice::Kind::required) {
        std::vector<AnswerPart>& told = whole_ ? held_ : out;
        for (AnswerPart& one : scanner_.push(part.text)) told.push_back(std::move(one));
        if (whole_) held_text_ += part.text;
      } else {
        if (!std::exchange(begun_, true)) out.push_back({.kind = AnswerPart::Kind::call, .text = choice_.name});
        out.push_back({.kind = AnswerPart::Kind::arguments, .text = std::move(part.text)});
      }
    }
    return out;
  }

  ToolChoice choice_;
  bool whole_;
  std::unique_ptr<chat::AnswerParser> inner_;
  CallScanner scanner_;
  std::vector<AnswerPart> held_;  // of an answer that is told whole
  std::string held_text_;
  bool begun_ = false;
};

}  // namespace

Result<Constraint> forced_constraint(const ToolChoice& choice, const std::string& tools_json, bool parallel_calls) {
  const auto tools = io::parse_json(tools_json, "tools");
  if (!tools) return tools.error();
  Constraint constraint;
  constraint.kind = Constraint::Kind::json_schema;
  Json any = Json::array();
  for (const Json& tool : *tools) {
    const std::string name = tool["function"]["name"].text();
    if (choice.kind == ToolChoice::Kind::named) {
      if (name != choice.name) continue;
      constraint.text = parameters_of(tool).dump();
      return constraint;
    }
    Json call = Json::object();
    call["type"] = "object";
    call["properties"]["name"]["const"] = name;
    call["properties"]["parameters"] = parameters_of(tool);
    call["required"] = Json(std::vector<std::string>{"name", "parameters"});
    call["additionalProperties"] = false;
    any.push_back(std::move(call));
  }
  if (choice.kind == ToolChoice::Kind::named) {
    return data_error(R"(field "tool_choice")", "the name of one of the tools", choice.name, "name one of them");
  }
  Json schema = Json::object();
  schema["type"] = "array";
  schema["minItems"] = 1;
  if (!parallel_calls) schema["maxItems"] = 1;
  schema["items"]["anyOf"] = std::move(any);
  constraint.text = schema.dump();
  return constraint;
}

std::unique_ptr<chat::AnswerParser> forced_parser(const ToolChoice& choice, bool whole,
                                                  std::unique_ptr<chat::AnswerParser> inner) {
  return std::make_unique<ForcedParser>(choice, whole, std::move(inner));
}

}  // namespace tern::server
