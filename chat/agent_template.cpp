#include "chat/agent_template.h"

#include <algorithm>
#include <ctime>

#include "base/strings.h"
#include "chat/dialogue.h"
#include "chat/unlearned.h"
#include "io/json.h"
#include "jinja/eval.h"
#include "jinja/parser.h"

namespace tern::chat {
namespace {

using jinja::Value;
using Members = std::vector<std::pair<Value, Value>>;
using Variables = std::vector<std::pair<std::string, Value>>;

std::string render(const jinja::Body& text, const std::string& where, Variables variables) {
  const jinja::Limits limits;
  jinja::Evaluator evaluator(where, limits, std::tm{});
  return evaluator.render(text, std::move(variables), nullptr);
}

std::string text_at(const Value& message, std::string_view key) {
  const Value* found = message.dict().get(key);
  return found != nullptr && found->is_text() ? found->text() : std::string();
}

Value message_of(std::string_view role, std::string content) {
  return jinja::make_dict({{Value("role"), Value(role)}, {Value("content"), Value(std::move(content))}});
}

// The message with another content, and without its calls.
Value with_content(const Value& message, std::string content) {
  Members members;
  for (const auto& member : message.dict().entries) {
    if (member.first.text() != "tool_calls") members.push_back(member);
  }
  set_member(members, "content", Value(std::move(content)));
  return jinja::make_dict(std::move(members));
}

// Each tool as [{type, function}].
Value tools_of(const io::Json& tools) {
  constexpr const char* kMend = R"(write them as [{"type": "function", "function": {"name": "...", ...}}])";
  if (!tools.is_array()) throw Failure(data_error("tools", "an array", tools.type_name(), kMend));
  jinja::Values out;
  for (const io::Json& tool : tools) {
    if (!tool.is_object()) {
      throw Failure(data_error(cat("tools[", out.size(), "]"), "an object", tool.type_name(), kMend));
    }
    const io::Json& function = tool.contains("function") ? *tool.find("function") : tool;
    const bool named = function.is_object() && (function.contains("name") || function.contains("name_for_model"));
    if (!named) {
      throw Failure(data_error(cat("tools[", out.size(), "]"), "a function with a name",
                               function.is_object() ? "one without" : std::string(function.type_name()), kMend));
    }
    const Value value = value_of(tool);
    out.push_back(tool.contains("function")
                      ? value
                      : jinja::make_dict({{Value("type"), Value("function")}, {Value("function"), value}}));
  }
  return Value::list(std::move(out));
}

// [{name, arguments}] of the calls that template_messages made.
Value calls_of(const Value& message) {
  jinja::Values out;
  for (const Value& call : message.dict().get("tool_calls")->items()) {
    const Value& function = *call.dict().get("function");
    const Value* arguments = function.dict().get("arguments");
    if (arguments == nullptr) arguments = function.dict().get("parameters");
    if (arguments != nullptr && !arguments->is_dict()) {
      throw Failure(data_error(cat("the call of ", text_at(function, "name")), "arguments as an object",
                               arguments->type_name(), R"(write them as {"NAME": VALUE})"));
    }
    out.push_back(jinja::make_dict({{Value("name"), Value(text_at(function, "name"))},
                                    {Value("arguments"), arguments == nullptr ? jinja::make_dict({}) : *arguments}}));
  }
  return Value::list(std::move(out));
}

std::string unlearned(const std::string& text) { return cat(kUnlearnedBegin, text, kUnlearnedEnd); }

std::string unmarked(std::string text) {
  for (const std::string_view mark : {kUnlearnedBegin, kUnlearnedEnd}) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark)) text.erase(at, mark.size());
  }
  return text;
}

