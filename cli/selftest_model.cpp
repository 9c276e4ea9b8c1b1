#include "cli/selftest_model.h"

#include <cstdio>

#include "base/log.h"
#include "base/strings.h"
#include "cli/interrupt.h"
#include "cli/kept_case.h"
#include "cli/selftest_report.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "conformance/op_checker.h"
#include "engine/llm.h"
#include "train/rehearsal.h"

namespace tern::cli {
namespace {

using conformance::OpChecker;

constexpr int kGenerated = 4;

// Counts ops as they are checked, for whoever waits.
class Watched : public graph::NodeProbe {
 public:
  explicit Watched(OpChecker& checker) : checker_(checker) {}
  void before(const graph::ProbedCall& call) override {
    if (interrupted())
      throw Failure(interrupted_error("the selftest was stopped before all ops were checked", "run it again"));
    checker_.before(call);
  }
  void after(const graph::ProbedCall& call) override {
    checker_.after(call);
    if (stderr_is_terminal() && checker_.calls() % 16 == 0) {
      std::fprintf(stderr, "\r%lld ops checked", static_cast<long long>(checker_.calls()));
    }
  }

 private:
  OpChecker& checker_;
};

std::vector<std::int32_t> prompt_ids(const tokenizer::Tokenizer& tokenizer) {
  auto ids = tokenizer.encode(
      "The quick brown fox jumps over the lazy dog; 3.14159 * 2 = 6.28318, and the answer is a number.", true);
  ids.resize(std::min<std::size_t>(ids.size(), 24));
  return ids;
}

// The prompt comes in two chunks; the paged path and the draw of tokens take part.
void generate(session::Session& session, const models::LoadedAdapter& adapter, const engine::TokenIds& ids) {
  engine::LLMOptions options;
  options.engine.max_num_batched_tokens = 16;
  options.engine.adapters = adapter.layers;
  options.max_model_len = static_cast<std::int64_t>(ids.size()) + kGenerated;
  engine::SamplingParams sampling;
  sampling.max_new_tokens = kGenerated;
  sampling.temperature = 0.8F;
  sampling.ignore_eos = true;
  const std::vector<engine::Prompt> prompts = {ids};
  (void)engine::LLM::open(session, options).value()->generate(prompts, sampling);
}

}  // namespace

int check_model(const Arguments& arguments) {
  auto session = open_session(arguments, arguments.string("model"));
  const auto ids = prompt_ids(session->text->tokenizer);
  install_interrupt_handler();
  OpChecker checker;
  session->runtime->program.probe = std::make_shared<Watched>(checker);
  models::LoadOptions load;
  load.max_positions = static_cast<std::int64_t>(ids.size()) + kGenerated;
  load_weights(*session, arguments, load);
  const models::LoadedAdapter adapter = train::rehearse(*session, ids);
  generate(*session, adapter, ids);
  if (stderr_is_terminal()) std::fprintf(stderr, "\r\033[K");

  std::string file;
  if (checker.first()) {
    const KeptCase kept = keep_case(checker.first()->failing);
    file = kept.file;
    if (!kept.written) log_warn(cat(file, ": the failing case could not be written"));
  }
  const std::string& device = session->runtime->device->name();
  const std::string text = arguments.boolean("json") ? to_json(checker, device, file) : checker.table();
  std::fputs(text.c_str(), stdout);
  if (checker.first()) {
    const conformance::ModelFinding& first = *checker.first();
    throw Failure(failed_error(
        cat(device, " computes ", session->path.string(), " wrongly in call ", first.call, ", ",
            first.failing.spec().name, first.weights.empty() ? "" : cat(" of ", first.weights), ": ", first.problem),
        cat("run tern selftest --replay ", file, " to look closer")));
  }
  return 0;
}

}  // namespace tern::cli
