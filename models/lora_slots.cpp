#include "models/lora_slots.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::models {
namespace {

// Before the names of slots that no other engine over the model has.
std::string free_scope(const graph::TensorStore& store, const std::vector<LinearModule>& modules) {
  for (int number = 0;; ++number) {
    const std::string scope = cat("lora_slots", number, "/");
    if (modules.empty() || store.find(cat(scope, modules.front().name, ".lora_A")) == nullptr) return scope;
  }
}

}  // namespace

LoraSlots::LoraSlots(const LoadedModel& model, const std::vector<LinearModule>& modules, std::int64_t slots,
                     std::int64_t rank)
    : store_(model.store), tensors_(model.store, "adapters"), slots_(slots), rank_(rank) {
  const std::string scope = free_scope(*store_, modules);
  for (const LinearModule& module : modules) {
    const nn::LoraSlotsLayer layer{cat(scope, module.name, ".lora_A"), cat(scope, module.name, ".lora_B")};
    tensors_.create(layer.lora_a, make_desc(TERN_F32, {slots, rank, module.in}));
    tensors_.create(layer.lora_b, make_desc(TERN_F32, {slots, module.out, rank}));
    store_->fill_zero(layer.lora_a);
    store_->fill_zero(layer.lora_b);
    layers_[module.name] = layer;
    modules_[module.name] = {module.in, module.out, std::vector<bool>(static_cast<std::size_t>(slots))};
  }
}

void LoraSlots::fill(std::int64_t slot, const AdapterPairs& adapter) {
  const auto put = [&](const std::string& name, std::int64_t rows, std::int64_t columns, const std::vector<float>* from,
                       std::int64_t from_columns) {
    staged_.assign(static_cast<std::size_t>(rows * columns), 0.0F);
    const std::int64_t given = from == nullptr ? 0 : static_cast<std::int64_t>(from->size()) / from_columns;
    for (std::int64_t row = 0; row < given; ++row) {
      std::copy_n(from->data() + row * from_columns, from_columns, staged_.data() + row * columns);
    }
    store_->upload_row(name, slot, std::as_bytes(std::span(staged_)));
  };
  for (auto& [name, module] : modules_) {
    const auto found = adapter.pairs.find(name);
    const AdapterPair* const pair = found == adapter.pairs.end() ? nullptr : &found->second;
    std::vector<bool>::reference used = module.used[static_cast<std::size_t>(slot)];
    if (pair == nullptr && !used) continue;
    const nn::LoraSlotsLayer& layer = layers_.at(name);
    put(layer.lora_a, rank_, module.in, pair == nullptr ? nullptr : &pair->a, module.in);
    put(layer.lora_b, module.out, rank_, pair == nullptr ? nullptr : &pair->b, pair == nullptr ? 1 : pair->rank);
    used = pair != nullptr;
  }
}

}  // namespace tern::models
