#include "server/responses/responses_request.h"

#include "base/strings.h"
#include "server/json_body.h"
#include "server/responses/input_items.h"

namespace tern::server::responses {
namespace {

using io::Json;

Json or_null(const Json* value) { return value == nullptr ? Json() : *value; }

void tools_field(JsonBody& body, ResponsesRequest& out) {
  out.echoed["tools"] = Json::array();
  const Json* tools = body.find("tools");
  if (tools == nullptr) return;
  if (!tools->is_array()) throw body.wrong("tools", "a list of tools");
  Json list = Json::array();
  std::size_t at = 0;
  for (const Json& one : *tools) {
    JsonBody tool(one, cat("tools[", at++, "]"));
    if (tool.required_text("type") != "function") {
      throw tool.wrong("type", "function (tools that OpenAI runs itself are not here)");
    }
    Json function = Json::object();
    function["name"] = tool.required_text("name");
    if (auto description = tool.text("description")) function["description"] = *description;
    if (auto parameters = tool.object("parameters")) function["parameters"] = parameters->json();
    if (tool.boolean("strict").value_or(false)) function["strict"] = true;
    tool.finish();
    Json entry = Json::object();
    entry["type"] = "function";
    entry["function"] = std::move(function);
    list.push_back(std::move(entry));
  }
  out.echoed["tools"] = *tools;
  if (!list.empty()) out.chat.dialogue.tools_json = list.dump();
}

void tool_choice_field(JsonBody& body, ResponsesRequest& out) {
  out.echoed["tool_choice"] = "auto";
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr) return;
  out.echoed["tool_choice"] = *choice;
  ToolChoice& kind = out.chat.tool_choice;
  if (choice->is_object()) {
    auto named = *body.object("tool_choice");
    if (named.required_text("type") != "function") throw named.wrong("type", "function");
    kind.kind = ToolChoice::Kind::named;
    kind.name = named.required_text("name");
    named.finish();
  } else if (*choice == "none") {
    kind.kind = ToolChoice::Kind::none;
  } else if (*choice == "required") {
    kind.kind = ToolChoice::Kind::required;
  } else if (!(*choice == "auto")) {
    throw body.wrong("tool_choice", "none, auto, required or a function");
  }
  const bool must = kind.kind == ToolChoice::Kind::required || kind.kind == ToolChoice::Kind::named;
  if (must && out.chat.dialogue.tools_json.empty()) throw body.wrong("tool_choice", "tools to choose from");
}

void text_field(JsonBody& body, ResponsesRequest& out) {
  Json plain = Json::object();
  plain["type"] = "text";
  out.echoed["text"] = Json::object();
  out.echoed["text"]["format"] = std::move(plain);
  auto text = body.object("text");
  if (!text) return;
  text->takes({"verbosity"});  // advice to OpenAI's own models
  auto format = text->object("format");
  text->finish();
  if (!format) return;
  out.echoed["text"]["format"] = format->json();
  Constraint& constraint = out.chat.constraint;
  const std::string type = format->required_text("type");
  if (type == "json_object") {
    constraint.kind = Constraint::Kind::json_object;
  } else if (type == "json_schema") {
    auto schema = format->object("schema");
    if (!schema) throw format->wrong("schema", "a JSON schema");
    constraint.kind = Constraint::Kind::json_schema;
    constraint.text = schema->json().dump();
    (void)format->required_text("name");
    format->takes({"description", "strict"});  // the schema is enforced whatever they say
  } else if (type != "text") {
    throw format->wrong("type", "text, json_object or json_schema");
  }
  format->finish();
}

void reasoning_field(JsonBody& body, ResponsesRequest& out) {
  Json echoed = Json::object();
  echoed["effort"] = Json();
  echoed["summary"] = Json();
  if (auto reasoning = body.object("reasoning")) {
    Json kwargs = Json::object();
    if (auto effort = reasoning->text("effort")) {
      kwargs["reasoning_effort"] = *effort;
      if (*effort == "none") kwargs["enable_thinking"] = false;
      echoed["effort"] = *effort;
    }
    // Thoughts come whole, so that nobody needs a summary.
    reasoning->takes({"summary", "generate_summary"});
    reasoning->finish();
    if (!kwargs.empty()) out.chat.template_kwargs = kwargs.dump();
  }
  out.echoed["reasoning"] = std::move(echoed);
}

// Asks for more in the answer.
void include_field(JsonBody& body, ResponsesRequest& out) {
  for (const std::string& one : body.texts("include")) {
    if (one == "message.output_text.logprobs") {
      out.logprobs = true;
    } else if (one != "reasoning.encrypted_content") {  // thoughts come in the clear, and can be sent back so
      throw body.wrong("include", "message.output_text.logprobs or reasoning.encrypted_content");
    }
  }
  const auto top = body.integer("top_logprobs", 0, 20);
  if (top && *top > 0) out.logprobs = true;
  if (out.logprobs) out.chat.sampling.top_logprobs = top.value_or(0);
  out.echoed["top_logprobs"] = top.value_or(0);
}

void sampling_fields(JsonBody& body, ResponsesRequest& out) {
  SamplingWishes& sampling = out.chat.sampling;
  if (auto value = body.number("temperature", 0, 2)) sampling.temperature = static_cast<float>(*value);
  if (auto value = body.number("top_p", 0, 1)) sampling.top_p = static_cast<float>(*value);
  sampling.max_tokens = body.integer("max_output_tokens", 1);
  for (const char* key : {"temperature", "top_p", "max_output_tokens"}) out.echoed[key] = or_null(body.find(key));
}

void refuse_what_is_not_here(JsonBody& body) {
  if (body.boolean("background").value_or(false)) throw body.wrong("background", "false, as nothing runs apart here");
  if (body.text("truncation").value_or("disabled") != "disabled") throw body.wrong("truncation", "disabled");
  if (auto stream = body.object("stream_options")) {
    if (stream->boolean("include_obfuscation").value_or(false)) throw stream->wrong("include_obfuscation", "false");
    stream->finish();
  }
}

void input_fields(JsonBody& body, ResponsesRequest& out, const ResponseStore& store) {
  engine::Dialogue& dialogue = out.chat.dialogue;
  const auto instructions = body.text("instructions");
  out.echoed["instructions"] = or_null(body.find("instructions"));
  if (instructions) {
    chat::Message system;
    system.role = "system";
    system.content = *instructions;
    dialogue.messages.push_back(std::move(system));
  }
  out.input = Json::array();
  const auto previous = body.text("previous_response_id");
  out.echoed["previous_response_id"] = or_null(body.find("previous_response_id"));
  if (previous) {
    const auto before = store.get(*previous);
    if (before == nullptr) throw body.wrong("previous_response_id", "a response that was stored and is still kept");
    out.input = before->input;
    for (const Json& one : before->response["output"]) out.input.push_back(one);
    append_items(dialogue, out.input, "previous_response_id");
  }
  const Json* input = body.find("input");
  if (input == nullptr) throw body.wrong("input", "a text or a list of items");
  Json items = Json::array();
  if (input->is_string()) {
    Json message = Json::object();
    message["type"] = "message";
    message["role"] = "user";
    Json part = Json::object();
    part["type"] = "input_text";
    part["text"] = *input;
    message["content"].push_back(std::move(part));
    items.push_back(std::move(message));
  } else if (input->is_array() && !input->empty()) {
    items = *input;
  } else {
    throw body.wrong("input", "a text or a list with at least one item");
  }
  append_items(dialogue, items, "input");
  for (const Json& one : items) out.input.push_back(one);
  if (dialogue.messages.empty()) throw body.wrong("input", "an item that says something");
}

}  // namespace

