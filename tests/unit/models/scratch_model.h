// A tiny model in a folder of the test's own, whose config.json the test may spoil.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "accel/backend.h"
#include "accel/device.h"
#include "checkpoint/checkpoint_source.h"
#include "io/json.h"
#include "models/loader.h"
#include "tests/support/parsed_json.h"
#include "tests/support/temp_dir.h"

namespace tern::models {

// Those of tests/data/golden.
inline constexpr const char* kTinyModels[] = {"llama-tied",
                                              "llama-untied",
                                              "mistral",
                                              "qwen2-tied",
                                              "qwen2-untied",
                                              "qwen3-tied",
                                              "qwen3-untied",
                                              "granite-tied",
                                              "granite-untied",
                                              "gemma2-tied",
                                              "gemma2-untied",
                                              "gemma3-tied",
                                              "gemma3-untied",
                                              "mixtral",
                                              "qwen2-moe-tied",
                                              "qwen2-moe-untied",
                                              "qwen3-moe-tied",
                                              "qwen3-moe-untied",
                                              "olmo2-tied",
                                              "olmo2-untied",
                                              "smollm3-tied",
                                              "smollm3-untied",
                                              "qwen3-yarn",
                                              "llama-yarn",
                                              "glm4-tied",
                                              "glm4-untied",
                                              "phi3-tied",
                                              "phi3-untied",
                                              "olmo3-untied",
                                              "glm4-moe-tied",
                                              "glm4-moe-untied",
                                              "granite-moe-tied",
                                              "granite-moe-untied",
                                              "qwen3.5-untied",
                                              "qwen3.5-tied",
                                              "qwen3.5-moe-untied",
                                              "qwen3-next-untied",
                                              "qwen3-next-tied",
                                              "lfm2-tied",
                                              "lfm2-untied",
                                              "gpt-oss-untied",
                                              "gpt-oss-tied",
                                              "deepseek-v2-untied",
                                              "deepseek-v2-tied",
                                              "deepseek-v3-untied",
                                              "deepseek-v3-tied",
                                              "cohere-tied",
                                              "cohere-untied",
                                              "cohere2-tied",
                                              "cohere2-untied",
                                              "granite-h-tied",
                                              "granite-h-untied",
                                              "granite-h-biased",
                                              "falcon-h1-untied",
                                              "falcon-h1-tied",
                                              "falcon-h1-plain",
                                              "phi3-long",
                                              "phi3-short",
                                              "llama-proportional",
                                              "ministral3-tied",
                                              "ministral3-untied",
                                              "mistral4-untied",
                                              "mistral4-tied",
                                              "gemma4-tied",
                                              "gemma4-untied",
                                              "deepseek-v32-untied",
                                              "deepseek-v32-tied",
                                              "gemma4-moe",
                                              "lfm2-moe-tied",
                                              "lfm2-moe-untied",
                                              "deepseek-v3-plain",
                                              "llama4-untied",
                                              "llama4-tied",
                                              "llama4-plain",
                                              "deepseek-v32-plain",
                                              "mistral4-plain"};

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(TERN_TEST_DATA) / "golden" / name;
}

inline accel::DevicePtr cpu_device() {
  static const auto backend = accel::Backend::load(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_cpu.so").value();
  return accel::Device::open(backend, 0).value();
}

class ScratchModel {
 public:
  explicit ScratchModel(const std::string& model = "llama-tied") {
    for (const char* part : {"config.json", "model.safetensors", "adapter"})
      std::filesystem::copy(golden(model) / part, path_ / part, std::filesystem::copy_options::recursive);
  }

  using Json = io::Json;
  void edit(const std::string& file, const std::function<void(Json&)>& change) const {
    Json json = test::parsed_json(std::ifstream(path_ / file));
    change(json);
    std::ofstream(path_ / file) << json.dump(2);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::shared_ptr<checkpoint::CheckpointSource> open() const {
    return std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path_).value());
  }

 private:
  test::TempDir scratch_;
  const std::filesystem::path& path_ = scratch_.path();
};

inline Result<LoadedModel> load_scratch(const ScratchModel& scratch, const LoadOptions& options = {}) {
  auto source = scratch.open();
  return load_model(read_config(*source).value(), source, cpu_device(), options);
}

[[nodiscard]] inline ModelConfig config_of(const ScratchModel& model) { return read_config(*model.open()).value(); }

// What transformers calls the kinds of layers in `layer_types`.
inline constexpr const char* kWindow = "sliding_attention";
inline constexpr const char* kFull = "full_attention";

}  // namespace tern::models
