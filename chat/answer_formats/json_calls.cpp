#include "chat/answer_formats/json_calls.h"

namespace tern::chat {

bool JsonCall::known() const {
  return key_ == "name" || key_ == "arguments" || key_ == "parameters" || key_ == "id" || key_ == "type";
}

Fed JsonCall::feed(char c, AnswerParts& parts) {
  switch (at_) {
    case At::open:
      at_ = At::first_key;
      return c == '{' ? Fed::more : Fed::broken;
    case At::first_key:
    case At::key:
      if (is_blank(c)) return Fed::more;
      if (c != '"') return Fed::broken;
      at_ = At::in_key, key_.clear(), string_ = {};
      return Fed::more;
    case At::in_key: {
      const Fed fed = string_.feed(c, key_);
      if (fed != Fed::done) return fed;
      if (strict_ && !known()) return Fed::broken;
      at_ = At::colon;
      return Fed::more;
    }
    case At::colon:
      if (is_blank(c)) return Fed::more;
      at_ = At::value;
      return c == ':' ? Fed::more : Fed::broken;
    case At::name:
    case At::id: {
      const Fed fed = string_.feed(c, at_ == At::name ? name_ : id_);
      if (fed != Fed::done) return fed;
      if (at_ == At::name && name_.empty()) return Fed::broken;
      (at_ == At::name ? has_name_ : has_id_) = true;
      at_ = At::after;
      return Fed::more;
    }
    case At::after:
      return after(c, parts);
    default:
      return value(c, parts);
  }
}

Fed JsonCall::value(char c, AnswerParts& parts) {
  if (at_ == At::value) {
    if (is_blank(c)) return Fed::more;
    const bool text = c == '"';
    string_ = {};
    if (key_ == "name") {
      at_ = At::name;
      return text && !has_name_ ? Fed::more : Fed::broken;
    }
    if (key_ == "id" && text && !has_id_) {
      at_ = At::id;
      return Fed::more;
    }
    if (key_ == "arguments" || key_ == "parameters") {
      if (has_arguments_) return Fed::broken;
      at_ = At::arguments, has_arguments_ = true;
      // Some write the id behind the arguments (Mistral): a call whose name comes first doesn't wait for it.
      if (has_name_) parts.name(name_, id_);
    } else {
      at_ = At::other, other_ = {};
    }
  }
  if (at_ == At::arguments) {
    out_.clear();
    const Fed fed = arguments_.feed(c, out_);
    if (fed == Fed::broken) return fed;
    parts.arguments(out_);
    if (fed == Fed::done) at_ = At::after;
    return Fed::more;
  }
  const Fed fed = other_.feed(c);
  if (fed == Fed::broken) return fed;
  if (fed == Fed::more) return fed;
  at_ = At::after;
  return fed == Fed::ended ? after(c, parts) : Fed::more;
}

Fed JsonCall::after(char c, AnswerParts& parts) {
  if (is_blank(c)) return Fed::more;
  if (c == ',') {
    at_ = At::key;
    return Fed::more;
  }
  if (c != '}' || !has_name_ || !has_arguments_) return Fed::broken;
  parts.name(name_, id_);
  parts.call_whole();
  return Fed::done;
}

void JsonCalls::start(std::string_view marker) {
  at_ = At::before;
  in_array_ = comma_ = false;
  call_ = JsonCall(layout_.strict);
  end_ = Choice(layout_.ends);
  if (marker == "{") {
    at_ = At::call;
    AnswerParts none(true, true);
    (void)call_.feed('{', none);
  }
  if (marker == "[") in_array_ = true;
}

Fed JsonCalls::begin_call(char c, AnswerParts& parts) {
  at_ = At::call, comma_ = false;
  call_ = JsonCall(layout_.strict);
  return call_.feed(c, parts);
}

Fed JsonCalls::feed(char c, AnswerParts& parts) {
  if (at_ == At::call) {
    const Fed fed = call_.feed(c, parts);
    if (fed != Fed::done) return fed;
    at_ = in_array_ ? At::between : At::after;
    return !in_array_ && layout_.ends.empty() ? Fed::done : Fed::more;
  }
  if (at_ == At::end) return behind(c, parts);
  if (is_blank(c)) return Fed::more;
  if (at_ == At::before) {
    if (c == '[' && layout_.array && !in_array_) {
      in_array_ = true;
      return Fed::more;
    }
    return begin_call(c, parts);
  }
  if (at_ == At::between) {
    if (c == ',' && !comma_) {
      comma_ = true;
      return Fed::more;
    }
    if (c == '{' && comma_) return begin_call(c, parts);
    if (c != ']' || comma_) return Fed::broken;
    at_ = At::after;
    return layout_.ends.empty() ? Fed::done : Fed::more;
  }
  return behind(c, parts);
}

// Behind the objects: an end, a further object, or a brace too many, which models write.
Fed JsonCalls::behind(char c, AnswerParts& parts) {
  if (at_ == At::after) {
    if (c == '{' && !in_array_) return begin_call(c, parts);
    if (c == '}' || layout_.between.find(c) != std::string::npos) return Fed::more;
    at_ = At::end;
  }
  std::size_t index = 0;
  return end_.feed(c, index);
}

bool JsonCalls::finish(AnswerParts& /*parts*/) { return at_ != At::before && at_ != At::call; }

std::optional<CallFormat> json_format(std::string_view name) {
  CallFormat format;
  JsonLayout layout;
  if (name == "hermes") {
    format.begins = {"<tool_call>"};
    layout.ends = {"</tool_call>"};
    format.special = true;
  } else if (name == "llama3_json") {
    format.begins = {"<|python_tag|>", "{"};
    format.between = ";";
    format.special = layout.strict = true;
  } else if (name == "granite") {
    format.begins = {"<|tool_call|>", "<tool_call>"};
    format.special = layout.array = true;
  } else if (name == "xlam") {
    format.begins = {"[TOOL_CALLS]", "<tool_call>", "```json"};
    format.dropped = {"[/TOOL_CALLS]", "</tool_call>"};
    format.bare = '[';
    layout.array = layout.strict = true;
    layout.ends = {"```", "</tool_call>", "[/TOOL_CALLS]"};
  } else if (name == "phi4_mini_json") {
    format.begins = {"functools", "<|tool_call|>"};
    format.dropped = {"<|/tool_call|>"};
    format.special = layout.array = true;
  } else if (name == "jamba" || name == "minimax") {
    format.begins = {"<tool_calls>"};
    format.special = layout.array = true;
    layout.ends = {"</tool_calls>"};
  } else if (name == "internlm") {
    format.begins = {"<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"};
    format.special = true;
    layout.ends = {"<|action_end|>"};
  } else {
    return std::nullopt;
  }
  format.reader = std::make_unique<JsonCalls>(std::move(layout));
  return format;
}

}  // namespace tern::chat
