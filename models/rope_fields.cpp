// Rows of an architecture's table that are about rotary positions.
#include <utility>

#include "base/strings.h"
#include "models/config_read.h"
#include "models/registry.h"
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

Field growth_period_field() {
  const FieldValue none = std::int64_t{0};
  return {"", kGrowthPeriod, none, otherwise(none), is_count};
}

void settle_growth_period(const checkpoint::Gguf& gguf, ModelConfig& config) {
  const auto period = config.own.find(kGrowthPeriod);
  if (period == config.own.end()) return;
  const auto said = std::get<std::int64_t>(period->second);
  const auto length = static_cast<std::int64_t>(config.rope_original_max_position);
  if (config.rope_query_growth != 0.0 && said != length) {
    const std::string key = cat(gguf.text("general.architecture").value(), ".", kGrowthPeriod);
    throw Failure(data_error(cat(gguf.path(), ": key \"", key, "\""),
                             cat(length, ", the length that the rope scaling stretches"), cat(said),
                             "choose another model: this one computes what tern does not"));
  }
  period->second = std::int64_t{0};
}

void write_growth_period(const ModelConfig& config, const Architecture& architecture,
                         checkpoint::GgufMetadata& metadata) {
  if (!config.own.contains(kGrowthPeriod) || config.rope_query_growth == 0.0) return;
  metadata.set(cat(architecture.gguf, ".", kGrowthPeriod),
               static_cast<std::uint32_t>(config.rope_original_max_position));
}

}  // namespace tern::models
