#include "server/chat_service.h"

#include <algorithm>
#include <exception>
#include <random>
#include <utility>

#include "base/dtype.h"
#include "base/philox.h"
#include "base/strings.h"
#include "engine/end_ids.h"
#include "engine/reasoning_mask.h"
#include "engine/token_bans.h"
#include "server/forced_calls.h"
#include "server/running_request.h"
#include "server/waiting_request.h"

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

// The adapter of that name in the folder of adapters. Names that lead out of it name none.
std::optional<std::filesystem::path> resolved_folder(const std::filesystem::path& all, const std::string& name) {
  if (all.empty() || name.starts_with('.') || name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
    return std::nullopt;
  }
  std::error_code ignored;
  const std::filesystem::path folder = all / name;
  if (!std::filesystem::is_regular_file(folder / "adapter_config.json", ignored)) return std::nullopt;
  return folder;
}

// As long as the request wants its prompt at most. Error (data): it can't be cut.
std::optional<Error> cut(engine::EncodedPrompt& prompt, const SamplingWishes& wishes, std::int64_t max_model_len) {
  if (!wishes.truncate_prompt_tokens) return std::nullopt;
  std::int64_t most = *wishes.truncate_prompt_tokens;
  if (most < 0)
    most = std::max<std::int64_t>(1, max_model_len - std::max<std::int64_t>(1, wishes.max_tokens.value_or(1)));
  const std::int64_t more = static_cast<std::int64_t>(prompt.ids.size()) - most;
  if (more <= 0) return std::nullopt;
  if (!prompt.images.empty()) {
    return data_error(R"(field "truncate_prompt_tokens")", "none where the prompt has images", "one", "leave it out");
  }
  const auto begin = wishes.truncate_right ? prompt.ids.begin() + most : prompt.ids.begin();
  prompt.ids.erase(begin, begin + more);
  return std::nullopt;
}

// The tokens that end an answer take their part of what the engine tells of each beam.
std::optional<Error> too_many_beams(const engine::SamplingParams& params, const engine::LLM& llm,
                                    const std::vector<std::int32_t>& model_ends) {
  if (params.num_beams <= 1) return std::nullopt;
  const std::size_t ends = engine::end_ids_of(llm.session().text->tokenizer, model_ends, params).size();
  const std::int64_t most = std::max<std::int64_t>(1, llm.max_beams(ends));
  if (params.num_beams <= most) return std::nullopt;
  return data_error(
      R"(field "use_beam_search")", cat("at most ", most, " beams where ", ends, " tokens end an answer"),
      cat(params.num_beams),
      R"(ask for fewer, name fewer in "stop_token_ids" and "stop", or serve with a higher --max_logprobs)");
}

constexpr std::string_view kThinkBegin = "<think>", kThinkEnd = "</think>";

// Whether the template has opened the model's thoughts already.
bool opens_thoughts(const std::string& prompt_tail) {
  const std::size_t begin = prompt_tail.rfind(kThinkBegin);
  const std::size_t end = prompt_tail.rfind(kThinkEnd);
  return begin != std::string::npos && (end == std::string::npos || end < begin);
}

Error closing() { return failed_error("the server is shutting down", "ask another, or come again later"); }

// Of a request for words, to a model that gives none.
Error no_words(const engine::LLM& llm) {
  const models::ModelConfig& config = llm.session().model.config;
  const bool labels = config.head == models::ModelHead::classification;
  return data_error("the model", "one that answers in words",
                    !labels                     ? "one that is served for vectors of texts and how they relate"
                    : config.labels.size() == 1 ? "one that gives a number of a text"
                                                : "one that gives labels of texts",
                    cat("ask it by POST ", labels ? "/classify or /pooling" : "/v1/embeddings, /score or /rerank",
                        ", or serve a language model"));
}

// With the engine, where the model generates: its cache may hold less than the model.
std::int64_t served_len(engine::LLM& llm) {
  llm.be_ready();
  return llm.max_model_len();
}

std::map<std::string, std::string> cache_labels(engine::LLM& llm) {
  if (!llm.generates()) return {};
  const engine::CacheEngine& cache = llm.engine().cache();
  return {{"block_size", cat(cache.block_size())},
          {"num_gpu_blocks", cat(cache.num_blocks())},
          {"cache_dtype", std::string(dtype_name(cache.dtype()))}};
}

}  // namespace

