#include "tests/support/eagle3_head.h"

#include <cmath>
#include <fstream>
#include <random>
#include <stdexcept>

namespace tern::test {
namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kHeadDim = 16, kWide = 48;

std::int64_t head_rows(const Eagle3Shape& shape) { return shape.draft_vocab > 0 ? shape.draft_vocab : shape.vocab; }

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string numbers(const std::vector<std::int64_t>& values, std::int64_t added = 0) {
  std::string text;
  for (const std::int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value + added);
  return "[" + text + "]";
}

std::string config_of(const Eagle3Shape& shape) {
  const auto field = [](const char* key, std::int64_t value) {
    return ",\"" + std::string(key) + "\":" + std::to_string(value);
  };
  const std::string layer =
      R"("model_type":"llama","hidden_act":"silu","num_hidden_layers":1,"rms_norm_eps":1e-5,"rope_theta":10000.0,)"
      R"("bos_token_id":1,"eos_token_id":2,"tie_word_embeddings":false,"max_window_layers":64,"use_cache":true)" +
      field("max_position_embeddings", 512) + field("hidden_size", shape.hidden) + field("intermediate_size", kWide) +
      field("num_attention_heads", kHeads) + field("num_key_value_heads", kKvHeads) + field("head_dim", kHeadDim) +
      field("vocab_size", shape.vocab);
  if (!shape.is_of_speculators) {
    return R"({"architectures":["LlamaForCausalLMEagle3"],"eagle_config":{"eagle_aux_hidden_state_layer_ids":)" +
           numbers(shape.layers) + R"(,"use_aux_hidden_state":true},"torch_dtype":"float32",)" + layer +
           field("draft_vocab_size", head_rows(shape)) + "}";
  }
  return R"({"architectures":["Eagle3Speculator"],"speculators_model_type":"eagle3","norm_before_residual":true,)"
         R"("eagle_aux_hidden_state_layer_ids":)" +
         numbers(shape.layers, 1) + R"(,"transformer_layer_config":{)" + layer + "}" +
         field("draft_vocab_size", head_rows(shape)) + "}";
}

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

std::vector<Tensor> weights_of(const Eagle3Shape& shape) {
  const std::string layer = shape.is_of_speculators ? "layers.0." : "midlayer.";
  const std::int64_t q = kHeads * kHeadDim, kv = kKvHeads * kHeadDim, hidden = shape.hidden;
  std::vector<Tensor> tensors = {{"fc.weight", {hidden, static_cast<std::int64_t>(shape.layers.size()) * hidden}},
                                 {layer + "input_layernorm.weight", {hidden}},
                                 {layer + "hidden_norm.weight", {hidden}},
                                 {layer + "post_attention_layernorm.weight", {hidden}},
                                 {layer + "self_attn.q_proj.weight", {q, 2 * hidden}},
                                 {layer + "self_attn.k_proj.weight", {kv, 2 * hidden}},
                                 {layer + "self_attn.v_proj.weight", {kv, 2 * hidden}},
                                 {layer + "self_attn.o_proj.weight", {hidden, q}},
                                 {layer + "mlp.gate_proj.weight", {kWide, hidden}},
                                 {layer + "mlp.up_proj.weight", {kWide, hidden}},
                                 {layer + "mlp.down_proj.weight", {hidden, kWide}},
                                 {"norm.weight", {hidden}},
                                 {"lm_head.weight", {head_rows(shape), hidden}}};
  if (shape.has_words) tensors.push_back({"embed_tokens.weight", {shape.vocab, hidden}});
  return tensors;
}

// A file of safetensors, tensor by tensor.
class File {
 public:
  void add(const Tensor& tensor, const char* dtype, const void* bytes, std::size_t count) {
    const std::size_t begin = data_.size();
    data_.append(static_cast<const char*>(bytes), count);
    header_ += (header_ == "{" ? "\"" : ",\"") + tensor.name + R"(":{"dtype":")" + dtype + R"(","shape":)" +
               numbers(tensor.shape) + R"(,"data_offsets":[)" + std::to_string(begin) + "," +
               std::to_string(data_.size()) + "]}";
  }
  [[nodiscard]] std::string text() const {
    std::string header = header_ + "}";
    while (header.size() % 8 != 0) header += ' ';
    const std::uint64_t size = header.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data_;
  }

 private:
  std::string header_ = "{";
  std::string data_;
};

}  // namespace

void write_eagle3_head(const std::filesystem::path& directory, const Eagle3Shape& shape) {
  std::filesystem::create_directories(directory);
  write_file(directory / "config.json", config_of(shape));
  File file;
  std::vector<std::int64_t> behind;  // token 2i of the model is the head's i-th
  for (std::int64_t own = 0; own < shape.draft_vocab; ++own) behind.push_back(own);
  if (!behind.empty()) file.add({"d2t", {shape.draft_vocab}}, "I64", behind.data(), behind.size() * sizeof(behind[0]));
  std::mt19937 random(shape.seed);  // its numbers are the standard's: the same head everywhere
  for (const Tensor& tensor : weights_of(shape)) {
    std::size_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
    const bool is_norm = tensor.shape.size() == 1;
    const float scale = is_norm ? 0.2F : 1.5F / std::sqrt(static_cast<float>(tensor.shape.back()));
    std::vector<float> values(count);
    for (float& value : values) {
      const float uniform = static_cast<float>(random() >> 8) / 8388608.0F - 1.0F;
      value = (is_norm ? 1.0F : 0.0F) + scale * uniform;
    }
    file.add(tensor, "F32", values.data(), values.size() * sizeof(float));
  }
  write_file(directory / "model.safetensors", file.text());
}

}  // namespace tern::test
