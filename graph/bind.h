// The binding pass: every op takes the first of the device's kernel, its decomposition into ops of the device, and the
// host's kernel where the policy lets it. Decided before memory is planned and before anything runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "accel/kernel.h"
#include "graph/graph.h"

namespace tern::graph {

enum class Fallback { forbid, warn, allow };  // of an op to the host

struct BindOptions {
  Fallback fallback = Fallback::forbid;
  // Decompositions wherever there is one: finds a wrong native kernel (--kernels reference).
  bool prefer_decomposition = false;
};

// One line of the printed table: how all calls of one op with the same dtypes were bound.
struct BindingRow {
  std::string op;
  std::string how;  // "native", "decomposed", "host"
  std::string why;  // the device's reason where not native
  int calls = 0;
};

struct BoundGraph {
  Graph graph;  // ops of the device, and host nodes marked
  std::vector<BindingRow> table;
};

// `host` runs what the device cannot; null: nothing may fall back. Throws Failure (device) naming the op and the reason
// where none of the three is possible.
[[nodiscard]] BoundGraph bind_graph(const Graph& graph, const accel::Device& device, const accel::Device* host,
                                    const BindOptions& options);

[[nodiscard]] std::string to_text(const std::vector<BindingRow>& table);

// The op as the device's `supports` and `plan` see it.
[[nodiscard]] accel::OpDesc op_desc(const Graph& graph, const OpCall& call);

}  // namespace tern::graph
