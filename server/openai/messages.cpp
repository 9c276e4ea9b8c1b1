#include "server/openai/messages.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "chat/image_parts.h"

namespace tern::server::openai {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system", "developer", "user", "assistant", "tool", "function"};

// {"type": "text", "text": "..."} and the like, joined; images are named where they stand.
std::string part_text(const io::Json& json, const std::string& place, engine::Dialogue& dialogue) {
  JsonBody part(json, place);
  const std::string type = part.required_text("type");
  std::string out;
  if (type == "text" || type == "input_text" || type == "output_text") {
    out = part.required_text("text");
  } else if (type == "refusal") {
    out = part.required_text("refusal");
  } else if (type == "image_url" || type == "input_image") {
    const io::Json* url = part.find("image_url");
    if (url != nullptr && url->is_string()) {
      dialogue.add_image(url->text(), part.place("image_url"));
    } else if (auto object = part.object("image_url")) {
      dialogue.add_image(object->required_text("url"), object->place("url"));
      object->takes({"detail"});  // images are seen as large as the model's processor makes them
      object->finish();
    } else {
      throw part.wrong("image_url", "an image");
    }
    part.takes({"detail", "uuid"});
    out = chat::image_tag;
  } else if (type == "image") {  // as ms-swift's clients write it
    dialogue.add_image(part.required_text("image"), part.place("image"));
    out = chat::image_tag;
  } else {
    throw part.wrong("type", "text or image_url");
  }
  part.takes({"annotations"});
  part.finish();
  return out;
}

chat::Message message_of(const io::Json& json, const std::string& place, engine::Dialogue& dialogue) {
  JsonBody body(json, place);
  chat::Message message;
  message.role = body.required_text("role");
  if (std::find(kRoles.begin(), kRoles.end(), message.role) == kRoles.end()) {
    throw body.wrong("role", "system, developer, user, assistant or tool");
  }
  if (message.role == "function") message.role = "tool";
  const io::Json* content = body.find("content");
  const bool calls = body.find("tool_calls") != nullptr;
  if (content == nullptr) {
    if (!calls && message.role != "assistant") throw body.wrong("content", "a text or a list of parts");
  } else if (content->is_string()) {
    message.content = content->text();
  } else if (content->is_array()) {
    std::size_t at = 0;
    for (const io::Json& part : *content) {
      message.content += part_text(part, cat(place, ".content[", at++, "]"), dialogue);
    }
  } else {
    throw body.wrong("content", "a text or a list of parts");
  }
  io::Json members = io::Json::object();
  for (const char* key : {"name", "tool_calls", "tool_call_id", "reasoning_content"}) {
    if (const io::Json* member = body.find(key)) members[key] = *member;
  }
  if (auto thought = body.text("reasoning")) members["reasoning_content"] = *thought;
  if (const io::Json* list = members.find("tool_calls"); list != nullptr && !list->is_array()) {
    throw body.wrong("tool_calls", "a list of calls");
  }
  if (!members.empty()) message.members_json = members.dump();
  body.takes({"refusal", "annotations", "audio", "function_call"});
  body.finish();
  return message;
}

std::string tools_text(JsonBody& body) {
  const io::Json* tools = body.find("tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) throw body.wrong("tools", "a list of tools");
  std::size_t at = 0;
  for (const io::Json& one : *tools) {
    JsonBody tool(one, cat("tools[", at++, "]"));
    if (tool.required_text("type") != "function") throw tool.wrong("type", "function");
    auto function = tool.object("function");
    if (!function) throw tool.wrong("function", "an object with a name");
    (void)function->required_text("name");
    (void)function->object("parameters");
  }
  return tools->empty() ? std::string() : tools->dump();
}

}  // namespace

engine::Dialogue dialogue_fields(JsonBody& body) {
  engine::Dialogue dialogue;
  const io::Json* messages = body.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    throw body.wrong("messages", "a list with at least one message");
  }
  std::size_t at = 0;
  for (const io::Json& one : *messages) {
    dialogue.messages.push_back(message_of(one, cat("messages[", at++, "]"), dialogue));
  }
  dialogue.tools_json = tools_text(body);
  return dialogue;
}

}  // namespace tern::server::openai
