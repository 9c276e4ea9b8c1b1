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
// A part of a segment that the device takes as one graph.
struct CompiledPart {
  std::vector<std::int32_t> nodes;
  accel::CompiledGraph compiled;
};
// Compiles the nodes of a step (devices without single ops), or loads what was kept: into one recipe, or into the
// fewest that halving finds where the device doesn't take them as one. That it didn't is remembered, and each recipe's
// choice is remembered and replayed, as a kernel's is. `typical_counts`: as ProgramOptions has them. Throws Failure
// (device) where a node isn't taken alone.
[[nodiscard]] std::vector<CompiledPart> compile_segment(const Graph& graph, std::span<const std::int32_t> nodes,
                                                        const accel::DevicePtr& device, accel::ChoiceCache& choices,
                                                        const Counts& typical_counts);

}  // namespace tern::graph
