// tern score: the log-probability of every token of each text, and how far a model is from another.
#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/generation_flags.h"
#include "cli/interrupt.h"
#include "cli/score_output.h"
#include "cli/session_flags.h"
#include "cli/text_rows.h"
#include "engine/cache_dtype.h"

namespace tern::cli {
namespace {

struct Texts {
  std::vector<engine::TokenIds> ids;
  std::vector<std::string> places;
  std::int64_t longest = 2;
};

Texts read_texts(const Arguments& arguments, const tokenizer::Tokenizer& tokenizer) {
  Texts texts;
  for_each_text(arguments, [&](const std::string& text, const std::string& place) {
    texts.ids.push_back(tokenizer.encode(text, true));
    texts.places.push_back(place);
    texts.longest = std::max(texts.longest, static_cast<std::int64_t>(texts.ids.back().size()));
    return true;
  });
  if (texts.ids.empty()) {
    throw Failure(data_error("--dataset", "rows to score", "none", "name a file that has rows {\"text\": ...}"));
  }
  return texts;
}

// --max_length, else as many tokens as the models compute.
std::int64_t window_length(const Arguments& arguments, std::int64_t context) {
  const std::int64_t length = arguments.maybe_integer("max_length").value_or(context);
  if (length <= context) return length;
  throw Failure(usage_error(cat("--max_length is ", length, ", and the model computes at most ", context, " tokens"),
                            "lower it"));
}

std::int64_t window_stride(const Arguments& arguments, std::int64_t length, const Texts& texts) {
  const std::int64_t stride = arguments.maybe_integer("stride").value_or(std::max<std::int64_t>(length / 2, 1));
  if (texts.longest > length) {
    log_info(cat("texts of more than ", length, " tokens are scored in windows that begin every ", stride, " tokens"));
  }
  return arguments.has("stride") || texts.longest > length ? stride : 0;
}

}  // namespace

int run_score(const Arguments& arguments) {
  require_one_adapter(arguments);
  auto session = open_session(arguments, arguments.string("model"));
  std::unique_ptr<session::Session> other;
  if (arguments.has("reference")) {
    other = open_session(arguments, arguments.string("reference"));
    other->numerics.int8 = false;  // that is what the model's own distributions are compared with
  }
  // Read before the weights are: bad data is told at once.
  const Texts texts = read_texts(arguments, session->text->tokenizer);
  std::int64_t context = session->model.config.max_position_embeddings;
  if (other) context = std::min(context, other->model.config.max_position_embeddings);
  engine::LLMOptions options;
  options.max_model_len = window_length(arguments, context);
  options.batch_invariant = arguments.boolean("batch_invariant");
  options.engine.max_num_batched_tokens = arguments.integer("max_num_batched_tokens");
  engine::ScoreOptions scoring;
  scoring.cached = arguments.has("kv_cache_dtype");
  if (scoring.cached) {
    options.engine.cache_dtype = engine::cache_dtype_from_name(arguments.string("kv_cache_dtype"));  // none: auto
    require_cache_dtype(*session, options.engine);
  }
  scoring.stride = window_stride(arguments, options.max_model_len, texts);
  scoring.threads = runtime_options(arguments).num_threads;
  models::LoadOptions load;
  load.max_positions = std::min(options.max_model_len, texts.longest);
  std::unique_ptr<engine::LLM> reference;
  if (other) {
    load_weights(*other, arguments, load);
    reference = engine::LLM::open(*other, options).value();
    scoring.reference = reference.get();
  }
  load_weights(*session, arguments, load);
  for (const auto& adapter : arguments.list("adapters")) options.adapter = adapter;
  const auto llm = engine::LLM::open(*session, options).value();
  ScoreOutput output(arguments.maybe_string("result_path"), session->text->tokenizer);
  install_interrupt_handler();
  engine::ScoreCallbacks callbacks;
  callbacks.stopped = interrupted;
  callbacks.on_score = [&](std::size_t index, const engine::TextScore& score) {
    if (score.error) throw Failure(score.error->inside(texts.places[index]));
    output.write(score);
  };
  if (llm->score(texts.ids, callbacks, scoring) < texts.ids.size()) {
    throw Failure(interrupted_error("scoring was stopped before all rows had a score", "run it again"));
  }
  output.finish(arguments.boolean("json"));
  return 0;
}

}  // namespace tern::cli
