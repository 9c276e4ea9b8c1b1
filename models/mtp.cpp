#include "models/mtp.h"

#include <algorithm>
#include <utility>

#include "base/dtype.h"
#include "base/strings.h"
#include "models/parameter_reader.h"
#include "models/registry.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/side_by_side.h"

namespace tern::models {
namespace {

using nn::Value;

constexpr const char* kLayers = "num_nextn_predict_layers";
constexpr const char* kLayersApart = "mtp_num_hidden_layers";
constexpr const char* kModelWords = "model.embed_tokens";
constexpr const char* kModelHead = "lm_head.weight";
constexpr const char* kOtherwise = R"(guess otherwise, with {"method": "ngram", "num_speculative_tokens": 5} say)";

// With the layer behind the model's own counted, whose tensors aren't passed over then.
ModelConfig one_layer_more(ModelConfig config) {
  ++config.num_hidden_layers;
  config.own.erase(kLayersApart);
  return config;
}

std::string layer_name(const ModelConfig& model) { return cat("model.layers.", model.num_hidden_layers); }

// What a checkpoint calls the parts of the layer, and the layer as an architecture's parameters and caches have it.
struct Names {
  std::string own;  // before all of them
  std::string layer;
  std::string word_norm;   // of the next token's word,
  std::string state_norm;  // of the model's state,
  std::string join;        // and the projection that makes one of both
  std::string norm;        // of what the layer gives
  std::string words;       // the embedding and the output projection, where they aren't the model's
  std::string head;
  float norm_offset = 0.0F;  // to the weights of these norms
};

// As DeepSeek has them: all in the layer behind the model's last.
Names names_behind(const std::string& layer) {
  return {.own = layer + ".",
          .layer = layer,
          .word_norm = layer + ".enorm",
          .state_norm = layer + ".hnorm",
          .join = layer + ".eh_proj",
          .norm = layer + ".shared_head.norm",
          .words = layer + ".embed_tokens",
          .head = layer + ".shared_head.head"};
}

// As Qwen has them: beside the model.
Names names_apart() {
  return {.own = "mtp.",
          .layer = "mtp.layers.0",
          .word_norm = "mtp.pre_fc_norm_embedding",
          .state_norm = "mtp.pre_fc_norm_hidden",
          .join = "mtp.fc",
          .norm = "mtp.norm",
          .words = "mtp.embed_tokens",
          .head = "mtp.lm_head",
          .norm_offset = 1.0F};
}

Names names_of(const ModelConfig& model) {
  const Architecture* architecture = find_architecture(model.architecture);
  return architecture->predicts_apart ? names_apart() : names_behind(layer_name(model));
}

std::string served() {
  std::vector<std::string> names;
  for (const Architecture& one : architectures()) {
    if (one.layer != nullptr) names.push_back(one.name);
  }
  return join(names, ", ");
}

void require_layer(const checkpoint::CheckpointSource& source, const ModelConfig& model) {
  const std::string where = source.path().string();
  if (find_architecture(model.architecture)->layer == nullptr) {
    throw Failure(data_error(where, cat("a model whose layer for further tokens is computed here: ", served()),
                             model.architecture, kOtherwise));
  }
  if (source.gguf() != nullptr) {
    throw Failure(data_error(where, "safetensors, as a layer for further tokens isn't read from a GGUF", "a GGUF",
                             cat("name the model's repository of safetensors, or ", kOtherwise)));
  }
  // Qwen3-Next's says nothing of it, whatever the checkpoint has.
  if (!find_architecture(model.architecture)->predicts_apart && model.own_field<std::int64_t>(kLayers) == 0) {
    throw Failure(
        data_error(cat(where, "/config.json: field \"", kLayers, "\""), "a layer for further tokens", "0", kOtherwise));
  }
  const std::string first = names_of(model).word_norm + ".weight";
  if (source.find(first) != nullptr) return;
  throw Failure(data_error(cat(where, ": tensor ", first), "the layer for further tokens", "no such tensor",
                           cat("take the weights that the model's makers published, as what transformers or tern saved "
                               "of them lacks this layer; or ",
                               kOtherwise)));
}

class MtpHead : public SpeculativeHead {
 public:
  MtpHead(std::shared_ptr<checkpoint::CheckpointSource> source, const ModelConfig& model)
      : source_(std::move(source)), config_(one_layer_more(model)), last_layer_(layer_name(model)) {
    require_layer(*source_, model);
    names_ = names_of(model);
    architecture_ = find_architecture(model.architecture);
    head_ = architecture_->head(model);
    // The report shares both with the model; checkpoints hold them twice, to the bit.
    if (has_own(names_.words, cat(kModelWords, ".weight"))) words_ = names_.words;
    own_head_ = has_own(names_.head, model.tie_word_embeddings ? "model.embed_tokens.weight" : kModelHead);
    if (own_head_) head_.weight = names_.head + ".weight";
  }

