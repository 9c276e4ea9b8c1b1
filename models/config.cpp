#include "models/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/strings.h"
#include "models/registry.h"

namespace tern::models {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostLayers = 65536;  // beyond it the list of its weights alone would fill memory
constexpr const char* kConfigAgain = "take config.json from the model's repository again";
constexpr const char* kModelAgain = "what describes the model is damaged: take it from its repository again";
constexpr const char* kOtherModel = "choose another model: this one computes what tern does not";

// Typed reading of config.json with errors that name file and key.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string file) : json_(json), file_(std::move(file)) {}

  [[nodiscard]] const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] std::int64_t integer(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr || !value->is_number_integer()) fail(key, "an integer", value);
    return value->get<std::int64_t>();
  }
  [[nodiscard]] std::int64_t integer_or(const char* key, std::int64_t otherwise) const {
    return find(key) == nullptr ? otherwise : integer(key);
  }
  [[nodiscard]] double number_or(const char* key, double otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) fail(key, "a number", value);
    return value->get<double>();
  }
  [[nodiscard]] bool boolean_or(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(key, "true or false", value);
    return value->get<bool>();
  }
  [[nodiscard]] std::string text_or(const char* key, const std::string& otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) fail(key, "a string", value);
    return value->get<std::string>();
  }
  [[noreturn]] void fail(const char* key, const std::string& expected, const Json* value,
                         Site site = Site::current()) const {
    throw Failure(data_error(cat(file_, ": key \"", key, "\""), expected,
                             value == nullptr ? "nothing" : value->dump().substr(0, 80), kConfigAgain, site));
  }

 private:
  const Json& json_;
  std::string file_;
};

void read_rope(const ConfigReader& reader, const std::string& file, ModelConfig& config) {
  // transformers 5 writes rope_parameters; older ones rope_theta beside rope_scaling.
  config.rope_theta = reader.number_or("rope_theta", 10000.0);
  const char* key = reader.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  const Json* scaling = reader.find(key);
  if (scaling == nullptr) return;
  if (!scaling->is_object()) reader.fail(key, "an object", scaling);
  const ConfigReader inner(*scaling, cat(file, ": key \"", key, "\""));
  config.rope_theta = inner.number_or("rope_theta", config.rope_theta);
  const std::string type = inner.text_or("rope_type", inner.text_or("type", "default"));
  if (type == "default") return;
  config.rope_factor = inner.number_or("factor", 1.0);
  if (type == "linear") {
    config.rope_scaling = RopeScaling::linear;
  } else if (type == "llama3") {
    config.rope_scaling = RopeScaling::llama3;
    config.rope_low_freq_factor = inner.number_or("low_freq_factor", 1.0);
    config.rope_high_freq_factor = inner.number_or("high_freq_factor", 4.0);
    config.rope_original_max_position = inner.number_or("original_max_position_embeddings", 8192);
  } else {
    throw Failure(data_error(cat(file, ": key \"", key, "\""), "the rope_type default, linear or llama3",
                             cat("\"", type, "\""), kOtherModel));
  }
}

