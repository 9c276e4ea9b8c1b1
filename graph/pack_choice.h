// Which weights a program reads in the device's private layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accel/choice_cache.h"
#include "graph/graph.h"
#include "graph/tensor_store.h"

namespace tern::graph {

enum class Packing {
  never,
  measured,  // where the packed weight is faster
  always,    // wherever the device has a layout: for tests
};

// A packed weight in place of the stored one, for one argument of one node.
struct PackedArg {
  std::int32_t node = 0;
  std::size_t arg = 0;
  std::string name;  // in the store
  std::uint32_t uses = 0;
  std::int32_t layout = 0;
  std::uint64_t bytes = 0;  // of the packed weight
};

// A weight is kept once. So it is packed only where one layout serves all that this graph does with it and no other
// program reads or writes it as stored, and where measuring says that it pays: at the planned number of rows or at one
// row it takes at most nine tenths of the time, and at neither it takes longer. A pack that another program holds
// already is shared. What was measured is remembered like a kernel's choice, by the weight and not by the number of
// rows, so that a resumed run packs what the first one packed. On a device that is only described nothing is measured:
// what was remembered is packed. `store`: where the weights are or will be; null: nothing is stored yet. Throws Failure
// (device) where measuring fails.
[[nodiscard]] std::vector<PackedArg> choose_packs(const Graph& graph, const accel::DevicePtr& device,
                                                  accel::ChoiceCache& choices, Packing packing,
                                                  const TensorStore* store);

}  // namespace tern::graph
