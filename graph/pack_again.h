// Weights that were written, packed before somebody needs them.
#pragma once

#include <string>

#include "graph/tensor_store.h"

namespace tern::graph {

// Packs of the tensor that are stale are made now, and its plain form goes as after TensorStore::packed(): where many
// are written in turn, not all have both at once.
void pack_again(TensorStore& store, const std::string& name);

// Whether the tensor's plain form lies in memory that only its owner may write: a file's pages.
[[nodiscard]] bool is_mapped(const TensorStore& store, const std::string& name);

}  // namespace tern::graph
