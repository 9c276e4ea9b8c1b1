#include "server/openai/chat_completions.h"

#include <map>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "io/json.h"
#include "server/json_body.h"
#include "server/openai/answer_json.h"
#include "server/openai/chunk_stream.h"
#include "server/openai/messages.h"
#include "server/openai/vllm_fields.h"

namespace tern::server::openai {
namespace {

using io::Json;

ToolChoice tool_choice_field(JsonBody& body, bool has_tools) {
  ToolChoice choice;
  const Json* given = body.find("tool_choice");
  if (given == nullptr) return choice;
  if (given->is_string()) {
    const std::string& word = given->text();
    if (word == "none") {
      choice.kind = ToolChoice::Kind::none;
    } else if (word == "required") {
      choice.kind = ToolChoice::Kind::required;
    } else if (word != "auto") {
      throw body.wrong("tool_choice", "none, auto, required or a function");
    }
  } else {
    auto own = body.object("tool_choice");
    if (own->required_text("type") != "function") throw own->wrong("type", "function");
    auto function = own->object("function");
    if (!function) throw own->wrong("function", "an object with a name");
    choice.kind = ToolChoice::Kind::named;
    choice.name = function->required_text("name");
    function->finish();
    own->finish();
  }
  const bool must = choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
  if (must && !has_tools) {
    throw Failure(data_error(R"(field "tool_choice")", "tools to choose from", "none", R"(give some in "tools")"));
  }
  return choice;
}

// Each answer's message, gathered or in deltas.
class Writer : public AnswerSink {
 public:
  Writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange)
      : options_(std::move(options)), out_(options_, "chat.completion.chunk", std::move(exchange)) {
    choices_.resize(static_cast<std::size_t>(options_.n));
    if (options_.stream.stream) return;
    for (Choice& choice : choices_) choice.content = options_.echo;
  }

  void prompt_ids(const engine::TokenIds& ids) override { prompt_ids_ = Json(ids); }
  void prompt(std::vector<TokenText>&& tokens) override { prompt_ = prompt_logprobs_json(tokens); }

  void piece(AnswerPiece&& piece) override {
    Choice& choice = choices_[static_cast<std::size_t>(piece.choice)];
    if (options_.stream.stream) {
      send_delta(piece, choice);
      return;
    }
    for (const TokenText& token : piece.tokens) {
      choice.token_ids.push_back(token.id);
      if (options_.logprobs) choice.logprobs.push_back(token_json(token, options_.tokens_as_ids));
    }
    switch (piece.kind) {
      case AnswerPiece::Kind::reasoning:
        choice.reasoning += piece.text;
        break;
      case AnswerPiece::Kind::content:
        choice.content += piece.text;
        break;
      case AnswerPiece::Kind::call:
        choice.calls.push_back({piece.id, piece.name, {}});
        break;
      case AnswerPiece::Kind::arguments:
        choice.calls.back().arguments += piece.text;
        break;
    }
  }

  void ended(const AnswerEnd& end) override {
    Choice& choice = choices_[static_cast<std::size_t>(end.choice)];
    choice.end = end;
    if (!options_.stream.stream) return;
    if (!choice.begun) send_role(end.choice, choice);
    send_choice(end.choice, Json::object(), {}, finish_reason(end), stop_reason(end));
  }

  void finished(const TokenUsage& usage) override {
    if (options_.stream.stream) {
      out_.finish(usage);
    } else {
      out_.respond(whole(usage));
    }
  }

  void failed(const Error& error, int status) override { out_.fail(error, status); }

 private:
  struct Call {
    std::string id, name, arguments;
  };
  struct Choice {
    std::string content, reasoning;
    std::vector<Call> calls;
    Json logprobs = Json::array(), token_ids = Json::array();
    AnswerEnd end;
    bool begun = false;
  };

