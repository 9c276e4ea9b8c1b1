#include <algorithm>

#include "io/json.h"
#include "server/error_forms.h"
#include "server/json_answer.h"
#include "server/llamacpp/infill.h"
#include "server/slots.h"

namespace tern::server::llamacpp {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

void infill(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  InfillRequest asked = parse_infill(request.body);
  SamplingWishes& wishes = asked.completion.sampling;
  asked.gap.most_tokens = service.max_model_len() - wishes.max_tokens.value_or(1);
  FimPrompt prompt = fim_prompt(service.tokenizer(), asked.gap).value();
  wishes.stop_token_ids.insert(wishes.stop_token_ids.end(), prompt.stop_token_ids.begin(), prompt.stop_token_ids.end());
  asked.completion.prompt = std::move(prompt.ids);
  WriterOptions options;
  options.model = asked.completion.model.empty() ? service.model_names().front() : asked.completion.model;
  options.stream = asked.stream;
  options.silent = asked.silent;
  options.n_indent = asked.n_indent;
  options.most_ms = asked.most_ms;
  options.fields = std::move(asked.fields);
  options.clock = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  const auto writer = infill_writer(std::move(options), exchange);
  auto handle = service.complete(std::move(asked.completion), writer);
  if (handle == nullptr) return;
  writer->ends_by([handle] { handle->abort(); });
  // A client that goes away is not answered any further.
  exchange->on_gone([handle] { handle->abort(); });
}

Json slot_json(std::size_t id, const SlotState& state, const ChatService& service) {
  Json out = Json::object();
  out["id"] = id;
  out["n_ctx"] = service.max_model_len();
  out["is_processing"] = state.id_task != 0;
  if (state.id_task == 0) return out;
  const SlotTask& task = state.task;
  out["id_task"] = state.id_task;
  Json params = Json::object();
  params["n_predict"] = task.max_tokens;
  params["max_tokens"] = task.max_tokens;
  params["seed"] = task.seed;
  params["temperature"] = task.temperature;
  params["top_k"] = task.top_k;
  params["top_p"] = task.top_p;
  params["min_p"] = task.min_p;
  params["repeat_penalty"] = task.repetition_penalty;
  params["presence_penalty"] = task.presence_penalty;
  params["frequency_penalty"] = task.frequency_penalty;
  out["params"] = std::move(params);
  out["n_prompt_tokens"] = task.prompt_tokens;
  out["next_token"]["has_next_token"] = state.decoded < task.max_tokens;
  out["next_token"]["n_remain"] = task.max_tokens - state.decoded;
  out["next_token"]["n_decoded"] = state.decoded;
  return out;
}

// Nothing of what was asked or answered is told.
void list_slots(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  const bool must_be_free = request.query == "fail_on_no_slot=1";
  if (!must_be_free && !request.query.empty() && request.query != "fail_on_no_slot=0") {
    throw Failure(data_error("the query", "fail_on_no_slot=1", request.query, "leave it out"));
  }
  const std::vector<SlotState> states = service.slots().states();
  const auto is_free = [](const SlotState& state) { return state.id_task == 0; };
  if (must_be_free && std::ranges::none_of(states, is_free)) {
    error_form(request.path)(*exchange, failed_error("no slot is free", "come again in a moment"), 503, {});
    return;
  }
  Json out = Json::array();
  for (std::size_t i = 0; i < states.size(); ++i) out.push_back(slot_json(i, states[i], service));
  respond(exchange, out);
}

}  // namespace

void add_routes(Router& router, ChatService& service) {
  router.add("POST", "/infill", [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
    infill(service, request, exchange);
  });
  const auto slots = [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
    list_slots(service, request, exchange);
  };
  router.add(Route{.method = "GET", .path = "/slots", .handler = slots, .quick = true});
}

}  // namespace tern::server::llamacpp