ChatService::ChatService(engine::LLM& llm, ServiceOptions options)
    : llm_(llm),
      options_(std::move(options)),
      max_model_len_(served_len(llm)),
      knows_developer_(llm.session().text->chat_template &&
                       llm.session().text->chat_template->source().find("developer") != std::string::npos),
      metrics_(options_.model_names.front(), cache_labels(llm)),
      slots_(llm.generates() ? llm.max_num_seqs() : 0),
      end_token_ids_(llm.generates() ? llm.engine().end_token_ids() : std::vector<std::int32_t>()),
      vocab_size_(llm.session().model.config.vocab_size),
      grammars_(llm.session().text->tokenizer, end_token_ids_, vocab_size_),
      seeds_(options_.seed.value_or(std::random_device{}())),
      engine_(llm, options_.sleep_on_idle),
      pooling_([this](const std::function<void(engine::LLM&)>& work) { run(work); }, metrics_),
      images_(options_.media) {}
ChatService::~ChatService() = default;

void ChatService::close() {
  closed_ = true;
  engine_.resume();
}

bool ChatService::is_the_model(const std::string& model) const {
  return model.empty() || std::ranges::find(options_.model_names, model) != options_.model_names.end();
}

std::vector<std::string> ChatService::all_names() const {
  std::vector<std::string> names = options_.model_names;
  for (const engine::AdapterRef& adapter : llm_.adapters().all()) names.push_back(adapter->name);
  return names;
}

std::optional<Refusal> ChatService::unknown_model(const std::string& model, engine::AdapterRef& adapter) const {
  adapter = nullptr;
  if (is_the_model(model)) return std::nullopt;
  adapter = llm_.adapters().find(model);
  if (adapter) return std::nullopt;
  if (const auto folder = resolved_folder(options_.lora_resolver_dir, model)) {
    auto loaded = llm_.load_adapter({model, *folder});
    adapter = loaded ? *loaded : llm_.adapters().find(model);  // another request may have been faster
    if (adapter) return std::nullopt;
    return Refusal{told(loaded.error()), 400};
  }
  return Refusal{
      data_error("field \"model\"", join(all_names(), " or "), model, "ask for a model that /v1/models lists"), 404};
}

std::optional<Refusal> ChatService::unknown_model(const std::string& model) const {
  engine::AdapterRef adapter;
  return unknown_model(model, adapter);
}

std::optional<Refusal> ChatService::not_the_model(const std::string& model) const {
  engine::AdapterRef adapter;
  if (auto unknown = unknown_model(model, adapter)) return unknown;
  if (!adapter) return std::nullopt;
  return Refusal{
      data_error("field \"model\"", cat(join(options_.model_names, " or "), ", as adapters only answer here"), model,
                 "ask for the model itself"),
      400};
}

Result<engine::AdapterRef> ChatService::load_adapter(const engine::NamedAdapter& adapter, bool replace) {
  if (is_the_model(adapter.name)) {
    return data_error("the adapter's name", "one that the model itself has not", adapter.name, "choose another");
  }
  auto loaded = llm_.load_adapter(adapter, replace);
  if (!loaded) return told(loaded.error());
  return loaded;
}

std::optional<Refusal> ChatService::refused(Asked& asked) const {
  if (auto unknown = unknown_model(asked.model, asked.running.engine.adapter)) return unknown;
  if (!llm_.generates()) return Refusal{no_words(llm_), 400};
  if (closed_) return Refusal{closing(), 503};
  if (const auto why = engine_.dead()) return Refusal{*why, 503};
  if (auto full = full_queue()) return Refusal{std::move(*full), 429};
  return std::nullopt;
}

std::optional<Error> ChatService::full_queue() const {
  const auto waiting = stats().waiting + static_cast<std::int64_t>(images_.waiting());
  if (waiting < options_.max_queue_len) return std::nullopt;
  return failed_error(cat(waiting, " requests wait already, as many as --max_queue_len allows"),
                      "come again in a moment");
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
  params.prompt_logprobs = wishes.prompt_logprobs;
  params.top_logprobs = wishes.top_logprobs.value_or(0);
  if (!wishes.beams) return params;
  params.temperature = 0;
  params.repetition_penalty = 1;  // what the server's flags say of drawing doesn't count
  params.presence_penalty = params.frequency_penalty = 0;
  params.num_beams = wishes.beams->width;
  params.length_penalty = wishes.beams->length_penalty;
  return params;
}

