#include "chat/template_messages.h"

#include <simdjson.h>

#include <optional>
#include <stdexcept>

#include "base/strings.h"
#include "chat/dialogue.h"
#include "io/json_dom.h"

namespace tern::chat {
namespace {

namespace dom = simdjson::dom;
using io::array_in;
using io::kind_of;
using io::object_in;
using io::string_in;
using jinja::Value;
using Place = io::JsonPlace;
using Members = std::vector<std::pair<Value, Value>>;

constexpr const char* kCall = R"(write it as {"name": "...", "arguments": {...}})";

Value value_of(dom::element json, const Place& place);

Value dict_of(Members members, const Place& place) {
  const std::size_t given = members.size();
  Value out = jinja::make_dict(std::move(members));
  if (out.dict().entries.size() != given) {
    throw Failure(place.error("each key once", "a key twice in one object", "keep one of the two"));
  }
  return out;
}

Value value_of(dom::element json, const Place& place) {
  switch (json.type()) {
    case dom::element_type::ARRAY: {
      jinja::Values items;
      for (const dom::element item : array_in(json)) items.push_back(value_of(item, place));
      return Value::list(std::move(items));
    }
    case dom::element_type::OBJECT: {
      Members members;
      for (const auto field : object_in(json)) members.emplace_back(Value(field.key), value_of(field.value, place));
      return dict_of(std::move(members), place);
    }
    case dom::element_type::INT64:
      return Value(json.get_int64().value_unsafe());
    case dom::element_type::UINT64:  // beyond int64 a float keeps the magnitude
      return Value(static_cast<double>(json.get_uint64().value_unsafe()));
    case dom::element_type::DOUBLE:
      return Value(json.get_double().value_unsafe());
    case dom::element_type::STRING:
      return Value(string_in(json));
    case dom::element_type::BOOL:
      return Value(json.get_bool().value_unsafe());
    default:
      return Value();
  }
}

// A call's arguments as templates want them: an object. OpenAI's own format writes it as a string of JSON.
Value arguments_of(dom::element arguments, const Place& place) {
  if (arguments.is_string()) {
    dom::parser parser;
    dom::element inner;
    const std::string_view text = string_in(arguments);
    if (parser.parse(text.data(), text.size()).get(inner) == simdjson::SUCCESS && inner.is_object()) {
      return value_of(inner, place);
    }
  }
  return value_of(arguments, place);
}

Value function_of(dom::object function, const Place& place) {
  Members members;
  for (const auto field : function) {
    const bool arguments = field.key == "arguments" || field.key == "parameters";
    members.emplace_back(Value(field.key), arguments ? arguments_of(field.value, place) : value_of(field.value, place));
  }
  return dict_of(std::move(members), place);
}

// One element of `tool_calls`; a bare {name, arguments} gets the wrapping that templates look for.
Value call_of(dom::element call, const Place& place) {
  if (!call.is_object()) throw Failure(place.error("an object with name and arguments", kind_of(call), kCall));
  const dom::object object = object_in(call);
  dom::element function;
  if (object.at_key("function").get(function) != simdjson::SUCCESS) {
    dom::element name;
    if (object.at_key("name").get(name) != simdjson::SUCCESS) {
      throw Failure(place.error("an object with name and arguments", "one without name", kCall));
    }
    return jinja::make_dict({{Value("type"), Value("function")}, {Value("function"), function_of(object, place)}});
  }
  if (!function.is_object()) throw Failure(place.field("function").error("an object", kind_of(function), kCall));
  Members members;
  for (const auto field : object) {
    members.emplace_back(Value(field.key), field.key == "function" ? function_of(object_in(function), place)
                                                                   : value_of(field.value, place));
  }
  return dict_of(std::move(members), place);
}

// The calls of an array of calls, or one call, put behind `out`.
void append_calls(jinja::Values& out, dom::element value, const Place& place) {
  if (!value.is_array()) return out.push_back(call_of(value, place));
  std::size_t index = 0;
  for (const dom::element call : array_in(value)) out.push_back(call_of(call, place.at(index++)));
}

void append_calls(jinja::Values& out, const std::string& text, const Place& place) {
  dom::parser parser;
  dom::element value;
  const auto error = parser.parse(text.data(), text.size()).get(value);
  if (error != simdjson::SUCCESS) {
    throw Failure(place.error("a call as JSON, {\"name\": ..., \"arguments\": {...}}", io::json_problem(error),
                              "quote its keys and strings as JSON does"));
  }
  append_calls(out, value, place);
}

// The message of the template's that is being put together.
struct Draft {
  std::string role, content;
  Members members;
  jinja::Values calls;
  std::optional<double> loss;
  std::size_t source = 0;
};

void append_members(Draft& draft, const Message& message, const Place& place) {
  if (message.members_json.empty()) return;
  dom::parser parser;
  dom::element value;
  dom::object object;
  if (parser.parse(message.members_json).get(value) != simdjson::SUCCESS || value.get(object) != simdjson::SUCCESS) {
    throw std::logic_error(cat(place.where(), ": its further members are no JSON object"));
  }
  for (const auto field : object) {
    if (field.key == "tool_calls") {
      append_calls(draft.calls, field.value, place.field("tool_calls"));
    } else {
      draft.members.emplace_back(Value(field.key), value_of(field.value, place));
    }
  }
}

// Prompts are not learned, so that a weight of 0 says nothing there and another cannot be met.
std::optional<double> weight_of(const Message& message, const Draft& draft, const Place& place) {
  if (!message.loss || draft.role == "assistant") return message.loss;
  if (*message.loss > 0) {
    throw Failure(place.field("loss").error(cat("no weight for the role ", message.role), cat(*message.loss),
                                            "leave it out: prompts are not learned"));
  }
  return std::nullopt;
}

void finish(jinja::Values& out, Draft draft, const Place& place) {
  Members members{{Value("role"), Value(draft.role)}, {Value("content"), Value(std::move(draft.content))}};
  for (auto& member : draft.members) members.push_back(std::move(member));
  if (draft.loss) members.emplace_back(Value("loss"), Value(*draft.loss));
  if (!draft.calls.empty()) members.emplace_back(Value("tool_calls"), Value::list(std::move(draft.calls)));
  (void)dict_of(members, place);
  out.push_back(make_message(std::move(members)));
}

jinja::Values converted(const std::vector<Message>& messages) {
  jinja::Values out;
  Draft draft;
  bool open = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const Place place = Place(cat("messages:", i + 1));
    const bool call = message.role == "tool_call";
    if (call && open && draft.role == "assistant") {
      const auto& before = messages[draft.source].loss;
      if (before != message.loss) {
        throw Failure(place.field("loss").error("one weight for an assistant's text and its tool calls",
                                                "different ones", "give both messages the same \"loss\""));
      }
    } else {
      if (open) finish(out, std::move(draft), place);
      draft = Draft{};
      open = true;
      draft.role = call ? "assistant" : message.role == "tool_response" ? "tool" : message.role;
    }
    if (call) {
      append_calls(draft.calls, message.content, place);
    } else {
      draft.content = message.content;
    }
    append_members(draft, message, place);
    draft.source = i;
    draft.loss = weight_of(message, draft, place);
  }
  if (open) finish(out, std::move(draft), Place(cat("messages:", messages.size())));
  return out;
}

}  // namespace

Result<jinja::Values> template_messages(const std::vector<Message>& messages) {
  return catching([&] {
    try {
      return converted(messages);
    } catch (const jinja::Problem& problem) {
      throw Failure(messages_error(problem));
    }
  });
}

}  // namespace tern::chat
