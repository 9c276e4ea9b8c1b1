#include "server/anthropic/messages_request.h"

#include "base/strings.h"
#include "server/anthropic/content_blocks.h"
#include "server/json_body.h"

namespace tern::server::anthropic {
namespace {

using io::Json;

std::string tools_field(JsonBody& body) {
  const Json* tools = body.find("tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) throw body.wrong("tools", "a list of tools");
  Json out = Json::array();
  std::size_t at = 0;
  for (const Json& one : *tools) {
    JsonBody tool(one, cat("tools[", at++, "]"));
    if (tool.text("type").value_or("custom") != "custom") {
      throw tool.wrong("type", "custom (tools that Anthropic runs itself are not here)");
    }
    Json function = Json::object();
    function["name"] = tool.required_text("name");
    if (auto description = tool.text("description")) function["description"] = *description;
    auto schema = tool.object("input_schema");
    if (!schema) throw tool.wrong("input_schema", "a JSON schema");
    function["parameters"] = schema->json();
    // cache_control: prefixes are cached by themselves. eager_input_streaming: arguments stream as they come anyway.
    tool.takes({"cache_control", "eager_input_streaming"});
    if (tool.boolean("strict").value_or(false)) function["strict"] = true;
    tool.finish();
    Json entry = Json::object();
    entry["type"] = "function";
    entry["function"] = std::move(function);
    out.push_back(std::move(entry));
  }
  return out.empty() ? std::string() : out.dump();
}

void tool_choice_field(JsonBody& body, ChatRequest& chat) {
  auto choice = body.object("tool_choice");
  if (!choice) return;
  const std::string type = choice->required_text("type");
  const bool must = type == "any" || type == "tool";
  if (must && chat.dialogue.tools_json.empty()) throw body.wrong("tool_choice", "tools to choose from");
  if (type == "auto") {
    chat.tool_choice.kind = ToolChoice::Kind::automatic;
  } else if (type == "none") {
    chat.tool_choice.kind = ToolChoice::Kind::none;
  } else if (type == "any") {
    chat.tool_choice.kind = ToolChoice::Kind::required;
  } else if (type == "tool") {
    chat.tool_choice.kind = ToolChoice::Kind::named;
    chat.tool_choice.name = choice->required_text("name");
  } else {
    throw choice->wrong("type", "auto, any, tool or none");
  }
  if (type != "none") {
    chat.parallel_tool_calls = !choice->boolean("disable_parallel_tool_use").value_or(false);
  }
  choice->finish();
}

// Without the field, Anthropic's models don't think. `budget` limits: 1,024 and up, below max_tokens.
void thinking_field(JsonBody& body, ChatRequest& chat, Json& kwargs) {
  chat.include_reasoning = false;
  kwargs["enable_thinking"] = false;
  auto thinking = body.object("thinking");
  if (!thinking) return;
  const std::string type = thinking->required_text("type");
  if (type == "enabled") {
    constexpr std::int64_t kLeast = 1024;
    const auto budget = thinking->integer("budget_tokens", kLeast);
    if (!budget) throw thinking->wrong("budget_tokens", "an integer of at least 1024");
    if (chat.sampling.max_tokens && *budget >= *chat.sampling.max_tokens) {
      throw thinking->wrong("budget_tokens", R"(fewer than "max_tokens")");
    }
    chat.sampling.thinking_token_budget = budget;
  } else if (type == "disabled") {
    thinking->finish();
    return;
  } else if (type != "adaptive") {
    throw thinking->wrong("type", "enabled, adaptive or disabled");
  }
  const std::string display = thinking->text("display").value_or("summarized");
  if (display != "summarized" && display != "omitted") throw thinking->wrong("display", "summarized or omitted");
  chat.include_reasoning = display == "summarized";
  kwargs["enable_thinking"] = true;
  thinking->finish();
}

void output_fields(JsonBody& body, ChatRequest& chat, Json& kwargs) {
  auto output = body.object("output_config");
  if (!output) return;
  if (auto effort = output->text("effort")) kwargs["reasoning_effort"] = *effort;
  if (auto format = output->object("format")) {
    if (format->required_text("type") != "json_schema") throw format->wrong("type", "json_schema");
    auto schema = format->object("schema");
    if (!schema) throw format->wrong("schema", "a JSON schema");
    chat.constraint.kind = Constraint::Kind::json_schema;
    chat.constraint.text = schema->json().dump();
    format->finish();
  }
  output->finish();
}

// Edits take old blocks out of the dialogue; the one that keeps all of them, which Claude Code sends, takes none.
void context_field(JsonBody& body) {
  auto context = body.object("context_management");
  if (!context) return;
  const Json* edits = context->find("edits");
  if (edits != nullptr && !edits->is_array()) throw context->wrong("edits", "a list of edits");
  std::size_t at = 0;
  for (const Json& one : edits == nullptr ? Json::array() : *edits) {
    JsonBody edit(one, cat("context_management.edits[", at++, "]"));
    const std::string type = edit.required_text("type");
    if (!type.starts_with("clear_thinking_")) throw edit.wrong("type", "clear_thinking_20251015");
    if (edit.text("keep") != "all") throw edit.wrong("keep", "\"all\", as nothing is cleared here");
    edit.finish();
  }
  context->finish();
}

std::optional<float> real(JsonBody& body, std::string_view key) {
  const auto value = body.number(key, 0, 1);
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

void sampling_fields(JsonBody& body, SamplingWishes& sampling) {
  sampling.max_tokens = body.integer("max_tokens", 1);
  if (!sampling.max_tokens) throw body.wrong("max_tokens", "an integer of at least 1");
  sampling.temperature = real(body, "temperature");
  sampling.top_p = real(body, "top_p");
  if (auto top_k = body.integer("top_k", 0, std::numeric_limits<std::int32_t>::max())) {
    sampling.top_k = static_cast<std::int32_t>(*top_k);
  }
  if (const Json* stop = body.find("stop_sequences"); stop != nullptr && !stop->is_array()) {
    throw body.wrong("stop_sequences", "a list of strings");
  }
  sampling.stop = body.texts("stop_sequences");
  for (const std::string& one : sampling.stop) {
    if (one.empty()) throw body.wrong("stop_sequences", "texts that aren't empty");
  }
}

// What both routes have.
void prompt_fields(JsonBody& body, ChatRequest& chat) {
  chat.model = body.required_text("model");
  chat.dialogue = dialogue_fields(body);
  chat.dialogue.tools_json = tools_field(body);
  tool_choice_field(body, chat);
  Json kwargs = Json::object();
  thinking_field(body, chat, kwargs);
  output_fields(body, chat, kwargs);
  context_field(body);
  chat.template_kwargs = kwargs.dump();
  chat.continue_final_message = chat.dialogue.messages.back().role == "assistant";
  chat.add_generation_prompt = !chat.continue_final_message;
  // cache_control: prefixes are cached by themselves. speed, user_profile_id, workspace_id: which of Anthropic's
  // servers and accounts.
  body.takes({"cache_control", "speed", "user_profile_id", "workspace_id"});
}

}  // namespace

MessagesRequest parse_messages(std::string_view text) {
  JsonBody body(text);
  MessagesRequest out;
  sampling_fields(body, out.chat.sampling);
  prompt_fields(body, out.chat);
  out.stream = body.boolean("stream").value_or(false);
  // Anthropic's accounts, and which of its servers answers.
  body.takes({"metadata", "service_tier", "inference_geo"});
  body.finish();
  return out;
}

ChatRequest parse_count_tokens(std::string_view text) {
  JsonBody body(text);
  ChatRequest chat;
  prompt_fields(body, chat);
  body.finish();
  return chat;
}

}  // namespace tern::server::anthropic
