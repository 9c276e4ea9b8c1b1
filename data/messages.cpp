#include "data/messages.h"

#include "base/strings.h"
#include "io/json.h"

namespace tern::data {
namespace {

namespace dom = simdjson::dom;

constexpr const char* kMessages = R"(write it as [{"role": "user", "content": "..."}, ...])";
constexpr const char* kHistory = R"(write it as [["question", "answer"], ...])";

std::string canonical_role(std::string_view role) {
  if (role == "human") return "user";
  if (role == "gpt" || role == "bot" || role == "model") return "assistant";
  if (role == "function_call") return "tool_call";
  if (role == "observation" || role == "function_response") return "tool_response";
  if (role == "developer") return "system";
  for (const std::string_view known : {"system", "user", "assistant", "tool_call", "tool_response", "tool"}) {
    if (role == known) return std::string(known);
  }
  return {};
}

std::size_t tags(const std::vector<Message>& messages, std::string_view tag) {
  std::size_t count = 0;
  for (const auto& message : messages) {
    for (std::size_t at = message.content.find(tag); at != std::string::npos;
         at = message.content.find(tag, at + tag.size())) {
      ++count;
    }
  }
  return count;
}

// OpenAI content parts: text is joined, media leave their tag in it and go to the lists.
std::string content_parts(dom::array parts, const Place& place, MediaLists& media) {
  std::string out;
  std::size_t index = 0;
  for (const dom::element part : parts) {
    const Place here = place.at(index++);
    if (part.is_string()) {
      out += string_in(part);
      continue;
    }
    if (!part.is_object())
      throw Failure(
          here.error("an object or a string", kind_of(part), R"(write it as {"type": "text", "text": "..."})"));
    dom::element type;
    if (part.at_key("type").get(type) != simdjson::SUCCESS || !type.is_string()) {
      throw Failure(here.field("type").error("text, image, image_url, video, video_url, audio or audio_url",
                                             "no such string", R"(write it as {"type": "text", "text": "..."})"));
    }
    const std::string_view kind = string_in(type);
    const std::string_view base = kind.substr(0, kind.find('_'));
    dom::element value;
    const bool there =
        part.at_key(kind).get(value) == simdjson::SUCCESS || part.at_key(base).get(value) == simdjson::SUCCESS ||
        part.at_key("url").get(value) == simdjson::SUCCESS || part.at_key("path").get(value) == simdjson::SUCCESS;
    if (!there)
      throw Failure(here.field(kind).error("a value", "none", R"(write it as {"type": "text", "text": "..."})"));
    if (kind == "text") {
      out += text_of(value, here.field("text"));
    } else if (base == "image" || base == "video" || base == "audio") {
      auto& list = base == "image" ? media.images : base == "video" ? media.videos : media.audios;
      list.push_back(media_value(value, here.field(kind)));
      out += base == "image" ? "<image>" : base == "video" ? "<video>" : "<audio>";
    } else {
      throw Failure(here.field("type").error("text, image, image_url, video, video_url, audio or audio_url",
                                             cat("\"", kind, "\""), "leave the part out, or write it as one of these"));
    }
  }
  return out;
}

// `loss`: a boolean or a weight.
double loss_of(dom::element value, const Place& place) {
  bool flag = false;
  double weight = 0;
  if (value.get(flag) == simdjson::SUCCESS) return flag ? 1.0 : 0.0;
  if (value.get(weight) == simdjson::SUCCESS && weight >= 0) return weight;
  throw Failure(
      place.error("true, false or a weight of at least 0", kind_of(value), "write true, false or a number as 0.5"));
}

// {human, assistant} (or user, assistant): two messages in one element.
bool append_exchange(dom::object object, const Place& place, std::vector<Message>& out) {
  dom::element question, answer;
  if (object.at_key("human").get(question) != simdjson::SUCCESS &&
      object.at_key("user").get(question) != simdjson::SUCCESS) {
    return false;
  }
  if (object.at_key("assistant").get(answer) != simdjson::SUCCESS) {
    throw Failure(place.field("assistant").error("a string", "nothing", "add the answer, or leave the pair out"));
  }
  out.push_back({"user", text_of(question, place.field("human")), {}, {}});
  out.push_back({"assistant", text_of(answer, place.field("assistant")), {}, {}});
  return true;
}

void append_member(std::string& json, std::string_view key, std::string_view value) {
  json += json.empty() ? '{' : ',';
  append_json_string(json, key);
  json += ':';
  json += value;
}

Message one_message(dom::object object, const Place& place, MediaLists& media) {
  Message message;
  bool has_role = false;
  bool has_content = false;
  bool has_calls = false;
  for (const auto field : object) {
    const std::string_view key = field.key;
    const Place here = place.field(key);
    if (key == "role" || key == "from") {
      if (!field.value.is_string())
        throw Failure(here.error("a string", kind_of(field.value), "write the role in quotes"));
      const std::string_view role = string_in(field.value);
      message.role = canonical_role(role);
      if (message.role.empty()) {
        throw Failure(here.error("system, user, assistant, tool_call, tool_response or tool", cat("\"", role, "\""),
                                 "rename the role to one of these"));
      }
      has_role = true;
    } else if (key == "content" || key == "value") {
      has_content = !field.value.is_null();
      if (field.value.is_string()) {
        message.content = string_in(field.value);
      } else if (field.value.is_array()) {
        message.content = content_parts(array_in(field.value), here, media);
      } else if (field.value.is_object()) {  // a tool's call or result written as JSON
        message.content = simdjson::minify(field.value);
      } else if (has_content) {
        throw Failure(here.error("a string or an array of parts", kind_of(field.value), "write the text in quotes"));
      }
    } else if (key == "loss") {
      if (!field.value.is_null()) message.loss = loss_of(field.value, here);
    } else if (!field.value.is_null()) {
      if (key == "tool_calls") {
        if (!field.value.is_array())
          throw Failure(here.error("an array", kind_of(field.value),
                                   R"(write it as [{"function": {"name": "...", "arguments": {}}}])"));
        has_calls = true;
      }
      append_member(message.members_json, key, kept_json(field.value, here));
    }
  }
  if (!message.members_json.empty()) message.members_json += '}';
  if (!has_role)
    throw Failure(
        place.error("\"role\" (or \"from\") in each message", "none", "add who speaks, as \"role\": \"user\""));
  if (!has_content && !has_calls) {
    throw Failure(
        place.error("\"content\" (or \"value\") in each message", "none", "add the text, as \"content\": \"...\""));
  }
  return message;
}

}  // namespace

std::string media_value(dom::element value, const Place& place) {
  if (value.is_string()) return std::string(string_in(value));
  if (value.is_object()) {
    dom::element inner;
    // Of Hugging Face's {"bytes", "path"} the bytes count where there are any: the path is but the name they had.
    if (value.at_key("bytes").get(inner) == simdjson::SUCCESS && inner.is_string()) {
      const std::string_view bytes = string_in(inner);
      return cat(bytes.starts_with("data:") ? "" : "data:;base64,", bytes);
    }
    for (const std::string_view key : {"url", "path", "image", "video", "audio", "data"}) {
      if (value.at_key(key).get(inner) == simdjson::SUCCESS && inner.is_string()) {
        return std::string(string_in(inner));
      }
    }
  }
  throw Failure(place.error("a path, URL or base64 text", kind_of(value), "write the path in quotes"));
}

std::vector<Message> messages_of(dom::element value, const Place& place, MediaLists& media) {
  if (!value.is_array()) throw Failure(place.error("an array", kind_of(value), kMessages));
  std::vector<Message> out;
  std::size_t index = 0;
  for (const dom::element element : array_in(value)) {
    const Place here = place.at(index++);
    if (!element.is_object()) throw Failure(here.error("an object with role and content", kind_of(element), kMessages));
    const dom::object object = object_in(element);
    if (!append_exchange(object, here, out)) out.push_back(one_message(object, here, media));
  }
  if (out.empty())
    throw Failure(place.error("at least one message", "an empty array", "add its messages, or leave the row out"));
  return out;
}

std::vector<Message> history_of(dom::element value, const Place& place) {
  if (!value.is_array()) throw Failure(place.error("an array of [query, response]", kind_of(value), kHistory));
  std::vector<Message> out;
  std::size_t index = 0;
  for (const dom::element pair : array_in(value)) {
    const Place here = place.at(index++);
    if (!pair.is_array() || array_in(pair).size() != 2) {
      throw Failure(here.error("[query, response]", kind_of(pair), kHistory));
    }
    const dom::array both = array_in(pair);
    out.push_back({"user", text_of(element_at(both, 0), here.at(0)), {}, {}});
    out.push_back({"assistant", text_of(element_at(both, 1), here.at(1)), {}, {}});
  }
  return out;
}

std::string kept_json(dom::element value, const Place& place) {
  std::string text = simdjson::minify(value);
  if (const auto parsed = io::parse_json(text, "as JSON"); !parsed.ok())
    throw Failure(parsed.error().inside(place.where()));
  return text;
}

void place_media(Row& row, const std::vector<std::string>& media, std::string_view tag, const Place& place) {
  if (media.empty() || row.messages.empty()) return;
  const std::size_t found = tags(row.messages, tag);
  if (found > media.size()) {
    throw Failure(place.error(cat("one for each ", tag, " in the text"), cat(media.size(), " for ", found),
                              "add what is missing, or take its tag out of the text"));
  }
  std::string missing;
  for (std::size_t i = found; i < media.size(); ++i) missing += tag;
  for (auto* dialogue : {&row.messages, &row.rejected}) {
    for (auto& message : *dialogue) {
      if (message.role == "user") {
        message.content.insert(0, missing);
        break;
      }
    }
  }
}

}  // namespace tern::data
