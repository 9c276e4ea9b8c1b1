// What a device promises about whole launches, whatever the op: each gives "" or what is wrong, and says in `skipped`
// why it could not be tried.
#pragma once

#include <string>

#include "conformance/laws.h"

namespace tern::conformance {

// A launch comes back while its stream waits for another stream's work.
[[nodiscard]] std::string check_launch_returns(Bench& bench, std::string& skipped);
// TERN_CAP_WHOLE_GRAPH: a graph of several nodes, through intermediates into a state, with counts that change.
[[nodiscard]] std::string check_graph_chain(Bench& bench, std::string& skipped);

}  // namespace tern::conformance