  // The log-probabilities and ids of `tokens`, where those are asked for.
  void send_choice(std::int64_t index, Json delta, const std::vector<TokenText>& tokens, Json finish, Json stop) {
    Json logprobs;
    if (options_.logprobs && finish.is_null() && !delta.contains("role")) {
      Json content = Json::array();
      for (const TokenText& token : tokens) content.push_back(token_json(token, options_.tokens_as_ids));
      logprobs["content"] = std::move(content);
    }
    Json choice = Json::object();
    choice["index"] = index;
    choice["delta"] = std::move(delta);
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = std::move(finish);
    if (!stop.is_null()) choice["stop_reason"] = std::move(stop);
    if (!prompt_ids_.is_null()) {
      choice["token_ids"] = Json::array();
      for (const TokenText& token : tokens) choice["token_ids"].push_back(token.id);
    }
    Json chunk = out_.head();
    if (!std::exchange(told_prompt_, true) && !prompt_ids_.is_null()) chunk["prompt_token_ids"] = prompt_ids_;
    out_.send_choice(std::move(chunk), std::move(choice));
  }

  void send_role(std::int64_t index, Choice& choice) {
    choice.begun = true;
    Json delta = Json::object();
    delta["role"] = "assistant";
    delta["content"] = options_.echo;
    send_choice(index, std::move(delta), {}, Json(), Json());
  }

  void send_delta(AnswerPiece& piece, Choice& choice) {
    if (!choice.begun) send_role(piece.choice, choice);
    Json delta = Json::object();
    switch (piece.kind) {
      case AnswerPiece::Kind::reasoning:
        delta["reasoning"] = piece.text;
        delta["reasoning_content"] = std::move(piece.text);
        break;
      case AnswerPiece::Kind::content:
        delta["content"] = std::move(piece.text);
        break;
      case AnswerPiece::Kind::call:
      case AnswerPiece::Kind::arguments: {
        Json call = Json::object();
        call["index"] = piece.call;
        Json function = Json::object();
        if (piece.kind == AnswerPiece::Kind::call) {
          call["id"] = piece.id;
          call["type"] = "function";
          function["name"] = piece.name;
        }
        function["arguments"] = std::move(piece.text);
        call["function"] = std::move(function);
        delta["tool_calls"].push_back(std::move(call));
        break;
      }
    }
    send_choice(piece.choice, std::move(delta), piece.tokens, Json(), Json());
  }

  Json message_of(Choice& choice) const {
    Json message = Json::object();
    message["role"] = "assistant";
    const bool silent = choice.content.empty() && !choice.calls.empty();
    message["content"] = silent ? Json() : Json(std::move(choice.content));
    message["refusal"] = Json();
    if (!choice.reasoning.empty()) {
      message["reasoning"] = choice.reasoning;
      message["reasoning_content"] = std::move(choice.reasoning);
    }
    Json calls = Json::array();
    for (Call& one : choice.calls) {
      Json function = Json::object();
      function["name"] = std::move(one.name);
      function["arguments"] = std::move(one.arguments);
      Json call = Json::object();
      call["id"] = std::move(one.id);
      call["type"] = "function";
      call["function"] = std::move(function);
      calls.push_back(std::move(call));
    }
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    return message;
  }

  Json whole(const TokenUsage& usage) {
    Json out = out_.head("chat.completion");
    Json choices = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      Choice& one = choices_[i];
      Json choice = Json::object();
      choice["index"] = i;
      choice["message"] = message_of(one);
      Json logprobs;
      if (options_.logprobs) logprobs["content"] = std::move(one.logprobs);
      choice["logprobs"] = std::move(logprobs);
      choice["finish_reason"] = finish_reason(one.end);
      choice["stop_reason"] = stop_reason(one.end);
      if (!prompt_ids_.is_null()) choice["token_ids"] = std::move(one.token_ids);
      choices.push_back(std::move(choice));
    }
    out["choices"] = std::move(choices);
    out["usage"] = usage_json(usage);
    if (!prompt_.is_null()) out["prompt_logprobs"] = std::move(prompt_);
    if (!prompt_ids_.is_null()) out["prompt_token_ids"] = prompt_ids_;
    return out;
  }

  WriterOptions options_;
  ChunkStream out_;
  std::vector<Choice> choices_;
  Json prompt_;      // log-probabilities of its tokens, where they are asked for
  Json prompt_ids_;  // where ids are asked for
  bool told_prompt_ = false;
};

