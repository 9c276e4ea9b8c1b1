// tern bench: tokens a second of prefill and decode on this machine, with what products and memory gave of what they
// can.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/dtype.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/machine_rates.h"
#include "cli/session_flags.h"
#include "engine/llm_engine.h"

namespace tern::cli {
namespace {

struct Row {
  const char* phase;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;  // computed in this phase, of all sequences
  double seconds = 0;
  double gflops = 0;
  double gbps = 0;  // of weights, once a step, and of the keys and values that are attended to
};

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

// Bytes of weights that a step reads as they are stored: all but an embedding table of which it reads only rows.
double weight_bytes(const models::LoadedModel& model) {
  double bytes = 0;
  for (const auto& spec : model.architecture->parameters(model.config)) {
    if (spec.name == "model.embed_tokens.weight" && !model.config.tie_word_embeddings) continue;
    bytes += static_cast<double>(total_bytes(model.store->at(spec.name).desc));
  }
  return bytes;
}

class Bench {
 public:
  Bench(const Arguments& arguments, session::Session& session, std::int64_t prompt_length, std::int64_t batch)
      : config_(session.model.config),
        prompt_length_(prompt_length),
        new_tokens_(arguments.integer("max_new_tokens")),
        batch_(batch),
        seed_(static_cast<std::uint64_t>(arguments.integer("seed"))),
        weight_bytes_(weight_bytes(session.model)),
        engine_(session.model, session.text->tokenizer, engine_options(arguments, session), *session.runtime) {}

  // One round of both phases.
  std::vector<Row> run() {
    Row prefill{"prefill", batch_, prompt_length_ * batch_};
    Row decode{"decode", batch_};
    for (std::int64_t i = 0; i < batch_; ++i) (void)engine_.add_request(prompt(i), params()).value();
    std::int64_t started = 0;
    std::int64_t steps = 0;
    std::int64_t prefill_steps = 0;
    double begin = seconds_now();
    while (!engine_.idle()) {
      if (interrupted()) throw Failure(interrupted_error("the measurement is not complete", "run it again"));
      const auto outputs = engine_.step();
      ++steps;
      if (started == batch_) decode.tokens += static_cast<std::int64_t>(outputs.size());
      for (const auto& output : outputs) started += output.generated_tokens == 1 ? 1 : 0;
      if (started == batch_ && prefill.seconds == 0) {
        prefill.seconds = seconds_now() - begin;
        prefill_steps = steps;
        begin = seconds_now();
      }
    }
    decode.seconds = seconds_now() - begin;
    const double half = static_cast<double>(prompt_length_) / 2;
    const double middle = static_cast<double>(prompt_length_) + static_cast<double>(new_tokens_) / 2;
    const double prefill_flops = token_flops(config_, half, false) * static_cast<double>(prefill.tokens);
    prefill.gflops = prefill_flops / prefill.seconds / 1e9;
    prefill.gbps = static_cast<double>(prefill_steps) * weight_bytes_ / prefill.seconds / 1e9;
    if (decode.tokens == 0) return {prefill};
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
  engine::EngineOptions engine_options(const Arguments& arguments, session::Session& session) const {
    engine::EngineOptions options;
    options.max_num_seqs = batch_;
    options.max_model_len = prompt_length_ + new_tokens_;
    options.max_num_batched_tokens = std::max<std::int64_t>(512, batch_);
    options.compute = session.compute;
    for (const auto& adapter : arguments.list("adapters")) {
      options.adapters =
          models::load_adapter(session.model, cat("lora", batch_, "x", prompt_length_), adapter).value().layers;
    }
    return options;
  }
  // Words of chance: what a model does not expect, as no step may be saved by what is in them.
  [[nodiscard]] std::vector<std::int32_t> prompt(std::int64_t sequence) const {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < prompt_length_; ++i) {
      const auto key = mix_key(mix_key(seed_, static_cast<std::uint64_t>(sequence)), static_cast<std::uint64_t>(i));
      ids.push_back(static_cast<std::int32_t>(key % static_cast<std::uint64_t>(config_.vocab_size)));
    }
    return ids;
  }
  [[nodiscard]] engine::SamplingParams params() const {
    engine::SamplingParams params;
    params.max_new_tokens = new_tokens_;
    params.ignore_eos = true;
    return params;
  }

  const models::ModelConfig& config_;
  std::int64_t prompt_length_;
  std::int64_t new_tokens_;
  std::int64_t batch_;
  std::uint64_t seed_;
  double weight_bytes_;
  engine::LLMEngine engine_;
};

std::string row_text(const Row& row, const MachineRates& machine, bool json) {
  const double rate = static_cast<double>(row.tokens) / row.seconds;
  if (json) {
    return cat("{\"phase\": \"", row.phase, "\", \"batch\": ", row.batch, ", \"tokens\": ", row.tokens,
               ", \"tokens_per_second\": ", fixed(rate, 2), ", \"gflops\": ", fixed(row.gflops, 2),
               ", \"gbps\": ", fixed(row.gbps, 2), ", \"machine_gflops\": ", fixed(machine.gflops, 2),
               ", \"machine_gbps\": ", fixed(machine.gbps, 2), "}\n");
  }
  return cat(row.phase, "  batch ", row.batch, "  ", row.tokens, " tokens  ", fixed(rate, 1), " tokens/s  ",
             fixed(row.gflops, 1), " of ", fixed(machine.gflops, 0), " GFLOP/s  ", fixed(row.gbps, 1), " of ",
             fixed(machine.gbps, 0), " GB/s\n");
}

}  // namespace

int run_bench(const Arguments& arguments) {
  const auto prompts = arguments.integers("prompt_length");
  install_interrupt_handler();
  require_one_adapter(arguments);
  auto session = open_session(arguments, arguments.string("model"));
  const auto limit = session->config.max_position_embeddings;
  const auto longest = *std::max_element(prompts.begin(), prompts.end()) + arguments.integer("max_new_tokens");
  if (longest > limit) {
    throw Failure(usage_error("flags --prompt_length and --max_new_tokens", cat("at most ", limit, " tokens together"),
                              cat(longest), "lower one of them"));
  }
  load_weights(*session, arguments, {});
  const MachineRates machine = measure_machine(*session->runtime, session->compute);
  for (const auto length : prompts) {
    for (const auto batch : arguments.integers("batch_size")) {
      Bench bench(arguments, *session, length, batch);
      (void)bench.run();  // memory is touched and caches are warm after it
      for (const Row& row : bench.run()) std::fputs(row_text(row, machine, arguments.boolean("json")).c_str(), stdout);
      std::fflush(stdout);
    }
  }
  session->runtime->choices.save();
  return 0;
}

}  // namespace tern::cli
