#include "cli/saved_arguments.h"

#include <filesystem>

#include "base/strings.h"
#include "io/mapped_file.h"
#include "train/run_directory.h"

namespace tern::cli {

namespace fs = std::filesystem;

Arguments with_saved_arguments(const Arguments& given) {
  Arguments arguments = given;
  if (!given.boolean("load_args")) return arguments;
  const auto& adapters = given.list("adapters");
  fs::path folder = adapters.empty() ? fs::path(given.maybe_string("model").value_or("")) : fs::path(adapters[0]);
  if (given.has("resume_from_checkpoint")) {
    const std::string& from = given.string("resume_from_checkpoint");
    const auto base = given.maybe_string("output_dir");
    // Without --output_dir it is the model's name that leads to the last checkpoint.
    folder = train::find_checkpoint(from, from != "last" ? ""
                                          : base         ? fs::path(*base)
                                                         : train::default_output_dir(given.string("model")))
                 .value();
  }
  const fs::path file = folder / "args.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    throw Failure(data_error("--load_args", "an args.json in what the run goes on from",
                             folder.empty() ? "nothing that it goes on from" : cat("none in ", folder.string()),
                             "give --resume_from_checkpoint or --adapters, or leave --load_args away"));
  }
  std::vector<std::string_view> names = {"tuner_type",  "torch_dtype",       "max_length", "truncation_strategy",
                                         "template",    "use_chat_template", "system",     "enable_thinking",
                                         "loss_scale",  "preserve_thinking", "task_type",  "num_labels",
                                         "problem_type", "new_special_tokens"};
  if (!adapters.empty() || given.has("resume_from_checkpoint")) names.emplace_back("model");
  load_saved_flags(arguments, file, names);
  return arguments;
}

void load_saved_flags(Arguments& arguments, const fs::path& file, std::span<const std::string_view> names) {
  constexpr std::string_view kScaling[] = {"rope_scaling"}, kContext[] = {"max_model_len"};
  const std::string saved = io::read_text_file(file).value();
  arguments.load_saved(saved, file.string(), names).value();
  arguments.load_saved(saved, file.string(), kScaling).value();
  if (arguments.has("rope_scaling")) arguments.load_saved(saved, file.string(), kContext).value();
}

}  // namespace tern::cli
