// The adapters that requests can choose, by name; loaded and unloaded while the engine runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/adapter_slots.h"
#include "models/loader.h"
#include "models/lora_slots.h"

namespace tern::engine {

// What the device has room for.
struct LoraOptions {
  std::int64_t max_loras = 0;      // adapters of one step; 0: requests choose none
  std::int64_t max_lora_rank = 0;  // of each
  std::set<std::string> modules;   // linear layers that may have one; empty: all
};
// Errors (data): a rank beyond it, a module without room.
[[nodiscard]] Status adapter_fits(const LoraOptions& room, const models::AdapterPairs& adapter,
                                  const std::string& name);

// The slots on the device, and a line of what they take; null: requests choose no adapters. Throws Failure (device)
// where memory does not suffice.
[[nodiscard]] std::unique_ptr<models::LoraSlots> lora_slots(const models::LoadedModel& model,
                                                            const LoraOptions& options);

// An adapter under its name.
struct NamedAdapter {
  std::string name;
  std::filesystem::path path;  // a directory in PEFT's format
};

// Any thread may call it.
class AdapterRegistry {
 public:
  explicit AdapterRegistry(models::ModelConfig model) : model_(std::move(model)) {}

  // Reads an adapter. Errors (data): as of models::read_adapter_pairs; one that does not fit; a name that is taken,
  // unless it is to be replaced: requests on their way keep the one that they began with.
  [[nodiscard]] Result<AdapterRef> load(const NamedAdapter& adapter, const std::optional<LoraOptions>& room,
                                        bool replace = false);
  // False where there is none of that name. Requests on their way go on with it.
  bool unload(const std::string& name);
  [[nodiscard]] AdapterRef find(const std::string& name) const;  // null: none
  [[nodiscard]] std::vector<AdapterRef> all() const;             // by name

 private:
  const models::ModelConfig model_;
  mutable std::mutex mutex_;
  std::map<std::string, AdapterRef> adapters_;
  std::int64_t next_id_ = 1;
};

}  // namespace tern::engine
