// Where a parameter's numbers go as they are loaded (loader.h).
#pragma once

#include <memory>
#include <span>

#include "models/loader.h"

namespace tern::models {

// Into tensors that are made for them; into those that the store has already, which hold just such ones; or nowhere, to
// know whether they could.
enum class Into { made, there, nowhere };

// As load_parameters. But for Into::made nothing is mapped.
[[nodiscard]] Status load_into(Into into, std::span<const ParameterSpec> specs, ParameterReader& reader,
                               const std::shared_ptr<checkpoint::CheckpointSource>& source, graph::TensorStore& store,
                               const LoadOptions& options);

}  // namespace tern::models
