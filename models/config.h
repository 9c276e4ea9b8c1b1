// What a checkpoint says of its model, read from config.json or a GGUF's metadata by the architecture's own table of
// fields (config_fields.h), and written back to either.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"
#include "checkpoint/gguf_writer.h"
#include "io/json_fwd.h"

namespace tern::models {

// What stands upon the hidden states, as the class in config.json says: the language model's own head; nothing, as in a
// model of embeddings; or one linear layer, score.weight [labels, hidden].
enum class ModelHead { language, none, classification };

enum class RopeScaling { none, linear, dynamic, yarn, llama3, longrope, proportional };

struct VisionConfig;  // models/vision.h

using FieldValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                                std::vector<std::string>, std::vector<double>>;

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM": chooses the model file
  std::string model_type;    // "llama", as the architecture has it
  ModelHead head = ModelHead::language;
  std::vector<std::string> labels;  // of a classification, by their numbers
  std::string problem_type;         // of it, as config.json names it; "": it says none
  bool label_head_is_new = false;   // no checkpoint of the model has the labels' weights (label_head.h)
  bool label_sigmoid = true;  // one label ranks by the sigmoid of its logit, else by the logit (sentence-transformers)
  // What more than one architecture has, or what others than the model's own file read.
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  // features of a head that positions turn; the rest is kept
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  std::int64_t sliding_window = 0;  // 0: none
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  double rope_local_theta = 0.0;  // of layers with a window, which no scaling changes; 0: they turn as the others
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1.0;
  double rope_low_freq_factor = 1.0;         // llama3
  double rope_high_freq_factor = 4.0;        // llama3
  double rope_original_max_position = 8192;  // llama3, yarn, longrope
  double rope_beta_fast = 32.0;              // yarn: more turns than this within the original context stay as they are
  double rope_beta_slow = 1.0;               // yarn: fewer are slowed down in full
  double rope_attention_factor = 0.0;        // yarn, longrope: of cosines and sines; 0: by its formula
  double rope_mscale = 0.0;                  // yarn: in that formula, where both are given (DeepSeek)
  double rope_mscale_all_dim = 0.0;
  bool rope_truncate = true;       // yarn: the border between the two lies on whole features
  double rope_query_growth = 0.0;  // of queries with their position: RopeTable::growth, over the original context
  double rope_share = 1.0;         // proportional: of a head's pairs, those that positions turn; they come first
  std::vector<float> rope_short_factors;  // longrope: [rotary_dim / 2] divisors of the frequencies,
  std::vector<float> rope_long_factors;   // and those of runs of more than rope_original_max_position tokens
  std::vector<float>
      rope_freq_factors;  // [rotary_dim / 2] divisors of the frequencies, from a GGUF; empty: none, or a formula
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::string torch_dtype;  // as config.json names it, "" unknown
  std::int64_t bos_token_id = -1;
  std::vector<std::int64_t> eos_token_ids;  // of a GGUF: eos, then eot and eom
  std::int64_t pad_token_id = -1;
  // Fields that only the architecture's own file reads, by their key in config.json (in GGUF where they have none).
  std::map<std::string, FieldValue> own;
  // Of a whole with a vision tower; null: there is none.
  std::shared_ptr<const VisionConfig> vision;
  // Special tokens that the tokenizer gets beside its own, and the rows that embedding and head get for them behind the
  // checkpoint's (new_tokens.h); vocab_size counts these.
  std::vector<std::string> new_special_tokens;
  std::int64_t added_rows = 0;
  // config.json as it was read, which is what is written again; null where the model came from a GGUF.
  std::shared_ptr<const io::Json> json;

  // Of the architecture's own fields; throws std::logic_error where its table has none of that key and type.
  template <typename T>
  [[nodiscard]] const T& own_field(const std::string& key) const {
    const auto found = own.find(key);
    const T* value = found == own.end() ? nullptr : std::get_if<T>(&found->second);
    if (value == nullptr) throw std::logic_error("the architecture's table has no such field: " + key);
    return *value;
  }
  // Elements of the architecture's parameters, without buffers.
  [[nodiscard]] std::int64_t num_parameters() const;
};

// Whose heads a reader takes: language models alone, or also models of embeddings and classifications.
enum class Heads { language, any };

// Errors (data): the file, the key, what was expected; an architecture, a head, a scaling or a field that is not served
// names itself.
[[nodiscard]] Result<ModelConfig> read_config(const checkpoint::CheckpointSource& source,
                                              Heads heads = Heads::language);

// config.json as transformers reads it, for a model of that `torch_dtype`: the one that was read,
// with that dtype and without quantization_config; of a model from a GGUF, every field of the architecture's table.
// Throws Failure (data) where config.json has no word for something.
[[nodiscard]] io::Json config_json(const ModelConfig& config, const std::string& torch_dtype);

// Sets the metadata <architecture>.* of a GGUF as llama.cpp reads it. Throws Failure (data) where a field is not at its
// default and GGUF has no key for it.
void set_gguf_config(const ModelConfig& config, checkpoint::GgufMetadata& metadata);

}  // namespace tern::models
