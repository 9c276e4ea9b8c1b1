// A model that answers: dialogues or texts in, answers out (vLLM's names: chat, generate, score, encode, embed,
// classify).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "chat/message.h"
#include "engine/divergence.h"
#include "engine/llm_engine.h"
#include "engine/pooled_text.h"
#include "engine/pooler.h"
#include "models/adapter.h"
#include "models/weight_update.h"
#include "session/generation_config.h"
#include "session/image_patches.h"
#include "session/image_sizes.h"
#include "session/session.h"

namespace tern::engine {

using chat::Message;
struct Dialogue {
  Dialogue() = default;
  Dialogue(std::initializer_list<Message> of) : messages(of) {}
  Dialogue(std::vector<Message> of, std::string tools) : messages(std::move(of)), tools_json(std::move(tools)) {}
  void add_image(std::string source, std::string place) {
    images.push_back(std::move(source));
    image_places.push_back(std::move(place));
  }

  std::vector<Message> messages;
  std::string tools_json;  // what the model may call: an array of JSON schemas, or ""
  // One for each <image> in the messages, in their order: paths, URLs or base64 (session/image_source.h). Without any
  // the tag is text as any other.
  std::vector<std::string> images;
  std::vector<std::string> image_places;  // what errors call each of them; empty: by its source
  std::string template_kwargs;  // variables of its own beside LLMOptions::template_kwargs, as a JSON object, or ""
  bool add_generation_prompt = true;    // the answer's opening stands behind the messages
  bool continue_final_message = false;  // the model goes on with the last message: there is no opening then
};

// A dialogue goes through the model's template; a text gets the tokens that the tokenizer puts around it; ids are
// taken as they are.
using Prompt = std::variant<Dialogue, std::string, TokenIds>;

// As the model is asked it.
struct EncodedPrompt {
  TokenIds ids;
  std::vector<session::ImagePatches> images;  // in the order of their places
  std::string stop;  // a text that ends the answer beside others: what follows it is a tool's to say; "": none
  std::string tail;  // of a dialogue: the end of the rendered text, which may have opened the model's thoughts
};

// Adapters that requests choose by name, each beside the others in one batch.
struct ServedAdapters {
  std::vector<NamedAdapter> named;
  bool at_run_time = false;  // more may be loaded: every linear layer gets room
  // Of a step, and of each; none: by `named`. At most 8 at once, at run time at least 4; rank 16 at least at run time.
  std::optional<std::int64_t> max_loras, max_lora_rank;
};

struct LLMOptions {
  // Seats, cache, adapters already in the session's store. `max_model_len`, `shorten`, `numerics`, `end_token_ids` and
  // `swap.about` follow from the session and from below.
  EngineOptions engine;
  std::int64_t max_model_len =
      0;  // tokens of a prompt and its answer; 0: the model's own, or what the cache's memory holds
  std::int64_t num_beams = 1;       // the most that SamplingParams::num_beams may be
  std::int64_t num_stops = 0;       // the most stop texts of such a search, each of which may be a token
  bool images = false;              // prompts may have some: the model's vision tower is read where the first one comes
  session::ImageSizes image_sizes;  // in the place of the checkpoint's
  bool batch_invariant = false;     // an answer's bits don't depend on what is computed beside it
  std::filesystem::path adapter;    // a directory in PEFT's format, put over the weights for all requests; "": none
  ServedAdapters adapters;
  // A smaller model of the same vocabulary that guesses tokens (session/beside.h, EngineOptions::speculation).
  std::shared_ptr<session::Session> draft;
  std::shared_ptr<models::SpeculativeHead>
      head;                       // or a head over the model's hidden states, whose weights are yet to be read
  bool generates = true;          // false: a language model, too, makes vectors and relevance of texts alone
  bool use_chat_template = true;  // false, or a model without a template: a dialogue's texts are joined as they are
  std::string template_kwargs;    // the template's variables as a JSON object: {"enable_thinking": false}
  std::string agent_template;     // how tools are written (chat/agent_template.h); "": the template's own way
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // bytes of weights, where they are read here
};

struct DrawnToken : TokenLogprob {
  std::vector<TokenLogprob> top;  // the likeliest tokens in its place (EngineOptions::top_logprobs), the first first
};

struct Answer {
  std::string text;
  std::vector<DrawnToken> tokens;  // an end token included
  FinishReason reason = FinishReason::none;
  std::int64_t prompt_tokens = 0;
  // Why there is no answer, or where it broke off: a prompt that does not fit, a message that cannot be rendered,
  // logits that are not finite.
  std::optional<Error> error;
};

// What is told while answers come. An index counts the prompts of a call, or of a stream, from 0.
struct AnswerCallbacks {
  std::function<void(std::size_t index, std::string_view text)> on_text;  // new characters of an answer
  std::function<void(std::size_t index, Answer&& answer)> on_answer;      // a whole answer, in the prompts' order
  std::function<bool()> stopped;  // asked before each step: true ends what is on its way (FinishReason::aborted)
};

// The log-probability of each token of a text.
struct TextScore {
  TokenIds ids;                             // [tokens]
  std::vector<double> logprobs;             // [tokens - 1] of each token but the first, given those before it
  std::optional<Error> error;               // why there are none: a number that is not finite
  std::vector<TokenComparison> comparison;  // [tokens - 1] with the reference's distributions, where there is one
  // Of the tokens but the first; none where there is only one.
  [[nodiscard]] std::optional<double> loss() const;           // mean negative log-probability
  [[nodiscard]] std::optional<double> perplexity() const;     // exp of it
  [[nodiscard]] std::optional<double> kl_divergence() const;  // mean of the comparison
  [[nodiscard]] std::optional<double> same_top() const;       // share of tokens where both find the same one likeliest
};

// Reads the weights of a draft model beside the session's, where they aren't read yet, and puts it into the options.
// Throws Failure (data, device): as session::load_beside.
void use_draft_model(const session::Session& session, session::Session& draft, EngineOptions& options,
                     const std::function<void(std::uint64_t done, std::uint64_t total)>& progress);

// Reads the weights of a head into the session's model, which has been read, and puts it into the options. Throws
// Failure (data, device): as models::SpeculativeHead::load.
void use_head(session::Session& session, models::SpeculativeHead& head, EngineOptions& options,
              const std::function<void(std::uint64_t done, std::uint64_t total)>& progress);

class LLM;

struct ScoreOptions {
  // Of the windows of max_model_len() tokens in which a longer text is scored (score_windows.h); 0: there is to be
  // none.
  std::int64_t stride = 0;
  LLM* reference = nullptr;  // another model of the same vocabulary, which each text is scored with too
  int threads = 0;           // of the host, that compare distributions; 0: one a core
  // As answers are computed, over the engine's kind of cache, in steps of EngineOptions::max_num_batched_tokens, at
  // most 32; without, windows are computed at once and keys and values are not rounded. The reference has no cache.
  bool cached = false;
};

struct ScoreCallbacks {
  std::function<void(std::size_t index, const TextScore& score)> on_score;  // in the texts' order
  std::function<bool()> stopped;                                            // asked before each window
};

class PromptEncoder;
class TextScorer;

class LLM {
 public:
  // Reads the weights where the session has not read them yet, and the adapter. The session outlives the LLM. Errors:
  // usage (a length beyond the model's, more top_logprobs than tokens, template_kwargs that is no JSON object), data
  // (weights, adapter, generation_config.json), device (no memory).
  [[nodiscard]] static Result<std::unique_ptr<LLM>> open(session::Session& session, const LLMOptions& options = {});
  // The longest sequence that LLM::open would serve: what a caller that reads the weights itself asks for
  // (models::LoadOptions::max_positions). Errors (usage) as open.
  [[nodiscard]] static Result<std::int64_t> model_len(const session::Session& session, const LLMOptions& options);
  ~LLM();
  LLM(const LLM&) = delete;
  LLM& operator=(const LLM&) = delete;

