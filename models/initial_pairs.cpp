#include "models/initial_pairs.h"

#include <algorithm>
#include <cstring>

#include "base/dtype.h"
#include "base/philox.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint_source.h"
#include "graph/program.h"
#include "ops/dequantize.h"

namespace tern::models {
namespace {

std::uint64_t key_of(std::uint64_t seed, const std::string& module) {
  std::uint64_t key = mix_key(seed, 0x70697373U);  // apart from the keys of other streams of the same seed
  for (const char c : module) key = mix_key(key, static_cast<unsigned char>(c));
  return key;
}

}  // namespace

std::vector<float> weight_values(const LoadedModel& model, const std::string& name) {
  const TensorDesc& desc = model.store->at(name).desc;
  std::vector<float> values(static_cast<std::size_t>(num_elements(desc)));
  if (!is_quantised(desc)) {
    std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(dtype_bytes(desc.dtype)));
    model.store->download(name, bytes);
    checkpoint::to_f32(desc.dtype, bytes, values).value();
    return values;
  }
  graph::Graph graph;
  graph.output("weight", ops::dequantize(graph, graph.constant(name, desc), TERN_F32));
  accel::ChoiceCache choices;
  const auto program = graph::Program::build(graph, model.store, choices, {});
  program->run({});
  const auto bytes = program->output("weight");
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

LowRankPair initial_pair(const PairStart& start, const std::string& module, const Matrix& weight, std::int64_t rank,
                         double scaling) {
  if (rank > std::min(weight.rows, weight.columns)) {
    throw Failure(usage_error(cat("--init_weights ", start.began_as, " needs a rank of at most ",
                                  std::min(weight.rows, weight.columns), " for ", module, ", and it is ", rank),
                              "lower --lora_rank, or leave that layer out of --target_modules"));
  }
  if (start.began_as == kOlora) return orthonormal_pair(weight, rank);
  const std::uint64_t key = key_of(start.seed, module);
  if (start.iterations) return principal_pair_by_iteration(weight, rank, scaling, *start.iterations, key);
  return principal_pair(weight, rank, scaling, key);
}

void make_initial_pairs(const LoadedModel& model, const std::map<std::string, nn::LoraLayer>& layers,
                        const PairStart& start) {
  std::vector<std::pair<std::string, nn::LoraLayer>> all(layers.begin(), layers.end());
  ThreadPool pool;
  const auto together = static_cast<std::size_t>(pool.num_threads());
  for (std::size_t begin = 0; begin < all.size(); begin += together) {
    const std::size_t count = std::min(together, all.size() - begin);
    std::vector<std::vector<float>> weights;
    std::vector<LowRankPair> pairs(count);
    for (std::size_t i = 0; i < count; ++i) {
      weights.push_back(weight_values(model, all[begin + i].first + ".weight"));
    }
    pool.parallel_for(static_cast<std::int64_t>(count), 1, [&](std::int64_t first, std::int64_t last, int) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        const auto& [module, layer] = all[begin + i];
        const TensorDesc& desc = model.store->at(module + ".weight").desc;
        pairs[i] = initial_pair(start, module, {weights[i], desc.shape[0], desc.shape[1]}, layer.rank, layer.scaling);
      }
    });
    for (std::size_t i = 0; i < count; ++i) {
      model.store->upload(all[begin + i].second.initial_a, std::as_bytes(std::span(pairs[i].a)));
      model.store->upload(all[begin + i].second.initial_b, std::as_bytes(std::span(pairs[i].b)));
    }
    if (start.done) start.done(static_cast<std::int64_t>(begin + count));
  }
}

}  // namespace tern::models
