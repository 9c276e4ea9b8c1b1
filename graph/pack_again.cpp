#include "graph/pack_again.h"

#include <vector>

#include "graph/tensor_store_entry.h"

namespace tern::graph {

void pack_again(TensorStore& store, const std::string& name) {
  const TensorStore::Entry& entry = *store.handle(name);
  for (const std::string& part : entry.parts) pack_again(store, part);
  std::vector<std::uint32_t> uses;
  for (const auto& [use, pack] : entry.packs) uses.push_back(use);
  for (const std::uint32_t use : uses) (void)store.packed(name, use);
}

bool is_mapped(const TensorStore& store, const std::string& name) { return store.handle(name)->mapped > 0; }

}  // namespace tern::graph
