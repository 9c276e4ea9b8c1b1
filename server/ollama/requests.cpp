#include "server/ollama/requests.h"

#include <limits>

#include "base/strings.h"
#include "chat/image_parts.h"

namespace tern::server::ollama {
namespace {

using io::Json;

std::optional<float> real(JsonBody& body, std::string_view key, double least, double most) {
  const auto value = body.number(key, least, most);
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

void options_field(JsonBody& body, SamplingWishes& sampling, OllamaRequest& out) {
  auto options = body.object("options");
  if (!options) return;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  sampling.temperature = real(*options, "temperature", 0, 100);
  sampling.top_p = real(*options, "top_p", 0, 1);
  sampling.min_p = real(*options, "min_p", 0, 1);
  sampling.repetition_penalty = real(*options, "repeat_penalty", 0, 100);
  sampling.presence_penalty = real(*options, "presence_penalty", -2, 2);
  sampling.frequency_penalty = real(*options, "frequency_penalty", -2, 2);
  if (auto top_k = options->integer("top_k", 0, kMost)) sampling.top_k = static_cast<std::int32_t>(*top_k);
  // A negative seed is any.
  if (auto seed = options->integer("seed", -1); seed && *seed >= 0) sampling.seed = static_cast<std::uint64_t>(*seed);
  // -1: without end, -2: what the context holds. Here too the context is the end.
  const auto most = options->integer("num_predict", -2);
  if (most && *most == 0) throw options->wrong("num_predict", "at least 1, -1 or -2");
  if (most && *most > 0) sampling.max_tokens = most;
  sampling.stop = options->texts("stop");
  for (const std::string& one : sampling.stop) {
    if (one.empty()) throw options->wrong("stop", "texts that aren't empty");
  }
  out.num_ctx = options->integer("num_ctx", 1);
  take_runner_options(*options);
  options->finish();
}

void format_field(JsonBody& body, Constraint& constraint) {
  const Json* format = body.find("format");
  if (format == nullptr || *format == "") return;
  if (format->is_object()) {
    constraint.kind = Constraint::Kind::json_schema;
    constraint.text = format->dump();
  } else if (*format == "json") {
    constraint.kind = Constraint::Kind::json_object;
  } else {
    throw body.wrong("format", "\"json\" or a JSON schema");
  }
}

void think_field(JsonBody& body, ChatRequest& chat) {
  const Json* think = body.find("think");
  if (think == nullptr) return;
  Json kwargs = Json::object();
  if (think->is_boolean()) {
    chat.include_reasoning = think->get<bool>();
    kwargs["enable_thinking"] = chat.include_reasoning;
  } else if (*think == "low" || *think == "medium" || *think == "high") {
    kwargs["enable_thinking"] = true;
    kwargs["reasoning_effort"] = *think;
  } else {
    throw body.wrong("think", "true, false, low, medium or high");
  }
  chat.template_kwargs = kwargs.dump();
}

// Plain base64, as the engine takes it behind a data: URL, which knows an image by its bytes.
std::string images_field(JsonBody& body, engine::Dialogue& dialogue) {
  std::string tags;
  const Json* list = body.find("images");
  if (list == nullptr) return tags;
  if (!list->is_array()) throw body.wrong("images", "a list of base64 texts");
  std::size_t at = 0;
  for (const std::string& one : body.texts("images")) {
    dialogue.add_image(one.starts_with("data:") ? one : cat("data:image/png;base64,", one),
                       body.place(cat("images[", at++, "]")));
    tags += chat::image_tag;
  }
  return tags;
}

// What both routes have.
void shared_fields(JsonBody& body, SamplingWishes& sampling, Constraint& constraint, OllamaRequest& out) {
  out.model = body.required_text("model");
  out.stream = body.boolean("stream").value_or(true);
  options_field(body, sampling, out);
  format_field(body, constraint);
  out.logprobs = body.boolean("logprobs").value_or(false);
  const auto top = body.integer("top_logprobs", 0, 20);
  if (top && *top > 0 && !out.logprobs) throw body.wrong("top_logprobs", R"(none where "logprobs" is not true)");
  if (out.logprobs) sampling.top_logprobs = top.value_or(0);
  body.takes({"keep_alive"});  // a model stays loaded as long as its server runs
}

Json calls_of(JsonBody& message, std::size_t at) {
  Json out = Json::array();
  const Json* calls = message.find("tool_calls");
  if (calls == nullptr) return out;
  if (!calls->is_array()) throw message.wrong("tool_calls", "a list of calls");
  for (const Json& one : *calls) {
    JsonBody call(one, cat(message.inner("tool_calls"), "[", out.size(), "]"));
    auto function = call.object("function");
    if (!function) throw call.wrong("function", "an object with a name");
    auto arguments = function->object("arguments");
    if (!arguments) throw function->wrong("arguments", "an object");
    Json inner = Json::object();
    inner["name"] = function->required_text("name");
    inner["arguments"] = arguments->json();
    function->takes({"index"});
    function->finish();
    Json entry = Json::object();
    // Ollama's calls need no names; templates may.
    entry["id"] = call.text("id").value_or(cat("call_", at, "_", out.size()));
    entry["type"] = "function";
    entry["function"] = std::move(inner);
    call.takes({"type"});
    call.finish();
    out.push_back(std::move(entry));
  }
  return out;
}

chat::Message message_of(const Json& json, std::size_t at, engine::Dialogue& dialogue) {
  JsonBody body(json, cat("messages[", at, "]"));
  chat::Message message;
  message.role = body.required_text("role");
  if (message.role != "system" && message.role != "user" && message.role != "assistant" && message.role != "tool") {
    throw body.wrong("role", "system, user, assistant or tool");
  }
  message.content = images_field(body, dialogue);
  message.content += body.text("content").value_or("");
  Json members = Json::object();
  if (auto thinking = body.text("thinking")) members["reasoning_content"] = *thinking;
  if (auto name = body.text("tool_name")) members["name"] = *name;
  if (auto id = body.text("tool_call_id")) members["tool_call_id"] = *id;
  if (Json calls = calls_of(body, at); !calls.empty()) members["tool_calls"] = std::move(calls);
  if (!members.empty()) message.members_json = members.dump();
  body.finish();
  return message;
}

std::string tools_field(JsonBody& body) {
  const Json* tools = body.find("tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) throw body.wrong("tools", "a list of tools");
  std::size_t at = 0;
  for (const Json& one : *tools) {
    JsonBody tool(one, cat("tools[", at++, "]"));
    if (tool.text("type").value_or("function") != "function") throw tool.wrong("type", "function");
    auto function = tool.object("function");
    if (!function) throw tool.wrong("function", "an object with a name");
    (void)function->required_text("name");
    (void)function->object("parameters");
  }
  return tools->empty() ? std::string() : tools->dump();
}

chat::Message a_message(const char* role, std::string content) {
  chat::Message out;
  out.role = role;
  out.content = std::move(content);
  return out;
}

}  // namespace

std::string served_name(const std::string& model) {
  constexpr std::string_view kLatest = ":latest";
  return model.ends_with(kLatest) ? model.substr(0, model.size() - kLatest.size()) : model;
}

void take_runner_options(JsonBody& options) {
  options.takes({"numa", "num_batch", "num_gpu", "main_gpu", "low_vram", "use_mmap", "use_mlock", "num_thread"});
}

OllamaRequest parse_chat(std::string_view text) {
  JsonBody body(text);
  OllamaRequest out;
  ChatRequest chat;
  shared_fields(body, chat.sampling, chat.constraint, out);
  chat.model = served_name(out.model);
  const Json* messages = body.find("messages");
  if (messages != nullptr && !messages->is_array()) throw body.wrong("messages", "a list of messages");
  out.load = messages == nullptr || messages->empty();
  std::size_t at = 0;
  for (const Json& one : messages == nullptr ? Json::array() : *messages) {
    chat.dialogue.messages.push_back(message_of(one, at++, chat.dialogue));
  }
  chat.dialogue.tools_json = tools_field(body);
  think_field(body, chat);
  body.finish();
  out.asked = std::move(chat);
  return out;
}

OllamaRequest parse_generate(std::string_view text) {
  JsonBody body(text);
  OllamaRequest out;
  ChatRequest chat;
  shared_fields(body, chat.sampling, chat.constraint, out);
  chat.model = served_name(out.model);
  const std::string prompt = body.text("prompt").value_or("");
  const auto system = body.text("system");
  std::string content = images_field(body, chat.dialogue);
  content += prompt;
  out.load = content.empty();
  const bool raw = body.boolean("raw").value_or(false);
  think_field(body, chat);
  for (const char* key : {"suffix", "template"}) {  // clients send them empty
    if (body.text(key).value_or("") != "") throw body.wrong(key, "none: the model's own template is used");
  }
  body.finish();
  if (!raw) {
    if (system && !system->empty()) chat.dialogue.messages.push_back(a_message("system", *system));
    chat.dialogue.messages.push_back(a_message("user", std::move(content)));
    out.asked = std::move(chat);
    return out;
  }
  for (const char* key : {"system", "images", "think"}) {
    if (body.find(key) != nullptr)
      throw body.wrong(key, R"(none where "raw" is true: there is no template to put it in)");
  }
  CompletionRequest completion;
  completion.model = chat.model;
  completion.prompt = prompt;
  completion.sampling = std::move(chat.sampling);
  completion.constraint = std::move(chat.constraint);
  out.asked = std::move(completion);
  return out;
}

}  // namespace tern::server::ollama
