// tern convert: a model in another container, in another dtype, or both.
#include <memory>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "session/save_model.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

std::optional<checkpoint::Container> target_container(const Arguments& arguments, const fs::path& target) {
  const auto format = arguments.maybe_string("format");
  if (!format) return std::nullopt;
  if (*format == "gguf") return checkpoint::Container::gguf;
  return target.extension() == ".safetensors" ? checkpoint::Container::safetensors_file
                                              : checkpoint::Container::safetensors_directory;
}

}  // namespace

int run_convert(const Arguments& arguments) {
  if (!arguments.has("model")) {
    throw Failure(usage_error("tern convert needs a model to convert",
                              "for example tern convert smollm2-135m smollm2-135m-bf16 --outtype bf16"));
  }
  if (!arguments.has("output")) {
    throw Failure(usage_error("tern convert needs an output", "name a file or directory after the model"));
  }
  const fs::path model = model_path(arguments, arguments.string("model"));
  const fs::path target = arguments.string("output");
  session::ConvertModelOptions options;
  options.container = target_container(arguments, target);
  options.outtype = arguments.maybe_string("outtype").value_or("");
  options.max_shard_size = static_cast<std::uint64_t>(arguments.integer("max_shard_size"));
  options.replace = arguments.boolean("exist_ok");
  install_interrupt_handler();
  std::unique_ptr<Progress> progress;
  const bool quiet = arguments.boolean("quiet");
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (!progress && !quiet) progress = std::make_unique<Progress>("converting", total, "B");
    if (progress) progress->update(done);
    return !interrupted();
  };
  const auto report = session::convert_model(model, target, options);
  if (interrupted() && !report.ok()) {
    throw Failure(interrupted_error("the conversion was stopped, and nothing was written", "run it again"));
  }
  for (const std::string& note : report.value().notes) log_info(note);
  if (progress) progress->finish();
  log_info(cat("wrote ", target.string(), ": ", report->tensors, " tensors, ", human_bytes(report->bytes)));
  return 0;
}

}  // namespace tern::cli
