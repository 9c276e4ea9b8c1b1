#include "models/gguf_names.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "base/strings.h"
#include "checkpoint/logical_tensors.h"
#include "models/registry.h"

namespace tern::models {
namespace {

// Each row's place in a head, on the way to GGUF: row (head, i, half) comes from (head, half, i), so that the pairs
// that rope turns stand side by side. The way back undoes it.
std::vector<std::int64_t> row_order(std::int64_t rows, std::int64_t heads, bool to_gguf) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  const std::int64_t per_head = rows / heads;
  const std::int64_t half = per_head / 2;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t part = 0; part < 2; ++part) {
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t halves = head * per_head + part * half + i;
        const std::int64_t pairs = head * per_head + 2 * i + part;
        order[static_cast<std::size_t>(to_gguf ? pairs : halves)] = to_gguf ? halves : pairs;
      }
    }
  }
  return order;
}

using SpecsByName = std::map<std::string, ParameterSpec>;

// Sets `rename` and `row_order` once every parameter was found with its shape.
void set_names(const checkpoint::CheckpointSource& source, const ModelConfig& config, bool to_gguf,
               checkpoint::ConvertOptions& options) {
  auto specs = std::make_shared<SpecsByName>();
  for (const auto& spec : find_architecture(config.architecture)->parameters(config)) {
    (*specs)[to_gguf ? spec.name : spec.gguf_name] = spec;
  }
  SpecsByName missing = *specs;
  for (const auto& tensor : checkpoint::logical_tensors(source).value()) {
    const auto found = missing.find(tensor.name);
    if (found == missing.end()) continue;
    if (tensor.shape != found->second.shape) {
      throw Failure(data_error(cat(source.path().string(), ": tensor ", tensor.name),
                               "the shape that its configuration implies", "another",
                               "configuration and weights belong to different models"));
    }
    missing.erase(found);
  }
  if (!missing.empty()) {
    throw Failure(data_error(cat(source.path().string(), ": tensor ", missing.begin()->first),
                             cat("all tensors of ", config.architecture), cat(missing.size(), " absent"),
                             "the checkpoint is of another architecture, or its configuration is"));
  }
  const bool tied = config.tie_word_embeddings;
  options.rename = [specs, to_gguf, tied, where = source.path().string()](const std::string& name) -> std::string {
    const auto found = specs->find(name);
    if (found != specs->end()) return to_gguf ? found->second.gguf_name : found->second.name;
    // Derived from the configuration, or equal to the embedding.
    if (name == "rope_freqs.weight" || name.ends_with(".rotary_emb.inv_freq")) return {};
    if (tied && name == "lm_head.weight") return {};
    throw Failure(data_error(cat(where, ": tensor ", name), "only tensors whose other name is known", "one without",
                             "the checkpoint is of another architecture, or its configuration is"));
  };
  options.row_order = [specs, to_gguf](const std::string& name) -> std::vector<std::int64_t> {
    const auto found = specs->find(name);
    if (found == specs->end() || found->second.interleaved_heads == 0) return {};
    return row_order(found->second.shape[0], found->second.interleaved_heads, to_gguf);
  };
}

// What the frequencies are divided by, [head_dim / 2]; all one without scaling.
std::vector<float> rope_factors(ModelConfig config) {
  const std::vector<double> scaled = rope_frequencies(config);
  config.rope_scaling = RopeScaling::none;
  config.rope_freq_factors.clear();
  const std::vector<double> plain = rope_frequencies(config);
  std::vector<float> factors(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) factors[i] = static_cast<float>(plain[i] / scaled[i]);
  return factors;
}

