#include "cli/report_setup.h"

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "base/strings.h"

namespace tern::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool reports_to(const Arguments& arguments, std::string_view tool) {
  const auto& to = arguments.list("report_to");
  return std::any_of(to.begin(), to.end(), [&](const std::string& it) { return it == tool || it == "all"; });
}

// What of wandb needs its own library, and what asks for it.
void tell_wandb_left_out() {
  for (const char* name : {"WANDB_LOG_MODEL", "WANDB_WATCH"}) {
    const std::string value = variable(name);
    if (value.empty() || value == "false") continue;
    log_warn(cat(name, "=", value, " has no effect: what is logged for wandb are the run's numbers and its settings"));
  }
}

// WANDB_MODE: online, which is wandb's default, offline or disabled; dryrun and run are old names.
std::optional<train::WandbOptions> wandb_options(const Arguments& arguments) {
  const std::string mode = variable("WANDB_MODE");
  if (mode == "disabled") return std::nullopt;
  if (mode.empty() || mode == "online" || mode == "run" || mode == "shared") {
    log_info(
        "--report_to wandb: nothing is sent while training; the run is kept in files, and wandb sync uploads them");
  } else if (mode != "offline" && mode != "dryrun") {
    throw Failure(usage_error(cat("WANDB_MODE=", mode, " is no mode of wandb"), "set it to offline or disabled"));
  }
  tell_wandb_left_out();
  train::WandbOptions o;
  if (const std::string directory = variable("WANDB_DIR"); !directory.empty()) o.directory = directory;
  if (const std::string project = variable("WANDB_PROJECT"); !project.empty()) o.project = project;
  o.name = arguments.maybe_string("run_name").value_or(variable("WANDB_NAME"));
  o.run_id = variable("WANDB_RUN_ID");
  o.entity = variable("WANDB_ENTITY");
  o.group = variable("WANDB_RUN_GROUP");
  o.job_type = variable("WANDB_JOB_TYPE");
  o.notes = variable("WANDB_NOTES");
  const std::string tags = variable("WANDB_TAGS");
  for (const std::string_view tag : split(tags, ',')) {
    if (!trim(tag).empty()) o.tags.emplace_back(trim(tag));
  }
  return o;
}

train::SwanlabOptions swanlab_options(const Arguments& arguments) {
  if (arguments.string("swanlab_mode") == "local") {
    throw Failure(usage_error("--swanlab_mode local: SwanLab's dashboard reads a database that its own package writes",
                              "leave the flag away and upload the run with swanlab sync, or give --report_to "
                              "tensorboard, whose dashboard runs here"));
  }
  log_info(
      "--report_to swanlab: nothing is sent while training; the run is kept in files, and swanlab sync uploads them");
  train::SwanlabOptions o;
  for (const char* name : {"SWANLAB_LOGDIR", "SWANLAB_LOG_DIR"}) {
    if (const std::string directory = variable(name); !directory.empty()) o.directory = directory;
  }
  o.project = arguments.string("swanlab_project");
  o.workspace = arguments.maybe_string("swanlab_workspace").value_or("");
  o.name = arguments.maybe_string("swanlab_exp_name").value_or("");
  return o;
}

}  // namespace

train::ReportOptions report_options(const Arguments& arguments) {
  train::ReportOptions o;
  o.tensorboard = reports_to(arguments, "tensorboard");
  o.logging_dir = arguments.maybe_string("logging_dir").value_or("");
  if (reports_to(arguments, "wandb")) o.wandb = wandb_options(arguments);
  if (reports_to(arguments, "swanlab")) o.swanlab = swanlab_options(arguments);
  o.plots = true;
  if (arguments.string("acc_strategy") == "seq") o.accuracy = train::AccuracyOf::sample;
  return o;
}

}  // namespace tern::cli
