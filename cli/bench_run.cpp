#include "cli/bench_run.h"

#include <algorithm>
#include <cstdio>

#include "base/peak_memory.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "cli/generation_flags.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "cli/speculative_config.h"
#include "engine/cache_dtype.h"

namespace tern::cli {
namespace {

constexpr std::int64_t kProfiledTokens = 16;  // enough for each op's mean: its shapes don't change

std::int64_t longest(const Arguments& arguments) {
  const auto prompts = arguments.integers("prompt_length");
  return *std::max_element(prompts.begin(), prompts.end()) + arguments.integer("max_new_tokens");
}

void require_length(const Arguments& arguments, std::int64_t limit) {
  if (longest(arguments) <= limit) return;
  throw Failure(usage_error(cat("--prompt_length and --max_new_tokens make ", longest(arguments),
                                " tokens together, and the model computes at most ", limit),
                            "lower one of them"));
}

std::int64_t longest_of_all(const Arguments& arguments, const models::ModelConfig& config,
                            engine::BenchmarkOptions options) {
  std::int64_t longest = 0;
  for (const std::int64_t prompt : arguments.integers("prompt_length")) {
    for (const std::int64_t batch : arguments.integers("batch_size")) {
      options.prompt_length = prompt;
      options.batch = batch;
      longest = std::max(longest, engine::longest_sequence(config, options));
    }
  }
  return longest;
}

// The time of each op, in steps that run one at a time: the measured phases before are not slowed by it.
std::vector<graph::ProfileRow> profile_ops(session::Session& session, engine::BenchmarkOptions options) {
  session.runtime->program.profile = std::make_shared<graph::Profile>();
  options.new_tokens = std::min(options.new_tokens, kProfiledTokens);
  (void)engine::measure_generation(session, options);
  std::vector<graph::ProfileRow> rows = session.runtime->program.profile->by_op();
  session.runtime->program.profile = nullptr;
  return rows;
}

engine::BenchmarkOptions benchmark_options(const Arguments& arguments) {
  engine::BenchmarkOptions options;
  options.new_tokens = arguments.integer("max_new_tokens");
  options.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  options.engine.cache_dtype = engine::cache_dtype_from_name(arguments.string("kv_cache_dtype"));  // none: auto
  if (const auto config = arguments.maybe_string("speculative_config")) {
    options.engine.speculation = read_speculative_config(*config).options;
  }
  options.stopped = interrupted;
  return options;
}

}  // namespace

ComparedDevice measure_target(const Arguments& arguments, const BenchTarget& target) {
  auto opening = session_options(arguments, arguments.string("model"));
  opening.runtime.num_threads = target.threads;
  if (!target.device.empty()) opening.runtime.device = target.device;
  const auto session = session::open_session(opening).value();
  require_length(arguments, session->model.config.max_position_embeddings);
  engine::BenchmarkOptions options = benchmark_options(arguments);
  require_cache_dtype(*session, options.engine);
  const auto draft = open_draft(arguments, *session);
  const auto head = open_head(arguments, *session);
  models::LoadOptions load;
  load.max_positions = longest_of_all(arguments, session->model.config, options);
  load_weights(*session, arguments, load);
  options.engine.max_model_len = load.max_positions;
  if (draft) engine::use_draft_model(*session, *draft, options.engine, weight_progress(arguments));
  if (head) engine::use_head(*session, *head, options.engine, weight_progress(arguments));
  ComparedDevice out;
  out.roofline.device = target.device;
  out.roofline.threads = target.threads > 0 ? target.threads : usable_threads();
  out.roofline.machine = session::measure_machine(*session->runtime, session->numerics.compute);
  forget_peak_memory();  // what that took is no part of a run
  models::LoadedAdapter adapter;
  for (const auto& folder : arguments.list("adapters")) {
    adapter = models::load_adapter(session->model, "lora", folder).value();
    options.engine.adapters = adapter.layers;
  }
  const auto text = arguments.boolean("json") ? bench_json : bench_line;
  if (target.headed) std::fputs(bench_heading().c_str(), stdout);
  if (!target.device.empty() && !arguments.boolean("json")) std::printf("%s\n", target.device.c_str());
  for (const auto length : arguments.integers("prompt_length")) {
    for (const auto batch : arguments.integers("batch_size")) {
      options.prompt_length = length;
      options.batch = batch;
      for (const auto& rate : engine::measure_generation(*session, options)) {
        std::fputs(text({rate, out.roofline.machine, out.roofline.threads, peak_memory(), target.device}).c_str(),
                   stdout);
        out.roofline.phases.push_back(rate);
        tell_guesses(rate.guesses);
      }
      std::fflush(stdout);
    }
  }
  if (!target.device.empty()) out.ops = profile_ops(*session, options);
  session->runtime->choices.save();
  return out;
}

}  // namespace tern::cli