// The llama3 scaling whose factors a GGUF's rope_freqs.weight holds. The bounds of the frequencies are those of Llama
// 3.1 and all later models (1 and 4); the context it was first trained on is 8192 there, a power of two anyhow.
ModelConfig named_scaling(ModelConfig config, const std::string& where) {
  if (config.rope_freq_factors.empty()) return config;
  const std::vector<float> held = config.rope_freq_factors;
  config.rope_freq_factors.clear();
  if (std::all_of(held.begin(), held.end(), [](float factor) { return factor == 1.0F; })) return config;
  config.rope_scaling = RopeScaling::llama3;
  config.rope_factor = *std::max_element(held.begin(), held.end());
  config.rope_low_freq_factor = 1.0;
  config.rope_high_freq_factor = 4.0;
  const auto gives_them = [&](std::int64_t first_context) {
    config.rope_original_max_position = static_cast<double>(first_context);
    const std::vector<float> made = rope_factors(config);
    return made.size() == held.size() && std::equal(made.begin(), made.end(), held.begin(), [](float a, float b) {
             return std::fabs(a - b) <= 1e-4F * std::fabs(b);
           });
  };
  if (gives_them(8192)) return config;
  for (std::int64_t context = 16; context <= (std::int64_t{1} << 24); context *= 2) {
    if (gives_them(context)) return config;
  }
  throw Failure(data_error(cat(where, ": tensor rope_freqs.weight"), "the factors of Llama 3.1's rope scaling",
                           "others, which config.json cannot say", "keep this model as a GGUF"));
}

std::string size_label(std::int64_t parameters) {
  const double millions = static_cast<double>(parameters) / 1e6;
  return millions < 1000 ? cat(std::llround(millions), "M") : cat(fixed(millions / 1000, 1), "B");
}

checkpoint::GgufMetadata metadata_of(const ModelConfig& config, const std::string& name) {
  checkpoint::GgufMetadata out;
  const std::string architecture = gguf_architecture(config);
  const auto key = [&](const char* last) { return cat(architecture, ".", last); };
  const auto count = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  out.set("general.architecture", architecture);
  out.set("general.type", "model");
  out.set("general.name", name);
  out.set("general.size_label", size_label(config.num_parameters()));
  out.set(key("block_count"), count(config.num_hidden_layers));
  out.set(key("context_length"), count(config.max_position_embeddings));
  out.set(key("embedding_length"), count(config.hidden_size));
  out.set(key("feed_forward_length"), count(config.intermediate_size));
  out.set(key("attention.head_count"), count(config.num_attention_heads));
  out.set(key("attention.head_count_kv"), count(config.num_key_value_heads));
  out.set(key("rope.freq_base"), static_cast<float>(config.rope_theta));
  out.set(key("attention.layer_norm_rms_epsilon"), static_cast<float>(config.rms_norm_eps));
  out.set(key("attention.key_length"), count(config.head_dim));
  out.set(key("attention.value_length"), count(config.head_dim));
  out.set(key("vocab_size"), count(config.vocab_size));
  out.set(key("rope.dimension_count"), count(config.head_dim));
  if (config.sliding_window > 0) out.set(key("attention.sliding_window"), count(config.sliding_window));
  if (config.rope_scaling == RopeScaling::linear) {
    out.set(key("rope.scaling.type"), "linear");
    out.set(key("rope.scaling.factor"), static_cast<float>(config.rope_factor));
  }
  return out;
}

}  // namespace

std::string gguf_architecture(const ModelConfig& config) {
  const std::string type = model_type_of_architecture(config.architecture);
  return type == "mistral" ? "llama" : type;
}

Status set_gguf_form(const checkpoint::CheckpointSource& source, const ModelConfig& config, const std::string& name,
                     checkpoint::ConvertOptions& options) {
  return catching([&] {
    set_names(source, config, true, options);
    options.metadata = metadata_of(config, name);
    if (config.rope_scaling == RopeScaling::llama3) {
      options.added.push_back({"rope_freqs.weight", {config.head_dim / 2}, rope_factors(config)});
    }
    return Unit{};
  });
}

Result<ModelConfig> set_hugging_face_form(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                                          checkpoint::ConvertOptions& options) {
  return catching([&] {
    set_names(source, config, false, options);
    return named_scaling(config, source.path().string());
  });
}

}  // namespace tern::models
