#include "server/rollout/swift_routes.h"

#include "base/strings.h"
#include "server/ids.h"
#include "server/openai/answer_json.h"
#include "server/openai/messages.h"
#include "server/rollout/batch.h"
#include "server/rollout/weight_transfer.h"

namespace tern::server::rollout {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

// One of the batch, as ms-swift's RolloutInferRequest.
ChatRequest infer_request(const Json& json, const std::string& place) {
  JsonBody body(json, place);
  ChatRequest asked;
  asked.dialogue = openai::dialogue_fields(body);
  if (const auto kwargs = body.object("chat_template_kwargs"); kwargs && !kwargs->json().empty()) {
    asked.template_kwargs = kwargs->json().dump();
  }
  for (const char* media : {"images", "audios", "videos"}) {
    if (!body.texts(media).empty()) throw body.wrong(media, "none: a rollout's dialogues are text");
  }
  if (!asked.dialogue.images.empty()) throw body.wrong("messages", "text alone: a rollout's dialogues have no images");
  if (const auto objects = body.object("objects"); objects && !objects->json().empty()) {
    throw body.wrong("objects", "none");
  }
  body.takes({"data_dict", "uuid"});  // the trainer's own
  body.finish();
  // A dialogue that ends with the model's words is gone on with, as ms-swift's template does for further turns.
  auto& messages = asked.dialogue.messages;
  const bool is_blank = messages.back().role == "assistant" && messages.back().content.empty();
  if (is_blank && messages.back().members_json.empty()) messages.pop_back();  // the place of the answer
  if (!messages.empty() && messages.back().role == "assistant") {
    asked.continue_final_message = true;
    asked.add_generation_prompt = false;
  }
  return asked;
}

Json usage_of(const TokenUsage& usage) {
  Json out = Json::object();
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  return out;
}

struct ResponseOptions {
  std::string model;
  bool logprobs = false;
  bool details = false;  // token ids, too
};

Json choice_json(const RolledAnswer& answer, std::size_t index, const ResponseOptions& options) {
  Json choice = Json::object();
  choice["index"] = index;
  Json message = Json::object();
  message["role"] = "assistant";
  message["content"] = answer.text;
  message["tool_calls"] = Json();
  message["reasoning_content"] = Json();
  choice["message"] = std::move(message);
  // ms-swift knows no other reason than these.
  choice["finish_reason"] = answer.end.kind == StopKind::aborted ? Json() : openai::finish_reason(answer.end);
  choice["logprobs"] = Json();
  if (options.logprobs) {
    Json content = Json::array();
    for (const TokenText& token : answer.tokens) content.push_back(openai::token_json(token));
    choice["logprobs"] = Json::object();
    choice["logprobs"]["content"] = std::move(content);
  }
  choice["token_ids"] = Json();
  if (options.details) {
    choice["token_ids"] = Json::array();
    for (const TokenText& token : answer.tokens) choice["token_ids"].push_back(token.id);
  }
  choice["routed_experts"] = Json();
  return choice;
}

Json rollout_output(const RolledPrompt& prompt, const ResponseOptions& options) {
  Json response = Json::object();
  response["model"] = options.model;
  response["choices"] = Json::array();
  for (std::size_t i = 0; i < prompt.answers.size(); ++i) {
    response["choices"].push_back(choice_json(prompt.answers[i], i, options));
  }
  response["usage"] = usage_of(prompt.usage);
  response["id"] = random_id("chatcmpl-");
  response["object"] = "chat.completion";
  response["created"] = unix_time();
  response["prompt_token_ids"] = options.details ? Json(prompt.ids) : Json();
  response["prompt_logprobs"] = prompt.logprobs.empty() ? Json() : openai::prompt_logprobs_json(prompt.logprobs);
  response["images_size"] = Json();
  Json out = Json::object();
  out["response"] = std::move(response);
  out["messages"] = Json();
  for (const char* key : {"response_token_ids", "response_loss_mask", "rollout_logprobs"}) out[key] = Json::array();
  out["rollout_infos"] = Json::object();
  out["prompt_logprobs"] = Json();
  return out;
}

void infer(ChatService& service, const std::shared_ptr<WeightTransfer>& weights, const HttpRequest& request,
           const Exchange& exchange) {
  JsonBody body(request.body);
  const Json* given = body.find("infer_requests");
  if (given == nullptr || !given->is_array()) throw body.wrong("infer_requests", "a list of requests");
  GenerationFields fields;
  ResponseOptions options;
  options.model = service.model_names().front();
  if (const auto config = body.object("request_config")) {
    fields = swift_fields(*config);
    options.logprobs = fields.sampling.top_logprobs.has_value();
    JsonBody own = *config;
    options.details = own.boolean("return_details").value_or(false);
  }
  if (body.find("adapter_request") != nullptr) throw body.wrong("adapter_request", "none: the server has one model");
  body.takes({"metrics", "use_tqdm"});
  body.finish();
  std::vector<engine::TokenIds> prompts;
  std::size_t at = 0;
  for (const Json& one : *given) {
    prompts.push_back(service.prompt_ids(infer_request(one, cat("infer_requests[", at++, "]"))).value());
  }
  const auto write = [weights, options](std::vector<RolledPrompt>&& rolled) {
    Json out = Json::array();
    for (const RolledPrompt& prompt : rolled) {
      out.push_back(rollout_output(prompt, options));
      out[out.size() - 1]["rollout_infos"]["weight_version"] = weights->version();
    }
    return out;
  };
  answer_batch(service, std::move(prompts), fields, write, exchange);
}

}  // namespace

void add_swift_routes(Router& router, ChatService& service, const std::shared_ptr<WeightTransfer>& weights) {
  router.add("POST", "/infer/",
             [&service, weights](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               infer(service, weights, request, exchange);
             });
}

}  // namespace tern::server::rollout
