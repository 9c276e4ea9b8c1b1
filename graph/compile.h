// Segments for devices that take only whole graphs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "accel/choice_cache.h"
#include "accel/recipe_cache.h"
#include "graph/graph.h"

namespace tern::graph {

// The storages, in the recipe's order, that the tensors of a recipe of these nodes must be given for.
[[nodiscard]] std::vector<std::int32_t> recipe_arguments(const Graph& graph, std::span<const std::int32_t> nodes);
// Compiles the nodes of a step into one recipe (devices without single ops), or loads one that was kept. Its choice is
// remembered and replayed as a kernel's is. `typical_counts`: as ProgramOptions has them.
[[nodiscard]] accel::CompiledGraph compile_segment(const Graph& graph, std::span<const std::int32_t> nodes,
                                                   const accel::DevicePtr& device, accel::ChoiceCache& choices,
                                                   const Counts& typical_counts);

}  // namespace tern::graph
