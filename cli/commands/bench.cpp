// tern bench: tokens a second of prefill and decode on this machine, with what products and memory gave of what they
// can.
#include <algorithm>
#include <cstdio>

#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "engine/benchmark.h"
#include "session/machine_rates.h"

namespace tern::cli {
namespace {

std::string row_text(const engine::PhaseRate& row, const session::MachineRates& machine, bool json) {
  const double rate = row.tokens_per_second();
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
  const auto limit = session->model.config.max_position_embeddings;
  const auto longest = *std::max_element(prompts.begin(), prompts.end()) + arguments.integer("max_new_tokens");
  if (longest > limit) {
    throw Failure(usage_error(cat("--prompt_length and --max_new_tokens make ", longest,
                                  " tokens together, and the model computes at most ", limit),
                              "lower one of them"));
  }
  load_weights(*session, arguments, {});
  const session::MachineRates machine = session::measure_machine(*session->runtime, session->numerics.compute);
  engine::BenchmarkOptions options;
  models::LoadedAdapter adapter;
  for (const auto& folder : arguments.list("adapters")) {
    adapter = models::load_adapter(session->model, "lora", folder).value();
    options.engine.adapters = adapter.layers;
  }
  options.new_tokens = arguments.integer("max_new_tokens");
  options.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  options.stopped = interrupted;
  for (const auto length : prompts) {
    for (const auto batch : arguments.integers("batch_size")) {
      options.prompt_length = length;
      options.batch = batch;
      for (const auto& row : engine::measure_generation(*session, options)) {
        std::fputs(row_text(row, machine, arguments.boolean("json")).c_str(), stdout);
      }
      std::fflush(stdout);
    }
  }
  session->runtime->choices.save();
  return 0;
}

}  // namespace tern::cli
