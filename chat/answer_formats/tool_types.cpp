#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "chat/answer_formats/call_reader.h"
#include "chat/answer_formats/python_value.h"
#include "io/json.h"

namespace tern::chat {
namespace {

using io::Json;

// The types that a schema allows, in any of the ways in which schemas say so.
void add_types(const Json& schema, std::vector<std::string>& types, int depth) {
  if (depth > 8) return;
  const Json* type = schema.find("type");
  if (type != nullptr && type->is_string()) types.push_back(type->text());
  if (type != nullptr && type->is_array()) {
    for (const Json& one : *type) {
      if (one.is_string()) types.push_back(one.text());
    }
  }
  if (const Json* values = schema.find("enum"); type == nullptr && values != nullptr && values->is_array()) {
    for (const Json& one : *values) types.emplace_back(one.is_number_integer() ? "integer" : one.type_name());
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const Json* choices = schema.find(key);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const Json& one : *choices) add_types(one, types, depth + 1);
  }
}

std::optional<Json> parsed(const std::string& text) {
  auto json = io::parse_json(text, "argument");
  if (!json.ok()) return std::nullopt;
  return std::move(json).value();
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

// `text` as JSON of one type; "" where it is none of that. Some templates write objects and lists as Python does.
std::string as(const std::string& type, const std::string& text) {
  std::string word(trim(text));
  if (type == "null") return lower(word) == "null" || lower(word) == "none" ? "null" : "";
  if (type == "boolean") return lower(word) == "true" ? "true" : lower(word) == "false" ? "false" : "";
  std::optional<Json> json = parsed(word);
  if (!json && (type == "object" || type == "array")) {
    word = json_of_python(word);
    json = parsed(word);
  }
  if (!json) return {};
  if (type == "integer") return json->is_number_integer() ? word : "";
  if (type == "number") return json->is_number() ? word : "";
  if (type == "object") return json->type_name() == std::string_view("object") ? word : "";
  if (type == "array") return json->is_array() ? word : "";
  return {};
}

}  // namespace

struct ToolTypes::Types {
  Json tools;
};

ToolTypes::ToolTypes(std::string_view tools_json) {
  auto tools = io::parse_json(tools_json, "tools");
  types_ = std::make_unique<const Types>(Types{tools.ok() ? std::move(tools).value() : Json::array()});
}
ToolTypes::~ToolTypes() = default;

std::vector<std::string> ToolTypes::types(std::string_view tool, std::string_view parameter) const {
  std::vector<std::string> types;
  if (!types_->tools.is_array()) return types;
  for (const Json& wrapped : types_->tools) {
    const Json* function = wrapped.find("function");
    if (function == nullptr) function = &wrapped;
    const Json* name = function->find("name");
    if (name == nullptr || !name->is_string() || name->text() != tool) continue;
    const Json* parameters = function->find("parameters");
    if (parameters == nullptr) parameters = function->find("input_schema");
    const Json* properties = parameters == nullptr ? nullptr : parameters->find("properties");
    const Json* schema = properties == nullptr ? nullptr : properties->find(parameter);
    if (schema != nullptr) add_types(*schema, types, 0);
    break;
  }
  return types;
}

bool ToolTypes::only_text(std::string_view tool, std::string_view parameter) const {
  const std::vector<std::string> all = types(tool, parameter);
  return !all.empty() && std::all_of(all.begin(), all.end(), [](const std::string& one) { return one == "string"; });
}

std::string ToolTypes::json(std::string_view tool, std::string_view parameter, const std::string& text,
                            bool guess) const {
  const std::vector<std::string> all = types(tool, parameter);
  for (const char* type : {"null", "integer", "number", "boolean", "object", "array"}) {
    if (std::find(all.begin(), all.end(), type) == all.end()) continue;
    if (std::string json = as(type, text); !json.empty()) return json;
  }
  if (all.empty() && guess && parsed(text)) return std::string(trim(text));
  return json_quoted(text);
}

}  // namespace tern::chat
