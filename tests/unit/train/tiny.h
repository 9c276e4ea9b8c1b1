// A tiny model of tests/data/golden on the cpu, with its training samples and PEFT's adapter.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accel/backend.h"
#include "data/batch.h"
#include "models/adapter.h"
#include "models/loader.h"
#include "tests/support/temp_dir.h"

namespace tern::train {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(TERN_TEST_DATA) / "golden" / name;
}

inline accel::DevicePtr cpu_device() {
  static const auto backend = accel::Backend::load(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_cpu.so").value();
  return accel::Device::open(backend, 0).value();
}

inline models::LoadedModel tiny_model(const models::LoadOptions& options = {}) {
  auto source =
      std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(golden("llama-tied")).value());
  return models::load_model(models::read_config(*source).value(), source, cpu_device(), options).value();
}

inline data::EncodedDataset tiny_samples() {
  const auto file = checkpoint::Safetensors::open(golden("llama-tied/golden.safetensors")).value();
  const auto ints = [&](const char* name) {
    const auto bytes = file.tensor(name)->bytes;
    std::vector<std::int32_t> values(bytes.size() / sizeof(std::int32_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  const auto ids = ints("ids");
  const auto supervised = ints("supervised");
  auto store = std::make_shared<data::MemoryStore>();
  std::size_t t = 0;
  for (const std::int32_t length : ints("lengths")) {
    data::Sample sample;
    for (std::int32_t i = 0; i < length; ++i, ++t) {
      sample.ids.push_back(ids.at(t));
      sample.weights.push_back(i == 0 ? 0.0F : static_cast<float>(supervised.at(t)));
    }
    store->add(std::move(sample));
  }
  data::EncodedDataset dataset;
  dataset.add(store);
  return dataset;
}

inline std::vector<float> download(const graph::TensorStore& store, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(name).desc)));
  store.download(name, std::as_writable_bytes(std::span(values)));
  return values;
}

inline void upload(graph::TensorStore& store, const std::string& name, const std::vector<float>& values) {
  store.upload(name, std::as_bytes(std::span(values)));
}

using Scratch = test::TempDir;

}  // namespace tern::train
