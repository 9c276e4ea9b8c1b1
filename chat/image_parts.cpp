#include "chat/image_parts.h"

#include <algorithm>
#include <string>

#include "chat/dialogue.h"

namespace tern::chat {
namespace {

using jinja::Value;

Value parts_of(const std::string& text) {
  jinja::Values parts;
  const auto add_text = [&](std::string_view part) {
    if (!part.empty())
      parts.push_back(jinja::make_dict({{Value("type"), Value("text")}, {Value("text"), Value(part)}}));
  };
  std::string_view rest = text;
  for (std::size_t at = rest.find(image_tag); at != std::string_view::npos; at = rest.find(image_tag)) {
    add_text(rest.substr(0, at));
    parts.push_back(jinja::make_dict({{Value("type"), Value("image")}}));
    rest.remove_prefix(at + image_tag.size());
  }
  add_text(rest);
  return Value::list(std::move(parts));
}

Value words_of(const std::string& text, std::string_view word) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = text.find(image_tag); at != std::string::npos; at = text.find(image_tag, begin)) {
    out.append(text, begin, at - begin).append(word);
    begin = at + image_tag.size();
  }
  return Value(out.append(text, begin));
}

// Contents that hold the tag as `change` makes them.
template <typename Change>
jinja::Values with_contents(jinja::Values messages, const Change& change) {
  for (Value& message : messages) {
    const Value* content = message.dict().get("content");
    if (content == nullptr || !content->is_text() || content->text().find(image_tag) == std::string::npos) continue;
    auto members = message.dict().entries;
    set_member(members, "content", change(content->text()));
    message = jinja::make_dict(std::move(members));
  }
  return messages;
}

}  // namespace

std::size_t count_image_tags(const std::vector<Message>& messages) {
  std::size_t count = 0;
  for (const Message& message : messages) {
    for (std::size_t at = message.content.find(image_tag); at != std::string::npos;
         at = message.content.find(image_tag, at + image_tag.size())) {
      ++count;
    }
  }
  return count;
}

void add_image_tags(std::vector<Message>& messages, std::size_t missing) {
  auto to = std::find_if(messages.begin(), messages.end(), [](const Message& one) { return one.role == "user"; });
  if (to == messages.end()) to = messages.begin();
  for (; to != messages.end() && missing > 0; --missing) to->content.insert(0, image_tag);
}

jinja::Values with_image_parts(jinja::Values messages) { return with_contents(std::move(messages), parts_of); }

jinja::Values with_image_words(jinja::Values messages, std::string_view word) {
  return with_contents(std::move(messages), [&](const std::string& text) { return words_of(text, word); });
}

}  // namespace tern::chat
