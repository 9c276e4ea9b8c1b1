#include "train/lora_ga.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/philox.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "data/steps.h"
#include "graph/tensor_scope.h"
#include "models/initial_pairs.h"
#include "train/micro_batch.h"

namespace tern::train {
namespace {

using Layer = std::pair<const std::string, nn::LoraLayer>;  // by module

std::string weight_of(const Layer& layer) { return layer.first + ".weight"; }

std::uint64_t gradient_bytes(const models::LoadedModel& model, const Layer& layer) {
  return sizeof(float) * static_cast<std::uint64_t>(num_elements(model.store->at(weight_of(layer)).desc));
}

// As many layers at a time as the bytes take.
std::vector<std::vector<Layer>> groups_of(const models::LoadedModel& model, const models::LoadedAdapter& adapter,
                                          std::uint64_t bytes) {
  std::vector<std::vector<Layer>> groups;
  std::uint64_t taken = 0;
  for (const Layer& layer : adapter.layers) {
    if (layer.second.in_parts) continue;
    const std::uint64_t own = gradient_bytes(model, layer);
    if (groups.empty() || taken + own > bytes) {
      groups.emplace_back();
      taken = 0;
    }
    groups.back().push_back(layer);
    taken += own;
  }
  return groups;
}

void require_pairs(const models::LoadedModel& model, const models::LoadedAdapter& adapter) {
  for (const Layer& layer : adapter.layers) {
    if (layer.second.in_parts) continue;
    const tern_tensor* weight = model.store->find(weight_of(layer));
    if (weight == nullptr) {
      throw Failure(usage_error(
          cat("--init_weights lora-ga needs the gradient of ", layer.first, ", and its weight is the embedding's"),
          "leave that layer out of --target_modules"));
    }
    if (is_quantised(weight->desc)) {
      throw Failure(
          usage_error(cat("--init_weights lora-ga needs the gradient of ", layer.first, ", which is quantised"),
                      "give a model in bfloat16 or float32, or use pissa, which begins from the weights"));
    }
    const std::int64_t side = std::min(weight->desc.shape[0], weight->desc.shape[1]);
    if (2 * layer.second.rank <= side) continue;
    throw Failure(usage_error(cat("--init_weights lora-ga needs a rank of at most ", side / 2, " for ", layer.first,
                                  ", and it is ", layer.second.rank),
                              "lower --lora_rank, or leave that layer out of --target_modules"));
  }
}

// The sum over batches of each one's mean gradient, over the number of batches.
void add_gradients(MicroBatchRunner& runner, const data::EncodedDataset& samples, const LoraGaOptions& options) {
  const auto size = static_cast<std::uint32_t>(options.batch_size);
  for (std::uint32_t begin = 0; begin < samples.size(); begin += size) {
    std::uint32_t supervised = 0;
    for (std::uint32_t i = begin; i < begin + size; ++i) supervised += samples.info(i).supervised;
    MicroBatchInputs inputs;
    inputs.loss_divisor =
        static_cast<double>(std::max<std::uint32_t>(supervised, 1)) * static_cast<double>(options.iters);
    for (std::uint32_t i = begin; i < begin + size; ++i) {  // one by one: in the least memory, with the same sum
      if (samples.info(i).supervised > 0)
        (void)runner.run(data::gather(samples, {{i}, samples.info(i).length}), inputs);
    }
  }
}

void make_pairs(const models::LoadedModel& model, const std::vector<Layer>& layers, const LoraGaOptions& options,
                std::uint64_t seed) {
  ThreadPool pool;
  graph::TensorStore& store = *model.store;
  const auto together = static_cast<std::size_t>(pool.num_threads());
  for (std::size_t begin = 0; begin < layers.size(); begin += together) {
    const std::size_t count = std::min(together, layers.size() - begin);
    std::vector<std::vector<float>> gradients(count), weights(count);
    std::vector<models::LowRankPair> pairs(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = weight_of(layers[begin + i]);
      gradients[i].resize(static_cast<std::size_t>(num_elements(store.at(name).desc)));
      store.download(gradient_name(name), std::as_writable_bytes(std::span(gradients[i])));
      if (options.start.scale == models::GradientScale::weight) weights[i] = models::weight_values(model, name);
    }
    pool.parallel_for(static_cast<std::int64_t>(count), 1, [&](std::int64_t first, std::int64_t last, int) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        const auto& [module, layer] = layers[begin + i];
        const TensorDesc& desc = store.at(module + ".weight").desc;
        std::uint64_t key = mix_key(seed, 0x6c6f6761U);  // apart from the keys of other streams of the same seed
        for (const char c : module) key = mix_key(key, static_cast<unsigned char>(c));
        pairs[i] = models::gradient_pair({gradients[i], desc.shape[0], desc.shape[1]},
                                         {weights[i], desc.shape[0], desc.shape[1]}, layer.rank, layer.scaling,
                                         options.start, key);
      }
    });
    for (std::size_t i = 0; i < count; ++i) {
      const nn::LoraLayer& layer = layers[begin + i].second;
      for (const std::string& name : {layer.lora_a, layer.initial_a})
        store.upload(name, std::as_bytes(std::span(pairs[i].a)));
      for (const std::string& name : {layer.lora_b, layer.initial_b})
        store.upload(name, std::as_bytes(std::span(pairs[i].b)));
    }
  }
}

}  // namespace