// Joins what the assistant says further to its turn. `marks`: where one of the two is not learned, that part says so.
Value joined_turn(const Value& turn, const Value& more, bool marks) {
  std::string first = text_at(turn, "content"), second = text_at(more, "content");
  Members members = turn.dict().entries;
  const auto loss_of = [](const Value& message) {
    const Value* loss = message.dict().get("loss");
    return loss == nullptr || !loss->is_number() ? std::nullopt : std::optional(loss->real());
  };
  const auto loss = loss_of(turn), more_loss = loss_of(more);
  if (marks && loss != more_loss) {
    if (loss.value_or(1) != 0 && more_loss.value_or(1) != 0) {
      throw Failure(data_error("messages",
                               "one weight of loss, or 0, in all that an assistant says around a tool's results", "two",
                               "give its messages the same `loss`"));
    }
    if (more_loss.value_or(1) == 0) {
      second = unlearned(second);
    } else {
      first = unlearned(unmarked(first));
      std::erase_if(members, [](const auto& member) { return member.first.text() == "loss"; });
      if (more_loss) set_member(members, "loss", *more.dict().get("loss"));
    }
  }
  set_member(members, "content", Value(first + second));
  return jinja::make_dict(std::move(members));
}

bool shows(const ChatTemplate& chat_template, std::string_view role) {
  constexpr const char* kProbe = "what the tool said";
  const jinja::Values messages = {message_of("user", "a"), message_of("assistant", "b"), message_of(role, kProbe)};
  ChatInput input;
  input.values = &messages;
  const auto text = chat_template.render(input);
  return text.ok() && text->find(kProbe) != std::string::npos;
}

}  // namespace

struct AgentTemplate::Parsed {
  const AgentFormat& format;
  std::string where;
  jinja::Body system, question, calls, responses;

  // Whether calls and results are lines of the assistant's own text.
  [[nodiscard]] bool is_inline() const { return !format.observation.empty(); }
  void put_tools(jinja::Values& messages, const Value& tools) const;
  void require_described(const Value& tools) const;
  [[nodiscard]] std::size_t append_responses(const jinja::Values& messages, std::size_t at, jinja::Values& out,
                                             bool marks) const;
  void go_on_behind(const jinja::Values& texts, jinja::Values& out, bool marks) const;
};

Result<AgentTemplate> AgentTemplate::create(std::string_view name, const ChatTemplate& chat_template) {
  return catching([&] {
    const auto& formats = agent_formats();
    const auto found =
        std::find_if(formats.begin(), formats.end(), [&](const AgentFormat& one) { return one.name == name; });
    if (found == formats.end()) {
      std::vector<std::string> names;
      for (const AgentFormat& one : formats) names.emplace_back(one.name);
      throw Failure(usage_error(cat("there is no agent template ", name), cat("choose one of ", join(names, ", "))));
    }
    if (found->role != "user" && !found->role.empty() && !shows(chat_template, found->role)) {
      throw Failure(usage_error(cat("--agent_template ", name, " writes a tool's answer as a message of the role ",
                                    found->role, ", which ", chat_template.where(), " does not show"),
                                "choose another one, such as hermes, or another --template"));
    }
    const std::string where = cat("agent template ", name);
    return AgentTemplate(std::make_shared<const Parsed>(
        Parsed{*found, where, jinja::parse(found->system, where), jinja::parse(found->question, where),
               jinja::parse(found->calls, where), jinja::parse(found->responses, where)}));
  });
}

void AgentTemplate::Parsed::require_described(const Value& tools) const {
  std::size_t index = 0;
  for (const Value& tool : tools.items()) {
    const Value& function = *tool.dict().get("function");
    const auto has = [&](std::string_view key) {
      const Value* said = function.dict().get(key);
      return said != nullptr && !said->is_none();
    };
    if (!has("description") && !has("description_for_model")) {
      throw Failure(data_error(cat("tools[", index, "]"), cat("a description, which ", format.name, " writes"), "none",
                               "say what the function does"));
    }
    ++index;
  }
}

void AgentTemplate::Parsed::put_tools(jinja::Values& messages, const Value& tools) const {
  if (is_inline()) require_described(tools);
  if (!format.question.empty()) {
    const auto user = std::find_if(messages.begin(), messages.end(),
                                   [](const Value& message) { return text_at(message, "role") == "user"; });
    if (user == messages.end()) {
      throw Failure(data_error("messages", "a question, into which the tools go", "none", "give it a user message"));
    }
    const Variables variables = {{"content", Value(text_at(*user, "content"))}, {"tools", tools}};
    *user = with_content(*user, render(question, where, variables));
    return;
  }
  const bool has_system = !messages.empty() && text_at(messages[0], "role") == "system";
  const Variables variables = {{"system", Value(has_system ? text_at(messages[0], "content") : std::string())},
                               {"tools", tools}};
  std::string content = render(system, where, variables);
  if (has_system) {
    messages[0] = with_content(messages[0], std::move(content));
  } else {
    messages.insert(messages.begin(), message_of("system", std::move(content)));
  }
}