  // What the model's authors advise (generation_config.json); without advice the likeliest token. `max_new_tokens` 0:
  // as many as the context holds.
  [[nodiscard]] SamplingParams default_sampling() const;

  // The answers to `dialogues`, as many at once as there are seats. Row i is drawn by (seed, request + i, sample,
  // position): neither the other rows nor the number of seats change it. What is wrong with one row is its answer's
  // error; throws Failure (device) where memory does not suffice.
  std::vector<Answer> chat(std::span<const Dialogue> dialogues, const SamplingParams& sampling,
                           const AnswerCallbacks& callbacks = {});
  Answer chat(const Dialogue& dialogue, const SamplingParams& sampling, const AnswerCallbacks& callbacks = {});
  // The same for texts or ids that the model goes on with.
  std::vector<Answer> generate(std::span<const Prompt> prompts, const SamplingParams& sampling,
                               const AnswerCallbacks& callbacks = {});
  // The ids of each dialogue as the model is asked it: rendered by its template, with the opening of the answer. Errors
  // (data): a dialogue that the template refuses.
  [[nodiscard]] std::vector<Result<TokenIds>> encode(std::span<const Dialogue> dialogues) const;
  [[nodiscard]] Result<TokenIds> encode(const Prompt& prompt) const;  // error (data) for a prompt with images
  // The ids with the places of images among them, and the images' patches.
  [[nodiscard]] Result<EncodedPrompt> prepare(const Prompt& prompt) const;
  // The log-probabilities of texts, each at most max_model_len() tokens. Throws Failure (data) for a longer one, before
  // any is scored.
  [[nodiscard]] std::vector<TextScore> score(std::span<const std::string> texts);
  [[nodiscard]] std::vector<TextScore> score(std::span<const TokenIds> texts);
  // The same told one by one, longer texts in windows where options name a stride; gives how many were scored. Throws
  // also Failure: a stride that leaves tokens out, a reference with a shorter context (usage) or another vocabulary
  // (data).
  std::size_t score(std::span<const TokenIds> texts, const ScoreCallbacks& callbacks, const ScoreOptions& options = {});

