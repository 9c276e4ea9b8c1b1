#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>

#include "base/dtype.h"
#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/logical_tensors.h"
#include "io/mapped_file.h"
#include "models/gguf_names.h"
#include "models/merge.h"
#include "session/model_dtype.h"
#include "session/save_model.h"
#include "tokenizer/gguf/vocabulary.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;

// The plain dtype in which most of the source's bytes are; the model's own where they are quantised.
std::string stored_outtype(const checkpoint::CheckpointSource& source, const models::ModelConfig& config) {
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& tensor : checkpoint::logical_tensors(source).value())
    bytes[tensor.storage_name()] += tensor.stored_bytes();
  std::string most;
  std::uint64_t largest = 0;
  for (const auto& [name, size] : bytes) {
    if (size > largest) most = name;
    largest = std::max(largest, size);
  }
  const auto stored = dtype_from_name(most);
  const bool plain = stored == TERN_F32 || stored == TERN_F16 || stored == TERN_BF16;
  return std::string(dtype_name(plain ? *stored : model_dtype(config, source)));
}

// The last part of the path, without the ending of a file.
std::string display_name(const fs::path& path) {
  const fs::path clean = fs::absolute(path).lexically_normal();
  const fs::path last = clean.has_filename() ? clean : clean.parent_path();
  return fs::is_directory(path) ? last.filename().string() : last.stem().string();
}

// config.json, the tokenizer's files and what else a directory of the model holds beside its weights, by name.
std::map<std::string, std::string> model_files(const models::ModelConfig& config, const fs::path& model,
                                               const std::string& torch_dtype) {
  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "tern-convert-XXXXXX").string();
  if (error || ::mkdtemp(folder.data()) == nullptr) {
    throw Failure(failed_error(cat("cannot make a folder for small files: ",
                                   error ? error.message() : cat(folder, ": ", std::strerror(errno))),
                               "set TMPDIR to a folder that can be written"));
  }
  struct Remove {
    const fs::path path;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } const scratch{folder};
  write_model_files(config, model, torch_dtype, scratch.path);
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(scratch.path)) {
    files[entry.path().filename().string()] = io::read_text_file(entry.path()).value();
  }
  return files;
}

// Names, order of rows, metadata and files, where the target keeps them another way than the source; the numbers, where
// adapters change them.
void set_form(const checkpoint::CheckpointSource& source, const fs::path& model, const std::vector<fs::path>& adapters,
              checkpoint::ConvertOptions& options) {
  const bool from_gguf = source.gguf() != nullptr;
  const bool to_gguf = options.container == checkpoint::Container::gguf;
  if (from_gguf == to_gguf && adapters.empty()) return;
  const models::ModelConfig config = models::read_config(source).value();
  std::shared_ptr<models::MergedWeights> merged;
  if (!adapters.empty()) merged = std::make_shared<models::MergedWeights>(source, config, adapters);
  if (merged && merged->config().tie_word_embeddings != config.tie_word_embeddings) {
    throw Failure(
        usage_error("the adapter gives the head a matrix of its own, which this model's file has no place for",
                    "merge into a directory, and write that as GGUF with tern convert"));
  }
  if (from_gguf && to_gguf) {
    models::set_merged_gguf(source, merged, options).value();
    return;
  }
  if (options.outtype.empty()) {
    options.outtype = stored_outtype(source, config);
    log_info(cat("outtype: ", options.outtype));
  }
  if (to_gguf) {
    models::set_gguf_form(source, config, display_name(model), options, merged).value();
    tokenizer::set_gguf_vocabulary(tokenizer::make_gguf_vocabulary(source.directory(), config.vocab_size).value(),
                                   *options.metadata);
    return;
  }
  const models::ModelConfig named = models::set_hugging_face_form(source, config, options).value();
  if (options.container != checkpoint::Container::safetensors_directory) return;
  options.files =
      model_files(named, model, std::string(dtype_info(dtype_from_name(options.outtype).value_or(TERN_BF16)).torch));
}

}  // namespace

Result<checkpoint::ConvertReport> convert_model(const fs::path& model, const fs::path& target,
                                                const ConvertModelOptions& wanted) {
  return catching([&] {
    const auto source = checkpoint::CheckpointSource::open(model).value();
    checkpoint::ConvertOptions options;
    options.container = wanted.container.value_or(checkpoint::container_of(target));
    options.outtype = wanted.outtype;
    options.max_shard_size = wanted.max_shard_size;
    options.replace = wanted.replace;
    options.progress = wanted.progress;
    options.check = wanted.check;
    if (!wanted.adapters.empty() && options.container != checkpoint::Container::gguf)
      throw std::logic_error(cat(target.string(), ": adapters are folded into a directory by merge_adapters"));
    set_form(source, model, wanted.adapters, options);
    return checkpoint::convert_checkpoint(source, target, options).value();
  });
}

}  // namespace tern::session