// What holds the answer to its form. Where the template has opened the model's thoughts, these are free, and the form
// begins behind them; elsewhere it begins with the first token.
void ChatService::constrain(Asked& asked, const std::string& prompt_tail) {
  RunningOptions& running = asked.running;
  if (is_forced(running.forced)) {
    if (asked.constraint.kind != Constraint::Kind::none) {
      throw Failure(data_error(R"(field "tool_choice")", "no other form where calls are demanded", "one",
                               "leave one of the two out"));
    }
    asked.constraint =
        forced_constraint(running.forced, running.parser.tools_json, running.parser.parallel_calls).value();
    running.parser.tools_json.clear();
  }
  if (asked.constraint.kind != Constraint::Kind::none) running.grammar = grammars_.compile(asked.constraint).value();
  const bool opened = opens_thoughts(prompt_tail);
  const auto budget = asked.sampling.thinking_token_budget;
  if ((running.grammar == nullptr || !opened) && !budget) return;
  if (budget && options_.formats.reasoning.empty()) {
    throw Failure(
        data_error(R"(field "thinking_token_budget")", "a model that thinks", "one that does not", "leave it out"));
  }
  engine::Reasoning reasoning;
  if (!opened) reasoning.begin_ids = tokenizer().encode(kThinkBegin, false);
  reasoning.end_ids = tokenizer().encode(kThinkEnd, false);
  reasoning.end_tokens = end_token_ids_;
  reasoning.vocab_size = vocab_size_;
  const bool holds = running.grammar != nullptr && opened;
  running.around = [reasoning, budget, holds](std::shared_ptr<engine::TokenMask> mask) {
    if (holds) mask = engine::after_reasoning(std::move(mask), reasoning);
    return budget ? engine::thinking_budget(std::move(mask), reasoning, *budget) : mask;
  };
}

// The words and tokens that the request doesn't want, whatever else holds its answers.
void ChatService::ban(Asked& asked) const {
  engine::TokenBans bans;
  bans.words = engine::banned_words(tokenizer(), asked.sampling.bad_words);
  bans.allowed = asked.sampling.allowed_token_ids;
  if (bans.words.empty() && bans.allowed.empty()) return;
  bans.end_tokens = end_token_ids_;
  bans.vocab_size = vocab_size_;
  for (const std::int32_t id : bans.allowed) {
    if (id < bans.vocab_size) continue;
    throw Failure(data_error(R"(field "allowed_token_ids")", cat("token ids from 0 to ", bans.vocab_size - 1), cat(id),
                             "leave it out"));
  }
  asked.running.around = [inner = std::move(asked.running.around), bans](std::shared_ptr<engine::TokenMask> mask) {
    return engine::without_banned(inner ? inner(std::move(mask)) : std::move(mask), bans);
  };
}

std::shared_ptr<RequestHandle> ChatService::begin(Asked&& asked, std::shared_ptr<AnswerSink> sink) {
  if (const auto refusal = refused(asked)) {
    sink->failed(refusal->error, refusal->status);
    return nullptr;
  }
  auto params = sampling_of(asked.sampling);
  auto prompt = params ? llm_.prepare(asked.prompt) : Result<engine::EncodedPrompt>(params.error());
  if (!prompt) {
    sink->failed(told(prompt.error()), 400);
    return nullptr;
  }
  if (const auto uncut = cut(*prompt, asked.sampling, max_model_len_)) {
    sink->failed(*uncut, 400);
    return nullptr;
  }
  const auto length = static_cast<std::int64_t>(prompt->ids.size());
  if (length >= max_model_len_) {
    // A 400 in these words is what clients know it by, to shorten their dialogue and ask again.
    sink->failed(data_error("the prompt is too long", cat("fewer than ", max_model_len_, " tokens"),
                            cat(length, " tokens"), "shorten it, or serve the model with a longer --max_model_len"),
                 400);
    return nullptr;
  }
  // The markers of thoughts and calls may be special tokens, which the parser has to see.
  if (asked.running.reads && chat::keeps_special_tokens(options_.formats)) params->skip_special_tokens = false;
  params->seed = asked.sampling.seed ? *asked.sampling.seed : any_seed();
  if (!prompt->stop.empty()) params->stop.push_back(prompt->stop);
  if (const auto many = too_many_beams(*params, llm_, end_token_ids_)) {
    sink->failed(*many, 400);
    return nullptr;
  }
  const std::int64_t room = max_model_len_ - length;
  if (params->max_new_tokens <= 0 || params->max_new_tokens > room) params->max_new_tokens = room;
  asked.running.n = asked.n;
  asked.running.engine.priority = asked.sampling.priority;
  asked.running.include_prompt_ids = asked.sampling.token_ids;
  asked.running.include_tokens = asked.sampling.top_logprobs || asked.sampling.token_ids;
  asked.running.parser.prompt_tail = prompt->tail;
  if (const auto held = catching([&] { return constrain(asked, prompt->tail), ban(asked), Unit{}; }); !held) {
    sink->failed(held.error(), held.error().kind == ErrorKind::data ? 400 : 501);
    return nullptr;
  }
  if (asked.running.record != nullptr) {
    asked.running.record->asks(asked.model.empty() ? options_.model_names.front() : asked.model, length);
  }
  auto request = std::make_shared<RunningRequest>(*this, std::move(asked.running), std::move(sink));
  request->begin(*prompt, *params);
  return request;
}

