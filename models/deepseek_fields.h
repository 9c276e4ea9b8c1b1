// The configuration of DeepSeek's models and their relatives.
#pragma once

#include "checkpoint/gguf.h"
#include "models/experts.h"

namespace tern::models {

inline constexpr const char* kQRank = "q_lora_rank";
inline constexpr const char* kKvRank = "kv_lora_rank";
inline constexpr const char* kPlainSize = "qk_nope_head_dim";  // of a head: features that no position turns
inline constexpr const char* kTurned = "qk_rope_head_dim";     // and that one turns
inline constexpr const char* kValue = "v_head_dim";
inline constexpr const char* kMethod = "topk_method";
inline constexpr const char* kGroupLimited = "group_limited_greedy";

// llama.cpp has one name for V2 and V3, which it tells apart by how experts are scored.
inline constexpr const char* kDeepseekGguf = "deepseek2";
[[nodiscard]] bool is_gguf_of_v2(const checkpoint::Gguf& gguf);
[[nodiscard]] bool is_gguf_of_v3(const checkpoint::Gguf& gguf);

struct DeepseekDefaults {
  RoutedExpertDefaults experts;
  std::int64_t max_position_embeddings;
  std::int64_t bos;
  std::int64_t eos;
};
[[nodiscard]] std::vector<Field> deepseek_fields(const DeepseekDefaults& defaults, std::vector<Field> more);
[[nodiscard]] std::vector<Field> deepseek_v2_fields();
void use_softmax_gating(std::vector<Field>& fields);              // experts' scores are a softmax, in place of sigmoids
[[nodiscard]] std::vector<Field> deepseek_v3_choice();            // how experts are chosen, and that neighbours turn
[[nodiscard]] FieldValue turned_size(const ModelConfig& config);  // qk_rope_head_dim

}  // namespace tern::models
