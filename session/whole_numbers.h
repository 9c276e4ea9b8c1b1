// Whether products of a model's weights can be computed with activations in whole numbers.
#pragma once

#include <cstdint>

#include "models/loader.h"
#include "tern/accel.h"

namespace tern::session {

// Whether the model's device multiplies `rows` rows by one of its quantised weights in `compute`, TERN_COMPUTE_X15 or
// _INT8. The weights are loaded, or described.
[[nodiscard]] bool multiplies_some_in(tern_compute compute, const models::LoadedModel& model, std::int64_t rows);

}  // namespace tern::session
