#include "cli/run_form_flags.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/strings.h"
#include "cli/flags/command_line.h"
#include "cli/flags/condition.h"
#include "cli/flags/flag_table.h"
#include "cli/train_report.h"
#include "cli/train_setup.h"
#include "train/run_directory.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kGroups = {"model",        "data",           "loop",         "optimizer", "tuner",
                                "template",     "save",           "quantization", "base",      "precision",
                                "runtime",      "task",           "task_loss",    "mixture",   "cached",
                                "loss_weights", "self_cognition", "new_tokens",   "positions"};
// What nearly everyone sets comes first.
constexpr std::array kEssential = {"model",
                                   "dataset",
                                   "val_dataset",
                                   "split_dataset_ratio",
                                   "tuner_type",
                                   "num_train_epochs",
                                   "max_steps",
                                   "learning_rate",
                                   "per_device_train_batch_size",
                                   "gradient_accumulation_steps",
                                   "max_length",
                                   "lora_rank",
                                   "lora_alpha",
                                   "device",
                                   "save_steps",
                                   "logging_steps"};
// Where a run writes is the server's to say, and code that a page could have loaded is none of a form's.
constexpr std::array kLeftOut = {"output_dir",        "add_version",   "resume_from_checkpoint",
                                 "resume_only_model", "logging_dir",   "load_args",
                                 "backend",           "device_options"};

std::string type_name(FlagType type) {
  switch (type) {
    case FlagType::text:
      return "text";
    case FlagType::integer:
      return "integer";
    case FlagType::real:
      return "real";
    case FlagType::boolean:
      return "boolean";
    case FlagType::choice:
      return "choice";
    case FlagType::list:
      return "list";
    case FlagType::json:
      return "json";
    case FlagType::size:
      return "size";
  }
  return "text";
}

bool is_field(const CommandSpec& command, const Flag& flag) {
  return !flag.secret && flag.explanation.empty() && !is_pending(command, flag.name) &&
         !why_no_effect(command, flag.name) && std::ranges::find(kLeftOut, flag.name) == kLeftOut.end();
}

server::FormField field_of(const CommandSpec& command, const Flag& flag) {
  server::FormField field;
  field.name = flag.name;
  field.type = type_name(flag.type);
  field.fallback = contract_default(command, flag);
  field.computed = flag.computed;
  field.help = flag.help;
  for (const std::string_view choice : split(flag.choices, '|')) {
    if (!choice.empty() && !is_pending_value(command, flag.name, choice)) field.choices.emplace_back(choice);
  }
  return field;
}

bool is_essential(std::string_view name) { return std::ranges::find(kEssential, name) != kEssential.end(); }

std::vector<server::FormGroup> groups_of(const CommandSpec& command) {
  std::vector<server::FormGroup> groups(1);
  groups[0].title = "First";
  for (const char* name : kEssential) groups[0].fields.push_back(field_of(command, *find_flag(command, name)));
  for (const char* name : kGroups) {
    if (std::ranges::find(command.groups, name) == command.groups.end()) continue;
    const FlagGroup& group = find_group(name);
    server::FormGroup out;
    out.title = group.title;
    for (const Flag& flag : group.flags) {
      if (is_field(command, flag) && !is_essential(flag.name)) out.fields.push_back(field_of(command, flag));
    }
    if (!out.fields.empty()) groups.push_back(std::move(out));
  }
  return groups;
}

// What the command line says of these words, without anything being opened.
Arguments judged(const std::vector<std::string>& words) {
  const auto variable = [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  const auto invocation = parse_command_line(words, variable).value();
  const CommandSpec& command = invocation.arguments.command();
  Arguments arguments = command.prepare != nullptr ? command.prepare(invocation.arguments) : invocation.arguments;
  check_effects(arguments).value();
  (void)run_options(arguments);
  if (arguments.list("dataset").empty() && arguments.list("cached_dataset").empty()) {
    throw Failure(usage_error("no --dataset is given", "name a file or a hub id"));
  }
  return arguments;
}

// The folder of the model's versions, which can't be another than one below the output directory.
fs::path versions_of(const fs::path& output_dir, const std::string& model) {
  const std::string name = train::default_output_dir(model).filename().string();
  return output_dir / (name.starts_with('.') ? "model" : name);
}

}  // namespace

server::RunForm sft_form(const fs::path& output_dir) {
  const CommandSpec& command = *find_command("sft");
  server::RunForm form;
  form.groups = groups_of(command);
  form.command = [output_dir](const server::FormValues& values, bool make) {
    std::vector<std::string> words = {"sft"};
    for (const auto& [flag, given] : values) {
      words.push_back(cat("--", flag));
      words.insert(words.end(), given.begin(), given.end());
    }
    const Arguments arguments = judged(words);
    server::RunCommand out;
    if (make) {
      out.directory = fs::absolute(train::new_version(versions_of(output_dir, arguments.string("model"))));
      words.insert(words.end(), {"--output_dir", out.directory.string(), "--add_version", "false"});
    }
    out.shown = program_word();
    for (const std::string& word : words) out.shown += cat(" ", shell_word(word));
    out.words = {fs::read_symlink("/proc/self/exe").string()};
    out.words.insert(out.words.end(), words.begin(), words.end());
    return out;
  };
  return form;
}

}  // namespace tern::cli
