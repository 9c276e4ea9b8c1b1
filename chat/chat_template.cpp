#include "chat/chat_template.h"

#include <algorithm>
#include <ctime>

#include "base/strings.h"
#include "chat/dialogue.h"
#include "jinja/eval.h"
#include "jinja/parser.h"
#include "jinja/unicode.h"

namespace tern::chat {
namespace {

using jinja::Value;
using Entries = std::vector<std::pair<Value, Value>>;

// What transformers puts behind the last message to find where it ends.
constexpr std::string_view continue_tag = "CONTINUE_FINAL_MESSAGE_TAG ";

std::tm local_time(std::chrono::system_clock::time_point now) {
  const std::time_t time = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  (void)localtime_r(&time, &parts);
  return parts;
}

Error no_final_text(std::string found) {
  return data_error("continue_final_message", "text in the last message to go on with", std::move(found),
                    "give the last message content, or leave continue_final_message out");
}

// Puts the tag behind the last message's text; gives the text.
std::string tag_final(Entries& message) {
  Value* content = nullptr;
  for (auto& [name, value] : message) {
    if (name.text() == "content") content = &value;
  }
  if (!content || content->is_none()) throw Failure(no_final_text("no content"));
  if (content->is_text()) {
    std::string text = content->text();
    *content = Value(text + std::string(continue_tag));
    return text;
  }
  if (!content->is_list()) throw Failure(no_final_text(cat("content of type ", content->type_name())));
  jinja::Values parts = content->items();
  for (std::size_t i = parts.size(); i-- > 0;) {
    const Value* text = parts[i].is_dict() ? parts[i].dict().get("text") : nullptr;
    if (!text || !text->is_text()) continue;
    std::string final_text = text->text();
    Entries part = parts[i].dict().entries;
    set_member(part, "text", Value(final_text + std::string(continue_tag)));
    parts[i] = jinja::make_dict(std::move(part));
    *content = Value::list(std::move(parts));
    return final_text;
  }
  throw Failure(no_final_text("no text part"));
}

// Cuts the text where the last message ends.
void cut_at_tag(std::string& text, const std::string& final_text) {
  const std::string_view bare = continue_tag.substr(0, continue_tag.size() - 1);
  const std::size_t at = text.rfind(bare);
  if (at == std::string::npos || text.find(jinja::strip(final_text, true, true)) == std::string::npos) {
    throw Failure(no_final_text("a template that drops or changes it"));
  }
  const bool spaced = std::string_view(text).substr(at).starts_with(continue_tag);
  text.resize(at);
  if (!spaced) text.resize(jinja::strip(text, false, true).size());
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string source;
  std::string where;
  jinja::Body body;
  bool has_generation = false;
};

Result<ChatTemplate> ChatTemplate::parse(std::string source, std::string where) {
  return catching([&] {
    auto parsed = std::make_shared<Parsed>();
    parsed->source = std::move(source);
    parsed->where = std::move(where);
    const auto tokens = jinja::tokenize(parsed->source, parsed->where);
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      parsed->has_generation =
          parsed->has_generation || (tokens[i - 1].kind == jinja::TokenKind::block_begin &&
                                     tokens[i].kind == jinja::TokenKind::name && tokens[i].text == "generation");
    }
    parsed->body = jinja::parse(parsed->source, parsed->where);
    return ChatTemplate(std::move(parsed));
  });
}

Result<Rendered> ChatTemplate::render_with_generation(const ChatInput& input) const {
  auto dialogue = read_dialogue(input);
  if (!dialogue) return dialogue.error();
  return catching([&] {
    std::string final_text;
    if (input.continue_final_message) {
      if (dialogue->messages.empty()) throw Failure(no_final_text("no message"));
      Entries last = dialogue->messages.back().dict().entries;
      final_text = tag_final(last);
      dialogue->messages.back() = jinja::make_dict(std::move(last));
    }
    Rendered out;
    out.text = evaluated(*dialogue, dialogue->messages.size(), input, &out.generation);
    if (input.continue_final_message) {
      cut_at_tag(out.text, final_text);
      for (auto& [begin, end] : out.generation) {
        begin = std::min(begin, out.text.size());
        end = std::min(end, out.text.size());
      }
    }
    return out;
  });
}

std::string ChatTemplate::evaluated(const Dialogue& dialogue, std::size_t count, const ChatInput& input,
                                    std::vector<std::pair<std::size_t, std::size_t>>* generation) const {
  auto given = dialogue.variables;
  const auto end = dialogue.messages.begin() + static_cast<std::ptrdiff_t>(count);
  try {
    given.emplace_back("messages", Value::list({dialogue.messages.begin(), end}));
  } catch (const jinja::Problem& problem) {
    throw Failure(messages_error(problem));
  }
  given.emplace_back("add_generation_prompt", Value(input.add_generation_prompt));
  const std::tm clock = local_time(input.now ? *input.now : std::chrono::system_clock::now());
  const jinja::Limits limits;
  jinja::Evaluator evaluator(parsed_->where, limits, clock);
  return evaluator.render(parsed_->body, std::move(given), generation);
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  auto rendered = render_with_generation(input);
  if (!rendered) return rendered.error();
  return std::move(rendered->text);
}

Result<std::string> ChatTemplate::render_prefix(const Dialogue& dialogue, std::size_t count,
                                                const ChatInput& input) const {
  return catching([&] { return evaluated(dialogue, count, input, nullptr); });
}

const std::string& ChatTemplate::source() const { return parsed_->source; }
const std::string& ChatTemplate::where() const { return parsed_->where; }
bool ChatTemplate::has_generation() const { return parsed_->has_generation; }

}  // namespace tern::chat
