// A compiled graph (personality graph).
#pragma once

#include <string>
#include <vector>

#include "backends/sim/world.h"

namespace tern::sim {

struct Recipe {
  struct Node {
    std::uint32_t op = 0;
    std::vector<std::byte> attrs;
    std::uint32_t accumulate = 0;
    std::size_t first_array = 0;
    std::vector<std::int32_t> values;  // per argument: what is written, else what is read; -1: absent
  };
  std::shared_ptr<Device> device;
  std::vector<std::byte> graph;  // what it was compiled from, as tern_plugin_graph_bytes has it
  std::vector<tern_graph_value> values;
  std::vector<Node> nodes;
  std::vector<std::uint64_t> places;  // per value: in the workspace, of what it shares memory with
  std::uint32_t num_arguments = 0;
  LengthArrays arrays;
  std::vector<bool> written;  // per argument
  std::uint64_t workspace_bytes = 0;
  std::uint64_t library_bytes = 0;
  void take_library();
  ~Recipe() {
    if (device) device->give(Use::library, library_bytes);
  }
};

[[nodiscard]] std::vector<std::byte> graph_bytes(const tern_graph_desc& graph);
// The text that names how a graph was compiled.
[[nodiscard]] std::string recipe_choice(const Device& device);
// Tells the host of a recipe; throws where it gave no place.
void give_recipe(const Recipe& recipe, tern_plan_info* info);

}  // namespace tern::sim
