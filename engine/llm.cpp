#include "engine/llm.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "engine/answer_stream.h"
#include "engine/beam_search.h"
#include "engine/draft_model.h"
#include "engine/prompt_encoder.h"
#include "engine/swap_about.h"
#include "engine/text_scorer.h"
#include "models/saved_modules.h"
#include "models/speculative_head.h"
#include "models/vision.h"
#include "session/beside.h"
#include "session/end_tokens.h"
#include "session/mmproj.h"

namespace tern::engine {
namespace {

// A name in the model's store that no other adapter has.
std::string free_adapter_name(const models::LoadedModel& model) {
  const auto modules = models::linear_modules(model.config);
  std::string name = "lora";
  const auto taken = [&](const models::LinearModule& module) {
    return model.store->find(models::lora_layer(name, module.name, {}).lora_a) != nullptr ||
           model.store->find(models::vera_layer(name, module, {}).inner) != nullptr;
  };
  for (int next = 2; std::any_of(modules.begin(), modules.end(), taken); ++next) name = cat("lora", next);
  return name;
}

// A head that the model's checkpoint lacks comes with an adapter.
void require_trained_head(const session::Session& session, const models::LoadedAdapter& adapter) {
  if (!session.model.config.label_head_is_new) return;
  const auto is_head = [](const models::SavedParameter& each) { return each.spec.name == models::kScoreWeight; };
  if (std::any_of(adapter.saved.begin(), adapter.saved.end(), is_head)) return;
  throw Failure(data_error(session.path.string(), "a head for labels", "a language model without one",
                           "give --adapters one that tern sft --task_type seq_cls or reranker trained, or choose a "
                           "model for sequence classification"));
}

// The pairs of an adapter that takes another's place.
void require_same_layers(const graph::TensorStore& store, const models::LoadedAdapter& held,
                         const models::LoadedAdapter& came, const std::string& where) {
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw Failure(
        data_error(where, expected, got, "train with the adapter's configuration, or start the server again"));
  };
  if (!came.parts.empty()) refuse("pairs of linear layers alone", "pairs of embeddings or experts");
  for (const auto& [module, layer] : came.layers) {
    if (!held.layers.contains(module)) refuse("the modules of the adapter that serves", cat("one more, ", module));
  }
  for (const auto& [module, layer] : held.layers) {
    const auto found = came.layers.find(module);
    if (found == came.layers.end()) refuse(cat("a pair of ", module), "none");
    const nn::LoraLayer& other = found->second;
    if (layer.scaling != other.scaling) refuse(cat("a scaling of ", layer.scaling), cat(other.scaling));
    if (to_string(store.at(layer.lora_a).desc) != to_string(store.at(other.lora_a).desc)) {
      refuse(cat("rank ", layer.rank, " at ", module), cat(other.rank));
    }
  }
}

void require_language_model(const session::Session& session) {
  if (session.model.config.head == models::ModelHead::language) return;
  throw Failure(data_error(session.path.string(), "a language model", "one without its head",
                           "it makes vectors of texts or classifies them"));
}

// Of the largest image that the processor makes and the context holds. What is wrong with the processor's files is told
// where the first image comes; throws Failure (usage) for sizes that aren't this model's.
std::int64_t max_image_patches(const std::filesystem::path& model,
                               const std::shared_ptr<const models::VisionConfig>& vision, const LLMOptions& options) {
  const auto read = session::model_image_config(model, vision);
  if (!read) return options.engine.max_image_patches;
  const session::ImageConfig config = session::with_sizes(*read, options.image_sizes).value();
  return std::min(session::most_patches(config, options.image_sizes.max_pixels),
                  session::most_patches_of_tokens(config, options.engine.max_model_len));
}

// Reads the adapters that are named; gives the room that they and others will take.
LoraOptions load_named(AdapterRegistry& registry, const ServedAdapters& served) {
  constexpr std::int64_t kMostAtOnce = 8, kFewestAtRunTime = 4, kRankAtRunTime = 16;
  LoraOptions room;
  if (served.named.empty() && !served.at_run_time) return room;
  for (const NamedAdapter& named : served.named) {
    const AdapterRef adapter = registry.load(named, std::nullopt).value();
    room.max_lora_rank = std::max(room.max_lora_rank, adapter->pairs.rank);
    if (served.at_run_time) continue;
    for (const auto& [module, pair] : adapter->pairs.pairs) room.modules.insert(module);
  }
  room.max_loras = std::min(kMostAtOnce, static_cast<std::int64_t>(served.named.size()));
  if (served.at_run_time) {
    room.max_loras = std::max(room.max_loras, kFewestAtRunTime);
    room.max_lora_rank = std::max(room.max_lora_rank, kRankAtRunTime);
  }
  room.max_loras = served.max_loras.value_or(room.max_loras);
  room.max_lora_rank = served.max_lora_rank.value_or(room.max_lora_rank);
  for (const AdapterRef& adapter : registry.all()) adapter_fits(room, adapter->pairs, adapter->name).value();
  return room;
}

}  // namespace

