// The scalings of rotary frequencies: their fields in config.json and GGUF, and their formulas.
#pragma once

#include <string>
#include <vector>

#include "io/json_field.h"
#include "models/config_fields.h"

namespace tern::models {

struct Architecture;

inline constexpr float kStill = 1e30F;  // divides the frequency of a pair that no position turns, in a GGUF
// The tensors of longrope's divisors in a GGUF.
inline constexpr const char* kLongFactors = "rope_factors_long.weight";
inline constexpr const char* kShortFactors = "rope_factors_short.weight";

// Inverse frequencies [rotary_dim / 2], radians a position, with scaling applied (transformers' modeling_rope_utils;
// Llama 3.1's formula; Peng et al., "YaRN", 2023). `dynamic` changes them beyond max_position_embeddings alone, where
// no run comes; those of `longrope` are for runs of at most rope_original_max_position tokens.
[[nodiscard]] std::vector<double> rope_frequencies(const ModelConfig& config);
// Those of longer runs, empty where they are the same. LongRoPE (Ding et al., 2024) chooses for a whole sequence, and a
// run chooses once for all of its own, as vLLM and llama.cpp do: keys in a cache turn by one of the two. transformers
// chooses at each call.
[[nodiscard]] std::vector<double> long_rope_frequencies(const ModelConfig& config);
// What cosines and sines are multiplied by: YaRN's or LongRoPE's attention factor, else 1.
[[nodiscard]] double rope_amplitude(const ModelConfig& config);
// What DeepSeek multiplies the scores' scale by, twice: YaRN's formula of mscale_all_dim, else 1.
[[nodiscard]] double yarn_score_scale(const ModelConfig& config);
// Frequencies of ModelConfig::rope_local_theta.
[[nodiscard]] std::vector<double> local_rope_frequencies(const ModelConfig& config);
// Whether a GGUF says the scaling by a tensor of what it divides the frequencies by.
[[nodiscard]] bool has_gguf_divisors(RopeScaling scaling);
[[nodiscard]] const char* rope_type_name(RopeScaling scaling);
// What scaling divides the frequencies by, [rotary_dim / 2]; all one without scaling.
[[nodiscard]] std::vector<float> rope_factors(const ModelConfig& config);

// Fields in config.json or in its rope_parameters.
inline constexpr const char* kPartialRotaryFactor = "partial_rotary_factor";
inline constexpr const char* kRopeSections = "mrope_section";

// The row of an architecture whose positions turn a part of each head: partial_rotary_factor, in config.json or in its
// rope_parameters, with what stands in there.
[[nodiscard]] Field partial_rotary_field(double otherwise);

// How many frequencies turn by a token's time, row and column in an image, as a GGUF must say it: of text, where the
// three are one, they change nothing. In config.json, mrope_section, there or in its rope_parameters.
[[nodiscard]] Field rope_sections_field(std::vector<std::int64_t> otherwise_is);

// llama_4_scaling_beta among rope_parameters, by which queries grow with their position.
[[nodiscard]] Field query_growth_field();
// Of an architecture with this row a GGUF also says after how many positions they grow, which is the original length of
// the rope scaling. Read, it is held to that (Failure, data), and forgotten.
inline constexpr const char* kGrowthPeriod = "attention.temperature_length";
[[nodiscard]] Field growth_period_field();
void settle_growth_period(const checkpoint::Gguf& gguf, ModelConfig& config);
void write_growth_period(const ModelConfig& config, const Architecture& architecture,
                         checkpoint::GgufMetadata& metadata);

// "rope_parameters" (transformers 5) or "rope_scaling" with what lies in it; sets theta and the scaling. Of a model
// with a rope_local_theta, rope_parameters has those of each type of layers.
// Throws Failure (data), also for a field that its rope_type does not have.
void read_rope_json(const io::JsonField& json, ModelConfig& config);
// Whether `key` of config.json is one that read_rope_json reads.
[[nodiscard]] bool is_rope_json_key(const std::string& key);
// Adds "rope_scaling" where the model scales. Throws Failure (data) for divisors of no formula.
void write_rope_json(const ModelConfig& config, io::Json& json);

// <architecture>.rope.scaling.* and the divisors in rope_freqs.weight, or longrope's. Where rope_freqs.weight is of
// Llama 3's formula or of `proportional`, that takes its place: config.json can only name a formula. Throws Failure
// (data).
void read_rope_gguf(const checkpoint::CheckpointSource& source, const Architecture& architecture, ModelConfig& config);
[[nodiscard]] bool is_rope_gguf_key(const std::string& key);  // without its architecture
void write_rope_gguf(const ModelConfig& config, const Architecture& architecture, checkpoint::GgufMetadata& metadata);

// Throws Failure (data) where the model divides its frequencies by numbers of no formula that config.json can name.
void require_named_rope(const ModelConfig& config, const std::string& where);

}  // namespace tern::models
