#include "train/model_saver.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "session/save_model.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

class AdapterSaver : public ModelSaver {
 public:
  AdapterSaver(const models::LoadedModel& model, const models::LoadedAdapter& adapter)
      : model_(model), adapter_(adapter) {}
  void save(const fs::path& directory) const override { models::save_adapter(*model_.store, adapter_, directory); }

 private:
  const models::LoadedModel& model_;
  const models::LoadedAdapter& adapter_;
};

class FullModelSaver : public ModelSaver {
 public:
  FullModelSaver(const models::LoadedModel& model, fs::path model_path, std::uint64_t max_shard_size)
      : model_(model), model_path_(std::move(model_path)), max_shard_size_(max_shard_size) {}

  void save(const fs::path& directory) const override {
    std::vector<checkpoint::TensorSpec> specs;
    for (const auto& spec : model_.architecture->parameters(model_.config))
      specs.push_back({spec.name, "F32", spec.shape});
    checkpoint::SafetensorsWriteOptions options;
    options.max_shard_size = max_shard_size_;
    auto writer = checkpoint::SafetensorsWriter::create(directory, specs, options).value();
    for (const auto& spec : specs) {
      std::vector<std::byte> bytes(total_bytes(model_.store->at(spec.name).desc));
      model_.store->download(spec.name, bytes);
      writer.write(spec.name, bytes).value();
    }
    writer.finish().value();
    session::write_model_files(model_.config, model_path_, std::string(dtype_info(model_.dtype).torch), directory);
  }

 private:
  const models::LoadedModel& model_;
  fs::path model_path_;
  std::uint64_t max_shard_size_;
};

}  // namespace

std::unique_ptr<ModelSaver> adapter_saver(const models::LoadedModel& model, const models::LoadedAdapter& adapter) {
  return std::make_unique<AdapterSaver>(model, adapter);
}

std::unique_ptr<ModelSaver> full_model_saver(const models::LoadedModel& model, fs::path model_path,
                                             std::uint64_t max_shard_size) {
  return std::make_unique<FullModelSaver>(model, std::move(model_path), max_shard_size);
}

void load_full_checkpoint(models::LoadedModel& model, const fs::path& directory) {
  const auto file = checkpoint::Safetensors::open_directory(directory).value();
  for (const auto& spec : model.architecture->parameters(model.config)) {
    const auto* tensor = file.tensor(spec.name);
    if (tensor == nullptr || tensor->shape != spec.shape || !tensor->dtype->dtype) {
      throw Failure(data_error(cat(directory.string(), ": tensor ", spec.name), "the weight of this model",
                               tensor == nullptr ? "none" : "another shape or dtype",
                               "resume with the flags the checkpoint was made with"));
    }
    std::vector<float> values(static_cast<std::size_t>(num_elements(model.store->at(spec.name).desc)));
    checkpoint::to_f32(*tensor->dtype->dtype, tensor->bytes, values).value();
    model.store->upload(spec.name, std::as_bytes(std::span(values)));
  }
  file.intact().value();
}

}  // namespace tern::train
