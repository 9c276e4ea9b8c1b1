// Rows back to JSON: for chat templates, and for files that the reader reads again.
#include <simdjson.h>

#include <stdexcept>

#include "base/strings.h"
#include "data/json_fields.h"
#include "data/row.h"

namespace tern::data {
namespace {

namespace dom = simdjson::dom;

constexpr const char* kCall = R"(write it as {"name": "...", "arguments": {...}})";

// A call's arguments as templates want them: an object. OpenAI's own format writes it as a string of JSON.
void append_arguments(std::string& out, dom::element arguments) {
  if (arguments.is_string()) {
    dom::parser parser;
    dom::element inner;
    const std::string_view text = string_in(arguments);
    if (parser.parse(text.data(), text.size()).get(inner) == simdjson::SUCCESS && inner.is_object()) {
      out += simdjson::minify(inner);
      return;
    }
  }
  out += simdjson::minify(arguments);
}

void append_function(std::string& out, dom::object function) {
  out += '{';
  bool first = true;
  for (const auto field : function) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, field.key);
    out += ':';
    if (field.key == "arguments" || field.key == "parameters") {
      append_arguments(out, field.value);
    } else {
      out += simdjson::minify(field.value);
    }
  }
  out += '}';
}

// One element of `tool_calls`; a bare {name, arguments} gets the wrapping that templates look for.
void append_call(std::string& out, dom::element call, const Place& place) {
  if (!call.is_object()) throw Failure(place.error("an object with name and arguments", kind_of(call), kCall));
  const dom::object object = object_in(call);
  dom::element function;
  if (object.at_key("function").get(function) != simdjson::SUCCESS) {
    dom::element name;
    if (object.at_key("name").get(name) != simdjson::SUCCESS) {
      throw Failure(place.error("an object with name and arguments", "one without name", kCall));
    }
    out += R"({"type":"function","function":)";
    append_function(out, object);
    out += '}';
    return;
  }
  if (!function.is_object()) throw Failure(place.field("function").error("an object", kind_of(function), kCall));
  out += '{';
  bool first = true;
  for (const auto field : object) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, field.key);
    out += ':';
    if (field.key == "function") {
      append_function(out, object_in(function));
    } else {
      out += simdjson::minify(field.value);
    }
  }
  out += '}';
}

// Calls of one JSON text: an array of calls or one call. Appended behind `out`, with commas.
void append_calls(std::string& out, std::string_view text, const Place& place) {
  dom::parser parser;
  dom::element value;
  const auto error = parser.parse(text.data(), text.size()).get(value);
  if (error != simdjson::SUCCESS) {
    throw Failure(place.error("a call as JSON, {\"name\": ..., \"arguments\": {...}}", json_problem(error),
                              "quote its keys and strings as JSON does"));
  }
  if (!value.is_array()) {
    if (!out.empty()) out += ',';
    append_call(out, value, place);
    return;
  }
  std::size_t index = 0;
  for (const dom::element call : array_in(value)) {
    if (!out.empty()) out += ',';
    append_call(out, call, place.at(index++));
  }
}

// The element of the template's array that is being put together.
struct Draft {
  std::string role, content, members, calls;
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
      append_calls(draft.calls, std::string(simdjson::minify(field.value)), place.field("tool_calls"));
      continue;
    }
    draft.members += ',';
    append_json_string(draft.members, field.key);
    draft.members += ':';
    draft.members += simdjson::minify(field.value);
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

void finish(TemplateMessages& out, const Draft& draft) {
  out.json += out.source.empty() ? "[" : ",";
  out.json += R"({"role":)";
  append_json_string(out.json, draft.role);
  out.json += R"(,"content":)";
  append_json_string(out.json, draft.content);
  out.json += draft.members;
  if (draft.loss) out.json += cat(R"(,"loss":)", *draft.loss);
  if (!draft.calls.empty()) out.json += cat(R"(,"tool_calls":[)", draft.calls, "]");
  out.json += '}';
  out.source.push_back(draft.source);
}

void append_messages(std::string& out, const std::vector<Message>& messages) {
  out += '[';
  for (const auto& message : messages) {
    if (&message != &messages.front()) out += ", ";
    out += R"({"role": )";
    append_json_string(out, message.role);
    out += R"(, "content": )";
    append_json_string(out, message.content);
    if (message.loss) out += cat(R"(, "loss": )", *message.loss);
    if (message.members_json.size() > 2) {
      out += cat(", ", std::string_view(message.members_json).substr(1, message.members_json.size() - 2));
    }
    out += '}';
  }
  out += ']';
}

void append_list(std::string& out, std::string_view key, const std::vector<std::string>& list) {
  if (list.empty()) return;
  out += cat(", \"", key, "\": [");
  for (const auto& item : list) {
    if (&item != &list.front()) out += ", ";
    append_json_string(out, item);
  }
  out += ']';
}

}  // namespace

Result<TemplateMessages> template_messages(const std::vector<Message>& messages) {
  return catching([&] {
    TemplateMessages out;
    Draft draft;
    bool open = false;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Message& message = messages[i];
      const Place place = Place("messages", i + 1);
      const bool call = message.role == "tool_call";
      if (call && open && draft.role == "assistant") {
        const auto& before = messages[draft.source].loss;
        if (before != message.loss) {
          throw Failure(place.field("loss").error("one weight for an assistant's text and its tool calls",
                                                  "different ones", "give both messages the same \"loss\""));
        }
      } else {
        if (open) finish(out, draft);
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
    if (open) finish(out, draft);
    out.json += out.json.empty() ? "[]" : "]";
    return out;
  });
}

std::string to_json(const Row& row) {
  std::string out = "{";
  if (row.text) {
    out += R"("text": )";
    append_json_string(out, *row.text);
  } else {
    out += R"("messages": )";
    append_messages(out, row.messages);
  }
  if (!row.rejected.empty()) {
    out += R"(, "rejected_messages": )";
    append_messages(out, row.rejected);
  }
  if (row.label) out += cat(R"(, "label": )", *row.label);
  if (row.margin) out += cat(R"(, "margin": )", *row.margin);
  if (!row.tools_json.empty()) out += cat(R"(, "tools": )", row.tools_json);
  append_list(out, "images", row.images);
  append_list(out, "videos", row.videos);
  append_list(out, "audios", row.audios);
  for (const auto& [key, value] : row.extra) {
    out += ", ";
    append_json_string(out, key);
    out += ": ";
    out += value;
  }
  out += '}';
  return out;
}

Result<ColumnMap> parse_columns(std::string_view json) {
  return catching([&] {
    ColumnMap map;
    if (trim(json).empty()) return map;
    dom::parser parser;
    dom::element value;
    const Error wrong = usage_error("--columns", R"(a JSON map as {"theirs": "query"})",
                                    std::string(json.substr(0, 64)), "quote both names");
    if (parser.parse(json.data(), json.size()).get(value) != simdjson::SUCCESS || !value.is_object()) {
      throw Failure(wrong);
    }
    for (const auto field : object_in(value)) {
      if (!field.value.is_string()) throw Failure(wrong);
      map.emplace_back(std::string(field.key), std::string(string_in(field.value)));
    }
    return map;
  });
}

}  // namespace tern::data
