#include "cli/data_setup.h"

#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "chat/model_text.h"
#include "cli/dataset_hub.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "data/plugin_host.h"
#include "io/mapped_file.h"

namespace tern::cli {
namespace {

// One line a file, redrawn as it goes.
data::Progress file_progress(bool quiet) {
  return [quiet, bar = std::shared_ptr<Progress>(), label = std::string()](const data::ProgressEvent& event) mutable {
    if (!bar || label != event.what) {
      label = event.what;
      bar = std::make_shared<Progress>(label, event.total, "B", quiet);
    }
    const double rate = event.seconds > 0 ? static_cast<double>(event.rows) / event.seconds : 0;
    bar->update(event.done, cat(event.rows, " rows, ", fixed(rate, 0), "/s"));
    if (event.last) {
      bar->finish();
      bar.reset();
    }
  };
}

// --model_name and --model_author: one word, or the Chinese one first.
std::vector<data::Placeholder> placeholders(const Arguments& arguments) {
  std::vector<data::Placeholder> out;
  for (const auto& [flag, place] : {std::pair("model_name", "{{NAME}}"), std::pair("model_author", "{{AUTHOR}}")}) {
    if (!arguments.has(flag)) continue;
    const auto& words = arguments.list(flag);
    if (words.size() > 2) {
      throw Failure(usage_error(cat("--", flag, " takes one name, or a Chinese one and another, not ", words.size()),
                                "put a name of several words in quotes"));
    }
    out.push_back({place, words.front(), words.back()});
  }
  return out;
}

// --external_plugins and --custom_dataset_info: the data sets that they register take the place of their names.
void run_plugins(const Arguments& arguments, data::LoadOptions& options) {
  std::vector<std::string> files;
  for (const char* flag : {"external_plugins", "custom_dataset_info"}) {
    if (!arguments.has(flag)) continue;
    files.insert(files.end(), arguments.list(flag).begin(), arguments.list(flag).end());
  }
  if (files.empty()) return;
  const auto host = data::PluginHost::start(files).value();
  data::use_plugins(*host, options, arguments.maybe_boolean("use_hf").value_or(false));
  if (host->lacking().empty()) return;
  log_warn(cat("tern runs the data sets of plugins alone, and has no ", join(host->lacking(), ", ")));
}

// --interleave_prob and --stopping_strategy.
data::Interleave interleave(const Arguments& arguments) {
  data::Interleave out;
  if (!arguments.has("interleave_prob")) return out;
  for (const std::string& word : arguments.list("interleave_prob")) {
    double& number = out.probabilities.emplace_back(0.0);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) {
      throw Failure(usage_error(cat("--interleave_prob ", word, " is not a number"),
                                "give a probability for each data set, as in --interleave_prob 0.7 0.3"));
    }
  }
  if (arguments.string("stopping_strategy") == "all_exhausted") out.stopping = data::StoppingStrategy::all_exhausted;
  return out;
}

}  // namespace

data::LoadOptions load_options(const Arguments& arguments) {
  data::LoadOptions options;
  options.dataset = arguments.list("dataset");
  if (arguments.has("val_dataset")) options.val_dataset = arguments.list("val_dataset");
  if (arguments.has("split_dataset_ratio")) options.split_dataset_ratio = arguments.real("split_dataset_ratio");
  if (arguments.has("data_seed")) options.data_seed = static_cast<std::uint64_t>(arguments.integer("data_seed"));
  if (arguments.has("dataset_num_proc")) {
    options.dataset_num_proc = static_cast<unsigned>(arguments.integer("dataset_num_proc"));
  }
  options.interleave = interleave(arguments);
  if (arguments.has("cached_dataset")) options.cached_dataset = arguments.list("cached_dataset");
  if (arguments.has("cached_val_dataset")) options.cached_val_dataset = arguments.list("cached_val_dataset");
  if (arguments.has("strict")) options.strict = arguments.boolean("strict");
  if (arguments.has("load_from_cache_file")) options.load_from_cache_file = arguments.boolean("load_from_cache_file");
  if (arguments.has("columns")) {
    options.normalize.columns = data::parse_columns(arguments.string("columns")).value();
  }
  options.normalize.system = system_message(arguments);
  options.normalize.placeholders = placeholders(arguments);
  options.hub = dataset_hub(arguments);
  options.progress = file_progress(is_quiet(arguments));
  run_plugins(arguments, options);
  return options;
}

std::string system_message(const Arguments& arguments) {
  if (!arguments.has("system")) return {};
  const std::string& given = arguments.string("system");
  std::error_code ignored;
  if (given.find('\n') == std::string::npos && std::filesystem::is_regular_file(given, ignored)) {
    return io::read_text_file(given).value();
  }
  return given;
}

void apply_template(const Arguments& arguments, chat::ModelText& model) {
  if (!arguments.has("template")) return;
  const std::string& file = arguments.string("template");
  model.chat_template = chat::ChatTemplate::parse(io::read_text_file(file).value(), file).value();
}

std::string template_kwargs(const Arguments& arguments) {
  std::vector<std::string> fields;
  for (const char* name : {"enable_thinking", "preserve_thinking"}) {
    if (arguments.has(name)) fields.push_back(cat("\"", name, "\": ", arguments.boolean(name)));
  }
  return fields.empty() ? std::string() : cat("{", join(fields, ", "), "}");
}

data::ChatEncoderOptions encoder_options(const Arguments& arguments) {
  data::ChatEncoderOptions options;
  if (arguments.has("max_length")) options.max_length = static_cast<std::uint32_t>(arguments.integer("max_length"));
  options.truncation = data::parse_truncation(arguments.string("truncation_strategy")).value();
  chat::LossWeighing weighing = chat::parse_loss_weighing(arguments.string("loss_scale")).value();
  options.loss_scale = weighing.base;
  options.loss_rules = std::move(weighing.rules);
  options.binary_weights = arguments.maybe_boolean("is_binary_loss_scale").value_or(false);
  options.use_chat_template = arguments.boolean("use_chat_template");
  options.template_kwargs = template_kwargs(arguments);
  options.agent_template = arguments.maybe_string("agent_template").value_or("");
  return options;
}

}  // namespace tern::cli
