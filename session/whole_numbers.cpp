#include "session/whole_numbers.h"

#include <algorithm>

#include "models/registry.h"
#include "nn/linear.h"
#include "ops/tensor_desc.h"

namespace tern::session {

bool multiplies_some_in(tern_compute compute, const models::LoadedModel& model, std::int64_t rows) {
  const auto specs = model.architecture->parameters(model.config);
  return std::any_of(specs.begin(), specs.end(), [&](const models::ParameterSpec& spec) {
    const auto* stored = model.store->find(spec.name);
    return stored != nullptr && stored->desc.rank == 2 && is_quantised(stored->desc) &&
           nn::multiplies_in(compute, *model.store->device(), TERN_F32, rows, stored->desc);
  });
}

}  // namespace tern::session
