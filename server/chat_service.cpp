#include "server/chat_service.h"

#include <algorithm>
#include <future>
#include <random>
#include <utility>

#include "base/philox.h"
#include "base/strings.h"
#include "server/running_request.h"

namespace tern::server {

// A request of any protocol, as the engine is asked it.
struct ChatService::Asked {
  std::string model;
  engine::Prompt prompt;
  SamplingWishes sampling;
  std::int64_t n = 1;
  Constraint constraint;
  RunningOptions running;
};

namespace {

// A client must not make the server read its own files, or ask the machines beside it.
std::optional<Error> refused_image(const std::vector<std::string>& images) {
  constexpr std::size_t kShown = 60;
  for (const std::string& image : images) {
    if (image.starts_with("data:")) continue;
    return data_error("image", "a data: URL, as a server fetches nothing for its clients", image.substr(0, kShown),
                      "send the image itself: data:image/png;base64,...");
  }
  return std::nullopt;
}

// What is asked for and is not served yet: never left out in silence.
std::optional<Error> unserved(const SamplingWishes& wishes, const Constraint& constraint) {
  const auto refuse = [](const char* field) {
    return data_error(cat("field \"", field, "\""), "none, as this server does not have it yet", "one", "leave it out");
  };
  if (wishes.prompt_logprobs) return refuse("prompt_logprobs");
  if (wishes.thinking_token_budget) return refuse("thinking_token_budget");
  if (wishes.priority != 0) return refuse("priority");
  if (constraint.kind != Constraint::Kind::none) return refuse("structured_outputs");
  return std::nullopt;
}

}  // namespace

ChatService::ChatService(engine::LLM& llm, ServiceOptions options)
    : llm_(llm),
      options_(std::move(options)),
      max_model_len_(llm.engine().max_model_len()),
      knows_developer_(llm.session().text->chat_template &&
                       llm.session().text->chat_template->source().find("developer") != std::string::npos),
      metrics_(options_.model_names.front()),
      seeds_(options_.seed.value_or(std::random_device{}())),
      engine_(llm) {}
ChatService::~ChatService() = default;

void ChatService::close() { closed_ = true; }

std::optional<Refusal> ChatService::unknown_model(const std::string& model) const {
  const auto& names = options_.model_names;
  if (model.empty() || std::find(names.begin(), names.end(), model) != names.end()) return std::nullopt;
  return Refusal{data_error("field \"model\"", join(names, " or "), model, "ask for a model that /v1/models lists"),
                 404};
}

std::optional<Refusal> ChatService::refused(const Asked& asked) const {
  if (auto unknown = unknown_model(asked.model)) return unknown;
  if (closed_) return Refusal{failed_error("the server is shutting down", "ask another, or come again later"), 503};
  if (const auto why = engine_.dead()) return Refusal{*why, 503};
  if (const auto waiting = engine_.stats().waiting; waiting >= options_.max_queue_len) {
    return Refusal{failed_error(cat(waiting, " requests wait already, as many as --max_queue_len allows"),
                                "come again in a moment"),
                   429};
  }
  return std::nullopt;
}

std::uint64_t ChatService::any_seed() {
  const std::scoped_lock lock(seeds_mutex_);
  ++seeds_;
  return mix_key(seeds_, seeds_);
}

Result<engine::SamplingParams> ChatService::sampling_of(const SamplingWishes& wishes) const {
  engine::SamplingParams params = options_.sampling;
  params.temperature = wishes.temperature.value_or(params.temperature);
  params.top_p = wishes.top_p.value_or(params.top_p);
  params.min_p = wishes.min_p.value_or(params.min_p);
  params.top_k = std::max(0, wishes.top_k.value_or(params.top_k));
  params.repetition_penalty = wishes.repetition_penalty.value_or(params.repetition_penalty);
  params.presence_penalty = wishes.presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = wishes.frequency_penalty.value_or(params.frequency_penalty);
  params.max_new_tokens = wishes.max_tokens.value_or(params.max_new_tokens);
  params.stop.insert(params.stop.end(), wishes.stop.begin(), wishes.stop.end());
  params.stop_token_ids.insert(params.stop_token_ids.end(), wishes.stop_token_ids.begin(), wishes.stop_token_ids.end());
  params.ignore_eos = wishes.ignore_eos;
  params.min_tokens = wishes.min_tokens;
  params.skip_special_tokens = wishes.skip_special_tokens;
  params.include_stop_str_in_output = wishes.include_stop_str_in_output;
  params.logit_bias = wishes.logit_bias;
  params.top_logprobs = wishes.top_logprobs.value_or(0);
  return params;
}

std::shared_ptr<RequestHandle> ChatService::begin(Asked&& asked, std::shared_ptr<AnswerSink> sink) {
  if (const auto refusal = refused(asked)) {
    sink->failed(refusal->error, refusal->status);
    return nullptr;
  }
  if (const auto error = unserved(asked.sampling, asked.constraint)) {
    sink->failed(*error, 400);
    return nullptr;
  }
  auto params = sampling_of(asked.sampling);
  auto prompt = params ? llm_.prepare(asked.prompt) : Result<engine::EncodedPrompt>(params.error());
  if (!prompt) {
    sink->failed(prompt.error(), 400);
    return nullptr;
  }
  const auto length = static_cast<std::int64_t>(prompt->ids.size());
  if (length >= max_model_len_) {
    sink->failed(data_error("prompt", cat("fewer than ", max_model_len_, " tokens"), cat(length, " tokens"),
                            "shorten it, or serve the model with a longer --max_model_len"),
                 413);
    return nullptr;
  }
  // The markers of thoughts and calls may be special tokens, which the parser has to see.
  if (asked.running.reads && chat::keeps_special_tokens(options_.formats)) params->skip_special_tokens = false;
  params->seed = asked.sampling.seed ? *asked.sampling.seed : any_seed();
  if (!prompt->stop.empty()) params->stop.push_back(prompt->stop);
  const std::int64_t room = max_model_len_ - length;
  if (params->max_new_tokens <= 0 || params->max_new_tokens > room) params->max_new_tokens = room;
  asked.running.n = asked.n;
  asked.running.include_logprobs = asked.sampling.top_logprobs.has_value();
  asked.running.parser.prompt_tail = prompt->tail;
  auto request = std::make_shared<RunningRequest>(*this, std::move(asked.running), std::move(sink));
  request->begin(*prompt, *params);
  return request;
}

std::shared_ptr<RequestHandle> ChatService::chat(ChatRequest request, std::shared_ptr<AnswerSink> sink) {
  if (const auto refusal = refused_image(request.dialogue.images)) {
    sink->failed(*refusal, 400);
    return nullptr;
  }
  Asked asked;
  asked.model = std::move(request.model);
  asked.sampling = std::move(request.sampling);
  asked.n = request.n;
  asked.constraint = std::move(request.constraint);
  asked.running.parser.formats = options_.formats;
  asked.running.parser.parallel_calls = request.parallel_tool_calls;
  if (request.tool_choice.kind == ToolChoice::Kind::none) {
    request.dialogue.tools_json.clear();
  }
  asked.running.parser.tools_json = request.dialogue.tools_json;
  asked.running.reads = !options_.formats.reasoning.empty() || !request.dialogue.tools_json.empty();
  asked.running.include_reasoning = request.include_reasoning;
  auto& messages = request.dialogue.messages;
  const bool has_system = std::any_of(messages.begin(), messages.end(), [](const chat::Message& message) {
    return message.role == "system" || message.role == "developer";
  });
  if (!options_.system.empty() && !has_system) messages.insert(messages.begin(), {"system", options_.system, {}, {}});
  if (!knows_developer_) {
    for (chat::Message& message : messages) {
      if (message.role == "developer") message.role = "system";
    }
  }
  request.dialogue.template_kwargs = std::move(request.template_kwargs);
  request.dialogue.add_generation_prompt = request.add_generation_prompt;
  request.dialogue.continue_final_message = request.continue_final_message;
  asked.prompt = std::move(request.dialogue);
  return begin(std::move(asked), std::move(sink));
}

std::shared_ptr<RequestHandle> ChatService::complete(CompletionRequest request, std::shared_ptr<AnswerSink> sink) {
  Asked asked;
  asked.model = std::move(request.model);
  asked.prompt = std::move(request.prompt);
  asked.sampling = std::move(request.sampling);
  asked.n = request.n;
  asked.constraint = std::move(request.constraint);
  return begin(std::move(asked), std::move(sink));
}

Result<engine::TokenIds> ChatService::prompt_ids(const ChatRequest& request) const {
  engine::Dialogue dialogue = request.dialogue;
  dialogue.template_kwargs = request.template_kwargs;
  dialogue.add_generation_prompt = request.add_generation_prompt;
  dialogue.continue_final_message = request.continue_final_message;
  auto prompt = llm_.prepare(engine::Prompt(std::move(dialogue)));
  if (!prompt) return prompt.error();
  return std::move(prompt->ids);
}

Result<std::int64_t> ChatService::count_tokens(const ChatRequest& request) const {
  const auto ids = prompt_ids(request);
  if (!ids) return ids.error();
  return static_cast<std::int64_t>(ids->size());
}

void ChatService::run(const std::function<void(engine::LLM& llm)>& work) {
  std::promise<void> done;
  engine_.run([&](engine::LLM& llm) {
    try {
      work(llm);
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  });
  done.get_future().get();
}

}  // namespace tern::server
