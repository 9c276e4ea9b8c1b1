// tern convert: a model in another container, in another dtype, or both.
#include "checkpoint/convert.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/logical_tensors.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "io/mapped_file.h"
#include "models/gguf_names.h"
#include "tokenizer/gguf/vocabulary.h"
#include "train/model_saver.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

// The plain dtype in which most of the source's bytes are; bf16 where they are quantised.
std::string stored_outtype(const checkpoint::CheckpointSource& source) {
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& tensor : checkpoint::logical_tensors(source).value())
    bytes[tensor.storage_name()] += tensor.stored_bytes();
  std::string most = "BF16";
  std::uint64_t largest = 0;
  for (const auto& [name, size] : bytes) {
    if (size > largest) most = name;
    largest = std::max(largest, size);
  }
  return most == "F32" ? "f32" : most == "F16" ? "f16" : "bf16";
}

std::string torch_name(const std::string& outtype) {
  return outtype == "f32" ? "float32" : outtype == "f16" ? "float16" : "bfloat16";
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
    throw Failure(failed_error("the folder for small files", "one that can be written",
                               error ? error.message() : cat(folder, ": ", std::strerror(errno)),
                               "set TMPDIR to such a folder"));
  }
  struct Remove {
    const fs::path path;
    ~Remove() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } const scratch{folder};
  train::write_model_files(config, model, torch_dtype, scratch.path);
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(scratch.path)) {
    files[entry.path().filename().string()] = io::read_text_file(entry.path()).value();
  }
  return files;
}

checkpoint::Container target_container(const Arguments& arguments, const fs::path& target) {
  const auto format = arguments.maybe_string("format");
  if (!format) return checkpoint::container_of(target);
  if (*format == "gguf") return checkpoint::Container::gguf;
  return target.extension() == ".safetensors" ? checkpoint::Container::safetensors_file
                                              : checkpoint::Container::safetensors_directory;
}

// Names, order of rows, metadata and files, where the target keeps them another way than the source.
void set_form(const checkpoint::CheckpointSource& source, const fs::path& model, checkpoint::ConvertOptions& options) {
  const bool from_gguf = source.gguf() != nullptr;
  const bool to_gguf = options.container == checkpoint::Container::gguf;
  if (from_gguf == to_gguf) return;
  const models::ModelConfig config = models::read_config(source).value();
  if (options.outtype.empty()) {
    options.outtype = stored_outtype(source);
    log_info(cat("outtype: ", options.outtype));
  }
  if (to_gguf) {
    models::set_gguf_form(source, config, display_name(model), options).value();
    tokenizer::set_gguf_vocabulary(tokenizer::make_gguf_vocabulary(source.directory(), config.vocab_size).value(),
                                   *options.metadata);
    return;
  }
  const models::ModelConfig named = models::set_hugging_face_form(source, config, options).value();
  if (options.container != checkpoint::Container::safetensors_directory) return;
  options.files = model_files(named, model, torch_name(options.outtype));
}

}  // namespace

int run_convert(const Arguments& arguments) {
  if (!arguments.has("model")) {
    throw Failure(usage_error("--model", "a model to convert", "none",
                              "for example tern convert smollm2-135m smollm2-135m-bf16 --outtype bf16"));
  }
  if (!arguments.has("output")) {
    throw Failure(usage_error("--output", "a file or directory to write", "none", "name it after the model"));
  }
  const fs::path model = model_path(arguments, arguments.string("model"));
  const fs::path target = arguments.string("output");
  const auto source = checkpoint::CheckpointSource::open(model).value();
  checkpoint::ConvertOptions options;
  options.container = target_container(arguments, target);
  options.outtype = arguments.maybe_string("outtype").value_or("");
  options.max_shard_size = static_cast<std::uint64_t>(arguments.integer("max_shard_size"));
  options.replace = arguments.boolean("exist_ok");
  set_form(source, model, options);

  install_interrupt_handler();
  std::unique_ptr<Progress> progress;
  const bool quiet = arguments.boolean("quiet");
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (!progress && !quiet) progress = std::make_unique<Progress>("converting", total, "B");
    if (progress) progress->update(done);
    return !interrupted();
  };
  const auto report = checkpoint::convert_checkpoint(source, target, options);
  if (interrupted() && !report.ok()) {
    throw Failure(interrupted_error("nothing was written", "run it again"));
  }
  for (const std::string& note : report.value().notes) log_info(note);
  if (progress) progress->finish();
  log_info(cat("written: ", target.string(), ", ", report->tensors, " tensors, ", human_bytes(report->bytes)));
  return 0;
}

}  // namespace tern::cli
