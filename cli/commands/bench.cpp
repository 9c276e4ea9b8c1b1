// tern bench: tokens a second of prefill and decode on this machine, with what products and memory gave of what they
// can.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/peak_memory.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "cli/bench_output.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "engine/roofline.h"
#include "io/file_writer.h"
#include "io/system_error.h"

namespace tern::cli {
namespace {

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

// Before what takes minutes is measured for it.
void require_writable(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::path(file).has_parent_path() ? fs::path(file).parent_path() : fs::path(".");
  if (fs::is_directory(file, ignored)) throw Failure(io::write_error(file, EISDIR));
  if (access((folder / "").c_str(), W_OK) != 0) throw Failure(io::write_error(file, errno));
}

// Every length and batch with so many threads of the host (0: one a core), told as they come.
engine::Roofline measure(const Arguments& arguments, int threads, bool headed) {
  auto opening = session_options(arguments, arguments.string("model"));
  opening.runtime.num_threads = threads;
  const auto session = session::open_session(opening).value();
  require_length(arguments, session->model.config.max_position_embeddings);
  models::LoadOptions load;
  load.max_positions = longest(arguments);
  load_weights(*session, arguments, load);
  engine::Roofline roofline;
  roofline.threads = threads > 0 ? threads : usable_threads();
  roofline.machine = session::measure_machine(*session->runtime, session->numerics.compute);
  forget_peak_memory();  // what that took is no part of a run
  engine::BenchmarkOptions options;
  models::LoadedAdapter adapter;
  for (const auto& folder : arguments.list("adapters")) {
    adapter = models::load_adapter(session->model, "lora", folder).value();
    options.engine.adapters = adapter.layers;
  }
  options.new_tokens = arguments.integer("max_new_tokens");
  options.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  options.stopped = interrupted;
  const auto text = arguments.boolean("json") ? bench_json : bench_line;
  if (headed) std::fputs(bench_heading().c_str(), stdout);
  for (const auto length : arguments.integers("prompt_length")) {
    for (const auto batch : arguments.integers("batch_size")) {
      options.prompt_length = length;
      options.batch = batch;
      for (const auto& rate : engine::measure_generation(*session, options)) {
        std::fputs(text({rate, roofline.machine, roofline.threads, peak_memory()}).c_str(), stdout);
        roofline.phases.push_back(rate);
      }
      std::fflush(stdout);
    }
  }
  session->runtime->choices.save();
  return roofline;
}

}  // namespace

int run_bench(const Arguments& arguments) {
  install_interrupt_handler();
  require_one_adapter(arguments);
  std::vector<std::int64_t> threads = {0};
  if (arguments.has("threads")) threads = arguments.integers("threads");
  const auto file = arguments.maybe_string("svg");
  if (file) require_writable(*file);
  std::vector<engine::Roofline> rooflines;
  for (const auto count : threads) {
    const bool headed = rooflines.empty() && !arguments.boolean("json");
    rooflines.push_back(measure(arguments, static_cast<int>(count), headed));
  }
  if (file) io::write_file(*file, engine::roofline_svg(rooflines)).value();
  return 0;
}

}  // namespace tern::cli
