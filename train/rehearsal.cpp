#include "train/rehearsal.h"

#include <algorithm>
#include <memory>
#include <tuple>

#include "train/lora_init.h"
#include "train/micro_batch.h"
#include "train/optimizer.h"

namespace tern::train {
namespace {

constexpr std::size_t kFirst = 9;  // tokens of the first sample; the second has the rest
constexpr int kSteps = 2;

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
  models::AdapterConfig config;
  config.rank = 8;
  config.alpha = 32;
  models::LoadedAdapter adapter = models::create_adapter(model, "lora", config, models::linear_modules(model.config));
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
  options.numerics = session.numerics;
  options.numerics.needs = TERN_NEED_DETERMINISTIC;
  options.lora_dropout = 0.05F;
  options.dropout = true;
  options.adapters = adapter.layers;
  for (const auto& [module, layer] : adapter.layers) {
    options.trainable.push_back(layer.lora_a);
    options.trainable.push_back(layer.lora_b);
  }
  const auto arena = std::make_shared<graph::Arena>(session.model.store->allocator());
  Optimizer optimizer(session.model.store, options.trainable, {}, *session.runtime, arena);
  MicroBatchRunner runner(session.model, options, *session.runtime, arena);
  for (int step = 1; step <= kSteps; ++step) {
    (void)runner.run(batch, {42, 0, static_cast<double>(ids.size())});
    (void)optimizer.step(1e-2, step);
  }
  return adapter;
}

}  // namespace tern::train
