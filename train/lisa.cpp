#include "train/lisa.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "base/philox.h"
#include "base/status.h"
#include "base/strings.h"

namespace tern::train {
namespace {

constexpr std::uint64_t kStream = 0x6c697361;  // "lisa": apart from the other streams of the same seed

// Of "model.layers.7.mlp.up_proj.weight", and of an encoder's "layers.7.attn.Wo.weight": 7; outside of layers -1.
std::int64_t layer_of(std::string_view name) {
  for (const std::string_view prefix : {"model.layers.", "layers."}) {
    if (!name.starts_with(prefix)) continue;
    std::int64_t layer = -1;
    const auto read = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
    return read.ec == std::errc{} ? layer : -1;
  }
  return -1;
}

}  // namespace

LayerSampler::LayerSampler(const LisaOptions& options, std::int64_t layers, std::uint64_t seed,
                           std::vector<std::string> parameters)
    : options_(options), layers_(layers), seed_(seed), parameters_(std::move(parameters)) {
  if (options.activated_layers <= layers) return;
  throw Failure(usage_error(
      cat("--lisa_activated_layers is ", options.activated_layers, ", and the model has ", layers, " layers"),
      cat("give a number from 1 to ", layers)));
}

bool LayerSampler::draws_at(std::int64_t done) const { return done % options_.step_interval == 0 || done == 1; }

std::vector<std::int64_t> LayerSampler::layers_at(std::int64_t done) const {
  const std::int64_t drawn = std::max<std::int64_t>(done - done % options_.step_interval, done > 0 ? 1 : 0);
  std::vector<std::int64_t> all(static_cast<std::size_t>(layers_));
  std::iota(all.begin(), all.end(), 0);
  const std::uint64_t key = mix_key(mix_key(seed_, kStream), static_cast<std::uint64_t>(drawn));
  const auto count = static_cast<std::size_t>(options_.activated_layers);
  for (std::size_t i = 0; i < count; ++i) {  // the beginning of a shuffle (Fisher and Yates)
    const auto block = philox(key, {static_cast<std::uint32_t>(i), 0, 0, 0});
    const auto left = static_cast<double>(all.size() - i);
    std::swap(all[i], all[i + static_cast<std::size_t>(uniform24(block[0]) * left)]);
  }
  all.resize(count);
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::string> LayerSampler::of_layers(const std::vector<std::int64_t>& layers) const {
  std::vector<std::string> names;
  for (const std::string& name : parameters_) {
    const std::int64_t layer = layer_of(name);
    if (layer < 0 || std::binary_search(layers.begin(), layers.end(), layer)) names.push_back(name);
  }
  return names;
}

std::vector<std::vector<std::int64_t>> LayerSampler::extremes(const std::map<std::string, std::int64_t>& sizes) const {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(layers_), 0);
  for (const auto& [name, size] : sizes) {
    const std::int64_t layer = layer_of(name);
    if (layer >= 0 && layer < layers_) numbers[static_cast<std::size_t>(layer)] += size;
  }
  const auto count = options_.activated_layers;
  std::vector<std::int64_t> first(static_cast<std::size_t>(count)), last(first), between(first);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    first[at] = i;
    last[at] = layers_ - count + i;
    between[at] = i * layers_ / count;
  }
  std::vector<std::int64_t> large(static_cast<std::size_t>(layers_));
  std::iota(large.begin(), large.end(), 0);
  std::stable_sort(large.begin(), large.end(), [&](std::int64_t a, std::int64_t b) {
    return numbers[static_cast<std::size_t>(a)] > numbers[static_cast<std::size_t>(b)];
  });
  large.resize(static_cast<std::size_t>(count));
  std::sort(large.begin(), large.end());
  const std::set<std::vector<std::int64_t>> different = {first, last, between, large};
  return {different.begin(), different.end()};
}

void LayerSampler::count_missed(std::int64_t done, std::vector<std::int64_t>& missed) const {
  missed.resize(static_cast<std::size_t>(layers_), 0);
  const auto active = layers_at(done);
  for (std::int64_t layer = 0; layer < layers_; ++layer) {
    if (!std::binary_search(active.begin(), active.end(), layer)) ++missed[static_cast<std::size_t>(layer)];
  }
}

std::map<std::string, std::int64_t> LayerSampler::missed_of(const std::vector<std::int64_t>& missed) const {
  std::map<std::string, std::int64_t> out;
  for (const std::string& name : parameters_) {
    const std::int64_t layer = layer_of(name);
    if (layer >= 0 && layer < static_cast<std::int64_t>(missed.size()))
      out[name] = missed[static_cast<std::size_t>(layer)];
  }
  return out;
}

}  // namespace tern::train
