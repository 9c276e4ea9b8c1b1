#include "engine/adapter_registry.h"

#include "base/log.h"
#include "base/strings.h"
#include "io/checksum.h"

namespace tern::engine {
namespace {

// Of all that the pairs add to a model.
std::string digest_of(const models::AdapterPairs& adapter) {
  io::Digest digest = io::Digest::sha256();
  for (const auto& [module, pair] : adapter.pairs) {
    const std::string what = cat(module, " ", pair.rank, " ", pair.a.size(), " ", pair.b.size(), "\n");
    digest.update(std::as_bytes(std::span(what)));
    digest.update(std::as_bytes(std::span(pair.a)));
    digest.update(std::as_bytes(std::span(pair.b)));
  }
  return digest.hex();
}

}  // namespace

Status adapter_fits(const LoraOptions& room, const models::AdapterPairs& adapter, const std::string& name) {
  if (adapter.rank > room.max_lora_rank) {
    return data_error(cat("adapter ", name), cat("a rank of at most ", room.max_lora_rank, ", as --max_lora_rank says"),
                      cat(adapter.rank), cat("start the server with --max_lora_rank ", adapter.rank));
  }
  for (const auto& [module, pair] : adapter.pairs) {
    if (room.modules.empty() || room.modules.contains(module)) continue;
    return data_error(cat("adapter ", name), "pairs beside layers that an adapter had when the server started", module,
                      "name it in --adapters, or start the server with --enable_lora true");
  }
  return Unit{};
}

std::unique_ptr<models::LoraSlots> lora_slots(const models::LoadedModel& model, const LoraOptions& options) {
  if (options.max_loras == 0) return nullptr;
  std::vector<models::LinearModule> modules = models::linear_modules(model.config);
  std::erase_if(modules, [&](const auto& module) {
    return module.is_absorbed || (!options.modules.empty() && !options.modules.contains(module.name));
  });
  auto slots = std::make_unique<models::LoraSlots>(model, modules, options.max_loras, options.max_lora_rank);
  log_info(cat("adapters: ", options.max_loras, " at once, of rank ", options.max_lora_rank, " or less beside ",
               modules.size(), " layers, take ", human_bytes(slots->bytes())));
  return slots;
}

Result<AdapterRef> AdapterRegistry::load(const NamedAdapter& adapter, const std::optional<LoraOptions>& room,
                                         bool replace) {
  const auto taken = [&] {
    return data_error(cat("adapter ", adapter.name), "a name of its own", "one that is loaded already",
                      "unload that one first, or ask for it to be replaced");
  };
  if (!replace && find(adapter.name)) return taken();
  auto pairs = models::read_adapter_pairs(model_, adapter.path);
  if (!pairs) return pairs.error();
  if (room) {
    if (const Status fits = adapter_fits(*room, *pairs, adapter.name); !fits) return fits.error();
  }
  std::string digest = digest_of(*pairs);
  const std::scoped_lock lock(mutex_);
  AdapterRef& place = adapters_[adapter.name];
  if (place && !replace) return taken();
  place = std::make_shared<const ServedAdapter>(
      ServedAdapter{next_id_++, adapter.name, adapter.path, std::move(*pairs), std::move(digest)});
  return place;
}

bool AdapterRegistry::unload(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  return adapters_.erase(name) > 0;
}

AdapterRef AdapterRegistry::find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = adapters_.find(name);
  return found == adapters_.end() ? nullptr : found->second;
}

std::vector<AdapterRef> AdapterRegistry::all() const {
  const std::scoped_lock lock(mutex_);
  std::vector<AdapterRef> out;
  for (const auto& [name, adapter] : adapters_) out.push_back(adapter);
  return out;
}

}  // namespace tern::engine
