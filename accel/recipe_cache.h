// Compiled graphs: loaded from disk where an earlier process kept an equal one, else compiled and kept.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accel/kernel.h"

namespace tern::accel {

struct CompiledGraph {
  Recipe recipe;
  tern_plan_info info{};
};

// `dir`: where recipes of this device's identity lie; empty: none are kept, nor on a device without
// TERN_CAP_RECIPE_FILES. A file that can't be used is compiled again, with a line. Absent, with the reason in
// `refusal`, where the device doesn't take this graph as one (TERN_UNSUPPORTED). Throws Failure where compile fails
// otherwise; a file that can't be written is compiled again next time, and nothing is said.
[[nodiscard]] std::optional<CompiledGraph> compile_graph(const DevicePtr& device, const tern_graph_desc& graph,
                                                         const PlanOptions& options, const std::filesystem::path& dir,
                                                         std::string& refusal);

}  // namespace tern::accel
