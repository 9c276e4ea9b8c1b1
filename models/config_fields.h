// The table by which an architecture describes its configuration, one row a field, read in all four directions:
// config.json and GGUF metadata, both ways.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/config.h"

namespace tern::models {

// Where a field is kept: a member of ModelConfig, or ModelConfig::own under its key, in the type of the value given.
using Member = std::variant<std::int64_t ModelConfig::*, double ModelConfig::*, bool ModelConfig::*,
                            std::vector<std::int64_t> ModelConfig::*, FieldValue>;

// What stands in for a field that is not there: nothing (it must be), a value, or one that follows from the fields
// above it in the table.
using Stand = std::variant<std::monostate, FieldValue, FieldValue (*)(const ModelConfig&)>;
struct Default {
  Stand json;            // no such key in config.json
  Stand null;            // null in config.json
  Stand gguf;            // no such key in the metadata
  bool is_null = false;  // the value of `null` is written as null
};
[[nodiscard]] Default required();                         // nothing stands in
[[nodiscard]] Default otherwise(Stand everywhere);        // the same in each case
[[nodiscard]] Default otherwise(Stand json, Stand none);  // none: for null, and in GGUF
[[nodiscard]] Default required_in_gguf(FieldValue json);

// "" where the value is one that the model can have, else what is expected.
using Law = std::string (*)(const ModelConfig& config, const FieldValue& value);

// Where a GGUF has no key for a field, its tensors may say it.
struct GgufTensorSays {
  enum class What { nothing, rows, present, absent } what = What::nothing;
  const char* tensor = "";
};

struct Field {
  const char* json;  // key in config.json; "": it has none, so that only the default can be written there
  const char* gguf;  // key in the metadata, "<architecture>." left out before all but "tokenizer."; "": as with json;
                     // kImplied: none, and none is needed, as other fields decide whether this one matters
  Member member;
  Default otherwise;
  Law law = nullptr;
  GgufTensorSays tensor = {};
  const char* also = "";       // another key of config.json for the same field, as older or newer files have it
  const char* gguf_less = "";  // another key of the metadata, whose number is taken off: a GGUF counts layers that only
                               // speculation reads among the others
  // Of a text, or of a list of texts, one a layer, those that are false and true in the metadata; of a list also 0 and
  // this number, which is the same in each layer that has it.
  struct Words {
    const char* no = "";
    const char* yes = "";
    std::int64_t ModelConfig::*number = nullptr;
    const char* also_no = "";  // other words for the same, which config.json may have
    const char* also_yes = "";
  } gguf_words = {};
  // Of a number that a GGUF says of each layer where they differ: that of a layer, once all fields are read.
  std::int64_t (*gguf_of_layer)(const ModelConfig& config, std::int64_t layer) = nullptr;
  bool in_rope = false;  // config.json has this number in rope_parameters
};
inline constexpr const char* kImplied = "-";
// By its text: equal literals need not lie in one place.
[[nodiscard]] inline bool is_implied(const Field& field) { return std::string_view(field.gguf) == kImplied; }

[[nodiscard]] FieldValue field_value(const ModelConfig& config, const Field& field);
void set_field(ModelConfig& config, const Field& field, FieldValue value);
// Throws Failure (data) where the value breaks the field's law; `where` names file and key.
void require_law(const ModelConfig& config, const Field& field, const std::string& where);
[[nodiscard]] std::string value_text(const FieldValue& value);  // "4096", "[1, 2]"

// Fields of config.json that change no number that is computed here, or that something else than the model reads.
// Anything that is neither here nor in the architecture's table is an error.
[[nodiscard]] bool has_no_effect(const std::string& json_key);
// Fields that are served with one value only: that value as JSON text, null where the key is not such a field.
[[nodiscard]] const char* only_value(const std::string& json_key);
[[nodiscard]] bool gguf_key_has_no_effect(const std::string& key);  // without its architecture

// Common laws and defaults.
std::string is_size(const ModelConfig& config, const FieldValue& value);      // 1 to 2^31
std::string is_layers(const ModelConfig& config, const FieldValue& value);    // 1 to 8192
std::string is_count(const ModelConfig& config, const FieldValue& value);     // 0 or more
std::string is_positive(const ModelConfig& config, const FieldValue& value);  // finite and above 0
std::string is_epsilon(const ModelConfig& config, const FieldValue& value);   // finite, 0 or more
std::string is_even_size(const ModelConfig& config, const FieldValue& value);
std::string is_rotary_size(const ModelConfig& config, const FieldValue& value);  // even, at most head_dim
std::string is_head_size(const ModelConfig& config, const FieldValue& value);    // head_dim itself
std::string is_kernel(const ModelConfig& config, const FieldValue& value);  // of a causal convolution: 2 to 64 rows
std::string divides_heads(const ModelConfig& config, const FieldValue& value);
std::string is_silu(const ModelConfig& config, const FieldValue& value);
std::string is_true(const ModelConfig& config, const FieldValue& value);
std::string is_false(const ModelConfig& config, const FieldValue& value);
// Whether there is one of the two words for each layer.
[[nodiscard]] bool are_words_of_layers(const ModelConfig& config, const FieldValue& value, std::string_view first,
                                       std::string_view second);
FieldValue as_many_as_heads(const ModelConfig& config);   // num_attention_heads
FieldValue hidden_over_heads(const ModelConfig& config);  // hidden_size / num_attention_heads
FieldValue whole_head(const ModelConfig& config);         // head_dim
FieldValue turned_features(const ModelConfig& config);    // head_dim, or partial_rotary_factor of it

// The rows that nearly every decoder has, in their order, with what differs between architectures.
struct DecoderDefaults {
  Default num_key_value_heads;
  Default head_dim;
  std::int64_t max_position_embeddings;
  FieldValue bos_token_id;
  FieldValue eos_token_ids;
};
[[nodiscard]] std::vector<Field> decoder_fields(const DecoderDefaults& defaults);
// A row of `more` takes the place of the one with its key in config.json, where there is one.
[[nodiscard]] std::vector<Field> with_fields(std::vector<Field> fields, std::vector<Field> more);

}  // namespace tern::models
