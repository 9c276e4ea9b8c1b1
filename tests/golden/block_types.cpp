// Every block type of GGUF that people have, as the weights of a model: computed as stored, each equals its expanded
// twin.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/dtype.h"
#include "base/half.h"
#include "base/strings.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/gguf_writer.h"
#include "golden.h"
#include "ops/ref/packing_blocks.h"
#include "tests/support/temp_dir.h"

namespace tern::golden {
namespace {

namespace fs = std::filesystem;
using checkpoint::GgmlType;

constexpr std::int64_t kHidden = 256, kInner = 512, kVocab = 96, kLayers = 2;
constexpr double kLogits = 1e-4;      // absolute beside the twin's, relative beside another order of sums
constexpr double kInt8Logits = 5e-2;  // relative, of activations in 8 bits
constexpr double kX15Logits = 4e-4;   // relative, of activations in 15 bits; bf16 has seventy times as much

checkpoint::GgufMetadata metadata() {
  checkpoint::GgufMetadata out;
  out.set("general.architecture", "llama");
  out.set("llama.block_count", static_cast<std::uint32_t>(kLayers));
  out.set("llama.context_length", std::uint32_t{128});
  out.set("llama.embedding_length", static_cast<std::uint32_t>(kHidden));
  out.set("llama.feed_forward_length", static_cast<std::uint32_t>(kInner));
  out.set("llama.attention.head_count", std::uint32_t{4});
  out.set("llama.attention.head_count_kv", std::uint32_t{2});
  out.set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  out.set("llama.rope.freq_base", 10000.0F);
  out.set("llama.vocab_size", static_cast<std::uint32_t>(kVocab));
  return out;
}

// What the minimum is of the scale, so that weights lie about 0.
float minimum_of(GgmlType type) {
  switch (type) {
    case GgmlType::q4_1:
      return -7.5F;
    case GgmlType::q5_1:
      return -15.5F;
    case GgmlType::q2_k:
      return 1.5F;
    case GgmlType::q5_k:
      return 15.5F;
    default:
      return 7.5F;
  }
}

// Random codes under scales that make the weights' root mean square 1 / 8.
std::vector<std::byte> random_blocks(GgmlType type, std::int64_t elements, std::mt19937& random) {
  const checkpoint::GgmlTypeInfo& info = checkpoint::ggml_type_info(type);
  const auto packing = checkpoint::ggml_packing(type).value();
  const auto halves = ops::ref::block_halves(packing);
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements / info.block_elements * info.block_bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto set_scales = [&](float scale) {
    for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(info.block_bytes)) {
      if (halves.empty()) bytes[at] = std::byte{122};  // MXFP4
      for (std::size_t i = 0; i < halves.size(); ++i) {
        const std::uint16_t bits = float_to_fp16(i == 0 ? scale : scale * minimum_of(type));
        std::memcpy(bytes.data() + at + halves[i], &bits, 2);
      }
    }
  };
  set_scales(0.01F);
  std::vector<float> values(static_cast<std::size_t>(elements));
  checkpoint::dequantize(type, bytes, values).value();
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  set_scales(static_cast<float>(0.01 / 8.0 / std::sqrt(squares / static_cast<double>(elements))));
  return bytes;
}

// Writes the model twice: with linear weights of the type, and expanded.
std::pair<fs::path, fs::path> write_twins(GgmlType type, const test::TempDir& scratch) {
  std::vector<checkpoint::GgufTensorSpec> specs = {{"token_embd.weight", type, {kVocab, kHidden}},
                                                   {"output_norm.weight", GgmlType::f32, {kHidden}},
                                                   {"output.weight", type, {kVocab, kHidden}}};
  for (int i = 0; i < kLayers; ++i) {
    const auto add = [&](const char* name, GgmlType of, std::vector<std::int64_t> shape) {
      specs.push_back({cat("blk.", i, ".", name, ".weight"), of, std::move(shape)});
    };
    add("attn_norm", GgmlType::f32, {kHidden});
    add("ffn_norm", GgmlType::f32, {kHidden});
    add("attn_q", type, {kHidden, kHidden});
    add("attn_k", type, {kHidden / 2, kHidden});
    add("attn_v", type, {kHidden / 2, kHidden});
    add("attn_output", type, {kHidden, kHidden});
    add("ffn_gate", type, {kInner, kHidden});
    add("ffn_up", type, {kInner, kHidden});
    add("ffn_down", type, {kHidden, kInner});
  }
  auto plain = specs;
  for (auto& spec : plain) spec.type = GgmlType::f32;
  const fs::path stored = scratch.path() / "stored.gguf", expanded = scratch.path() / "expanded.gguf";
  auto a = checkpoint::GgufWriter::create(stored, metadata(), specs).value();
  auto b = checkpoint::GgufWriter::create(expanded, metadata(), plain).value();
  std::mt19937 random(7);
  for (const auto& spec : specs) {
    std::vector<float> values(
        static_cast<std::size_t>(spec.shape.size() == 1 ? kHidden : spec.shape[0] * spec.shape[1]), 1.0F);
    if (spec.type == GgmlType::f32) {
      a.write(spec.name, std::as_bytes(std::span(values))).value();
    } else {
      const auto blocks = random_blocks(type, static_cast<std::int64_t>(values.size()), random);
      a.write(spec.name, blocks).value();
      checkpoint::dequantize(type, blocks, values).value();
    }
    b.write(spec.name, std::as_bytes(std::span(values))).value();
  }
  a.finish().value();
  b.finish().value();
  return {stored, expanded};
}

class BlockType : public testing::TestWithParam<GgmlType> {};

TEST_P(BlockType, IsComputedAsStored) {
  const test::TempDir scratch;
  const auto [stored, expanded] = write_twins(GetParam(), scratch);
  auto model = load(stored);
  auto twin = load(expanded);
  EXPECT_TRUE(model.notes.empty()) << model.notes.front();
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "model.layers.1.mlp.down_proj.weight"}) {
    EXPECT_TRUE(is_quantised(model.store->at(name).desc)) << name;
    EXPECT_FALSE(is_quantised(twin.store->at(name).desc)) << name;
  }
  std::vector<std::int32_t> tokens, rows;
  for (std::int32_t i = 0; i < 40; ++i) {
    tokens.push_back(i * 7 % static_cast<std::int32_t>(kVocab));
    rows.push_back(i);
  }
  const auto want = prefill_logits(twin, tokens, rows, TERN_F32);
  EXPECT_GT(max_difference(want, std::vector<float>(want.size(), 0.0F)), 0.5);
  EXPECT_LE(max_difference(prefill_logits(model, tokens, rows, TERN_F32), want), kLogits);
  // Token by token the sums are others than all at once, and softmaxes here are sharp: the twin's differ as much.
  const auto by_token = decode_logits(model, tokens);
  EXPECT_LE(max_difference(by_token, decode_logits(twin, tokens)), kLogits);
  EXPECT_LE(relative_error(by_token, want), kLogits);
  const auto in_x15 = decode_logits(model, tokens, TERN_COMPUTE_X15);
  EXPECT_LE(relative_error(in_x15, want), kX15Logits);
  RecordProperty("x15_error", std::to_string(relative_error(in_x15, want)));
  EXPECT_NE(in_x15, by_token) << "nothing was computed in x15";
  if (cpu_device()->info().matmul_rate[TERN_COMPUTE_INT8] <= 0) return;
  const auto in_int8 = decode_logits(model, tokens, TERN_COMPUTE_INT8);
  EXPECT_LE(relative_error(in_int8, want), kInt8Logits);
  RecordProperty("int8_error", std::to_string(relative_error(in_int8, want)));
  EXPECT_NE(in_int8, by_token) << "nothing was computed in int8";
}

INSTANTIATE_TEST_SUITE_P(Types, BlockType,
                         testing::Values(GgmlType::q4_0, GgmlType::q4_1, GgmlType::q5_0, GgmlType::q5_1, GgmlType::q8_0,
                                         GgmlType::q2_k, GgmlType::q3_k, GgmlType::q4_k, GgmlType::q5_k, GgmlType::q6_k,
                                         GgmlType::iq4_nl, GgmlType::iq4_xs, GgmlType::mxfp4),
                         [](const auto& tested) { return std::string(checkpoint::ggml_type_info(tested.param).name); });

}  // namespace
}  // namespace tern::golden
