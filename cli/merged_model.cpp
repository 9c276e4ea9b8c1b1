#include "cli/merged_model.h"

#include <memory>

#include "base/log.h"
#include "base/strings.h"
#include "cli/interrupt.h"
#include "cli/saved_arguments.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "engine/merge_check.h"
#include "io/json.h"

namespace tern::cli {

namespace fs = std::filesystem;

namespace {

// Of a classification, as the args.json beside the adapter says; "" where it says none.
std::string problem_type(const fs::path& adapter) {
  const fs::path file = adapter / "args.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  const io::Json json = io::read_json_file(file).value();
  const io::Json* found = json.find("problem_type");
  return found != nullptr && found->is_string() ? std::string(found->text()) : std::string();
}

fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

}  // namespace

std::vector<fs::path> adapter_paths(const Arguments& arguments) {
  const auto& adapters = arguments.list("adapters");
  return {adapters.begin(), adapters.end()};
}

Arguments with_training_arguments(const Arguments& given) {
  Arguments arguments = given;
  const auto& adapters = given.list("adapters");
  if (adapters.empty() || !given.boolean("load_args")) return arguments;
  const fs::path saved = fs::path(adapters[0]) / "args.json";
  std::error_code ignored;
  if (fs::is_regular_file(saved, ignored)) {
    constexpr std::string_view kNames[] = {"model", "torch_dtype", "new_special_tokens"};
    load_saved_flags(arguments, saved, kNames);
  }
  return arguments;
}

std::string base_model(const Arguments& arguments) {
  if (const auto model = arguments.maybe_string("model")) return *model;
  const auto& adapters = arguments.list("adapters");
  if (adapters.empty()) {
    throw Failure(usage_error(cat("tern ", arguments.command().name, " needs a model"),
                              "name it with --model, or an adapter with --adapters"));
  }
  const auto config = models::read_adapter_config(adapters[0]).value();
  if (config.base_model.empty()) {
    throw Failure(usage_error("the adapter's adapter_config.json does not name the model that it was trained on",
                              "name it with --model"));
  }
  return config.base_model;
}

fs::path named_after(const Arguments& arguments, const std::string& suffix) {
  const auto& adapters = arguments.list("adapters");
  if (!adapters.empty()) return without_slash(adapters[0]).string() + suffix;
  const fs::path model = without_slash(arguments.string("model"));
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) return model.string() + suffix;
  if (fs::exists(model, ignored)) return (model.parent_path() / model.stem()).string() + suffix;
  const std::string name = model.filename().string();  // of a hub id
  return name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1) + suffix;
}

session::WrittenCheck merge_check(const Arguments& arguments, const fs::path& model) {
  const auto& adapters = arguments.list("adapters");
  if (adapters.empty() || !arguments.boolean("verify_merge")) return {};
  if (models::read_adapter_config(adapters[0]).value().task_type == models::kClassification) {
    log_info("the merge is not verified on logits: a classification has none");
    return {};
  }
  if (adapters.size() > 1) {
    log_info("the merge of several adapters is not verified on logits: one at a time is");
    return {};
  }
  session::SessionOptions base;
  base.runtime.device = "cpu";
  if (arguments.has("device")) {
    base.runtime = runtime_options(arguments);
    if (!arguments.was_set("device")) base.runtime.device = "cpu";
  }
  base.model = model.string();
  base.rope = rope_override(arguments);
  base.new_special_tokens = new_special_tokens(arguments);
  base.dtype = torch_dtype(arguments);
  return [base, adapter = fs::path(adapters[0])](const fs::path& written) {
    const engine::MergeDistance distance = engine::check_merge(base, adapter, written);
    log_info(cat("merge verified: its logits are ", fixed(100 * distance.merged, 3),
                 "% of their spread from those of base and adapter; the adapter moves them by ",
                 fixed(100 * distance.adapter, 3), "%"));
    if (distance.merged > distance.adapter) {
      log_warn("rounding the merged weights changes the model more than the adapter does; a finer --outtype or "
               "--torch_dtype keeps what was trained");
    }
  };
}

void write_merged(const Arguments& arguments, const fs::path& model, const fs::path& target) {
  if (target.extension() == ".gguf")
    return write_gguf(arguments, model, target, arguments.maybe_string("outtype").value_or(""));
  models::MergeOptions options;
  options.adapters = adapter_paths(arguments);
  options.max_shard_size = static_cast<std::uint64_t>(arguments.integer("max_shard_size"));
  options.rope = rope_override(arguments);
  options.new_special_tokens = new_special_tokens(arguments);
  if (!options.adapters.empty()) options.problem_type = problem_type(options.adapters[0]);
  std::unique_ptr<Progress> progress;
  if (stderr_is_terminal() && !arguments.boolean("quiet")) {
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      if (!progress) progress = std::make_unique<Progress>("merging", total, "parameters");
      progress->update(done);
    };
  }
  session::merge_adapters(model, options, torch_dtype(arguments), target, arguments.boolean("exist_ok"),
                          merge_check(arguments, model))
      .value();
  log_info(cat("merged model: ", target.string()));
}

void write_gguf(const Arguments& arguments, const fs::path& model, const fs::path& target,
                const std::string& outtype) {
  if (arguments.has("rope_scaling")) {
    throw Failure(usage_error("a scaling of positions cannot be written into a GGUF file here",
                              "write a directory, and convert that with tern convert"));
  }
  if (!new_special_tokens(arguments).empty()) {
    throw Failure(usage_error("new special tokens cannot be written into a GGUF file here",
                              "merge into a directory, and convert that with tern convert"));
  }
  session::ConvertModelOptions options;
  options.container = checkpoint::Container::gguf;
  options.outtype = outtype;
  options.adapters = adapter_paths(arguments);
  options.replace = arguments.boolean("exist_ok");
  options.check = merge_check(arguments, model);
  install_interrupt_handler();
  std::unique_ptr<Progress> progress;
  const bool quiet = arguments.boolean("quiet");
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (!progress && !quiet) progress = std::make_unique<Progress>("writing", total, "B");
    if (progress) progress->update(done);
    return !interrupted();
  };
  const auto report = session::convert_model(model, target, options);
  if (interrupted() && !report.ok())
    throw Failure(interrupted_error("writing the model was stopped, and nothing was written", "run it again"));
  for (const std::string& note : report.value().notes) log_info(note);
  if (progress) progress->finish();
  log_info(cat("wrote ", target.string(), ": ", report->tensors, " tensors, ", human_bytes(report->bytes)));
}

}  // namespace tern::cli
