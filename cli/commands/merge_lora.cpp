// tern merge-lora: folds adapters into their base model and writes a Hugging Face directory or a GGUF file.
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/merged_model.h"
#include "cli/session_flags.h"

namespace tern::cli {

int run_merge_lora(const Arguments& given) {
  if (given.list("adapters").empty()) {
    throw Failure(usage_error("tern merge-lora needs an adapter", "give --adapters and the folder of a checkpoint"));
  }
  const Arguments arguments = with_training_arguments(given);
  const std::string ending = arguments.has("outtype") ? "-merged.gguf" : "-merged";
  const std::filesystem::path target =
      arguments.maybe_string("output_dir").value_or(named_after(arguments, ending).string());
  if (arguments.has("outtype") && target.extension() != ".gguf") {
    throw Failure(
        usage_error(cat("--outtype is the type of a GGUF file, and --output_dir ", target.string(), " is none"),
                    "end it in .gguf, or give --torch_dtype for a directory"));
  }
  write_merged(arguments, model_path(arguments, base_model(arguments)), target);
  return 0;
}

}  // namespace tern::cli
