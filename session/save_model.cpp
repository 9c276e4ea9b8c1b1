#include "session/save_model.h"

#include "base/dtype.h"
#include "base/log.h"
#include "chat/model_text.h"
#include "io/atomic_dir.h"
#include "io/file_writer.h"
#include "io/json.h"
#include "models/label_head.h"
#include "models/new_tokens.h"
#include "session/model_dtype.h"
#include "tokenizer/tokenizer_files.h"

namespace tern::session {

namespace fs = std::filesystem;
using Json = io::Json;

void write_model_files(const models::ModelConfig& config, const fs::path& model_path, const std::string& torch_dtype,
                       const fs::path& directory) {
  io::write_file(directory / "config.json", io::write_json(models::config_json(config, torch_dtype))).value();
  const fs::path generation = model_path / "generation_config.json";
  if (fs::is_directory(model_path) && fs::exists(generation)) {
    const Json json = io::read_json_file(generation).value();
    io::write_file(directory / "generation_config.json", io::write_json(json)).value();
  } else {
    Json json;
    if (config.bos_token_id >= 0) json["bos_token_id"] = config.bos_token_id;
    if (config.eos_token_ids.size() == 1) json["eos_token_id"] = config.eos_token_ids[0];
    if (config.eos_token_ids.size() > 1) json["eos_token_id"] = config.eos_token_ids;
    if (config.pad_token_id >= 0) json["pad_token_id"] = config.pad_token_id;
    io::write_file(directory / "generation_config.json", io::write_json(json)).value();
  }
  tokenizer::write_tokenizer_files(model_path, directory, config.new_special_tokens).value();
}

namespace {

models::ModelConfig config_with_tokens(const checkpoint::CheckpointSource& source, const fs::path& model,
                                       const std::vector<std::string>& new_special_tokens) {
  models::ModelConfig config = models::read_config(source).value();
  if (new_special_tokens.empty()) return config;
  const chat::ModelText text = chat::load_model_text(model, new_special_tokens).value();
  models::add_new_tokens(config, new_special_tokens, text.tokenizer.vocab_size()).value();
  return config;
}

}  // namespace

Status merge_adapters(const fs::path& model, const models::MergeOptions& options, std::optional<tern_dtype> dtype,
                      const fs::path& target, bool replace, const WrittenCheck& check) {
  return catching([&] {
    const auto source = checkpoint::CheckpointSource::open(model).value();
    auto directory =
        io::AtomicDir::begin(target, replace ? io::AtomicDir::Existing::replace : io::AtomicDir::Existing::refuse)
            .value();
    models::ModelConfig config = config_with_tokens(source, model, options.new_special_tokens);
    for (const auto& adapter : options.adapters) {
      auto head = models::label_head_of_adapter(adapter).value();
      if (!head) continue;
      head->problem_type = options.problem_type;
      models::add_label_head(config, *head).value();
    }
    const std::string positions = models::override_rope(options.rope, config);
    if (!positions.empty()) log_info(positions);
    models::MergeOptions in_dtype = options;
    in_dtype.dtype = model_dtype(config, source, dtype);
    models::merge_weights(source, config, in_dtype, directory.path()).value();
    write_model_files(models::merged_config(config, options.adapters), model,
                      std::string(dtype_info(in_dtype.dtype).torch), directory.path());
    if (check) check(directory.path());
    directory.commit().value();
    return Unit{};
  });
}

Result<models::QuantisedReport> quantise_model(const fs::path& model, const fs::path& target,
                                               const QuantiseModelOptions& options) {
  return catching([&] {
    const auto source = checkpoint::CheckpointSource::open(model).value();
    models::ModelConfig config = config_with_tokens(source, model, options.new_special_tokens);
    auto directory = io::AtomicDir::begin(
                         target, options.replace ? io::AtomicDir::Existing::replace : io::AtomicDir::Existing::refuse)
                         .value();
    const std::string positions = models::override_rope(options.rope, config);
    if (!positions.empty()) log_info(positions);
    models::WriteQuantisedOptions write = options.write;
    write.dtype = model_dtype(config, source, options.dtype);
    models::MergedWeights weights(source, config, options.adapters);
    models::QuantisedReport report = models::write_quantised(weights, directory.path(), write);
    if (report.quantised == 0) {
      throw Failure(data_error(model.string(), "linear layers that can be quantised", "none",
                               "this model's layers are kept in a form that the format has no words for"));
    }
    write_model_files(weights.config(), model, std::string(dtype_info(write.dtype).torch), directory.path());
    Json json = io::read_json_file(directory.path() / "config.json").value();
    json["quantization_config"] = io::parse_json(report.quantization_config, "quantization_config").value();
    io::write_file(directory.path() / "config.json", io::write_json(json)).value();
    source.intact().value();
    if (options.check) options.check(directory.path());
    directory.commit().value();
    return report;
  });
}

}  // namespace tern::session
