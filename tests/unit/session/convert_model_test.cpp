#include <gtest/gtest.h>

#include <fstream>

#include "io/mapped_file.h"
#include "session/save_model.h"
#include "tests/support/tiny_model.h"
#include "tests/support/temp_dir.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;

// A tiny model whose linear weights are fp8 in blocks of 128 and whose others are bf16. No number matters.
void write_fp8_model(const fs::path& folder, const std::string& torch_dtype) {
  e2e::write_tiny_model(folder, {.layers = 4});
  const auto plain = checkpoint::Safetensors::open_directory(folder).value();
  std::vector<checkpoint::TensorSpec> specs;
  for (const auto& tensor : plain.tensors()) {
    const bool linear = tensor.name.find("_proj.") != std::string::npos;
    specs.push_back({tensor.name, linear ? "F8_E4M3" : "BF16", tensor.shape});
    if (linear) specs.push_back({tensor.name + "_scale_inv", "F32", {1, 1}});
  }
  auto writer = checkpoint::SafetensorsWriter::create(folder, specs, {}).value();
  for (const auto& spec : specs) {
    std::size_t bytes = spec.dtype == "F8_E4M3" ? 1 : spec.dtype == "BF16" ? 2 : 4;
    for (const std::int64_t size : spec.shape) bytes *= static_cast<std::size_t>(size);
    writer.write(spec.name, std::vector<std::byte>(bytes)).value();
  }
  writer.finish().value();
  std::string json = io::read_text_file(folder / "config.json").value();
  json.replace(json.find("float32"), 7, torch_dtype);
  json.insert(1, R"("quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]},)");
  std::ofstream(folder / "config.json") << json;
}

// What is expanded for another container is written in the model's dtype.
TEST(ConvertModel, QuantisedWeightsBecomeTheModelsDtype) {
  for (const auto& [torch_dtype, type] : {std::pair{"float16", TERN_F16}, {"bfloat16", TERN_BF16}}) {
    const test::TempDir scratch;
    write_fp8_model(scratch / "model", torch_dtype);
    (void)convert_model(scratch / "model", scratch / "model.gguf", {}).value();
    const auto source = checkpoint::CheckpointSource::open(scratch / "model.gguf").value();
    EXPECT_EQ(source.require("blk.0.ffn_up.weight").value()->storage.dtype, type) << torch_dtype;
  }
}

}  // namespace
}  // namespace tern::session
