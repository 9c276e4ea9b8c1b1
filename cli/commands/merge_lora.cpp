// tern merge-lora: folds adapters into their base model and writes a Hugging Face directory.
#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/saved_arguments.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "io/json.h"
#include "session/save_model.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

// --load_args: what the training run was told, where the user says nothing else.
Arguments with_training_arguments(const Arguments& given, const fs::path& adapter) {
  Arguments arguments = given;
  const fs::path saved = adapter / "args.json";
  std::error_code ignored;
  if (arguments.boolean("load_args") && fs::is_regular_file(saved, ignored)) {
    constexpr std::string_view kNames[] = {"model", "torch_dtype"};
    load_saved_flags(arguments, saved, kNames);
  }
  return arguments;
}

// --model, else what the adapter says it was trained on.
std::string base_model(const Arguments& arguments, const fs::path& adapter) {
  if (const auto model = arguments.maybe_string("model")) return *model;
  const auto config = models::read_adapter_config(adapter).value();
  if (config.base_model.empty()) {
    throw Failure(usage_error("the adapter's adapter_config.json does not name the model that it was trained on",
                              "name it with --model"));
  }
  return config.base_model;
}

// Of a classification, as the args.json beside the adapter says; "" where it says none.
std::string problem_type(const fs::path& adapter) {
  const fs::path file = adapter / "args.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  const io::Json json = io::read_json_file(file).value();
  const io::Json* found = json.find("problem_type");
  return found != nullptr && found->is_string() ? std::string(found->text()) : std::string();
}

}  // namespace

int run_merge_lora(const Arguments& given) {
  const auto& adapters = given.list("adapters");
  if (adapters.empty()) {
    throw Failure(usage_error("tern merge-lora needs an adapter", "give --adapters and the folder of a checkpoint"));
  }
  const fs::path first = fs::path(adapters[0]);
  const Arguments arguments = with_training_arguments(given, first);
  const fs::path model = model_path(arguments, base_model(arguments, first));
  const fs::path target =
      arguments.maybe_string("output_dir")
          .value_or((first.has_filename() ? first.string() : first.parent_path().string()) + "-merged");
  models::MergeOptions options;
  for (const auto& adapter : adapters) options.adapters.emplace_back(adapter);
  options.max_shard_size = static_cast<std::uint64_t>(arguments.integer("max_shard_size"));
  options.rope = rope_override(arguments);
  options.problem_type = problem_type(first);
  std::unique_ptr<Progress> progress;
  if (stderr_is_terminal() && !arguments.boolean("quiet")) {
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      if (!progress) progress = std::make_unique<Progress>("merging", total, "parameters");
      progress->update(done);
    };
  }
  session::merge_adapters(model, options, torch_dtype(arguments), target, arguments.boolean("exist_ok")).value();
  log_info(cat("merged model: ", target.string()));
  return 0;
}

}  // namespace tern::cli