void use_draft_model(const session::Session& session, session::Session& draft, EngineOptions& options,
                     const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  if (draft.model.store == nullptr) {
    models::LoadOptions load;
    load.max_positions = std::min(options.max_model_len, draft.model.config.max_position_embeddings);
    load.progress = progress;
    session::load_beside(session, draft, load).value();
  }
  options.draft = &draft.model;
  options.draft_numerics = draft.numerics;
  options.draft_numerics.x15 = true;
}

void use_head(session::Session& session, models::SpeculativeHead& head, EngineOptions& options,
              const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  models::LoadOptions load;
  load.max_positions = options.max_model_len;
  load.quantise = session.quantise;
  load.progress = progress;
  const std::size_t told = session.model.notes.size();
  head.load(session.model, load).value();
  for (std::size_t i = told; i < session.model.notes.size(); ++i) log_info(session.model.notes[i]);
  log_info(head.description());
  options.head = &head;
}

LLM::LLM(session::Session& session, LLMOptions options)
    : session_(session), options_(std::move(options)), adapters_(session.model.config) {}
LLM::~LLM() = default;

Result<std::int64_t> LLM::model_len(const session::Session& session, const LLMOptions& options) {
  const std::int64_t most = session.model.config.max_position_embeddings;
  if (options.max_model_len <= most) return options.max_model_len > 0 ? options.max_model_len : most;
  return usage_error(
      cat("--max_model_len is ", options.max_model_len, ", and the model takes at most ", most, " tokens"), "lower it");
}

Result<std::unique_ptr<LLM>> LLM::open(session::Session& session, const LLMOptions& options) {
  return catching([&] {
    std::unique_ptr<LLM> llm(new LLM(session, options));
    EngineOptions& engine = llm->options_.engine;
    engine.max_model_len = model_len(session, options).value();
    engine.shorten = options.max_model_len == 0;
    engine.numerics = session.numerics;
    engine.numerics.needs = options.batch_invariant ? TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT : 0U;
    engine.numerics.x15 = !options.batch_invariant;
    if (const auto vocab = session.model.config.vocab_size; engine.top_logprobs > vocab) {
      throw Failure(usage_error(
          cat("--top_logprobs is ", engine.top_logprobs, ", and the model has ", vocab, " tokens"), "lower it"));
    }
    if (const auto* draft = options.draft.get()) {
      check_draft_model(draft->model.config, draft->text->tokenizer, session.text->tokenizer).value();
    }
    llm->generation_ = session::read_generation_config(session.path).value();
    engine.end_token_ids = session::end_token_ids(session.model.config, llm->generation_, *session.text);
    if (options.num_beams > 1) {
      const std::size_t stops = static_cast<std::size_t>(options.num_stops) + 1;  // one may be the template's own
      const std::int64_t tops = beam_candidates(options.num_beams, llm->num_end_ids() + stops);
      engine.top_logprobs = std::max(engine.top_logprobs, tops);
      engine.enable_prefix_caching = true;  // beams share the blocks of what they have in common
    }
    const auto vision = session.model.config.vision;
    llm->takes_images_ = (session.model.store != nullptr && models::has_vision_weights(session.model)) ||
                         (options.images && vision != nullptr);
    if (llm->takes_images_) {
      engine.max_image_patches = max_image_patches(session.path, vision, llm->options_);
      engine.load_vision = [&session, progress = options.progress] {
        models::LoadOptions load;
        load.progress = progress;
        return session::load_vision_weights(session, load);
      };
    }
    engine.lora = load_named(llm->adapters_, options.adapters);
    llm->encoder_ = PromptEncoder::create(*session.text, session.path, llm->options_, vision).value();
    llm->own_config_ = session.model.config;
    llm->read_weights();
    return llm;
  });
}

// Where the session has none yet, and the adapter of all requests.
void LLM::read_weights() {
  models::LoadedModel& model = session_.model;
  if (model.store == nullptr) {
    models::LoadOptions load;
    load.max_positions = options_.engine.max_model_len;
    load.vision_later = options_.images;
    load.progress = options_.progress;
    session::load_weights(session_, load).value();
  }
  models::require_own_modules(model, options_.adapter);
  if (!options_.adapter.empty()) {
    adapter_ = models::load_adapter(model, free_adapter_name(model), options_.adapter).value();
    options_.engine.adapters = adapter_.layers;
  }
  require_trained_head(session_, adapter_);
  if (options_.draft) use_draft_model(session_, *options_.draft, options_.engine, options_.progress);
  if (options_.head) use_head(session_, *options_.head, options_.engine, options_.progress);
}

