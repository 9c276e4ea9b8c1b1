#include "chat/dialogue.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "chat/chat_template.h"
#include "io/json.h"

namespace tern::chat {
namespace {

using jinja::Value;
using Members = std::vector<std::pair<Value, Value>>;

// Names under which a message's reasoning is passed: the first is what templates read.
constexpr std::array<std::string_view, 3> reasoning_fields{"reasoning_content", "thinking", "reasoning"};

// transformers' _alias_reasoning_fields: reasoning_content always, thinking where it is not given.
void alias_reasoning(Members& message) {
  const Value* reasoning = nullptr;
  bool has_thinking = false;
  for (const std::string_view field : reasoning_fields) {
    for (const auto& [name, value] : message) {
      has_thinking = has_thinking || name.text() == "thinking";
      if (!reasoning && name.text() == field && !value.is_none()) reasoning = &value;
    }
  }
  if (!reasoning) return;
  const Value content = *reasoning;
  if (!has_thinking) message.insert(message.begin(), {Value("thinking"), content});
  set_member(message, "reasoning_content", content);
}

jinja::Values messages_of(const ChatInput& input) {
  if (input.values) return *input.values;
  if (!input.messages || !input.messages->is_array()) {
    throw Failure(
        data_error("messages", "an array", input.messages ? input.messages->type_name() : "nothing", as_messages));
  }
  jinja::Values out;
  out.reserve(input.messages->size());
  for (const io::Json& json : *input.messages) {
    if (!json.is_object()) {
      throw Failure(data_error(cat("messages[", out.size(), "]"), "an object", json.type_name(), as_messages));
    }
    out.push_back(make_message(value_of(json).dict().entries));
  }
  return out;
}

}  // namespace

void set_member(Members& members, std::string_view key, Value value) {
  for (auto& [name, old] : members) {
    if (name.text() == key) {
      old = std::move(value);
      return;
    }
  }
  members.emplace_back(Value(key), std::move(value));
}

Value make_message(Members members) {
  alias_reasoning(members);
  return jinja::make_dict(std::move(members));
}

Value value_of(const io::Json& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_string()) return Value(json.text());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_number()) {
    // Beyond int64 a float keeps the magnitude; no template computes with such numbers.
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
      return Value(json.get<double>());
    }
    return Value(json.get<std::int64_t>());
  }
  if (json.is_array()) {
    jinja::Values items;
    items.reserve(json.size());
    for (const io::Json& item : json) items.push_back(value_of(item));
    return Value::list(std::move(items));
  }
  if (!json.is_object()) return Value();
  Members members;
  members.reserve(json.size());
  for (const auto& [key, value] : json.items()) members.emplace_back(Value(key), value_of(value));
  return jinja::make_dict(std::move(members));
}

Error messages_error(const jinja::Problem& problem) {
  return data_error("messages", problem.expected, problem.found, "correct the messages");
}

Result<Dialogue> read_dialogue(const ChatInput& input) {
  return catching([&] {
    Dialogue out;
    const std::array<std::pair<const char*, const std::string*>, 4> tokens{{{"bos_token", &input.bos_token},
                                                                            {"eos_token", &input.eos_token},
                                                                            {"unk_token", &input.unk_token},
                                                                            {"pad_token", &input.pad_token}}};
    for (const auto& [name, token] : tokens) {
      if (!token->empty()) out.variables.emplace_back(name, Value(*token));
    }
    if (input.kwargs && !input.kwargs->is_object()) {
      throw Failure(data_error("chat_template_kwargs", "an object", input.kwargs->type_name(),
                               R"(write them as {"enable_thinking": false})"));
    }
    try {
      if (input.kwargs) {
        for (const auto& [name, value] : input.kwargs->items()) out.variables.emplace_back(name, value_of(value));
      }
      out.messages = messages_of(input);
      out.variables.emplace_back("tools", input.tools ? value_of(*input.tools) : Value());
      out.variables.emplace_back("documents", input.documents ? value_of(*input.documents) : Value());
    } catch (const jinja::Problem& problem) {
      throw Failure(messages_error(problem));
    }
    return out;
  });
}

}  // namespace tern::chat
