#include "train/lora_init.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace tern::train {
namespace {

std::uint64_t name_key(std::uint64_t seed, const std::string& name) {
  std::uint64_t key = mix_key(seed, 0x6c6f7261U);  // "lora": apart from the dropout keys of the same seed
  for (char c : name) key = mix_key(key, static_cast<unsigned char>(c));
  return key;
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
        const auto block =
            philox(key, {static_cast<std::uint32_t>(i / 2), static_cast<std::uint32_t>(i / 2 >> 32), 0, 0});
        const double first = uniform24(block[i % 2 * 2]), second = uniform24(block[i % 2 * 2 + 1]);
        values[i] = static_cast<float>(part.is_embedding ? std::sqrt(-2.0 * std::log(1.0 - first)) *
                                                               std::cos(2.0 * std::numbers::pi * second)
                                                         : (2.0 * first - 1.0) * bound);
      }
      store.upload(piece.stored, std::as_bytes(std::span(values)));
    }
  }
}

}  // namespace

void init_adapter(graph::TensorStore& store, const models::LoadedAdapter& adapter, std::uint64_t seed) {
  init_parts(store, adapter, seed);
  for (const auto& [module, layer] : adapter.layers) {
    if (layer.in_parts) continue;
    const TensorDesc& desc = store.at(layer.lora_a).desc;
    const double bound = 1.0 / std::sqrt(static_cast<double>(desc.shape[1]));
    std::vector<float> values(static_cast<std::size_t>(num_elements(desc)));
    const std::uint64_t key = name_key(seed, module);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto block =
          philox(key, {static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(i / 4 >> 32), 0, 0});
      values[i] = static_cast<float>((2.0 * uniform24(block[i % 4]) - 1.0) * bound);
    }
    store.upload(layer.lora_a, std::as_bytes(std::span(values)));
    store.fill_zero(layer.lora_b);
  }
}

}  // namespace tern::train