void LLM::sleep() {
  if (sleeps_) return;
  engine_.reset();
  scorer_.reset();
  pooler_.reset();
  adapter_ = {};
  session_.model.store.reset();
  if (options_.draft) options_.draft->model.store.reset();
  session_.model.config = own_config_;
  session_.model.saved_modules_of.clear();
  sleeps_ = true;
}

Status LLM::wake() {
  return catching([&] {
    if (!sleeps_) return Unit{};
    try {
      read_weights();
    } catch (...) {
      adapter_ = {};
      session_.model.store.reset();  // the next use tries again
      if (options_.draft) options_.draft->model.store.reset();
      throw;
    }
    sleeps_ = false;
    return Unit{};
  });
}

std::size_t LLM::num_end_ids() const {
  std::set<std::int32_t> ids(options_.engine.end_token_ids.begin(), options_.engine.end_token_ids.end());
  ids.insert(session_.model.config.eos_token_ids.begin(), session_.model.config.eos_token_ids.end());
  return ids.size();
}

std::int64_t LLM::max_beams(std::size_t num_end_ids) const {
  return options_.engine.top_logprobs / beam_candidates(1, num_end_ids);
}

SamplingParams LLM::default_sampling() const {
  const session::GenerationConfig& advice = generation_;
  SamplingParams params;
  if (advice.do_sample.value_or(false)) {
    params.temperature = static_cast<float>(advice.temperature.value_or(1.0));
    params.top_k = static_cast<std::int32_t>(advice.top_k.value_or(50));  // transformers' own default
    params.top_p = static_cast<float>(advice.top_p.value_or(1.0));
  }
  params.min_p = static_cast<float>(advice.min_p.value_or(0.0));
  params.repetition_penalty = static_cast<float>(advice.repetition_penalty.value_or(1.0));
  params.max_new_tokens = advice.max_new_tokens.value_or(0);
  return params;
}

Result<AdapterRef> LLM::load_adapter(const NamedAdapter& adapter, bool replace) {
  if (adapter_room().max_loras == 0) {
    return usage_error("the model is served without room for adapters", "start the server with --enable_lora true");
  }
  return adapters_.load(adapter, adapter_room(), replace);
}

std::int64_t LLM::max_model_len() const { return engine_ ? engine_->max_model_len() : options_.engine.max_model_len; }

LLMEngine& LLM::engine() {
  wake().value();
  if (!engine_) {
    require_language_model(session_);
    find_swap_about();
    engine_ = std::make_unique<LLMEngine>(session_.model, session_.text->tokenizer, options_.engine, *session_.runtime);
    session_.runtime->choices.save();
  }
  return *engine_;
}

bool LLM::generates() const { return options_.generates && session_.model.config.head == models::ModelHead::language; }

void LLM::be_ready() {
  wake().value();
  if (generates()) (void)engine();
}

// Once, as all weights are read for it.
void LLM::find_swap_about() {
  EngineOptions& engine = options_.engine;
  if (engine.swap.dir.empty() || !engine.swap.about.empty()) return;
  const bool scaled = !session_.model.config.rope_long_factors.empty();
  engine.swap.about = cat(about_model(session_, options_.adapter).value(),
                          about_numerics(engine.numerics, scaled ? engine.max_model_len : 0),
                          options_.head ? about_head(*options_.head) : std::string());
}

// The folder is of the weights that were read.
void LLM::weights_changed() {
  if (engine_) engine_->forget_computed();
  options_.engine.swap.dir.clear();
}

std::vector<Answer> LLM::generate(std::span<const Prompt> prompts, const SamplingParams& sampling,
                                  const AnswerCallbacks& callbacks) {
  std::vector<Answer> answers;
  AnswerCallbacks kept = callbacks;
  kept.on_answer = [&](std::size_t index, Answer&& answer) {
    answers.push_back(answer);
    if (callbacks.on_answer) callbacks.on_answer(index, std::move(answer));
  };
  AnswerStream stream(*this, sampling, kept);
  for (const Prompt& prompt : prompts) {
    if (!stream.push(prompt)) break;
  }
  stream.finish();
  // Those that were never begun.
  while (answers.size() < prompts.size()) kept.on_answer(answers.size(), Answer{.reason = FinishReason::aborted});
  return answers;
}

