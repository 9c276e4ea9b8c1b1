#include "cli/model_session.h"

#include <cstdlib>

#include <algorithm>

#include "base/dtype.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/data_setup.h"
#include "cli/device_setup.h"
#include "cli/model_names.h"
#include "cli/terminal.h"
#include "graph/bind.h"
#include "io/file_writer.h"

namespace tern::cli {
namespace {

graph::Fallback fallback_policy(const Arguments& arguments, bool explicitly_named) {
  const auto word = arguments.maybe_string("fallback");
  if (!word) return explicitly_named ? graph::Fallback::forbid : graph::Fallback::warn;
  if (*word == "allow") return graph::Fallback::allow;
  return *word == "warn" ? graph::Fallback::warn : graph::Fallback::forbid;
}

// The cpu backend beside the device, for ops that may fall back.
accel::DevicePtr open_host(const accel::DevicePtr& device) {
  if (device->backend().name() == "cpu") return nullptr;
  accel::DeviceRequest request;
  request.device = "cpu";
  auto host = accel::select_device(request, probe_options());
  return host.ok() ? host->device : nullptr;
}

tern_dtype compute_dtype(const Arguments& arguments, const accel::Device& device) {
  const auto named = arguments.maybe_string("torch_dtype");
  if (!named) return models::fastest_compute_dtype(device);
  return dtype_from_name(*named).value();  // one of the flag's choices
}

// A named architecture must be the one that the checkpoint holds: nothing else could be loaded from it.
void check_model_type(const Arguments& arguments, const models::ModelConfig& config) {
  if (find_flag(arguments.command(), "model_type") == nullptr) return;
  const auto named = arguments.maybe_string("model_type");
  if (!named || *named == config.model_type) return;
  throw Failure(usage_error("flag --model_type", cat("\"", config.model_type, "\", as the model says"),
                            cat("\"", *named, "\""), "remove it"));
}

}  // namespace

void require_one_adapter(const Arguments& arguments) {
  const auto& adapters = arguments.list("adapters");
  if (adapters.size() <= 1) return;
  throw Failure(
      usage_error("--adapters", "one adapter", cat(adapters.size()), "merge the others first: tern merge-lora"));
}

ModelSession::~ModelSession() {
  if (!program.profile || program.profile->runs() == 0) return;
  const graph::Profile& profile = *program.profile;
  log_info(cat("time by op:\n", profile.to_text(profile.by_op())));
  log_info(cat("time by op and shape:\n", profile.to_text(profile.by_shape())));
}

std::unique_ptr<ModelSession> open_session(const Arguments& arguments, const std::string& model) {
  auto session = std::make_unique<ModelSession>();
  session->path = resolve_model(model, hub_flags(arguments)).value();
  session->source =
      std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(session->path).value());
  session->text = chat::load_model_text(session->path).value();
  if (find_flag(arguments.command(), "template") != nullptr) apply_template(arguments, *session->text);
  check_model_type(arguments, models::read_config(*session->source).value());
  session->selected = open_device(arguments);
  const auto& device = session->selected.device;
  session->choices = accel::ChoiceCache(*device, std::filesystem::path(tern_home()) / "choices");
  session->program.bind.fallback = fallback_policy(arguments, session->selected.explicitly_named);
  session->program.bind.prefer_decomposition =
      arguments.string("kernels") == "reference" || !arguments.boolean("enable_npu_model_patch");
  if (session->program.bind.fallback != graph::Fallback::forbid) session->host = open_host(device);
  session->compute = compute_dtype(arguments, *device);
  const char* profile = std::getenv("TERN_PROFILE");
  if (profile != nullptr && *profile != '\0') session->program.profile = std::make_shared<graph::Profile>();
  return session;
}

void load_weights(ModelSession& session, const Arguments& arguments, const models::LoadOptions& options) {
  models::LoadOptions with_progress = options;
  std::unique_ptr<Progress> progress;
  if (!arguments.boolean("quiet") && stderr_is_terminal()) {
    with_progress.progress = [&](std::uint64_t done, std::uint64_t total) {
      if (!progress) progress = std::make_unique<Progress>("loading", total, "B");
      progress->update(done);
    };
  }
  session.model = models::load_model(session.source, session.selected.device, with_progress).value();
  progress.reset();
  for (const std::string& note : session.model.notes) log_info(note);
  log_info(cat("model: ", session.path.string(), ", ", session.model.config.architecture, ", ",
               fixed(static_cast<double>(session.model.config.num_parameters()) / 1e6, 1), "M parameters, products in ",
               dtype_name(session.compute)));
}

void keep_bindings(const graph::Program& program, const std::filesystem::path& file) {
  const auto& table = program.bindings();
  const bool on_host = std::any_of(table.begin(), table.end(), [](const auto& row) { return row.how == "host"; });
  const std::string text = graph::to_text(table);
  log(on_host ? LogLevel::info : LogLevel::debug, cat("where each op runs:\n", text));
  if (!file.empty()) io::write_file(file, text).value();
}

}  // namespace tern::cli
