// How adapters start.
#pragma once

#include <cstdint>

#include "models/adapter.h"

namespace tern::train {

// PEFT's default: A uniform in +-1/sqrt(in) (kaiming_uniform with a = sqrt(5)), B zero, so that the model begins as it
// was. Bits are Philox keyed by (seed, name): the same adapter whatever the order of modules.
void init_adapter(graph::TensorStore& store, const models::LoadedAdapter& adapter, std::uint64_t seed);

}  // namespace tern::train
