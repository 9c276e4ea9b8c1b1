#include "chat/chat_template.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "jinja/eval.h"
#include "jinja/parser.h"
#include "jinja/unicode.h"

namespace tern::chat {
namespace {

using jinja::Value;
using nlohmann::ordered_json;
using Entries = std::vector<std::pair<Value, Value>>;

// What transformers puts behind the last message to find where it ends.
constexpr std::string_view continue_tag = "CONTINUE_FINAL_MESSAGE_TAG ";
// Names under which a message's reasoning is passed: the first is what templates read.
constexpr std::array<std::string_view, 3> reasoning_fields{"reasoning_content", "thinking", "reasoning"};

std::tm local_time(std::chrono::system_clock::time_point now) {
  const std::time_t time = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  (void)localtime_r(&time, &parts);
  return parts;
}

void set(Entries& entries, std::string_view key, Value value) {
  for (auto& [name, old] : entries) {
    if (name.text() == key) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(Value(key), std::move(value));
}

// transformers' _alias_reasoning_fields: reasoning_content always, thinking where it is not given.
void alias_reasoning(Entries& message) {
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
  set(message, "reasoning_content", content);
}

constexpr const char* as_messages = R"(give them as [{"role": "user", "content": "..."}, ...])";

Error no_final_text(std::string found, Site site = Site::current()) {
  return data_error("continue_final_message", "text in the last message to go on with", std::move(found),
                    "give the last message content, or leave continue_final_message out", site);
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
    set(part, "text", Value(final_text + std::string(continue_tag)));
    parts[i] = jinja::make_dict(std::move(part));
    *content = Value::list(std::move(parts));
    return final_text;
  }
  throw Failure(no_final_text("no text part"));
}

// The messages as values; `final_text` receives the last one's text where it is to be continued.
Value message_values(const ChatInput& input, std::string& final_text) {
  if (!input.messages || !input.messages->is_array()) {
    throw Failure(
        data_error("messages", "an array", input.messages ? input.messages->type_name() : "nothing", as_messages));
  }
  jinja::Values out;
  for (std::size_t i = 0; i < input.messages->size(); ++i) {
    const ordered_json& json = (*input.messages)[i];
    if (!json.is_object())
      throw Failure(data_error(cat("messages[", i, "]"), "an object", json.type_name(), as_messages));
    Entries message = jinja::from_json(json).dict().entries;
    alias_reasoning(message);
    if (input.continue_final_message && i + 1 == input.messages->size()) final_text = tag_final(message);
    out.push_back(jinja::make_dict(std::move(message)));
  }
  if (input.continue_final_message && out.empty()) throw Failure(no_final_text("no message"));
  return Value::list(std::move(out));
}

std::vector<std::pair<std::string, Value>> variables(const ChatInput& input, std::string& final_text) {
  std::vector<std::pair<std::string, Value>> out;
  const auto json_or_none = [](const ordered_json* json) { return json ? jinja::from_json(*json) : Value(); };
  const std::array<std::pair<const char*, const std::string*>, 4> tokens{{{"bos_token", &input.bos_token},
                                                                          {"eos_token", &input.eos_token},
                                                                          {"unk_token", &input.unk_token},
                                                                          {"pad_token", &input.pad_token}}};
  for (const auto& [name, token] : tokens) {
    if (!token->empty()) out.emplace_back(name, Value(*token));
  }
  if (input.kwargs) {
    if (!input.kwargs->is_object()) {
      throw Failure(data_error("chat_template_kwargs", "an object", input.kwargs->type_name(),
                               R"(write them as {"enable_thinking": false})"));
    }
    for (const auto& [name, value] : input.kwargs->items()) out.emplace_back(name, jinja::from_json(value));
  }
  out.emplace_back("messages", message_values(input, final_text));
  out.emplace_back("tools", json_or_none(input.tools));
  out.emplace_back("documents", json_or_none(input.documents));
  out.emplace_back("add_generation_prompt", Value(input.add_generation_prompt));
  return out;
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
  return catching([&] {
    std::string final_text;
    std::vector<std::pair<std::string, Value>> given;
    try {
      given = variables(input, final_text);
    } catch (const jinja::Problem& problem) {
      throw Failure(data_error("messages", problem.expected, problem.found, "correct the messages", problem.site));
    }
    const std::tm clock = local_time(input.now ? *input.now : std::chrono::system_clock::now());
    const jinja::Limits limits;
    Rendered out;
    jinja::Evaluator evaluator(parsed_->where, limits, clock);
    out.text = evaluator.render(parsed_->body, std::move(given), &out.generation);
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

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  auto rendered = render_with_generation(input);
  if (!rendered) return rendered.error();
  return std::move(rendered->text);
}

const std::string& ChatTemplate::source() const { return parsed_->source; }
const std::string& ChatTemplate::where() const { return parsed_->where; }
bool ChatTemplate::has_generation() const { return parsed_->has_generation; }

}  // namespace tern::chat
