#include "graph/live_bytes.h"

#include <algorithm>
#include <vector>

namespace tern::graph {

std::uint64_t live_bytes(const Graph& graph) {
  struct Life {
    std::size_t first = 0, last = 0;
    bool is_used = false;
  };
  const auto& nodes = graph.nodes();
  std::vector<Life> lives(graph.storages().size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto touch = [&](Value value) {
      if (!value.present()) return;
      Life& life = lives[static_cast<std::size_t>(graph.info(value).storage)];
      if (!life.is_used) life.first = n;
      life.is_used = true;
      life.last = n;
    };
    std::for_each(nodes[n].call.inputs.begin(), nodes[n].call.inputs.end(), touch);
    std::for_each(nodes[n].results.begin(), nodes[n].results.end(), touch);
  }
  std::vector<std::uint64_t> begins(nodes.size() + 1), ends(nodes.size() + 1);
  for (std::size_t s = 0; s < lives.size(); ++s) {
    const Storage& storage = graph.storages()[s];
    if (storage.is_stored() || !lives[s].is_used) continue;
    begins[lives[s].first] += total_bytes(storage.desc);
    ends[storage.is_output ? nodes.size() : lives[s].last + 1] += total_bytes(storage.desc);
  }
  std::uint64_t now = 0, most = 0;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    now = now + begins[n] - ends[n];
    most = std::max(most, now);
  }
  return most;
}

}  // namespace tern::graph
