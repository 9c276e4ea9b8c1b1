// Rows of an architecture's table that are about rotary positions.
#include <utility>

#include "models/config_read.h"
#include "models/rope.h"

namespace tern::models {
namespace {

FieldValue turned_share(const ModelConfig& config) {
  return static_cast<double>(config.rotary_dim) / static_cast<double>(config.head_dim);
}

}  // namespace

Field partial_rotary_field(double otherwise) {
  return {kPartialRotaryFactor, kImplied, FieldValue(1.0), Default{FieldValue(otherwise), {}, turned_share, false}};
}

Field rope_sections_field(std::vector<std::int64_t> otherwise_is) {
  return {kRopeSections, "rope.dimension_sections", FieldValue(std::vector<std::int64_t>()),
          otherwise(FieldValue(std::move(otherwise_is)))};
}

Field query_growth_field() {
  Field field = {"llama_4_scaling_beta", "attention.temperature_scale", &ModelConfig::rope_query_growth,
                 Default{{}, {}, FieldValue(0.0), false}, is_epsilon};
  field.in_rope = true;
  return field;
}

}  // namespace tern::models
