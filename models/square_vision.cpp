#include "models/square_vision.h"

#include "base/strings.h"

namespace tern::models {

std::int64_t square_own(const ModelConfig& fields, const char* key) { return fields.own_field<std::int64_t>(key); }

std::int64_t square_side(const ModelConfig& fields) {
  return square_own(fields, "image_size") / square_own(fields, "patch_size");
}

std::int64_t square_patches(const VisionConfig& config) {
  return square_side(config.fields) * square_side(config.fields);
}

std::int64_t square_patch_dim(const VisionConfig& config) {
  const std::int64_t patch = square_own(config.fields, "patch_size");
  return square_own(config.fields, "num_channels") * patch * patch;
}

std::string divides_width(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  return config.hidden_size % std::get<std::int64_t>(value) == 0 ? "" : cat("a divisor of ", config.hidden_size);
}

void add_square_patch_embedding(ParameterList& list, const std::string& module, const ModelConfig& fields, bool bias) {
  const std::int64_t patch = square_own(fields, "patch_size");
  add_patch_embedding(list, module, fields.hidden_size, {square_own(fields, "num_channels"), patch, patch}, bias);
}

void require_square(std::span<const nn::PatchGrid> grids, std::int64_t side) {
  if (grids.size() == 1 && grids[0].t == 1 && grids[0].h == side && grids[0].w == side) return;
  throw Failure(data_error(
      "image", cat("one grid of 1 x ", side, " x ", side, " patches"),
      grids.size() == 1 ? cat(grids[0].t, " x ", grids[0].h, " x ", grids[0].w) : cat(grids.size(), " grids"),
      "make its patches as the model's own processor does"));
}

}  // namespace tern::models
