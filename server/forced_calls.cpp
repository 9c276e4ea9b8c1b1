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

class ForcedParser : public chat::AnswerParser {
 public:
  ForcedParser(ToolChoice choice, std::unique_ptr<chat::AnswerParser> inner)
      : choice_(std::move(choice)), inner_(std::move(inner)) {}

  std::vector<AnswerPart> push(std::string_view text) override { return read(inner_->push(text)); }

  std::vector<AnswerPart> finish() override {
    std::vector<AnswerPart> parts = read(inner_->finish());
    if (choice_.kind == ToolChoice::Kind::required && !text_.empty()) give_calls(parts);
    return parts;
  }

 private:
  std::vector<AnswerPart> read(std::vector<AnswerPart> parts) {
    std::vector<AnswerPart> out;
    for (AnswerPart& part : parts) {
      if (part.kind != AnswerPart::Kind::content) {
        out.push_back(std::move(part));
      } else if (choice_.kind == ToolChoice::Kind::required) {
        text_ += part.text;
      } else {
        if (!std::exchange(begun_, true)) out.push_back({.kind = AnswerPart::Kind::call, .text = choice_.name});
        out.push_back({.kind = AnswerPart::Kind::arguments, .text = std::move(part.text)});
      }
    }
    return out;
  }

  void give_calls(std::vector<AnswerPart>& parts) {
    const auto calls = io::parse_json(text_, "calls");
    if (!calls || !calls->is_array()) {
      parts.push_back({.kind = AnswerPart::Kind::content, .text = std::move(text_)});
      return;
    }
    std::int64_t number = 0;
    for (const Json& call : *calls) {
      parts.push_back({.kind = AnswerPart::Kind::call, .text = call["name"].text(), .call = number});
      parts.push_back({.kind = AnswerPart::Kind::arguments, .text = call["parameters"].dump(), .call = number});
      ++number;
    }
  }

  ToolChoice choice_;
  std::unique_ptr<chat::AnswerParser> inner_;
  std::string text_;
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

std::unique_ptr<chat::AnswerParser> forced_parser(const ToolChoice& choice, std::unique_ptr<chat::AnswerParser> inner) {
  return std::make_unique<ForcedParser>(choice, std::move(inner));
}

}  // namespace tern::server