  Status load(LoadedModel& model, const LoadOptions& options) override {
    return catching([&] {
      if (model.store->find(names_.join + ".weight") != nullptr) return Unit{};  // a head before it read them
      ParameterReader reader(*source_, [&](const std::string& tensor) { return own_name(tensor); });
      const std::vector<ParameterSpec> specs = parameters();
      reader.require_all(specs, config_);
      LoadOptions own = options;
      own.dtype = model.dtype;
      for (const std::string& note : load_parameters(specs, reader, source_, *model.store, own).value())
        model.notes.push_back(cat(name(), ": ", note));
      return Unit{};
    });
  }

  [[nodiscard]] std::string name() const override { return "MTP head"; }
  [[nodiscard]] std::string description() const override {
    return cat(name(), ": ", names_.layer, " of ", source_->path().string(), ", with ",
               words_ == kModelWords ? "the model's" : "its own", " embedding and ",
               own_head_ ? "its own" : "the model's", " output projection");
  }
  [[nodiscard]] std::vector<std::shared_ptr<const io::MappedFile>> files() const override { return {}; }
  [[nodiscard]] double bytes(const graph::TensorStore& store) const override {
    double sum = own_head_ ? 0 : static_cast<double>(total_bytes(store.at(head_.weight).desc));
    for (const ParameterSpec& spec : parameters()) {
      if (spec.name == names_.words + ".weight") continue;
      sum += static_cast<double>(total_bytes(store.at(spec.name).desc));
    }
    return sum;
  }

  [[nodiscard]] const std::vector<std::int64_t>& streams() const override { return streams_; }
  [[nodiscard]] std::int64_t state_width() const override { return config_.hidden_size; }
  [[nodiscard]] std::int64_t hidden_size() const override { return config_.hidden_size; }
  [[nodiscard]] std::vector<nn::CacheSpec> cache_specs() const override {
    std::vector<nn::CacheSpec> specs = architecture_->cache_specs(config_);
    std::erase_if(specs, [&](const nn::CacheSpec& spec) { return !is_of_layer(spec.module); });
    for (nn::CacheSpec& spec : specs) rename(spec.module);
    return specs;
  }
  [[nodiscard]] const std::vector<std::int32_t>& target_ids() const override { return target_ids_; }

  Value first_states(nn::Context& /*context*/, Value states) const override { return states; }

  // h' = shared_head.norm(layer(eh_proj [enorm(word) | hnorm(h)])), of which the head makes logits (the report's
  // formulas 21 to 23; it writes the two the other way round, published weights have the word first). What follows
  // reads h' in the place of the model's h, which is behind the model's final norm, too: so do transformers and SGLang.
  // vLLM leaves that norm out there, and has zeros for the first pair's word.
  Value next_states(nn::Context& context, const nn::TokenInputs& inputs, Value next_ids, Value states) const override {
    const double eps = config_.rms_norm_eps;
    const float offset = names_.norm_offset;
    const Value word =
        nn::branch_norm(context, names_.word_norm, eps, nn::embedding(context, words_, next_ids), offset);
    const Value state = nn::branch_norm(context, names_.state_norm, eps, states, offset);
    nn::Residual x(nn::linear(context, names_.join, nn::side_by_side(context, word, state)));
    architecture_->layer(context, config_, inputs)(config_.num_hidden_layers - 1, names_.layer, x);
    return nn::norm(context, names_.norm, eps, x, offset);
  }