ResponsesRequest parse_responses(std::string_view text, const ResponseStore& store) {
  JsonBody body(text);
  ResponsesRequest out;
  out.echoed = Json::object();
  out.chat.model = body.text("model").value_or("");
  input_fields(body, out, store);
  tools_field(body, out);
  tool_choice_field(body, out);
  out.chat.parallel_tool_calls = body.boolean("parallel_tool_calls").value_or(true);
  out.echoed["parallel_tool_calls"] = out.chat.parallel_tool_calls;
  text_field(body, out);
  reasoning_field(body, out);
  include_field(body, out);
  sampling_fields(body, out);
  refuse_what_is_not_here(body);
  out.stream = body.boolean("stream").value_or(false);
  out.store = body.boolean("store").value_or(true);
  out.echoed["store"] = out.store;
  out.echoed["truncation"] = "disabled";
  out.echoed["background"] = false;
  // The client's own notes come back as they are.
  if (auto metadata = body.object("metadata")) out.echoed["metadata"] = metadata->json();
  if (!out.echoed.contains("metadata")) out.echoed["metadata"] = Json::object();
  // What OpenAI itself uses to keep accounts or to choose among its servers; prefixes are cached by themselves.
  body.takes({"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"});
  body.finish();
  return out;
}

}  // namespace tern::server::responses
