#include "train/lora_init.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/log.h"
#include "base/philox.h"
#include "base/strings.h"
#include "models/initial_pairs.h"
#include "models/vera.h"

namespace tern::train {
namespace {

std::uint64_t name_key(std::uint64_t seed, const std::string& name) {
  std::uint64_t key = mix_key(seed, 0x6c6f7261U);  // "lora": apart from the dropout keys of the same seed
  for (char c : name) key = mix_key(key, static_cast<unsigned char>(c));
  return key;
}

PhiloxBlock block_of(std::uint64_t key, std::size_t i) {
  return philox(key, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0});
}

void fill_uniform(graph::TensorStore& store, const std::string& name, std::uint64_t key) {
  const TensorDesc& desc = store.at(name).desc;
  const double bound = 1.0 / std::sqrt(static_cast<double>(desc.shape[1]));
  std::vector<float> values(static_cast<std::size_t>(num_elements(desc)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((2.0 * uniform24(block_of(key, i / 4)[i % 4]) - 1.0) * bound);
  }
  store.upload(name, std::as_bytes(std::span(values)));
}

// Two numbers of a block.
void fill_normal(graph::TensorStore& store, const std::string& name, std::uint64_t key, double deviation) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(name).desc)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto block = block_of(key, i / 2);
    values[i] = static_cast<float>(normals(block[0], block[1], deviation)[i % 2]);
  }
  store.upload(name, std::as_bytes(std::span(values)));
}

// PEFT's: of experts A as a linear layer's, of an embedding B normal and A zero.
void init_parts(graph::TensorStore& store, const models::LoadedAdapter& adapter, std::uint64_t seed) {
  for (const models::AdapterPart& part : adapter.parts) {
    for (const auto& piece : part.pieces) {
      if (!part.begins_random) {
        store.fill_zero(piece.stored);
        continue;
      }
      std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(piece.stored).desc)));
      const std::uint64_t key = name_key(seed, piece.stored);
      const double bound = 1.0 / std::sqrt(static_cast<double>(part.shape[1]));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto block = block_of(key, i / 2);
        const std::uint32_t first = block[i % 2 * 2], second = block[i % 2 * 2 + 1];
        values[i] =
            static_cast<float>(part.is_embedding ? normals(first, second)[0] : (2.0 * uniform24(first) - 1.0) * bound);
      }
      store.upload(piece.stored, std::as_bytes(std::span(values)));
    }
  }
}

constexpr const char* kWords =
    "choose true, false, gaussian, pissa, pissa_niter_16 (or another number), olora or lora-ga";

}  // namespace

std::string InitOptions::began_as() const {
  if (kind == InitWeights::pissa) return models::kPissa;
  if (kind == InitWeights::gradient) return models::kLoraGa;
  return kind == InitWeights::olora ? models::kOlora : "";
}

Result<InitOptions> parse_init_weights(const std::string& given) {
  std::string word = given;
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word == "true") return InitOptions{};
  if (word == "false") return InitOptions{InitWeights::random};
  if (word == "gaussian") return InitOptions{InitWeights::gaussian};
  if (word == "pissa") return InitOptions{InitWeights::pissa};
  if (word == "olora") return InitOptions{InitWeights::olora};
  if (word == "lora-ga" || word == "lora_ga") return InitOptions{InitWeights::gradient};
  constexpr std::string_view kIterated = "pissa_niter_";
  if (word.starts_with(kIterated)) {
    std::int64_t iterations = -1;
    const char* end = word.data() + word.size();
    const auto read = std::from_chars(word.data() + kIterated.size(), end, iterations);
    if (read.ec == std::errc{} && read.ptr == end && iterations >= 0 && iterations <= 1000) {
      return InitOptions{InitWeights::pissa, iterations};
    }
    return usage_error(cat("--init_weights ", given, " has no number of iterations from 0 to 1000 at its end"),
                       "write it as pissa_niter_16");
  }
  if (word == "loftq") {
    return usage_error("--init_weights loftq quantises the weights itself",
                       "give a quantised model, or --quant_method and --quant_bits, with pissa or olora");
  }
  return usage_error(cat("--init_weights ", given, " is no way to begin an adapter"), kWords);
}

void init_adapter(graph::TensorStore& store, const models::LoadedAdapter& adapter, std::uint64_t seed,
                  InitWeights kind) {
  init_parts(store, adapter, seed);
  for (const auto& [module, layer] : adapter.layers) {
    if (layer.in_parts) continue;
    const std::uint64_t key = name_key(seed, module);
    if (kind == InitWeights::gaussian) {
      fill_normal(store, layer.lora_a, key, 1.0 / static_cast<double>(layer.rank));
    } else {
      fill_uniform(store, layer.lora_a, key);
    }
    if (kind == InitWeights::random) {
      fill_uniform(store, layer.lora_b, mix_key(key, 1));
    } else {
      store.fill_zero(layer.lora_b);
    }
    for (const std::string& initial : {layer.initial_a, layer.initial_b}) {
      if (!initial.empty()) store.fill_zero(initial);
    }
  }
}

void init_vera(graph::TensorStore& store, const std::string& name, const models::LoadedAdapter& adapter,
               const std::vector<models::LinearModule>& modules) {
  const auto largest = models::largest_of(modules);
  models::fill_projections(store, name, models::drawn_projections(adapter.config, largest.in, largest.out), modules);
  for (const auto& [module, layer] : adapter.layers) {
    const std::vector<float> inner(static_cast<std::size_t>(layer.rank), static_cast<float>(adapter.config.d_initial));
    store.upload(layer.inner, std::as_bytes(std::span(inner)));
    store.fill_zero(layer.after);
  }
}

void init_from_weights(const models::LoadedModel& model, const models::LoadedAdapter& adapter, std::uint64_t seed,
                       const InitOptions& options) {
  log_info(cat("--init_weights ", options.began_as(), ": decomposing ", adapter.layers.size(), " weights",
               options.kind == InitWeights::pissa && !options.iterations
                   ? "; of large ones pissa_niter_16 is quick, and nearly the same"
                   : ""));
  models::make_initial_pairs(model, adapter.layers, {options.began_as(), options.iterations, seed});
  init_parts(*model.store, adapter, seed);
  for (const auto& [module, layer] : adapter.layers) {
    if (layer.in_parts) continue;
    for (const auto& [from, to] : {std::pair{layer.initial_a, layer.lora_a}, {layer.initial_b, layer.lora_b}}) {
      std::vector<float> values(static_cast<std::size_t>(num_elements(model.store->at(from).desc)));
      model.store->download(from, std::as_writable_bytes(std::span(values)));
      model.store->upload(to, std::as_bytes(std::span(values)));
    }
  }
}

}  // namespace tern::train