std::vector<std::int64_t> token_ids(const ConfigReader& reader, const char* key) {
  const Json* value = reader.find(key);
  if (value == nullptr) return {};
  if (value->is_number_integer()) return {value->get<std::int64_t>()};
  std::vector<std::int64_t> ids;
  if (!value->is_array()) reader.fail(key, "an integer or a list of integers", value);
  for (const Json& id : *value) {
    if (!id.is_number_integer()) reader.fail(key, "an integer or a list of integers", value);
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

template <typename Number>
Number count_parameters(const ModelConfig& config) {
  const auto number = [](std::int64_t value) { return static_cast<Number>(value); };
  const Number hidden = number(config.hidden_size);
  const Number q = number(config.num_attention_heads) * number(config.head_dim);
  const Number kv = number(config.num_key_value_heads) * number(config.head_dim);
  const Number layer = hidden * (2 * q + 2 * kv) + 3 * hidden * number(config.intermediate_size) + 2 * hidden;
  return number(config.num_hidden_layers) * layer +
         number(config.vocab_size) * hidden * (config.tie_word_embeddings ? 1 : 2) + hidden;
}

void require_sizes(const ModelConfig& config, const std::string& file) {
  const auto positive = [&](const char* name, std::int64_t value) {
    if (value <= 0 || value > (std::int64_t{1} << 31)) {
      throw Failure(data_error(cat(file, ": ", name), "a positive size", std::to_string(value), kModelAgain));
    }
  };
  positive("hidden_size", config.hidden_size);
  positive("intermediate_size", config.intermediate_size);
  positive("num_hidden_layers", config.num_hidden_layers);
  if (config.num_hidden_layers > kMostLayers) {
    throw Failure(data_error(cat(file, ": num_hidden_layers"), cat("at most ", kMostLayers, " layers"),
                             cat(config.num_hidden_layers), kModelAgain));
  }
  positive("num_attention_heads", config.num_attention_heads);
  positive("num_key_value_heads", config.num_key_value_heads);
  positive("head_dim", config.head_dim);
  positive("vocab_size", config.vocab_size);
  positive("max_position_embeddings", config.max_position_embeddings);
  if (config.head_dim % 2 != 0) {
    throw Failure(data_error(cat(file, ": head_dim"), "an even size: rotary positions turn pairs",
                             std::to_string(config.head_dim), kModelAgain));
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    throw Failure(data_error(cat(file, ": num_key_value_heads"),
                             cat("a divisor of ", config.num_attention_heads, " heads"),
                             std::to_string(config.num_key_value_heads), kModelAgain));
  }
  if (count_parameters<double>(config) > 0x1p62) {  // so that they can be counted
    throw Failure(data_error(cat(file, ": sizes of the model"), "fewer than 2^62 parameters", "more", kModelAgain));
  }
}

void require_sound(const ModelConfig& config, const std::string& file) {
  require_sizes(config, file);
  const auto positive = [&](const char* name, double value) {
    if (!(std::isfinite(value) && value > 0.0))
      throw Failure(data_error(cat(file, ": ", name), "a positive number", cat(value), kModelAgain));
  };
  positive("rope_theta", config.rope_theta);
  positive("rope factor", config.rope_factor);
  if (config.rope_scaling == RopeScaling::llama3) {
    positive("low_freq_factor", config.rope_low_freq_factor);
    positive("high_freq_factor - low_freq_factor", config.rope_high_freq_factor - config.rope_low_freq_factor);
    positive("original_max_position_embeddings", config.rope_original_max_position);
  }
  if (!(config.rms_norm_eps >= 0.0))
    throw Failure(data_error(cat(file, ": rms_norm_eps"), "a number from 0 on", cat(config.rms_norm_eps), kModelAgain));
  if (config.sliding_window < 0) {
    throw Failure(data_error(cat(file, ": sliding_window"), "a number of tokens", std::to_string(config.sliding_window),
                             kModelAgain));
  }
  if (find_architecture(config.architecture) == nullptr) {
    throw Failure(data_error(cat(file, ": architecture"), cat("one of ", join(architecture_names(), ", ")),
                             config.architecture.empty() ? "none" : config.architecture, kOtherModel));
  }
  if (config.hidden_act != "silu") {
    throw Failure(data_error(cat(file, ": key \"hidden_act\""), "silu", config.hidden_act, kOtherModel));
  }
}

ModelConfig from_json(const Json& json, const std::string& file) {
  const ConfigReader reader(json, file);
  ModelConfig config;
  if (const Json* names = reader.find("architectures"); names != nullptr && names->is_array() && !names->empty()) {
    if (!(*names)[0].is_string()) reader.fail("architectures", "a list of strings", names);
    config.architecture = (*names)[0].get<std::string>();
  }
  config.model_type = reader.text_or("model_type", "");
  if (config.architecture.empty()) config.architecture = architecture_of_model_type(config.model_type);
  config.hidden_size = reader.integer("hidden_size");
  config.intermediate_size = reader.integer("intermediate_size");
  config.num_hidden_layers = reader.integer("num_hidden_layers");
  config.num_attention_heads = reader.integer("num_attention_heads");
  config.num_key_value_heads = reader.integer_or("num_key_value_heads", config.num_attention_heads);
  if (config.num_attention_heads <= 0) {
    reader.fail("num_attention_heads", "a positive integer", reader.find("num_attention_heads"));
  }
  config.head_dim = reader.integer_or("head_dim", config.hidden_size / config.num_attention_heads);
  config.vocab_size = reader.integer("vocab_size");
  config.max_position_embeddings = reader.integer_or("max_position_embeddings", 2048);
  if (reader.boolean_or("use_sliding_window", true)) config.sliding_window = reader.integer_or("sliding_window", 0);
  config.rms_norm_eps = reader.number_or("rms_norm_eps", 1e-6);
  read_rope(reader, file, config);
  config.tie_word_embeddings = reader.boolean_or("tie_word_embeddings", false);
  config.attention_bias = reader.boolean_or("attention_bias", false);
  config.mlp_bias = reader.boolean_or("mlp_bias", false);
  config.hidden_act = reader.text_or("hidden_act", "silu");
  config.torch_dtype = reader.text_or("torch_dtype", reader.text_or("dtype", ""));
  config.bos_token_id = reader.integer_or("bos_token_id", -1);
  config.eos_token_ids = token_ids(reader, "eos_token_id");
  config.pad_token_id = reader.integer_or("pad_token_id", -1);
  return config;
}

// Reads the divisors of the rope frequencies, which is how a GGUF holds Llama 3's scaling. Where they are that
// formula's with the numbers that every Llama 3 has, the formula takes their place: config.json can only name a
// formula.
void read_rope_factors(const checkpoint::CheckpointSource& source, const checkpoint::SourceTensor& tensor,
                       ModelConfig& config) {
  const std::string where = cat(source.path().string(), ": tensor ", tensor.name);
  if (tensor.shape != std::vector<std::int64_t>{config.head_dim / 2})
    throw Failure(
        data_error(where, cat(config.head_dim / 2, " numbers, one a frequency"), "another shape", kModelAgain));
  std::vector<float> factors(static_cast<std::size_t>(config.head_dim / 2));
  source.read_f32(tensor, factors).value();
  if (!std::all_of(factors.begin(), factors.end(), [](float f) { return std::isfinite(f) && f > 0.0F; }))
    throw Failure(data_error(where, "positive numbers", "another", kModelAgain));
  ModelConfig formula = config;
  const std::vector<double> plain = rope_frequencies(config);
  formula.rope_scaling = RopeScaling::llama3;
  formula.rope_factor = factors.empty() ? 1.0 : *std::max_element(factors.begin(), factors.end());
  const std::vector<double> scaled = rope_frequencies(formula);
  bool same = config.rope_scaling == RopeScaling::none;
  for (std::size_t i = 0; i < factors.size(); ++i)
    same = same && std::abs(plain[i] / scaled[i] / static_cast<double>(factors[i]) - 1.0) < 1e-5;
  if (same) {
    config = formula;
  } else {
    config.rope_freq_factors = factors;
  }
}

ModelConfig from_gguf(const checkpoint::CheckpointSource& source) {
  const checkpoint::Gguf& gguf = *source.gguf();
  ModelConfig config;
  const std::string arch = gguf.text("general.architecture").value();
  config.model_type = arch;
  config.architecture = architecture_of_model_type(arch);
  const auto key = [&](const char* name) { return cat(arch, ".", name); };
  config.hidden_size = gguf.integer(key("embedding_length")).value();
  config.intermediate_size = gguf.integer(key("feed_forward_length")).value();
  config.num_hidden_layers = gguf.integer(key("block_count")).value();
  config.num_attention_heads = gguf.integer(key("attention.head_count")).value();
  config.num_key_value_heads = gguf.integer_or(key("attention.head_count_kv"), config.num_attention_heads).value();
  if (config.num_attention_heads <= 0) {
    throw Failure(data_error(cat(gguf.path(), ": key \"", key("attention.head_count"), "\""), "a positive integer",
                             std::to_string(config.num_attention_heads), kModelAgain));
  }
  config.head_dim =
      gguf.integer_or(key("attention.key_length"), config.hidden_size / config.num_attention_heads).value();
  config.max_position_embeddings = gguf.integer(key("context_length")).value();
  config.rms_norm_eps = gguf.number(key("attention.layer_norm_rms_epsilon")).value();
  config.rope_theta = gguf.number_or(key("rope.freq_base"), 10000.0).value();
  config.sliding_window = gguf.integer_or(key("attention.sliding_window"), 0).value();
  const std::string scaling = gguf.text_or(key("rope.scaling.type"), "none").value();
  if (scaling == "linear") {
    config.rope_scaling = RopeScaling::linear;
    config.rope_factor = gguf.number_or(key("rope.scaling.factor"), 1.0).value();
  } else if (scaling != "none") {
    throw Failure(data_error(cat(gguf.path(), ": key \"", key("rope.scaling.type"), "\""), "none or linear", scaling,
                             kOtherModel));
  }
  const checkpoint::SourceTensor* table = source.require("token_embd.weight").value();
  if (table->shape.size() != 2) {
    throw Failure(data_error(cat(gguf.path(), ": tensor token_embd.weight"), "a matrix",
                             cat(table->shape.size(), " dimensions"), kModelAgain));
  }
  config.vocab_size = table->shape[0];
  config.tie_word_embeddings = source.find("output.weight") == nullptr;
  config.attention_bias = source.find("blk.0.attn_q.bias") != nullptr;
  config.mlp_bias = source.find("blk.0.ffn_up.bias") != nullptr;
  config.bos_token_id = gguf.integer_or("tokenizer.ggml.bos_token_id", -1).value();
  if (const auto eos = gguf.integer_or("tokenizer.ggml.eos_token_id", -1).value(); eos >= 0)
    config.eos_token_ids = {eos};
  config.pad_token_id = gguf.integer_or("tokenizer.ggml.padding_token_id", -1).value();
  require_sizes(config, gguf.path());
  if (const checkpoint::SourceTensor* factors = source.find("rope_freqs.weight"))
    read_rope_factors(source, *factors, config);
  return config;
}

}  // namespace

std::int64_t ModelConfig::num_parameters() const { return count_parameters<std::int64_t>(*this); }

Result<ModelConfig> read_config(const checkpoint::CheckpointSource& source) {
  return catching([&] {
    const std::string file = source.path().string();
    if (source.gguf() == nullptr && source.config() == nullptr) {
      throw Failure(data_error(source.directory().string(), "a config.json beside the weights", "none",
                               "put it there from the model's repository"));
    }
    ModelConfig config = source.gguf() != nullptr
                             ? from_gguf(source)
                             : from_json(*source.config(), (source.directory() / "config.json").string());
    require_sound(config, file);
    return config;
  });
}

nlohmann::ordered_json config_json(const ModelConfig& config, const std::string& torch_dtype) {
  if (!config.rope_freq_factors.empty()) {
    throw Failure(data_error("rope_freqs.weight", "the scaling of a Llama 3, which config.json can name",
                             "other divisors of the rope frequencies", "keep this model as a GGUF"));
  }
  Json json;
  json["architectures"] = {config.architecture};
  json["model_type"] = model_type_of_architecture(config.architecture);
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["num_key_value_heads"] = config.num_key_value_heads;
  json["head_dim"] = config.head_dim;
  json["vocab_size"] = config.vocab_size;
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["rms_norm_eps"] = config.rms_norm_eps;
  json["rope_theta"] = config.rope_theta;
  if (config.rope_scaling == RopeScaling::linear) {
    json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", config.rope_factor}};
  } else if (config.rope_scaling == RopeScaling::llama3) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", config.rope_factor},
                            {"low_freq_factor", config.rope_low_freq_factor},
                            {"high_freq_factor", config.rope_high_freq_factor},
                            {"original_max_position_embeddings", config.rope_original_max_position}};
  }
  if (config.sliding_window > 0) json["sliding_window"] = config.sliding_window;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["attention_bias"] = config.attention_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["hidden_act"] = config.hidden_act;
  if (config.bos_token_id >= 0) json["bos_token_id"] = config.bos_token_id;
  if (config.eos_token_ids.size() == 1) json["eos_token_id"] = config.eos_token_ids[0];
  if (config.eos_token_ids.size() > 1) json["eos_token_id"] = config.eos_token_ids;
  if (config.pad_token_id >= 0) json["pad_token_id"] = config.pad_token_id;
  json["torch_dtype"] = torch_dtype;
  return json;
}

std::vector<double> rope_frequencies(const ModelConfig& config) {
  const std::int64_t half = config.head_dim / 2;
  std::vector<double> out(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    double frequency =
        std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim));
    if (static_cast<std::size_t>(i) < config.rope_freq_factors.size()) {
      frequency /= config.rope_freq_factors[static_cast<std::size_t>(i)];
    } else if (config.rope_scaling == RopeScaling::linear) {
      frequency /= config.rope_factor;
    } else if (config.rope_scaling == RopeScaling::llama3) {
      const double wavelength = 2.0 * std::numbers::pi / frequency;
      const double low = config.rope_original_max_position / config.rope_low_freq_factor;
      const double high = config.rope_original_max_position / config.rope_high_freq_factor;
      if (wavelength > low) {
        frequency /= config.rope_factor;
      } else if (wavelength >= high) {
        const double smooth = (config.rope_original_max_position / wavelength - config.rope_low_freq_factor) /
                              (config.rope_high_freq_factor - config.rope_low_freq_factor);
        frequency = (1.0 - smooth) * frequency / config.rope_factor + smooth * frequency;
      }
    }
    out[static_cast<std::size_t>(i)] = frequency;
  }
  return out;
}

}  // namespace tern::models