  Value logits(nn::Context& context, Value states) const override { return nn::logits(context, head_, states); }

 private:
  // Of the layer by the name that its architecture gives it.
  [[nodiscard]] bool is_of_layer(const std::string& name) const { return name.starts_with(last_layer_ + "."); }
  void rename(std::string& name) const {
    if (is_of_layer(name)) name.replace(0, last_layer_.size(), names_.layer);
  }

  // Whether the layer has a tensor that isn't the model's. Rows of new tokens are the model's alone.
  [[nodiscard]] bool has_own(const std::string& module, const std::string& of_model) const {
    const checkpoint::SourceTensor* own = source_->find(module + ".weight");
    if (own == nullptr || config_.added_rows > 0) return false;
    const checkpoint::SourceTensor* other = source_->find(of_model);
    return other == nullptr || own->shape != other->shape || own->storage.name != other->storage.name ||
           !std::ranges::equal(own->bytes, other->bytes);
  }

  // "" of the model's tensors, of those that the layer has twice, and of further layers that Qwen's form numbers.
  [[nodiscard]] std::string own_name(const std::string& tensor) const {
    const bool is_words = tensor == names_.words + ".weight", is_head = tensor == names_.head + ".weight";
    if (!tensor.starts_with(names_.own) || (is_words && words_ == kModelWords) || (is_head && !own_head_)) return "";
    const bool is_of_some_layer = tensor.starts_with(names_.own + "layers.");
    return is_of_some_layer && !tensor.starts_with(names_.layer + ".") ? "" : tensor;
  }

  [[nodiscard]] std::vector<ParameterSpec> parameters() const {
    const std::int64_t hidden = config_.hidden_size;
    ParameterList list;
    list.norm(names_.word_norm, "", hidden);
    list.norm(names_.state_norm, "", hidden);
    list.linear(names_.join, "", {hidden, 2 * hidden});
    list.norm(names_.norm, "", hidden);
    if (words_ != kModelWords) list.embedding(words_, "", config_.vocab_size, hidden);
    if (own_head_) list.head(names_.head, "", config_.vocab_size, hidden);
    std::vector<ParameterSpec> specs = architecture_->parameters(config_);
    std::erase_if(specs, [&](const ParameterSpec& spec) { return !is_of_layer(spec.name); });
    for (ParameterSpec& spec : specs) {
      rename(spec.name);
      for (std::string& tensor : spec.hugging_face.tensors) rename(tensor);
      for (std::string& tensor : spec.published.tensors) rename(tensor);
    }
    std::ranges::move(list.take(), std::back_inserter(specs));
    return specs;
  }

  std::shared_ptr<checkpoint::CheckpointSource> source_;
  ModelConfig config_;
  std::string last_layer_;  // "model.layers.46": one behind the model's last
  Names names_;             // in the checkpoint and in the store
  const Architecture* architecture_ = nullptr;
  std::string words_ = kModelWords;  // the embedding's module
  nn::Head head_;
  bool own_head_ = false;
  std::vector<std::int64_t> streams_;     // the states after the final norm
  std::vector<std::int32_t> target_ids_;  // the vocabulary is the model's
};

}  // namespace

Result<std::unique_ptr<SpeculativeHead>> open_mtp(std::shared_ptr<checkpoint::CheckpointSource> source,
                                                  const ModelConfig& model) {
  return catching(
      [&]() -> std::unique_ptr<SpeculativeHead> { return std::make_unique<MtpHead>(std::move(source), model); });
}

}  // namespace tern::models
