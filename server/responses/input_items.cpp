#include "server/responses/input_items.h"

#include "base/strings.h"
#include "chat/image_parts.h"
#include "server/json_body.h"

namespace tern::server::responses {
namespace {

using io::Json;

// The members of `message` with one more. Few, so that reading and writing them again costs nothing.
void set_member(chat::Message& message, const char* key, Json value) {
  Json members =
      message.members_json.empty() ? Json::object() : io::parse_json(message.members_json, "members").value();
  members[key] = std::move(value);
  message.members_json = members.dump();
}

Json member(const chat::Message& message, const char* key) {
  if (message.members_json.empty()) return {};
  const Json members = io::parse_json(message.members_json, "members").value();
  const Json* found = members.find(key);
  return found == nullptr ? Json() : *found;
}

class Reader {
 public:
  Reader(engine::Dialogue& out, std::string place) : out_(out), place_(std::move(place)) {}

  void item(const Json& json, std::size_t at) {
    JsonBody item(json, cat(place_, "[", at, "]"));
    const std::string type = item.text("type").value_or("message");
    if (type == "message") {
      message(item);
    } else if (type == "function_call") {
      call(item);
    } else if (type == "function_call_output") {
      output(item);
    } else if (type == "reasoning") {
      reasoning(item);
    } else {
      throw item.wrong("type", "message, function_call, function_call_output or reasoning");
    }
    item.takes({"id", "status"});  // as clients send back what they were answered
    item.finish();
  }

 private:
  // A string, or a list of parts.
  std::string content(JsonBody& owner, std::string_view key) {
    const Json* value = owner.find(key);
    if (value != nullptr && value->is_string()) return value->text();
    if (value == nullptr || !value->is_array()) throw owner.wrong(key, "a text or a list of parts");
    std::string out;
    std::size_t at = 0;
    for (const Json& one : *value) {
      JsonBody part(one, cat(owner.inner(key), "[", at++, "]"));
      const std::string type = part.required_text("type");
      if (type == "input_text" || type == "output_text") {
        out += part.required_text("text");
        part.takes({"annotations", "logprobs"});  // of an earlier answer
      } else if (type == "refusal") {
        out += part.required_text("refusal");
      } else if (type == "input_image") {
        out_.add_image(part.required_text("image_url"), part.place("image_url"));
        part.takes({"detail"});  // images are seen as large as the model's processor makes them
        out += chat::image_tag;
      } else {
        throw part.wrong("type", "input_text, output_text, refusal or input_image");
      }
      part.finish();
    }
    return out;
  }

  chat::Message& push(std::string role, std::string text) {
    chat::Message message;
    message.role = std::move(role);
    message.content = std::move(text);
    out_.messages.push_back(std::move(message));
    return out_.messages.back();
  }

  // The assistant's message that is being put together, a new one where another speaks before.
  chat::Message& assistant() {
    const bool open = !out_.messages.empty() && out_.messages.back().role == "assistant";
    return open ? out_.messages.back() : push("assistant", "");
  }

  void message(JsonBody& item) {
    const std::string role = item.required_text("role");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
      throw item.wrong("role", "user, assistant, system or developer");
    }
    std::string text = content(item, "content");
    item.takes({"phase"});  // OpenAI's own name for what part of its work a message is
    if (role == "assistant" && assistant().content.empty() && member(assistant(), "tool_calls").is_null()) {
      assistant().content = std::move(text);
      return;
    }
    push(role, std::move(text));
  }

  void call(JsonBody& item) {
    Json function = Json::object();
    function["name"] = item.required_text("name");
    function["arguments"] = item.required_text("arguments");
    Json one = Json::object();
    one["id"] = item.required_text("call_id");
    one["type"] = "function";
    one["function"] = std::move(function);
    chat::Message& message = assistant();
    Json calls = member(message, "tool_calls");
    calls.push_back(std::move(one));
    set_member(message, "tool_calls", std::move(calls));
  }

  void output(JsonBody& item) {
    const std::string id = item.required_text("call_id");
    std::string text = content(item, "output");
    set_member(push("tool", std::move(text)), "tool_call_id", id);
  }

  // Thoughts come before what was said after them. Encrypted ones are another server's, and can't be read.
  void reasoning(JsonBody& item) {
    std::string text = texts(item, "content", "reasoning_text");
    if (text.empty()) text = texts(item, "summary", "summary_text");
    (void)item.find("summary");
    if (item.text("encrypted_content").value_or("") != "") throw item.wrong("encrypted_content", "none, but content");
    if (text.empty()) return;
    const bool said = !out_.messages.empty() && out_.messages.back().role == "assistant" &&
                      (!out_.messages.back().content.empty() || !out_.messages.back().members_json.empty());
    chat::Message& message = said ? push("assistant", "") : assistant();
    set_member(message, "reasoning_content", std::move(text));
  }

  static std::string texts(JsonBody& item, std::string_view key, std::string_view type) {
    std::string out;
    const Json* parts = item.find(key);
    if (parts == nullptr) return out;
    if (!parts->is_array()) throw item.wrong(key, "a list of parts");
    std::size_t at = 0;
    for (const Json& one : *parts) {
      JsonBody part(one, cat(item.inner(key), "[", at++, "]"));
      if (part.required_text("type") != type) throw part.wrong("type", type);
      out += part.required_text("text");
      part.finish();
    }
    return out;
  }

  engine::Dialogue& out_;
  std::string place_;
};

}  // namespace

void append_items(engine::Dialogue& dialogue, const Json& items, const std::string& place) {
  Reader reader(dialogue, place);
  std::size_t at = 0;
  for (const Json& one : items) reader.item(one, at++);
}

}  // namespace tern::server::responses
