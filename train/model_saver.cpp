#include "train/model_saver.h"

#include <algorithm>
#include <map>

#include "base/dtype.h"
#include "base/strings.h"
#include "models/parameter_reader.h"
#include "models/registry.h"
#include "models/write_weights.h"
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
    const auto specs = models::parameters_of(model_.config);
    models::ParameterReader source(*model_.source);
    std::map<const models::ParameterSpec*, std::vector<float>> held;  // what the tensor being written is made of
    models::WriteWeightsOptions write;
    write.dtype = TERN_F32;
    write.max_shard_size = max_shard_size_;
    write.begin = [&](const std::vector<const models::ParameterSpec*>& next) {
      std::erase_if(held, [&](const auto& it) { return std::find(next.begin(), next.end(), it.first) == next.end(); });
      for (const auto* spec : next) {
        const TensorDesc& desc = model_.store->at(spec->name).desc;
        if (desc.dtype != TERN_F32 || is_quantised(desc)) continue;  // as the source has it
        const auto [values, is_new] = held.try_emplace(spec);
        if (!is_new) continue;
        values->second.resize(static_cast<std::size_t>(num_elements(desc)));
        model_.store->download(spec->name, std::as_writable_bytes(std::span(values->second)));
      }
    };
    write.rows = [&](const models::ParameterSpec& spec, std::int64_t first, std::int64_t count,
                     std::span<float> values) {
      const auto found = held.find(&spec);
      if (found == held.end()) return source.read_rows(spec, first, count, spec.hugging_face, values);
      const auto columns = static_cast<std::int64_t>(values.size()) / count;
      std::copy_n(found->second.begin() + first * columns, count * columns, values.begin());
      models::to_file(spec.hugging_face, columns, values);
    };
    models::write_weights(specs, directory, write);
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

void load_full_checkpoint(models::LoadedModel& model, const std::vector<std::string>& trained,
                          const fs::path& directory) {
  const auto source = checkpoint::CheckpointSource::open(directory).value();
  const auto specs = models::parameters_of(model.config);
  for (const auto& tensor : models::stored_tensors(specs, models::Form::hugging_face)) {
    const auto* stored = source.find(tensor.name);
    if (stored != nullptr && stored->shape == tensor.shape) continue;
    throw Failure(data_error(cat(directory.string(), ": tensor ", tensor.name), "the weight of this model",
                             stored == nullptr ? "none" : "one of another shape",
                             "resume with the flags the checkpoint was made with"));
  }
  models::ParameterReader reader(source);
  for (auto spec : specs) {
    if (std::find(trained.begin(), trained.end(), spec.name) == trained.end()) continue;
    spec.added_rows = 0;  // the checkpoint has them
    const std::vector<float> values = reader.read(spec);
    model.store->upload(spec.name, std::as_bytes(std::span(values)));
  }
}

}  // namespace tern::train
