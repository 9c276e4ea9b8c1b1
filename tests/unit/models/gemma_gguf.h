// What tests of Gemma share: its metadata without weights, and what a conversion refuses.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>

#include "models/gguf_names.h"
#include "scratch_model.h"

namespace tern::models {

// The configuration of a GGUF of `architecture` with the keys that llama.cpp requires, and `more` below its name.
inline Result<ModelConfig> read_gemma_gguf(
    const std::string& architecture, std::uint32_t layers,
    const std::map<std::string, std::variant<std::uint32_t, float, std::string>>& more) {
  const test::TempDir scratch;
  checkpoint::GgufMetadata metadata;
  metadata.set("general.architecture", architecture);
  const auto number = [&](const char* key, std::uint32_t value) { metadata.set(architecture + "." + key, value); };
  number("embedding_length", 64);
  number("feed_forward_length", 96);
  number("block_count", layers);
  number("attention.head_count", 4);
  number("attention.head_count_kv", 2);
  number("attention.key_length", 24);
  number("attention.value_length", 24);
  number("context_length", 4096);
  metadata.set(architecture + ".attention.layer_norm_rms_epsilon", 1e-6F);
  for (const auto& [key, value] : more)
    std::visit([&, &name = key](const auto& held) { metadata.set(architecture + "." + name, held); }, value);
  const std::vector<float> table(32 * 64, 0.5F);
  const auto file = scratch.path() / "model.gguf";
  auto writer =
      checkpoint::GgufWriter::create(file, metadata, {{"token_embd.weight", checkpoint::GgmlType::f32, {32, 64}}})
          .value();
  writer.write("token_embd.weight", std::as_bytes(std::span(table))).value();
  writer.finish().value();
  return read_config(checkpoint::CheckpointSource::open(file).value());
}

// The line of the error by which config.json is refused, or else its conversion to GGUF; "" where both go well.
inline std::string refusal(const ScratchModel& model) {
  const auto source = model.open();
  const auto config = read_config(*source);
  if (!config.ok()) return config.error().line();
  checkpoint::ConvertOptions options;
  const auto status = set_gguf_form(*source, config.value(), "tiny", options);
  return status.ok() ? "" : status.error().line();
}
inline std::string refusal(const std::string& model, const std::function<void(io::Json&)>& change) {
  const ScratchModel scratch(model);
  scratch.edit("config.json", change);
  return refusal(scratch);
}

// A tensor of the GGUF that is made of a tiny model.
inline std::vector<float> tensor_of_gguf(const std::string& model, const std::string& name) {
  const test::TempDir scratch;
  const auto source = checkpoint::CheckpointSource::open(golden(model)).value();
  checkpoint::ConvertOptions options;
  options.outtype = "bf16";  // which norms are not rounded to
  set_gguf_form(source, read_config(source).value(), "tiny", options).value();
  (void)checkpoint::convert_checkpoint(source, scratch.path() / "model.gguf", options).value();
  const auto gguf = checkpoint::CheckpointSource::open(scratch.path() / "model.gguf").value();
  const checkpoint::SourceTensor& tensor = *gguf.require(name).value();
  std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
  gguf.read_f32(tensor, values).value();
  return values;
}
inline std::vector<float> tensor_of_directory(const std::string& model, const std::string& name) {
  const auto source = checkpoint::CheckpointSource::open(golden(model)).value();
  const checkpoint::SourceTensor& tensor = *source.require(name).value();
  std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
  source.read_f32(tensor, values).value();
  return values;
}

// Every norm is in the GGUF under llama.cpp's name for it, as 1 + weight.
inline void expect_norms_of_gguf(const std::string& model, const std::map<std::string, std::string>& names) {
  for (const auto& [directory, gguf] : names) {
    std::vector<float> want = tensor_of_directory(model, directory + ".weight");
    for (float& value : want) value += 1.0F;
    EXPECT_EQ(tensor_of_gguf(model, gguf + ".weight"), want) << directory;
  }
}

}  // namespace tern::models
