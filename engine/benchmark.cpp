#include "engine/benchmark.h"

#include <algorithm>
#include <chrono>

#include "base/dtype.h"
#include "base/philox.h"
#include "engine/weight_bytes.h"

namespace tern::engine {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Floating-point operations of one token that attends to `context` tokens: two for each weight of a product, and four
// for each key and channel (scores and their sum). `head` counts the output projection, made for drawn tokens alone.
double token_flops(const models::ModelConfig& config, double context, bool head) {
  const double embedding = static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
  const double layers =
      static_cast<double>(config.num_parameters()) - embedding * (config.tie_word_embeddings ? 1.0 : 2.0);
  const double attention = 4.0 * static_cast<double>(config.num_hidden_layers * config.num_attention_heads) *
                           static_cast<double>(config.head_dim) * context;
  return 2.0 * layers + attention + (head ? 2.0 * embedding : 0.0);
}

std::int64_t step_tokens(const BenchmarkOptions& options) { return std::max<std::int64_t>(512, options.batch); }

// How many tokens who is first has drawn, beside those that are asked for, when the last prompt is computed.
std::int64_t tokens_ahead(const models::ModelConfig& config, const BenchmarkOptions& options) {
  const std::int64_t steps = options.prompt_length * options.batch / step_tokens(options) + 1;
  const std::int64_t room = config.max_position_embeddings - options.prompt_length - options.new_tokens;
  return options.batch == 1 || options.new_tokens == 1 ? 0 : std::clamp<std::int64_t>(room, 0, steps);
}

EngineOptions engine_options(const session::Session& session, const BenchmarkOptions& options) {
  EngineOptions engine = options.engine;
  engine.max_num_seqs = options.batch;
  // With a block more for each: who is admitted leaves one to every sequence that runs (scheduler.h), and decode is to
  // be measured with all of them.
  const std::int64_t block = std::max<std::int64_t>(1, session.runtime->device->info().preferred_kv_block);
  engine.max_model_len = longest_sequence(session.model.config, options) + block;
  engine.max_num_batched_tokens = step_tokens(options);
  engine.numerics = session.numerics;
  engine.numerics.x15 = true;
  return engine;
}

class Round {
 public:
  Round(session::Session& session, const BenchmarkOptions& options)
      : config_(session.model.config),
        options_(options),
        weight_bytes_(weight_bytes(session.model)),
        engine_(session.model, session.text->tokenizer, engine_options(session, options), *session.runtime) {}

  // One round of both phases.
  std::vector<PhaseRate> run() {
    PhaseRate prefill{"prefill", options_.batch, options_.prompt_length * options_.batch};
    PhaseRate decode{"decode", options_.batch};
    std::vector<SequenceId> requests;
    for (std::int64_t i = 0; i < options_.batch; ++i)
      requests.push_back(engine_.add_request(prompt(i), params()).value());
    double context = 0;  // tokens before each that decode draws, in all
    std::int64_t started = 0;
    std::int64_t steps = 0;
    std::int64_t prefill_steps = 0;
    double begin = seconds_now();
    while (!engine_.idle()) {
      if (options_.stopped && options_.stopped())
        throw Failure(interrupted_error("the measurement was stopped before it was complete", "run it again"));
      const auto outputs = engine_.step();
      ++steps;
      if (started == options_.batch) {
        decode.tokens += static_cast<std::int64_t>(outputs.size());
        for (const auto& output : outputs)
          context += static_cast<double>(options_.prompt_length + output.generated_tokens - 1);
        // Who came first would end first: all are measured while all are there.
        if (decode.tokens >= options_.batch * (options_.new_tokens - 1)) break;
      }
      for (const auto& output : outputs) started += output.generated_tokens == 1 ? 1 : 0;
      if (started == options_.batch && prefill.seconds == 0) {
        prefill.seconds = seconds_now() - begin;
        prefill_steps = steps;
        begin = seconds_now();
      }
    }
    decode.seconds = seconds_now() - begin;
    for (const SequenceId request : requests) engine_.abort(request);
    while (!engine_.idle()) (void)engine_.step();
    prefill.prompt_length = decode.prompt_length = options_.prompt_length;
    const double half = static_cast<double>(options_.prompt_length) / 2;
    const double prefill_flops = token_flops(config_, half, false) * static_cast<double>(prefill.tokens);
    prefill.gflops = prefill_flops / prefill.seconds / 1e9;
    prefill.gbps = static_cast<double>(prefill_steps) * weight_bytes_ / prefill.seconds / 1e9;
    if (decode.tokens == 0) return {prefill};
    decode.guesses = engine_.guesses();
    const double middle = context / static_cast<double>(decode.tokens);
    const double cache_bytes =
        2.0 * static_cast<double>(dtype_bytes(engine_.cache().dtype())) * middle *
        static_cast<double>(config_.num_hidden_layers * config_.num_key_value_heads * config_.head_dim);
    decode.gbps = (static_cast<double>(steps - prefill_steps) * weight_bytes_ +
                   static_cast<double>(decode.tokens) * cache_bytes) /
                  decode.seconds / 1e9;
    decode.gflops = token_flops(config_, middle, true) * static_cast<double>(decode.tokens) / decode.seconds / 1e9;
    return {prefill, decode};
  }

 private:
  // Words of chance: what a model does not expect, as no step may be saved by what is in them.
  [[nodiscard]] std::vector<std::int32_t> prompt(std::int64_t sequence) const {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < options_.prompt_length; ++i) {
      const auto key =
          mix_key(mix_key(options_.seed, static_cast<std::uint64_t>(sequence)), static_cast<std::uint64_t>(i));
      ids.push_back(static_cast<std::int32_t>(key % static_cast<std::uint64_t>(config_.vocab_size)));
    }
    return ids;
  }
  [[nodiscard]] SamplingParams params() const {
    SamplingParams params;
    params.max_new_tokens = options_.new_tokens + tokens_ahead(config_, options_);
    params.ignore_eos = true;
    return params;
  }

  const models::ModelConfig& config_;
  const BenchmarkOptions& options_;
  double weight_bytes_;
  LLMEngine engine_;
};

}  // namespace

std::int64_t longest_sequence(const models::ModelConfig& config, const BenchmarkOptions& options) {
  return options.prompt_length + options.new_tokens + tokens_ahead(config, options);
}

std::vector<PhaseRate> measure_generation(session::Session& session, const BenchmarkOptions& options) {
  Round round(session, options);
  (void)round.run();
  return round.run();
}

}  // namespace tern::engine
