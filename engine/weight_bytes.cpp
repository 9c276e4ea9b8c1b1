#include "engine/weight_bytes.h"

#include "base/dtype.h"

namespace tern::engine {

double weight_bytes(const models::LoadedModel& model) {
  double bytes = 0;
  for (const auto& spec : model.architecture->parameters(model.config)) {
    if (spec.name == "model.embed_tokens.weight" && !model.config.tie_word_embeddings) continue;
    bytes += static_cast<double>(total_bytes(model.store->at(spec.name).desc));
  }
  return bytes;
}

}  // namespace tern::engine
