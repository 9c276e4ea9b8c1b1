#include "cli/selftest_model.h"

#include <cmath>
#include <cstdio>
#include <numeric>
#include <tuple>

#include "base/log.h"
#include "base/strings.h"
#include "cli/interrupt.h"
#include "cli/json_text.h"
#include "cli/kept_case.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "conformance/op_checker.h"
#include "engine/llm_engine.h"
#include "train/lora_init.h"
#include "train/micro_batch.h"
#include "train/optimizer.h"

namespace tern::cli {
namespace {

using conformance::OpChecker;

constexpr std::size_t kFirst = 9;  // tokens of the first sample; the second has the rest: unequal ones
constexpr int kSteps = 2;          // of training: at the first the adapter's B is zero, and so the gradient of A
constexpr int kGenerated = 4;

// Counts ops as they are checked, for whoever waits.
class Watched : public graph::NodeProbe {
 public:
  explicit Watched(OpChecker& checker) : checker_(checker) {}
  void before(const graph::ProbedCall& call) override {
    if (interrupted()) throw Failure(interrupted_error("not every op was checked", "run it again"));
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

// Two samples end to end, every token but the first of each predicted, with unequal weights.
data::MicroBatch batch_of(const std::vector<std::int32_t>& ids) {
  const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(std::min(kFirst, ids.size() / 2));
  auto store = std::make_shared<data::MemoryStore>();
  for (const auto& [begin, end, weight] :
       {std::tuple{ids.begin(), middle, 1.0F}, std::tuple{middle, ids.end(), 0.5F}}) {
    data::Sample sample{{begin, end}, std::vector<float>(static_cast<std::size_t>(end - begin), weight)};
    sample.weights.front() = 0;
    store->add(std::move(sample));
  }
  data::EncodedDataset samples;
  samples.add(std::move(store));
  return data::gather(samples, {{0, 1}, static_cast<std::uint32_t>(ids.size())});
}

models::LoadedAdapter make_adapter(models::LoadedModel& model) {
  models::LoadedAdapter adapter;
  adapter.config.rank = 8;
  adapter.config.alpha = 32;
  const auto modules = models::linear_modules(model);
  adapter.layers = models::create_adapter(model, "lora", adapter.config, modules);
  train::init_adapter(*model.store, adapter, 42);
  return adapter;
}

void train(session::Session& session, const models::LoadedAdapter& adapter, const std::vector<std::int32_t>& ids) {
  const data::MicroBatch batch = batch_of(ids);
  train::TrainingGraphOptions options;
  options.capacity = {static_cast<std::int64_t>(ids.size()), 2, static_cast<std::int64_t>(ids.size()),
                      static_cast<std::int64_t>(batch.longest)};
  options.compute = session.compute;
  options.lora_dropout = 0.05F;
  options.dropout = true;
  options.adapters = adapter.layers;
  for (const auto& [module, layer] : adapter.layers) {
    options.trainable.push_back(layer.lora_a);
    options.trainable.push_back(layer.lora_b);
  }
  train::Optimizer optimizer(session.model.store, options.trainable, {}, *session.runtime);
  train::MicroBatchRunner runner(session.model, options, *session.runtime);
  for (int step = 1; step <= kSteps; ++step) {
    (void)runner.run(batch, {42, 0, static_cast<double>(ids.size())});
    (void)optimizer.step(1e-2, step);
  }
}

void generate(session::Session& session, const models::LoadedAdapter& adapter, const std::vector<std::int32_t>& ids) {
  engine::EngineOptions options;
  options.max_num_batched_tokens = 16;  // the prompt comes in two chunks
  options.max_model_len = static_cast<std::int64_t>(ids.size()) + kGenerated;
  options.compute = session.compute;
  options.cache_dtype = session.compute;
  options.adapters = adapter.layers;
  engine::LLMEngine engine(session.model, session.text->tokenizer, options, *session.runtime);
  engine::SamplingParams params;
  params.max_new_tokens = kGenerated;
  params.temperature = 0.8F;
  (void)engine.add_request(ids, params).value();
  while (!engine.idle()) (void)engine.step();
}

std::string to_json(const OpChecker& checker, const std::string& device, const std::string& file) {
  std::vector<std::string> ops;
  for (const auto& [op, tally] : checker.tallies()) {
    ops.push_back(cat("{\"op\": ", json_quote(ops::op_spec(op).name), ", \"calls\": ", tally.calls, ", \"wrong\": ",
                      tally.wrong, ", \"worst\": ", std::isfinite(tally.worst) ? cat(tally.worst) : "null", "}"));
  }
  std::string first = "null";
  if (checker.first()) {
    first = cat("{\"call\": ", checker.first()->call, ", \"op\": ", json_quote(checker.first()->failing.spec().name),
                ", \"weights\": ", json_quote(checker.first()->weights),
                ", \"problem\": ", json_quote(checker.first()->problem), ", \"case\": ", json_quote(file), "}");
  }
  return cat("{\"device\": ", json_quote(device), ", \"passed\": ", !checker.first(), ", \"first\": ", first,
             ", \"ops\": [", join(ops, ",\n "), "]}\n");
}

}  // namespace

int check_model(const Arguments& arguments) {
  if (!arguments.list("op").empty() || arguments.maybe_string("replay")) {
    throw Failure(usage_error("--model", "neither --op nor --replay beside it", "one of them",
                              "test a model's ops, or ops by name, one at a time"));
  }
  auto session = open_session(arguments, arguments.string("model"));
  const auto ids = prompt_ids(session->text->tokenizer);
  install_interrupt_handler();
  OpChecker checker;
  session->runtime->program.probe = std::make_shared<Watched>(checker);
  models::LoadOptions load;
  load.max_positions = static_cast<std::int64_t>(ids.size()) + kGenerated;
  load_weights(*session, arguments, load);
  const auto adapter = make_adapter(session->model);
  train(*session, adapter, ids);
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
    throw Failure(failed_error(cat("selftest of ", session->path.string(), " on ", device, ": call ", first.call, ", ",
                                   first.failing.spec().name, first.weights.empty() ? "" : cat(" of ", first.weights)),
                               "what the oracle says", first.problem,
                               cat("look closer with tern selftest --replay ", file)));
  }
  return 0;
}

}  // namespace tern::cli