data::EncodedDataset gradient_samples(const data::EncodedDataset& samples, const data::BatchOptions& batches,
                                      const LoraGaOptions& options) {
  const std::int64_t wanted = options.batch_size * options.iters;
  if (samples.size() < wanted) {
    throw Failure(
        usage_error(cat("--init_weights lora-ga looks at ", wanted, " samples, and there are ", samples.size()),
                    "lower --lora_ga_batch_size or --lora_ga_iters, or give more rows"));
  }
  data::BatchOptions one_by_one;
  one_by_one.shuffle = batches.shuffle;
  one_by_one.seed = batches.seed;
  data::SetSteps steps = data::SetSteps::create(samples, one_by_one).value();
  auto store = std::make_shared<data::MemoryStore>();
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::uint32_t id = steps.plan(0, static_cast<std::uint64_t>(i)).micro_batches.at(0).samples.at(0);
    const data::SampleView sample = samples.sample(id);
    const auto length = std::min<std::size_t>(sample.ids.size(), static_cast<std::size_t>(options.max_length));
    data::Sample cut;
    cut.ids.assign(sample.ids.begin(), sample.ids.begin() + static_cast<std::ptrdiff_t>(length));
    cut.weights.assign(sample.weights.begin(), sample.weights.begin() + static_cast<std::ptrdiff_t>(length));
    store->add(std::move(cut));
  }
  data::EncodedDataset out;
  out.add(std::move(store));
  return out;
}

void init_by_gradients(const models::LoadedModel& model, const models::LoadedAdapter& adapter,
                       const data::EncodedDataset& samples, const LoraGaOptions& options, TrainingGraphOptions graph,
                       std::int64_t longest, std::uint64_t seed, session::Runtime& runtime) {
  require_pairs(model, adapter);
  longest = std::min(longest, options.max_length);
  graph.capacity = {longest, 1, longest, longest};
  graph.typical_tokens = 0;
  graph.adapters.clear();
  graph.dropout = false;
  graph.neftune_noise_alpha = 0;
  if (!model.store->only_counts()) {
    log_info(cat("--init_weights lora-ga: the gradients of ", adapter.layers.size(), " weights, of ", samples.size(),
                 " samples"));
  }
  for (const auto& layers : groups_of(model, adapter, options.gradient_bytes)) {
    graph::TensorScope gradients(model.store, "gradients");
    graph.trainable.clear();
    for (const Layer& layer : layers) {
      const std::string name = weight_of(layer);
      graph.trainable.push_back(name);
      gradients.create(gradient_name(name), make_desc(TERN_F32, shape_of(model.store->at(name).desc)));
      model.store->fill_zero(gradient_name(name));
    }
    MicroBatchRunner runner(model, graph, runtime);
    (void)runner.prepare();
    if (model.store->only_counts()) continue;
    add_gradients(runner, samples, options);
    make_pairs(model, layers, options, seed);
  }
  model.store->allocator()->empty_cache();
}

}  // namespace tern::train
