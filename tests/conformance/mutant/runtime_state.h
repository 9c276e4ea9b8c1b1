// What the functions of a spoiled table stand in for: plugins have no closure.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "mutant/runtime.h"

namespace tern::mutant {

struct RuntimeState {
  std::shared_ptr<const accel::Backend> backend;
  const tern_backend* inner = nullptr;
  tern_backend table{};
  std::set<tern_device> described;
  std::set<tern_buffer> restored;
  std::vector<tern_profile_record> kept;
  std::vector<unsigned char> saved;
  tern_graph_desc graph{};
};
[[nodiscard]] RuntimeState& runtime_state();
[[nodiscard]] inline const tern_backend& inner() { return *runtime_state().inner; }

// runtime_memory.cpp: devices, memory and structs; runtime_work.cpp: profiles, recipes, communicators;
// runtime_ranks.cpp: collectives of several ranks.
[[nodiscard]] std::span<const RuntimeMistake> memory_mistakes();
[[nodiscard]] std::span<const RuntimeMistake> work_mistakes();
[[nodiscard]] std::span<const RuntimeMistake> rank_mistakes();

}  // namespace tern::mutant