// What the model's template is told beside the messages; what of vLLM's it isn't told here is refused.
std::string template_kwargs(JsonBody& body) {
  Json kwargs = Json::object();
  if (auto own = body.object("chat_template_kwargs")) kwargs = own->json();
  if (auto effort = body.text("reasoning_effort")) {
    if (!kwargs.contains("enable_thinking")) kwargs["enable_thinking"] = *effort != "none";
    kwargs["reasoning_effort"] = *effort;
  }
  if (const Json* documents = body.find("documents")) {
    if (!documents->is_array()) throw body.wrong("documents", "a list of documents");
    kwargs["documents"] = *documents;
  }
  if (body.find("chat_template") != nullptr) {
    throw body.wrong("chat_template", "none: a server renders its model's own template");
  }
  if (body.boolean("add_special_tokens").value_or(false)) {
    throw body.wrong("add_special_tokens", "false: the model's template writes them");
  }
  if (body.boolean("return_prompt_text").value_or(false)) {
    throw body.wrong("return_prompt_text", "false: return_token_ids tells the prompt");
  }
  for (const char* key : {"media_io_kwargs", "mm_processor_kwargs"}) {
    if (const Json* value = body.find(key); value != nullptr && !value->empty()) {
      throw body.wrong(key, "none: images are read as the model's processor says");
    }
  }
  return kwargs.empty() ? std::string() : kwargs.dump();
}

}  // namespace

ChatCompletionRequest parse_chat_completion(std::string_view text) {
  JsonBody body(text);
  ChatCompletionRequest out;
  ChatRequest& chat = out.chat;
  chat.model = body.text("model").value_or("");
  chat.dialogue = dialogue_fields(body);
  chat.sampling = sampling_fields(body);
  const auto most = body.integer("max_completion_tokens", 1);
  const auto before = body.integer("max_tokens", 1);
  chat.sampling.max_tokens = most ? most : before;
  chat.n = body.integer("n", 1, 128).value_or(1);
  out.logprobs = body.boolean("logprobs").value_or(false);
  const auto top = body.integer("top_logprobs", 0);
  if (top && !out.logprobs) throw body.wrong("top_logprobs", R"(none where "logprobs" is not true)");
  if (out.logprobs) chat.sampling.top_logprobs = top.value_or(0);
  chat.constraint = constraint_fields(body);
  chat.tool_choice = tool_choice_field(body, !chat.dialogue.tools_json.empty());
  chat.parallel_tool_calls = body.boolean("parallel_tool_calls").value_or(true);
  chat.include_reasoning = body.boolean("include_reasoning").value_or(true);
  chat.add_generation_prompt = body.boolean("add_generation_prompt").value_or(true);
  chat.continue_final_message = body.boolean("continue_final_message").value_or(false);
  chat.cache_salt = body.text("cache_salt").value_or("");
  vllm_fields(body, chat.sampling);
  chat.template_kwargs = template_kwargs(body);
  out.tokens_as_ids = body.boolean("return_tokens_as_token_ids").value_or(false);
  if (body.boolean("echo").value_or(false)) {
    const chat::Message& last = chat.dialogue.messages.back();
    if (last.role == "assistant") out.echo = last.content;
  }
  out.stream = stream_fields(body);
  chat.whole = !out.stream.stream;
  if (out.stream.stream && chat.sampling.prompt_logprobs) {
    throw body.wrong("stream", "false where log-probabilities of the prompt are asked for");
  }
  // What OpenAI itself uses to keep accounts or to choose among its servers.
  body.takes({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "verbosity",
              "prompt_cache_retention"});
  const std::int64_t best_of = body.integer("best_of", 1, 128).value_or(chat.n);
  if (!chat.sampling.beams && best_of != chat.n) throw body.wrong("best_of", R"(the same as "n")");
  if (best_of < chat.n) throw body.wrong("best_of", R"(at least "n")");
  const bool calls =
      chat.tool_choice.kind == ToolChoice::Kind::required || chat.tool_choice.kind == ToolChoice::Kind::named;
  beam_fields(body, chat.sampling,
              {.width = best_of,
               .streams = out.stream.stream,
               .is_held = calls || chat.constraint.kind != Constraint::Kind::none});
  body.finish();
  return out;
}

std::shared_ptr<AnswerSink> chat_completion_writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Writer>(std::move(options), std::move(exchange));
}

}  // namespace tern::server::openai