// Those that have to be fetched come first; nobody waits for them here.
std::shared_ptr<RequestHandle> ChatService::begin_with_images(Asked&& asked, std::shared_ptr<AnswerSink> sink) {
  auto& dialogue = std::get<engine::Dialogue>(asked.prompt);
  const auto far = has_far_images(dialogue);
  if (!far) {
    sink->failed(far.error(), 400);
    return nullptr;
  }
  if (!*far) return begin(std::move(asked), std::move(sink));
  if (const auto refusal = refused(asked)) {
    sink->failed(refusal->error, refusal->status);
    return nullptr;
  }
  const auto waiting = std::make_shared<WaitingRequest>(sink);
  const auto kept = std::make_shared<Asked>(std::move(asked));
  waiting->wait(images_, std::get<engine::Dialogue>(kept->prompt), kept->running.record,
                [this, kept, sink = std::move(sink)](std::vector<std::string>&& images) {
                  std::get<engine::Dialogue>(kept->prompt).images = std::move(images);
                  return begin(std::move(*kept), sink);
                });
  return waiting;
}

std::shared_ptr<RequestHandle> ChatService::chat(ChatRequest request, std::shared_ptr<AnswerSink> sink) {
  Asked asked;
  asked.model = std::move(request.model);
  asked.sampling = std::move(request.sampling);
  asked.n = request.n;
  asked.constraint = std::move(request.constraint);
  asked.running.parser.formats = options_.formats;
  asked.running.parser.parallel_calls = request.parallel_tool_calls;
  asked.running.parser.whole_calls = request.whole;
  if (request.tool_choice.kind == ToolChoice::Kind::none) {
    request.dialogue.tools_json.clear();
  }
  asked.running.parser.tools_json = request.dialogue.tools_json;
  asked.running.reads = !options_.formats.reasoning.empty() || !request.dialogue.tools_json.empty();
  asked.running.include_reasoning = request.include_reasoning;
  if (!request.dialogue.tools_json.empty()) asked.running.forced = request.tool_choice;
  if (is_forced(asked.running.forced)) {
    asked.running.parser.formats.tool_call.clear();
    asked.running.reads = true;
  }
  asked.running.engine.cache_salt = std::move(request.cache_salt);
  asked.running.record = std::move(request.record);
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
  return begin_with_images(std::move(asked), std::move(sink));
}

std::shared_ptr<RequestHandle> ChatService::complete(CompletionRequest request, std::shared_ptr<AnswerSink> sink) {
  Asked asked;
  asked.model = std::move(request.model);
  asked.prompt = std::move(request.prompt);
  asked.sampling = std::move(request.sampling);
  asked.n = request.n;
  asked.constraint = std::move(request.constraint);
  asked.running.engine.cache_salt = std::move(request.cache_salt);
  asked.running.record = std::move(request.record);
  return begin(std::move(asked), std::move(sink));
}

// An error is handed over by value: an exception would be freed by whichever thread lets go of it last.
void ChatService::run(const std::function<void(engine::LLM& llm)>& work) {
  Status ended = Unit{};
  std::exception_ptr thrown;
  engine_.run([&](engine::LLM& llm) {
    try {
      ended = catching([&] { return work(llm), Unit{}; });
    } catch (...) {  // no memory
      thrown = std::current_exception();
    }
  });
  if (thrown) std::rethrow_exception(thrown);
  if (!ended) throw Failure(told(ended.error()));
}

void ChatService::pool(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange, MakePooling make,
                       PooledBody body) {
  const ErrorWriter errors = error_form(request.path);
  if (closed_) return errors(*exchange, closing(), 503, {});
  if (const auto full = full_queue()) return errors(*exchange, *full, 429, {});
  PoolingRequest asked;
  asked.make = [this, make = std::move(make)](const engine::LLM& llm) {
    auto job = catching([&] { return make(llm); });
    if (!job) throw Failure(told(job.error()));
    return std::move(*job);
  };
  asked.body = std::move(body);
  asked.model = options_.model_names.front();
  asked.exchange = exchange;
  asked.errors = errors;
  asked.record = request.record;
  asked.share = request.share;
  pooling_.ask(std::move(asked));
}

engine::EngineStats ChatService::stats() const {
  engine::EngineStats stats = engine_.stats();
  stats.running += pooling_.running();
  stats.waiting += pooling_.waiting();
  return stats;
}

Error ChatService::told(Error error) const {
  const std::string path = llm_.session().path.string();
  for (std::string* part : {&error.problem, &error.where, &error.expected, &error.found, &error.mend}) {
    for (std::size_t at = part->find(path); !path.empty() && at != std::string::npos; at = part->find(path, at)) {
      part->replace(at, path.size(), options_.model_names.front());
      at += options_.model_names.front().size();
    }
  }
  return error;
}

}  // namespace tern::server
