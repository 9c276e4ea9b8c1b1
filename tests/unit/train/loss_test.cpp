// Losses by name, beside their formulas in fp64.
#include "train/loss.h"

#include <cmath>

#include "graph/program.h"
#include "models/registry.h"
#include "session/runtime.h"
#include "tiny.h"

namespace tern::train {
namespace {

constexpr float kScale = 0.375F, kCap = 1.25F;

nn::Head capped(const models::ModelConfig& config) {
  nn::Head head = models::tied_or_own_head(config);
  head.scale = kScale;
  head.softcap = kCap;
  return head;
}

// Broken if the loss trained on other logits than those that are decoded from.
TEST(Loss, CrossEntropyIsOfTheArchitecturesOwnHead) {
  models::LoadedModel model = tiny_model();
  models::Architecture own = *model.architecture;
  own.head = capped;
  model.architecture = &own;
  const auto width = static_cast<std::size_t>(model.config.hidden_size);
  const std::vector<std::int32_t> rows = {1, 3}, targets = {17, 5};
  const std::vector<float> weights = {0.25F, 2.0F};
  std::vector<float> hidden(4 * width);
  for (std::size_t i = 0; i < hidden.size(); ++i)
    hidden[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i)));
  model.store->create("hidden", make_desc(TERN_F32, {4, model.config.hidden_size}));
  upload(*model.store, "hidden", hidden);

  graph::Graph graph;
  nn::Context context(graph, *model.store, {});
  TrainingGraphOptions options;
  options.capacity.loss_rows = 2;
  const LossContext at{context, model, options, context.weight("hidden"), {}};
  graph.output("loss", find_loss("cross_entropy").value()->build(at));
  session::Runtime runtime;
  const auto program = runtime.build(graph, model.store);
  graph::RunInputs run;
  run.inputs = {
      {"loss_rows", nn::bytes_of(rows)}, {"targets", nn::bytes_of(targets)}, {"loss_weights", nn::bytes_of(weights)}};
  run.counts[kLossRows] = 2;
  program->run(run);
  float loss = 0.0F;
  std::memcpy(&loss, program->output("loss").data(), sizeof loss);

  const std::vector<float> w = download(*model.store, "model.embed_tokens.weight");
  double want = 0.0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double sum = 0.0;
    double hit = 0.0;
    for (std::size_t v = 0; v * width < w.size(); ++v) {
      double z = 0.0;
      for (std::size_t c = 0; c < width; ++c)
        z += double{hidden[static_cast<std::size_t>(rows[i]) * width + c]} * double{w[v * width + c]};
      z = kCap * std::tanh(kScale * z / kCap);
      sum += std::exp(z);
      if (v == static_cast<std::size_t>(targets[i])) hit = z;
    }
    want += weights[i] * (std::log(sum) - hit);
  }
  EXPECT_NEAR(loss, want, 1e-5 * want);
}

}  // namespace
}  // namespace tern::train
