#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <random>
#include <stdexcept>
#include <vector>

namespace tern::e2e {
namespace {

constexpr int kBytes = 256;
constexpr int kStart = kBytes;    // <|im_start|>
constexpr int kEnd = kBytes + 1;  // <|im_end|>
constexpr int kYes = kBytes + 2;  // "yes" and "no", where they are tokens
constexpr int kNo = kBytes + 3;
constexpr int kFim = kBytes + 2;  // prefix, suffix, middle, pad, where these are tokens instead
constexpr int kVocab = 320;       // with room, as models have it

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string utf8(unsigned code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's spelling of bytes: printable ones stand for themselves, the others follow from U+0100 on.
std::vector<std::string> byte_pieces() {
  std::vector<std::string> pieces(kBytes);
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < kBytes; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    pieces[byte] = utf8(printable ? byte : next++);
  }
  return pieces;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += (c == '"' || c == '\\') ? std::string{'\\', c} : std::string{c};
  return out + "\"";
}

void write_tokenizer(const std::filesystem::path& directory, bool verdicts, bool fim) {
  std::string vocab;
  const auto pieces = byte_pieces();
  for (int id = 0; id < kBytes; ++id) {
    vocab += (id == 0 ? "" : ",") + quoted(pieces[static_cast<std::size_t>(id)]) + ":" + std::to_string(id);
  }
  const auto added = [](int id, const std::string& text, bool special = true) {
    return R"({"id":)" + std::to_string(id) + R"(,"content":")" + text +
           R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":)" +
           (special ? "true}" : "false}");
  };
  std::string words = verdicts ? "," + added(kYes, "yes", false) + "," + added(kNo, "no", false) : "";
  int gap = kFim;
  for (const char* name : {"prefix", "suffix", "middle", "pad"}) {
    if (fim) words += "," + added(gap++, std::string("<|fim_") + name + "|>");
  }
  write_file(
      directory / "tokenizer.json",
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added(kStart, "<|im_start|>") + "," +
          added(kEnd, "<|im_end|>") + words +
          R"(],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)" +
          R"("use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,)" +
          R"("trim_offsets":true,"use_regex":true},"model":{"type":"BPE","dropout":null,"unk_token":null,)" +
          R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,)" +
          R"("vocab":{)" + vocab + R"(},"merges":[]}})");
  write_file(
      directory / "tokenizer_config.json",
      R"({"tokenizer_class":"GPT2Tokenizer","bos_token":"<|im_start|>","eos_token":"<|im_end|>","pad_token":"<|im_end|>",)"
      R"("chat_template":"{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }})"
      R"({% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"})");
}

struct Tensor {
  std::string name;
  int rows;
  int columns;  // 0: a vector of ones
};

// How large a token's embedding is, which is also its row of the head: answers are mostly printable, and long.
float loudness(int id, const TinyModel& model) {
  if (model.verdicts && (id == kYes || id == kNo)) return 0.5F;
  if (id > kEnd) return 0.0F;
  if (id == kEnd || id == '\n') return 0.5F;
  return id >= ' ' && id <= '~' ? 1.0F : 0.2F;
}

