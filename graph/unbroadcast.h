// The gradient of what was broadcast by strides of 0: a sum over what one element was read as.
#pragma once

#include "graph/graph.h"

namespace tern::graph {

[[nodiscard]] bool is_broadcast(const TensorDesc& desc);
// Broadcast dimensions once.
[[nodiscard]] TensorDesc unbroadcast(TensorDesc desc);
// `gradient` has the shape of `desc`; summed to that of unbroadcast(desc), in fp32.
[[nodiscard]] Value sum_over_broadcast(Graph& graph, Value gradient, const TensorDesc& desc);

}  // namespace tern::graph