  // How the model's authors make a vector of a text (session/pooling_config.h); throws Failure (data) where they say
  // what isn't computed here. Where they don't say, of the last token,
  // of an encoder the mean of all, and of length 1.
  [[nodiscard]] EmbedOptions default_pooling() const;
  // A vector of each text, as many texts at once as there are seats; what is wrong with one text is its own error.
  // Throws Failure (device) where memory does not suffice.
  [[nodiscard]] std::vector<PooledText> embed(std::span<const Prompt> texts, const EmbedOptions& options);
  // The logits of the labels of each prompt, or with `each` of each of its tokens. Throws Failure (data) for a model
  // that is no classification.
  [[nodiscard]] std::vector<PooledText> classify(std::span<const Prompt> prompts, bool each = false);
  // How relevant each document is to its query, one number from 0 to 1, asked in the words of Qwen3-Reranker: of a
  // language model the probability of "yes" beside "no", of a classification with one label the sigmoid of its logit,
  // or the logit itself where the model's authors say so (ModelConfig::label_sigmoid). Of a model without a head it's
  // the cosine of the two texts' vectors, whatever is said of activation. An encoder reads the two texts as its
  // tokenizer joins them, and takes no instruction: a pair with one is its own error. Throws Failure (data) for another
  // model, and for a tokenizer without those words. `use_activation` false: the logit, of a language model that of
  // "yes" less that of "no".
  [[nodiscard]] std::vector<PooledText> rerank(std::span<const RerankPair> pairs, bool use_activation = true);
  // The three above as jobs, which throw as they do, and what is computed of jobs: the numbers of each job's texts,
  // which its `finish` has yet to see. Throws Failure (device) where memory does not suffice.
  [[nodiscard]] PoolingJob embedding(std::span<const Prompt> texts, const EmbedOptions& options) const;
  [[nodiscard]] PoolingJob classification(std::span<const Prompt> prompts, bool each = false) const;
  [[nodiscard]] PoolingJob ranking(std::span<const RerankPair> pairs, bool use_activation = true) const;
  [[nodiscard]] std::vector<std::vector<PooledText>> pool(std::span<PoolingJob> jobs);