std::vector<Answer> LLM::chat(std::span<const Dialogue> dialogues, const SamplingParams& sampling,
                              const AnswerCallbacks& callbacks) {
  const std::vector<Prompt> prompts(dialogues.begin(), dialogues.end());
  return generate(prompts, sampling, callbacks);
}

Answer LLM::chat(const Dialogue& dialogue, const SamplingParams& sampling, const AnswerCallbacks& callbacks) {
  return std::move(chat(std::span(&dialogue, 1), sampling, callbacks).front());
}

Result<EncodedPrompt> LLM::prepare(const Prompt& prompt) const { return encoder_->encode(prompt); }

Result<TokenIds> LLM::encode(const Prompt& prompt) const {
  const auto* dialogue = std::get_if<Dialogue>(&prompt);
  if (dialogue != nullptr && !dialogue->images.empty()) {
    return data_error("images", "a prompt of text alone", "images beside it", "leave them out");
  }
  auto encoded = prepare(prompt);
  if (!encoded) return encoded.error();
  return std::move(encoded->ids);
}

std::vector<Result<TokenIds>> LLM::encode(std::span<const Dialogue> dialogues) const {
  std::vector<Result<TokenIds>> out;
  out.reserve(dialogues.size());
  for (const Dialogue& dialogue : dialogues) out.push_back(encode(Prompt(dialogue)));
  return out;
}

Result<models::WeightUpdate> LLM::update_weights(const std::shared_ptr<checkpoint::CheckpointSource>& source) {
  if (!options_.adapter.empty()) {
    return usage_error("the server answers with an adapter, which stands over the weights",
                       "start it without --adapters, or update the adapter alone");
  }
  models::LoadOptions options;  // as session::load_weights has them
  options.dtype = session_.model.dtype;
  options.quantise = session_.quantise;
  auto updated = models::update_weights(session_.model, source, options);
  if (updated) weights_changed();
  return updated;
}

Status LLM::update_adapter(const std::filesystem::path& directory) {
  return catching([&] {
    if (options_.adapter.empty()) {
      throw Failure(usage_error("the server answers without an adapter",
                                "start it with --adapters and one of the same modules and rank"));
    }
    const models::AdapterConfig config = models::read_adapter_config(directory).value();
    const bool is_plain = config.kind == models::AdapterKind::lora && !config.use_dora && config.began_as.empty() &&
                          config.modules_to_save.empty() && config.bias == models::TrainedBiases::none;
    if (!is_plain || !adapter_.saved.empty() || !adapter_.parts.empty()) {
      throw Failure(usage_error("an adapter that is more than pairs of LoRA can't be updated while it serves",
                                "start the server again with --adapters"));
    }
    // Loaded beside it, the new one shows what is wrong with it before anything is written.
    const auto came = models::load_adapter(session_.model, free_adapter_name(session_.model), directory).value();
    require_same_layers(*session_.model.store, adapter_, came, directory.string());
    models::read_tensors(*session_.model.store, adapter_, directory);
    weights_changed();
    return Unit{};
  });
}

TextScorer& LLM::scorer() {
  wake().value();
  require_language_model(session_);
  if (!scorer_) {
    ScorerOptions options;
    options.max_tokens = options_.engine.max_model_len;
    options.numerics = options_.engine.numerics;
    options.adapters = options_.engine.adapters;
    options.cache = cache_options(options_.engine, session_.model);
    options.step_tokens =
        std::min(options_.engine.max_num_batched_tokens, static_cast<std::int64_t>(NextTokenLogits::kBlock));
    scorer_ = std::make_unique<TextScorer>(session_, options);
  }
  return *scorer_;
}

std::size_t LLM::score(std::span<const TokenIds> texts, const ScoreCallbacks& callbacks, const ScoreOptions& options) {
  TextScorer* const reference = options.reference != nullptr ? &options.reference->scorer() : nullptr;
  return scorer().score(texts, callbacks, options, reference);
}

std::vector<TextScore> LLM::score(std::span<const TokenIds> texts) {
  std::vector<TextScore> scores;
  ScoreCallbacks callbacks;
  callbacks.on_score = [&](std::size_t, const TextScore& score) { scores.push_back(score); };
  (void)score(texts, callbacks);
  return scores;
}

std::vector<TextScore> LLM::score(std::span<const std::string> texts) {
  std::vector<TokenIds> ids;
  ids.reserve(texts.size());
  for (const std::string& text : texts) ids.push_back(encode(text).value());
  return score(std::span<const TokenIds>(ids));
}

}  // namespace tern::engine