// The results go on in the assistant's turn: each behind the word for it, of which a call writes the first.
void AgentTemplate::Parsed::go_on_behind(const jinja::Values& texts, jinja::Values& out, bool marks) const {
  const std::string role = out.empty() ? std::string() : text_at(out.back(), "role");
  std::string said = out.empty() ? std::string() : text_at(out.back(), "content");
  if (role != "assistant" && !(role == "user" && format.after_question)) {
    throw Failure(data_error("messages",
                             cat("a tool's result behind a call", format.after_question ? " or a question" : "",
                                 ", as ", format.name, " writes it"),
                             role.empty() ? "one at the beginning" : cat("one behind the role ", role),
                             "put the call before it"));
  }
  std::string results;
  if (role == "user") {
    for (const Value& text : texts) results += cat("\n", format.observation, "\n", text.text());
    out.back() = with_content(out.back(), said + results);
    return;
  }
  const bool calls =
      said.find(format.action) != std::string::npos && said.find(format.action_input) != std::string::npos;
  if (calls && !said.ends_with(format.observation)) said += cat(said.ends_with('\n') ? "" : "\n", format.observation);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i].text();
    if (calls && i > 0) results += format.observation;
    results += text;
    if (calls && !text.ends_with('\n')) results += '\n';
  }
  out.back() = with_content(out.back(), said + (marks ? unlearned(results) : results));
}

// The results from `at` on; gives where the next message stands.
std::size_t AgentTemplate::Parsed::append_responses(const jinja::Values& messages, std::size_t at, jinja::Values& out,
                                                    bool marks) const {
  jinja::Values texts;
  for (; at < messages.size() && text_at(messages[at], "role") == "tool"; ++at) {
    texts.emplace_back(text_at(messages[at], "content"));
  }
  if (is_inline()) {
    go_on_behind(texts, out, marks);
  } else if (format.responses.empty()) {
    for (const Value& text : texts) out.push_back(message_of(format.role, text.text()));
  } else {
    out.push_back(message_of(format.role, render(responses, where, {{"responses", Value::list(std::move(texts))}})));
  }
  return at;
}

jinja::Values AgentTemplate::apply(const jinja::Values& messages, const io::Json* tools, bool marks) const {
  const Parsed& parsed = *parsed_;
  jinja::Values out;
  for (std::size_t at = 0; at < messages.size();) {
    const Value& message = messages[at];
    if (text_at(message, "role") == "tool") {
      at = parsed.append_responses(messages, at, out, marks);
      continue;
    }
    const bool calls = message.dict().get("tool_calls") != nullptr;
    const Value content(text_at(message, "content"));
    Value written = calls ? with_content(message, render(parsed.calls, parsed.where,
                                                         {{"content", content}, {"calls", calls_of(message)}}))
                          : message;
    const bool goes_on = parsed.is_inline() && !out.empty() && text_at(message, "role") == "assistant" &&
                         text_at(out.back(), "role") == "assistant";
    if (goes_on) {
      out.back() = joined_turn(out.back(), written, marks);
    } else {
      out.push_back(std::move(written));
    }
    ++at;
  }
  if (tools != nullptr && !tools->empty()) parsed.put_tools(out, tools_of(*tools));
  return out;
}

bool AgentTemplate::goes_on(const jinja::Values& messages) const {
  if (!parsed_->is_inline()) return false;
  const auto last = std::find_if(messages.rbegin(), messages.rend(),
                                 [](const Value& message) { return text_at(message, "role") != "tool"; });
  return last != messages.rbegin() && last != messages.rend() && text_at(*last, "role") == "assistant";
}

std::string_view AgentTemplate::stop() const { return parsed_->format.observation; }

}  // namespace tern::chat
