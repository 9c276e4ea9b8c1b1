// What a step reads of a model.
#pragma once

#include "models/loader.h"

namespace tern::engine {

// Bytes of weights that a step reads as they are stored: all but an embedding table of which it reads only rows.
[[nodiscard]] double weight_bytes(const models::LoadedModel& model);

}  // namespace tern::engine
