#include "models/eagle3.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/dtype.h"
#include "base/strings.h"
#include "io/json_field.h"
#include "models/config_read.h"
#include "models/parameter_reader.h"
#include "models/registry.h"
#include "models/rope.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "nn/side_by_side.h"

namespace tern::models {
namespace {

using nn::Value;

constexpr const char* kAgain = "take the head's config.json from its repository again";
constexpr const char* kOther = "take a head that was trained for this model";
constexpr const char* kLayer = "midlayer";
constexpr const char* kAttention = ".midlayer.self_attn";
constexpr const char* kToTarget = "d2t";  // ids of the model less those of the head
constexpr const char* kStreams = "eagle_aux_hidden_state_layer_ids";
constexpr const char* kNested = "transformer_layer_config";  // of speculators: the layer's own fields

struct Config {
  ModelConfig layer;
  std::vector<std::int64_t> streams;
  std::int64_t draft_vocab = 0;
  std::int64_t target_hidden = 0;
  bool residual_is_normed = false;
};

// Fields beside those of Llama.
const std::vector<std::string>& own_keys() {
  static const std::vector<std::string> keys = {"draft_vocab_size",       "target_hidden_size",
                                                "eagle_config",           kStreams,
                                                "norm_before_residual",   kNested,
                                                "speculators_config",     "speculators_model_type",
                                                "speculators_version",    "target_model_type",
                                                "has_no_defaults_at_init"};
  return keys;
}

// SpecForge and SGLang number a layer by what it gives, in eagle_config; vLLM by what it reads, in the field itself.
// Without either they are the reference's: the third layer's, the middle one's and the third last one's.
std::vector<std::int64_t> streams_of(const io::JsonField& json, std::int64_t layers) {
  std::vector<std::int64_t> streams;
  const auto nested = json.find("eagle_config");
  const auto given = nested ? nested->find(kStreams) : std::nullopt;
  const auto field = given ? given : json.find(kStreams);
  if (field) streams = field->integers();
  if (streams.empty() && layers < 3)
    throw Failure(json.place().field(kStreams).error(cat("layers of a model of ", layers), "none", kOther));
  if (streams.empty()) return {2, layers / 2, layers - 3};
  for (std::int64_t& layer : streams) layer += given ? 1 : 0;
  for (const std::int64_t layer : streams) {
    if (layer < 0 || layer > layers) throw field->wrong(cat("layers of a model of ", layers), kOther);
  }
  return streams;
}

void require_eagle3(const io::JsonField& json) {
  const auto classes = json.find("architectures");
  const std::vector<std::string> names = classes ? classes->texts() : std::vector<std::string>();
  const bool named = std::any_of(names.begin(), names.end(),
                                 [](const auto& name) { return name.find("Eagle3") != std::string::npos; });
  // SafeAILab's own say LlamaForCausalLM.
  if (named || json.text("speculators_model_type", "") == "eagle3" || json.find("draft_vocab_size")) return;
  throw Failure(json.place().error("the head of EAGLE-3, with draft_vocab_size or a class of Eagle3",
                                   cat("that of ", names.empty() ? "another model" : names.front()),
                                   "name a head's folder, or leave \"method\" out for a draft model"));
}

void require_size(const io::JsonField& json, const char* key, const char* what, std::int64_t expected,
                  std::int64_t got) {
  if (expected == got) return;
  throw Failure(json.place().field(key).error(cat("the model's ", what, ", ", expected), cat(got), kOther));
}

Config read_config(const checkpoint::CheckpointSource& source, const ModelConfig& model) {
  const std::string file = (source.directory() / "config.json").string();
  if (source.config() == nullptr) {
    throw Failure(data_error(file, "the configuration of an EAGLE-3 head", "no such file", "name a head's folder"));
  }
  const io::JsonField json(*source.config(), file, kAgain);
  require_eagle3(json);
  const io::JsonField own = json.find(kNested).value_or(json);
  Config config;
  config.layer.architecture = "LlamaForCausalLM";
  const std::vector<Field>& fields = find_architecture(config.layer.architecture)->fields;
  read_fields(own, fields, config.layer);
  read_rope_json(own, config.layer);
  refuse_unknown_fields(json, fields, own_keys(), "an EAGLE-3 head");
  if (json.find(kNested)) refuse_unknown_fields(own, fields, {}, "the layer of an EAGLE-3 head");
  if (config.layer.num_hidden_layers != 1) {
    throw Failure(own.place().field("num_hidden_layers").error("1 layer", cat(config.layer.num_hidden_layers), kOther));
  }
  config.target_hidden = json.integer("target_hidden_size", config.layer.hidden_size);
  require_size(json, json.find("target_hidden_size") ? "target_hidden_size" : "hidden_size", "hidden size",
               model.hidden_size, config.target_hidden);
  require_size(own, "vocab_size", "vocabulary", model.vocab_size - model.added_rows, config.layer.vocab_size);
  config.draft_vocab = json.integer("draft_vocab_size", config.layer.vocab_size);
  config.residual_is_normed = json.boolean("norm_before_residual", false);
  const auto eagle = json.find("eagle_config");
  if (eagle && !eagle->boolean("use_aux_hidden_state", true)) {
    throw eagle->at("use_aux_hidden_state").wrong("true: EAGLE-3 reads streams of three layers", kOther);
  }
  config.streams = streams_of(json, model.num_hidden_layers);
  return config;
}

// The head's own name of a tensor; "" of those that are no weights.
std::string own_name(const std::string& tensor) {
  if (tensor == kToTarget || tensor == "t2d") return "";
  constexpr std::string_view kFirst = "layers.0.";
  return tensor.starts_with(kFirst) ? cat(kLayer, ".", tensor.substr(kFirst.size())) : tensor;
}

// The model's ids, from how far each lies behind the head's own.
std::vector<std::int32_t> read_target_ids(const checkpoint::CheckpointSource& source, const Config& config,
                                          std::int64_t vocab) {
  const checkpoint::SourceTensor* stored = source.find(kToTarget);
  const std::string where = cat(source.path().string(), ": tensor ", kToTarget);
  if (stored == nullptr) {
    if (config.draft_vocab == config.layer.vocab_size) return {};
    throw Failure(data_error(where,
                             cat("which of the model's ", vocab, " tokens the head's ", config.draft_vocab, " are"),
                             "no such tensor", "take the head's weights from its repository again"));
  }
  if (stored->shape != std::vector<std::int64_t>{config.draft_vocab}) {
    throw Failure(data_error(where, cat("[", config.draft_vocab, "], as draft_vocab_size says"),
                             to_string(make_desc(TERN_I64, stored->shape)), kAgain));
  }
  std::vector<float> behind(static_cast<std::size_t>(config.draft_vocab));
  source.read_f32(*stored, behind).value();
  std::vector<std::int32_t> ids;
  for (std::size_t own = 0; own < behind.size(); ++own) {
    const double id = static_cast<double>(own) + behind[own];
    if (id < 0 || id >= static_cast<double>(vocab)) {
      throw Failure(data_error(cat(where, "[", own, "]"), cat("a token of the model's ", vocab), cat(id), kOther));
    }
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

class Eagle3Head : public SpeculativeHead {
 public:
  Eagle3Head(std::shared_ptr<checkpoint::CheckpointSource> source, const ModelConfig& model)
      : source_(std::move(source)),
        config_(read_config(*source_, model)),
        target_ids_(read_target_ids(*source_, config_, model.vocab_size)),
        has_words_(source_->find("embed_tokens.weight") != nullptr) {
    if (has_words_ || config_.layer.hidden_size == model.hidden_size) return;
    throw Failure(data_error(source_->path().string(), "embed_tokens.weight, as the head isn't of the model's size",
                             "no such tensor", kOther));
  }

  Status load(LoadedModel& model, const LoadOptions& options) override {
    return catching([&] {
      prefix_ = "eagle3";
      for (int next = 2; model.store->find(prefix_ + ".fc.weight") != nullptr; ++next) prefix_ = cat("eagle3-", next);
      ParameterReader reader(*source_, own_name);
      const std::vector<ParameterSpec> specs = parameters();
      reader.require_all(specs, config_.layer);
      LoadOptions own = options;
      own.dtype = model.dtype;
      own.quantise.reset();
      for (const std::string& note : load_parameters(specs, reader, source_, *model.store, own).value())
        model.notes.push_back(cat(name(), ": ", note));
      const std::int64_t rows =
          options.max_positions > 0 ? options.max_positions : config_.layer.max_position_embeddings;
      const RopeTable table = scaled_rope_table(config_.layer);
      std::vector<double> amplitudes;
      for (std::int64_t at = 0; at < rows; ++at) amplitudes.push_back(table.amplitude_at(at));
      const bool is_long = !table.long_frequencies.empty() && static_cast<double>(rows) > table.border;
      nn::add_rope_table(*model.store, prefix_, is_long ? table.long_frequencies : table.frequencies, amplitudes);
      return Unit{};
    });
  }

  std::string name() const override { return "EAGLE-3 head"; }
  std::string description() const override {
    return cat(name(), ": ", source_->path().string(), ", of layers ", join(words_of(config_.streams), ", "), ", ",
               config_.draft_vocab, " tokens");
  }
  std::vector<std::shared_ptr<const io::MappedFile>> files() const override { return source_->files(); }
  double bytes(const graph::TensorStore& store) const override {
    double sum = 0;
    for (const ParameterSpec& spec : parameters()) {
      if (spec.name == stored("embed_tokens.weight") || spec.name == stored("fc.weight")) continue;
      sum += static_cast<double>(total_bytes(store.at(spec.name).desc));
    }
    return sum;
  }

  const std::vector<std::int64_t>& streams() const override { return config_.streams; }
  std::int64_t state_width() const override {
    return static_cast<std::int64_t>(config_.streams.size()) * config_.target_hidden;
  }
  std::int64_t hidden_size() const override { return config_.layer.hidden_size; }
  std::vector<nn::CacheSpec> cache_specs() const override {
    return {{.kind = nn::CacheKind::full,
             .module = prefix_ + kAttention,
             .kv_heads = config_.layer.num_key_value_heads,
             .key_dim = config_.layer.head_dim,
             .value_dim = config_.layer.head_dim}};
  }
  const std::vector<std::int32_t>& target_ids() const override { return target_ids_; }

  Value first_states(nn::Context& context, Value states) const override {
    return nn::linear(context, stored("fc"), states);
  }

  Value next_states(nn::Context& context, const nn::TokenInputs& inputs, Value next_ids, Value states) const override {
    const double eps = config_.layer.rms_norm_eps;
    const std::string module = stored(kLayer);
    const Value words =
        nn::embedding(context, has_words_ ? stored("embed_tokens") : std::string("model.embed_tokens"), next_ids);
    nn::Residual x(states);
    const Value normed = nn::norm(context, module + ".hidden_norm", eps, x);
    if (config_.residual_is_normed) x = nn::Residual(normed);
    const Value both =
        nn::side_by_side(context, nn::branch_norm(context, module + ".input_layernorm", eps, words), normed);
    const nn::AttentionConfig attention{.heads = config_.layer.num_attention_heads,
                                        .kv_heads = config_.layer.num_key_value_heads,
                                        .head_dim = config_.layer.head_dim,
                                        .rope = prefix_};
    if (config_.residual_is_normed) (void)nn::stream(context, x);
    x.add(nn::attention(context, module + ".self_attn", attention, inputs, both));
    x.add(nn::gated_mlp(context, module + ".mlp", nn::norm(context, module + ".post_attention_layernorm", eps, x)));
    return nn::stream(context, x);
  }

  Value logits(nn::Context& context, Value states) const override {
    const Value rows = nn::branch_norm(context, stored("norm"), config_.layer.rms_norm_eps, states);
    return nn::logits(context, {.weight = stored("lm_head.weight")}, rows);
  }

 private:
  [[nodiscard]] std::string stored(const std::string& part) const { return cat(prefix_, ".", part); }

  static std::vector<std::string> words_of(const std::vector<std::int64_t>& numbers) {
    std::vector<std::string> words;
    for (const std::int64_t number : numbers) words.push_back(cat(number));
    return words;
  }

  [[nodiscard]] std::vector<ParameterSpec> parameters() const {
    const ModelConfig& c = config_.layer;
    const std::int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
    const std::string layer = kLayer;
    const std::string attention = layer + ".self_attn";
    ParameterList list;
    if (has_words_) list.embedding("embed_tokens", "", c.vocab_size, c.hidden_size);
    list.linear("fc", "", {c.hidden_size, state_width()});
    for (const char* norm : {".input_layernorm", ".hidden_norm", ".post_attention_layernorm"})
      list.norm(layer + norm, "", c.hidden_size);
    list.linear(attention + ".q_proj", "", {q, 2 * c.hidden_size, c.attention_bias});
    list.linear(attention + ".k_proj", "", {kv, 2 * c.hidden_size, c.attention_bias});
    list.linear(attention + ".v_proj", "", {kv, 2 * c.hidden_size, c.attention_bias});
    list.linear(attention + ".o_proj", "", {c.hidden_size, q, c.attention_bias});
    list.linear(layer + ".mlp.gate_proj", "", {c.intermediate_size, c.hidden_size, c.mlp_bias});
    list.linear(layer + ".mlp.up_proj", "", {c.intermediate_size, c.hidden_size, c.mlp_bias});
    list.linear(layer + ".mlp.down_proj", "", {c.hidden_size, c.intermediate_size, c.mlp_bias});
    list.norm("norm", "", c.hidden_size);
    list.head("lm_head", "", config_.draft_vocab, c.hidden_size);
    std::vector<ParameterSpec> specs = list.take();
    for (ParameterSpec& spec : specs) spec.name = stored(spec.name);
    return specs;
  }

  std::shared_ptr<checkpoint::CheckpointSource> source_;
  Config config_;
  std::vector<std::int32_t> target_ids_;
  bool has_words_;
  std::string prefix_ = "eagle3";  // of its names in the store
};

}  // namespace

Result<std::unique_ptr<SpeculativeHead>> open_eagle3(std::shared_ptr<checkpoint::CheckpointSource> source,
                                                     const ModelConfig& model) {
  return catching(
      [&]() -> std::unique_ptr<SpeculativeHead> { return std::make_unique<Eagle3Head>(std::move(source), model); });
}

}  // namespace tern::models
