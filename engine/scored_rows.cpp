#include "engine/scored_rows.h"

#include <numeric>

#include "ops/gather_rows.h"

namespace tern::engine {

nn::BuildOptions scoring_build(const ScorerOptions& options) {
  nn::BuildOptions build;
  static_cast<nn::Numerics&>(build) = options.numerics;
  build.adapters = options.adapters;
  return build;
}

nn::Value scored_rows(nn::Context& context, const models::LoadedModel& model, std::int64_t max_tokens) {
  nn::TokenCapacity capacity;
  capacity.tokens = max_tokens;
  capacity.sequences = 1;
  capacity.rows = max_tokens;
  capacity.max_seqlen = max_tokens;
  const nn::TokenInputs inputs = nn::declare_tokens(context.graph(), capacity);
  const nn::Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  return ops::gather_rows(context.graph(), hidden, inputs.rows, context.options().needs);
}

nn::TokenColumns scored_columns(std::span<const std::int32_t> ids, const ScoreWindow& window) {
  const auto tokens = ids.subspan(window.begin, window.end - window.begin);
  nn::TokenColumns columns;
  columns.ids.assign(tokens.begin(), tokens.end());
  columns.positions.resize(tokens.size());
  std::iota(columns.positions.begin(), columns.positions.end(), 0);
  columns.cu_seqlens.push_back(static_cast<std::int32_t>(tokens.size()));
  const auto before = static_cast<std::ptrdiff_t>(window.first - window.begin) - 1;
  columns.rows.assign(columns.positions.begin() + before, columns.positions.end() - 1);
  return columns;
}

}  // namespace tern::engine