  // Reads an adapter for requests to choose (RequestOptions::adapter). Any thread. Errors (data): as of
  // AdapterRegistry::load; (usage): the LLM was opened without room for any.
  [[nodiscard]] Result<AdapterRef> load_adapter(const NamedAdapter& adapter, bool replace = false);
  [[nodiscard]] AdapterRegistry& adapters() { return adapters_; }
  [[nodiscard]] const AdapterRegistry& adapters() const { return adapters_; }
  [[nodiscard]] const LoraOptions& adapter_room() const { return options_.engine.lora; }

  [[nodiscard]] std::size_t num_end_ids() const;  // tokens that end an answer
  // The most beams of a search whose answers so many tokens end: the engine tells the likeliest that these take.
  [[nodiscard]] std::int64_t max_beams(std::size_t num_end_ids) const;

  // New numbers for the weights, which models::make_writable came before: what is asked from now on is answered with
  // them alone. Requests on their way go on with them: what was computed of their tokens is computed again. Errors as
  // models::update_weights; (usage) where an adapter stands over the weights.
  [[nodiscard]] Result<models::WeightUpdate> update_weights(
      const std::shared_ptr<checkpoint::CheckpointSource>& source);

  // New numbers for the adapter that stands over the weights, of a directory in PEFT's format: the same modules, ranks
  // and scaling. Errors as models::load_adapter, and then nothing is written; (usage) where none stands there, or one
  // that isn't LoRA alone.
  [[nodiscard]] Status update_adapter(const std::filesystem::path& directory);

  // Whether it answers in words: a language model that isn't to pool texts alone.
  [[nodiscard]] bool generates() const;
  [[nodiscard]] bool takes_images() const { return takes_images_; }
  [[nodiscard]] std::int64_t max_model_len() const;
  [[nodiscard]] std::int64_t max_num_seqs() const { return options_.engine.max_num_seqs; }
  [[nodiscard]] const session::Session& session() const { return session_; }
  // Made at the first use: scoring alone needs no cache. Throws Failure (device) where memory does not suffice.
  [[nodiscard]] LLMEngine& engine();
  // Makes it now where the model generates, and reads the weights where it sleeps. Throws what engine() and wake() say.
  void be_ready();
  // Gives the engine and its cache back, with all that is on its way; the next use makes another.
  void drop_engine() { engine_.reset(); }
  // Gives back the memory of weights, adapters and caches too, until the next use, which reads them again. Nobody else
  // may use the session meanwhile.
  void sleep();
  // Reads them now, where it sleeps. Errors (data, device): as of open.
  [[nodiscard]] Status wake();
  [[nodiscard]] bool sleeps() const { return sleeps_; }

 private:
  LLM(session::Session& session, LLMOptions options);
  void read_weights();
  void find_swap_about();
  void weights_changed();
  [[nodiscard]] TextScorer& scorer();
  [[nodiscard]] std::vector<PooledText> pool(std::span<const Result<TextTokens>> texts, Pooling pooling,
                                             PooledOutput output);
  [[nodiscard]] std::vector<Result<TextTokens>> tokens_of(std::span<const Prompt> prompts) const;
  [[nodiscard]] Result<TextTokens> pair_tokens(const RerankPair& pair) const;
  [[nodiscard]] PoolingJob cosines(std::span<const RerankPair> pairs) const;
  [[nodiscard]] std::vector<PooledText> pooled(PoolingJob&& job);
  [[nodiscard]] Pooling label_pooling() const;
  void pool_run(std::span<const Result<TextTokens>> texts, std::span<const std::size_t> some,
                std::vector<PooledText>& out);
  void prepare_pooler(std::int64_t tokens, Pooling pooling, PooledOutput output);

  session::Session& session_;
  LLMOptions options_;
  session::GenerationConfig generation_;
  std::unique_ptr<const PromptEncoder> encoder_;
  AdapterRegistry adapters_;
  models::ModelConfig own_config_;  // without what an adapter changes of it
  bool sleeps_ = false;
  bool takes_images_ = false;
  models::LoadedAdapter adapter_;  // outlives what computes with it
  std::unique_ptr<LLMEngine> engine_;
  std::unique_ptr<TextScorer> scorer_;
  std::unique_ptr<Pooler> pooler_;
};

}  // namespace tern::engine