void write_weights(const std::filesystem::path& directory, const TinyModel& m) {
  const int head_dim = m.hidden / m.heads;
  std::vector<Tensor> tensors = {{"model.embed_tokens.weight", kVocab, m.hidden}, {"model.norm.weight", m.hidden, 0}};
  for (int layer = 0; layer < m.layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    tensors.push_back({at + "input_layernorm.weight", m.hidden, 0});
    tensors.push_back({at + "post_attention_layernorm.weight", m.hidden, 0});
    tensors.push_back({at + "self_attn.q_proj.weight", m.hidden, m.hidden});
    tensors.push_back({at + "self_attn.k_proj.weight", m.kv_heads * head_dim, m.hidden});
    tensors.push_back({at + "self_attn.v_proj.weight", m.kv_heads * head_dim, m.hidden});
    tensors.push_back({at + "self_attn.o_proj.weight", m.hidden, m.hidden});
    tensors.push_back({at + "mlp.gate_proj.weight", m.intermediate, m.hidden});
    tensors.push_back({at + "mlp.up_proj.weight", m.intermediate, m.hidden});
    tensors.push_back({at + "mlp.down_proj.weight", m.hidden, m.intermediate});
    if (!m.qwen3) continue;
    tensors.push_back({at + "self_attn.q_norm.weight", head_dim, 0});
    tensors.push_back({at + "self_attn.k_norm.weight", head_dim, 0});
  }
  if (m.labels > 0) tensors.push_back({"score.weight", m.labels, m.hidden});
  std::mt19937 random(m.seed);  // its numbers are the standard's: the same model everywhere
  std::string header = "{";
  std::string data;
  for (const auto& tensor : tensors) {
    const std::size_t begin = data.size();
    const int count = tensor.rows * (tensor.columns == 0 ? 1 : tensor.columns);
    const float scale = tensor.columns == 0 ? 0.0F : 1.5F / std::sqrt(static_cast<float>(tensor.columns));
    const bool embedding = tensor.rows == kVocab;
    for (int i = 0; i < count; ++i) {
      const float uniform = static_cast<float>(random() >> 8) / 8388608.0F - 1.0F;
      const float part = embedding ? loudness(i / tensor.columns, m) : 1.0F;
      const float value = tensor.columns == 0 ? 1.0F : part * scale * uniform;
      data.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    header += (begin == 0 ? "" : ",") + quoted(tensor.name) + R"(:{"dtype":"F32","shape":[)" +
              std::to_string(tensor.rows) + (tensor.columns == 0 ? "" : "," + std::to_string(tensor.columns)) +
              R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const std::uint64_t size = header.size();
  write_file(directory / "model.safetensors",
             std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data);
}

}  // namespace

void write_tiny_model(const std::filesystem::path& directory, const TinyModel& m) {
  std::filesystem::create_directories(directory);
  const auto number = [](int value) { return std::to_string(value); };
  std::string labels;
  for (int i = 0; i < m.labels; ++i) labels += (i == 0 ? "\"" : ",\"") + number(i) + R"(":"label )" + number(i) + "\"";
  const std::string family = m.qwen3 ? "Qwen3" : "Llama";
  const std::string head = m.labels == 0
                               ? R"({"architectures":[")" + family + R"(ForCausalLM"])"
                               : R"({"architectures":[")" + family + R"(ForSequenceClassification"],"id2label":{)" +
                                     labels + R"(},"pad_token_id":)" + number(kEnd);
  write_file(directory / "config.json",
             head + R"(,"model_type":")" + (m.qwen3 ? "qwen3" : "llama") + R"(","head_dim":)" +
                 number(m.hidden / m.heads) +
                 R"(,"hidden_act":"silu","rms_norm_eps":1e-5,)"
                 R"("rope_theta":10000.0,"torch_dtype":"float32","tie_word_embeddings":true,"hidden_size":)" +
                 number(m.hidden) + R"(,"intermediate_size":)" + number(m.intermediate) + R"(,"num_hidden_layers":)" +
                 number(m.layers) + R"(,"num_attention_heads":)" + number(m.heads) + R"(,"num_key_value_heads":)" +
                 number(m.kv_heads) + R"(,"vocab_size":)" + number(kVocab) + R"(,"max_position_embeddings":)" +
                 number(m.max_positions) + R"(,"bos_token_id":)" + number(kStart) + R"(,"eos_token_id":)" +
                 number(kEnd) + "}");
  write_file(directory / "generation_config.json", R"({"eos_token_id":)" + number(kEnd) + "}");
  write_weights(directory, m);
  write_tokenizer(directory, m.verdicts, m.fim);
}

std::string sums(int rows) {
  std::string out;
  for (int i = 0; i < rows; ++i) {
    const int a = i % 10;
    const int b = (i / 10 + 3 * i) % 10;
    out += R"({"query": ")" + std::to_string(a) + " + " + std::to_string(b) + R"(", "response": ")" +
           std::to_string(a + b) + "\"}\n";
  }
  return out;
}

}  // namespace tern::e2e
