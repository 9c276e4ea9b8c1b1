#include "server/anthropic/content_blocks.h"

#include "base/strings.h"
#include "chat/image_parts.h"

namespace tern::server::anthropic {
namespace {

using io::Json;

// What is put together of one turn.
struct Turn {
  std::string text, reasoning;
  Json calls = Json::array();
};

// Blocks are paragraphs; an image stands in the text where it stands among them.
void append_block(std::string& text, std::string_view block) {
  if (!text.empty() && !block.empty() && !text.ends_with(chat::image_tag)) text += '\n';
  text += block;
}

void add_image(JsonBody& block, engine::Dialogue& dialogue) {
  auto source = block.object("source");
  if (!source) throw block.wrong("source", "an object with the image");
  const std::string type = source->required_text("type");
  if (type == "base64") {
    const std::string media = source->required_text("media_type");
    if (!media.starts_with("image/")) throw source->wrong("media_type", "image/png, image/jpeg or image/webp");
    dialogue.add_image(cat("data:", media, ";base64,", source->required_text("data")), source->place("data"));
  } else if (type == "url") {
    dialogue.add_image(source->required_text("url"), source->place("url"));
  } else {
    throw source->wrong("type", "base64 or url");
  }
  source->finish();
}

void text_or_image(JsonBody& block, const std::string& type, std::string& text, engine::Dialogue& dialogue) {
  if (type == "text") {
    append_block(text, block.required_text("text"));
    block.takes({"citations"});  // of an earlier answer: where it came from is no part of what it says
  } else {
    add_image(block, dialogue);
    text += chat::image_tag;
  }
  block.takes({"cache_control"});
}

// Calls `each` with the blocks of `content`: a text is one.
template <typename Each>
void for_blocks(JsonBody& owner, std::string_view key, const std::string& place, const Each& each) {
  const Json* content = owner.find(key);
  if (content != nullptr && content->is_string()) {
    Json text = Json::object();
    text["type"] = "text";
    text["text"] = content->text();
    JsonBody block(text, place);
    each(block, std::string("text"));
    return;
  }
  if (content == nullptr || !content->is_array()) throw owner.wrong(key, "a string or a list of blocks");
  std::size_t at = 0;
  for (const Json& one : *content) {
    JsonBody block(one, cat(place, "[", at++, "]"));
    const std::string type = block.required_text("type");
    each(block, type);
    block.finish();
  }
}

class DialogueReader {
 public:
  [[nodiscard]] engine::Dialogue take() && { return std::move(out_); }

  void system(JsonBody& body) {
    if (body.find("system") == nullptr) return;
    std::string text;
    for_blocks(body, "system", "system", [&](JsonBody& block, const std::string& type) {
      if (type != "text") throw block.wrong("type", "text");
      text_or_image(block, type, text, out_);
    });
    if (!text.empty()) push("system", std::move(text), {});
  }

  void message(const Json& json, const std::string& place) {
    JsonBody body(json, place);
    const std::string role = body.required_text("role");
    if (role != "user" && role != "assistant") throw body.wrong("role", "user or assistant");
    Turn turn;
    bool any = false;
    for_blocks(body, "content", cat(place, ".content"), [&](JsonBody& block, const std::string& type) {
      any = true;
      if (role == "user") {
        user_block(block, type, turn);
      } else {
        assistant_block(block, type, turn);
      }
    });
    if (!any) throw body.wrong("content", "at least one block");
    if (role == "user") {
      finish_user(turn);
    } else {
      finish_assistant(std::move(turn));
    }
    body.finish();
  }

 private:
  void push(const char* role, std::string content, Json members) {
    chat::Message message;
    message.role = role;
    message.content = std::move(content);
    if (members.is_object() && !members.empty()) message.members_json = members.dump();
    out_.messages.push_back(std::move(message));
  }

  void finish_user(Turn& turn) {
    if (turn.text.empty()) return;
    std::string text = std::exchange(turn.text, {});
    if (!out_.messages.empty() && out_.messages.back().role == "user") {
      append_block(out_.messages.back().content, text);
      return;
    }
    push("user", std::move(text), {});
  }

  void finish_assistant(Turn turn) {
    Json members = Json::object();
    if (!turn.reasoning.empty()) members["reasoning_content"] = std::move(turn.reasoning);
    if (!turn.calls.empty()) members["tool_calls"] = std::move(turn.calls);
    const bool joins = !out_.messages.empty() && out_.messages.back().role == "assistant" && members.empty() &&
                       out_.messages.back().members_json.empty();
    if (joins) {
      append_block(out_.messages.back().content, turn.text);
      return;
    }
    push("assistant", std::move(turn.text), std::move(members));
  }

  void user_block(JsonBody& block, const std::string& type, Turn& turn) {
    if (type == "text" || type == "image") {
      text_or_image(block, type, turn.text, out_);
      return;
    }
    if (type != "tool_result") throw block.wrong("type", "text, image or tool_result");
    finish_user(turn);
    Json members = Json::object();
    members["tool_call_id"] = block.required_text("tool_use_id");
    std::string text;
    if (block.find("content") != nullptr) {
      for_blocks(block, "content", block.inner("content"), [&](JsonBody& inner, const std::string& inner_type) {
        if (inner_type != "text" && inner_type != "image") throw inner.wrong("type", "text or image");
        text_or_image(inner, inner_type, text, out_);
      });
    }
    // Templates have no word for a tool that failed; models read it as text.
    if (block.boolean("is_error").value_or(false)) text = cat("Error: ", text);
    block.takes({"cache_control"});
    push("tool", std::move(text), std::move(members));
  }

  static void assistant_block(JsonBody& block, const std::string& type, Turn& turn) {
    engine::Dialogue none;
    if (type == "text") {
      text_or_image(block, type, turn.text, none);
    } else if (type == "thinking") {
      append_block(turn.reasoning, block.required_text("thinking"));
      block.takes({"signature"});  // ours says nothing (messages_writer.cpp)
    } else if (type == "tool_use") {
      auto input = block.object("input");
      if (!input) throw block.wrong("input", "an object");
      Json function = Json::object();
      function["name"] = block.required_text("name");
      function["arguments"] = input->json();
      Json call = Json::object();
      call["id"] = block.required_text("id");
      call["type"] = "function";
      call["function"] = std::move(function);
      turn.calls.push_back(std::move(call));
      block.takes({"cache_control"});
      caller(block);
    } else {
      throw block.wrong("type", "text, thinking or tool_use");
    }
  }

  // Clients send it back as it is in answers: the model itself called.
  static void caller(JsonBody& block) {
    auto by = block.object("caller");
    if (by && by->required_text("type") != "direct") throw by->wrong("type", "direct");
  }

  engine::Dialogue out_;
};

}  // namespace

engine::Dialogue dialogue_fields(JsonBody& body) {
  const Json* messages = body.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    throw body.wrong("messages", "a list with at least one message");
  }
  DialogueReader reader;
  reader.system(body);
  std::size_t at = 0;
  for (const Json& one : *messages) reader.message(one, cat("messages[", at++, "]"));
  engine::Dialogue out = std::move(reader).take();
  if (out.messages.empty() || out.messages.back().role == "system") {
    throw body.wrong("messages", "a message that says something");
  }
  if (out.messages.back().members_json.find("\"tool_calls\"") != std::string::npos) {
    throw body.wrong("messages", "a tool_result for each tool_use at its end");
  }
  return out;
}

}  // namespace tern::server::anthropic
