#include "train/rehearsal.h"

#include <algorithm>

#include "train/lora_init.h"
#include "train/micro_batch.h"
#include "train/optimizer.h"

namespace tern::train {
namespace {

constexpr std::size_t kFirst = 9;  // tokens of the first sample; the second has the rest
constexpr int kSteps = 2;

// Two samples end to end, every token but the first of each predicted, with unequal weights.
data::MicroBatch batch_of(const std::vector<std::int32_t>& ids) {
  data::MicroBatch batch;
  batch.ids = ids;
  const std::size_t first = std::min(kFirst, ids.size() / 2);
  batch.cu_seqlens = {0, static_cast<std::int32_t>(first), static_cast<std::int32_t>(ids.size())};
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const bool second = t >= first;
    const bool last = t + 1 == first || t + 1 == ids.size();
    batch.positions.push_back(static_cast<std::int32_t>(second ? t - first : t));
    batch.labels.push_back(last ? data::kNoLabel : ids[t + 1]);
    batch.label_weights.push_back(last ? 0.0F : second ? 0.5F : 1.0F);
    batch.token_samples.push_back(second ? 1 : 0);
  }
  batch.sample_ids = {0, 1};
  batch.longest = static_cast<std::uint32_t>(std::max(first, ids.size() - first));
  return batch;
}

models::LoadedAdapter make_adapter(models::LoadedModel& model) {
  models::LoadedAdapter adapter;
  adapter.config.rank = 8;
  adapter.config.alpha = 32;
  const auto modules = models::linear_modules(model);
  adapter.layers = models::create_adapter(model, "lora", adapter.config, modules);
  init_adapter(*model.store, adapter, 42);
  return adapter;
}

}  // namespace

models::LoadedAdapter rehearse(session::Session& session, const std::vector<std::int32_t>& ids) {
  const models::LoadedAdapter adapter = make_adapter(session.model);
  const data::MicroBatch batch = batch_of(ids);
  TrainingGraphOptions options;
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
  Optimizer optimizer(session.model.store, options.trainable, {}, *session.runtime);
  MicroBatchRunner runner(session.model, options, *session.runtime);
  for (int step = 1; step <= kSteps; ++step) {
    (void)runner.run(batch, {42, 0, static_cast<double>(ids.size())});
    (void)optimizer.step(1e-2, step);
  }
  return adapter;
}

}  // namespace tern::train
