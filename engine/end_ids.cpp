#include "engine/end_ids.h"

#include <algorithm>
#include <set>

namespace tern::engine {

std::vector<std::int32_t> end_ids_of(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> models,
                                     const SamplingParams& params) {
  std::set<std::int32_t> ids(params.stop_token_ids.begin(), params.stop_token_ids.end());
  for (const std::string& stop : params.stop) {
    const auto id = tokenizer.piece_to_id(stop);
    if (id && tokenizer.is_special(*id)) ids.insert(*id);
  }
  if (!params.ignore_eos || params.mask != nullptr) ids.insert(models.begin(), models.end());
  return {ids.begin(), ids.end()};
}

std::string stop_text_of(const tokenizer::Tokenizer& tokenizer, std::int32_t id, const SamplingParams& params) {
  if (id < 0 || id >= tokenizer.vocab_size()) return "";
  const std::string_view piece = tokenizer.id_to_piece(id);
  const bool is_stop = !piece.empty() && std::ranges::find(params.stop, piece) != params.stop.end();
  return std::string(is_stop ? piece : "");
}

}  // namespace tern::engine
