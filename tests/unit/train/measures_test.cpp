// What the log tells of a step beside its loss: the share of right tokens, and the work that MFU counts.
#include <gtest/gtest.h>

#include "nn/head.h"
#include "nn/token_inputs.h"
#include "tiny_run.h"
#include "train/reporting/step_work.h"

namespace tern::train {
namespace {

data::MicroBatch batch_of(const data::EncodedDataset& dataset, std::vector<std::uint32_t> samples) {
  data::MicroBatchPlan plan;
  for (const auto sample : samples) plan.tokens += dataset.info(sample).length;
  plan.samples = std::move(samples);
  return data::gather(dataset, plan);
}

TrainingGraphOptions whole(const data::EncodedDataset& dataset) {
  TrainingGraphOptions options;
  const auto tokens = static_cast<std::int64_t>(dataset.tokens());
  options.capacity = {tokens, static_cast<std::int64_t>(dataset.size()), tokens, dataset.longest()};
  return options;
}

// The likeliest token at each position of the batch, of logits that the loss never holds.
std::vector<std::int32_t> likeliest(const models::LoadedModel& model, const data::MicroBatch& batch,
                                    session::Runtime& runtime) {
  graph::Graph graph;
  nn::Context context(graph, *model.store, {});
  nn::TokenCapacity capacity;
  capacity.tokens = static_cast<std::int64_t>(batch.tokens());
  capacity.sequences = static_cast<std::int64_t>(batch.samples());
  capacity.max_seqlen = batch.longest;
  const nn::TokenInputs inputs = nn::declare_tokens(graph, capacity);
  const ops::Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  graph.output("logits", nn::logits(context, model.architecture->head(model.config), hidden));
  const auto program = runtime.build(graph, model.store);
  nn::TokenColumns tokens;
  const auto ids = batch.values<std::int32_t>(data::kIds);
  const auto positions = batch.values<std::int32_t>(data::kPositions);
  tokens.ids.assign(ids.begin(), ids.end());
  tokens.positions.assign(positions.begin(), positions.end());
  tokens.cu_seqlens = batch.cu_seqlens;
  graph::RunInputs run;
  nn::give_tokens(run, tokens);
  program->run(run);
  const auto bytes = program->output("logits");
  const std::size_t vocab = bytes.size() / sizeof(float) / batch.tokens();
  const auto* logits = reinterpret_cast<const float*>(bytes.data());
  std::vector<std::int32_t> out;
  for (std::size_t t = 0; t < batch.tokens(); ++t) {
    const float* row = logits + t * vocab;
    out.push_back(static_cast<std::int32_t>(std::max_element(row, row + vocab) - row));
  }
  return out;
}

// The targets are what the model itself finds likeliest, but for every third of the second sample.
TEST(Hits, CountWhatTheLogitsSay) {
  const models::LoadedModel model = tiny_model();
  const data::EncodedDataset dataset = tiny_samples();
  session::Runtime runtime;
  data::MicroBatch batch = batch_of(dataset, {0, 1});
  const std::vector<std::int32_t> best = likeliest(model, batch, runtime);
  std::vector<std::int32_t> labels(batch.tokens(), data::kNoLabel);
  std::vector<float> weights(batch.tokens(), 0.0F);
  Hits expected;
  const auto border = static_cast<std::size_t>(batch.cu_seqlens[1]);
  for (std::size_t t = 1; t < batch.tokens(); ++t) {
    if (t == border) continue;
    const bool wrong = t > border && (t - border) % 3 == 0;
    labels[t] = wrong ? (best[t] + 1) % 16 : best[t];
    weights[t] = 0.5F;
    ++expected.tokens;
    if (!wrong) ++expected.right_tokens;
  }
  const auto set = [&](const char* name, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    batch.column(name).bytes.assign(bytes.begin(), bytes.end());
  };
  set(data::kLabels, labels);
  set(data::kLossWeights, weights);
  MicroBatchRunner runner(model, whole(dataset), runtime);
  (void)runner.run(batch, {});
  const Hits hits = runner.take_hits();
  EXPECT_EQ(hits.tokens, expected.tokens);
  EXPECT_EQ(hits.right_tokens, expected.right_tokens);
  EXPECT_LT(hits.right_tokens, hits.tokens);
  EXPECT_EQ(hits.samples, 2);
  EXPECT_EQ(hits.right_samples, 1);
  EXPECT_EQ(runner.take_hits().tokens, 0) << "they count once";
}

// The forward is two FLOPs a weight and token, the head's only where a token is learned, and attention beside it.
TEST(StepWork, IsThatOfTheProducts) {
  const models::LoadedModel model = tiny_model();
  const data::EncodedDataset dataset = tiny_samples();
  const data::MicroBatch batch = batch_of(dataset, {0, 1});
  const auto& config = model.config;
  const std::int64_t attended = config.num_attention_heads + config.num_key_value_heads;
  const double weights = static_cast<double>(config.num_hidden_layers * config.hidden_size) *
                         static_cast<double>(2 * attended * config.head_dim + 3 * config.intermediate_size);
  double learned = 0;
  for (const float weight : batch.values<float>(data::kLossWeights)) learned += weight != 0 ? 1 : 0;
  double pairs = 0;
  for (std::size_t i = 0; i < batch.samples(); ++i) {
    const double length = batch.cu_seqlens[i + 1] - batch.cu_seqlens[i];
    pairs += length * (length + 1) / 2;
  }
  const double head = static_cast<double>(config.vocab_size * config.hidden_size);
  const double attention =
      2.0 * 2.0 * pairs * static_cast<double>(config.num_hidden_layers * config.num_attention_heads * config.head_dim);
  const double forward = 2.0 * weights * static_cast<double>(batch.tokens()) + 2.0 * head * learned + attention;
  EXPECT_DOUBLE_EQ(StepWork(model, whole(dataset)).flops(batch), forward);
}

TEST(StepWork, CountsNothingThatIsComputedAgain) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  const data::MicroBatch batch = batch_of(run.dataset, {0, 1});
  TrainingGraphOptions options = whole(run.dataset);
  options.adapters = run.options.graph.adapters;
  options.trainable = run.options.graph.trainable;
  const double plain = StepWork(run.model, options).flops(batch);
  options.gradient_checkpointing = true;
  EXPECT_EQ(StepWork(run.model, options).flops(batch), plain);
  EXPECT_GT(plain, 1.5 * StepWork(run.model, whole(run.dataset)).flops(batch)) << "the backward is counted";
}

}  // namespace
}  // namespace tern::train
