#include "session/runtime.h"

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "base/strings.h"
#include "graph/bind.h"
#include "io/file_writer.h"

namespace tern::session {
namespace {

// The cpu backend beside the device, for ops that may fall back.
accel::DevicePtr open_host(const accel::DevicePtr& device) {
  if (device->backend().name() == "cpu") return nullptr;
  accel::DeviceRequest request;
  request.device = "cpu";
  auto host = accel::select_device(request, probe_options());
  return host.ok() ? host->device : nullptr;
}

// TERN_PROFILE=FILE.json: what runs from now on is recorded.
void record_trace(const std::filesystem::path& file, Runtime& runtime) {
  if (file.extension() != ".json") return;
  if (!runtime.device->can(TERN_CAP_PROFILE)) {
    log_warn(cat(runtime.device->name(), " does not tell what ran when, so there is no ", file.string()));
    return;
  }
  runtime.recording = std::make_unique<accel::DeviceProfile>(runtime.device);
  runtime.trace_file = file;
}

void write_trace(const Runtime& runtime) {
  if (!runtime.recording) return;
  const auto records = runtime.recording->collect();
  const auto written = io::write_file(runtime.trace_file, accel::trace_json(records, runtime.device->name()));
  if (written.ok()) {
    log_info(
        cat("trace of ", records.size(), " pieces of work: ", runtime.trace_file.string(), " (Perfetto opens it)"));
  } else {
    log_warn(cat("no trace was written: ", written.error().line()));
  }
}

}  // namespace

std::unique_ptr<graph::Program> Runtime::build(const graph::Graph& graph,
                                               const std::shared_ptr<graph::TensorStore>& store,
                                               std::shared_ptr<graph::Arena> arena,
                                               const graph::Counts& typical_counts) {
  graph::ProgramOptions options = program;
  options.typical_counts = typical_counts;
  return graph::Program::build(graph, store, choices, options, host, std::move(arena));
}

std::filesystem::path tern_home() {
  if (const char* home = std::getenv("TERN_HOME"); home != nullptr && *home != '\0') return home;
  const char* home = std::getenv("HOME");
  return cat(home != nullptr && *home != '\0' ? home : ".", "/.cache/tern");
}

void set_up_host(int num_threads) {
  accel::HostOptions options;
  options.num_threads = num_threads;
  options.cache_dir = tern_home() / "choices";
  accel::set_host_options(options);
}

accel::ProbeOptions probe_options() {
  accel::ProbeOptions options;
  options.verdict_dir = tern_home() / "probes";
  return options;
}

Result<accel::SelectedDevice> open_device(const RuntimeOptions& options) {
  set_up_host(options.num_threads);
  accel::DeviceRequest request;
  request.device = options.device;
  request.options = options.device_options;
  request.backend_file = options.backend_file;
  auto selected = accel::select_device(request, probe_options());
  if (selected) {
    const auto& device = *selected->device;
    log_info(cat("device: ", device.name(), " (", device.info().name, "), ", selected->why));
  }
  return selected;
}

Result<std::unique_ptr<Runtime>> open_runtime(const RuntimeOptions& options) {
  return catching([&] {
    const accel::SelectedDevice selected = open_device(options).value();
    auto runtime = std::make_unique<Runtime>();
    runtime->device = selected.device;
    runtime->choices = accel::ChoiceCache(*selected.device, tern_home() / "choices");
    auto& bind = runtime->program.bind;
    bind.fallback =
        options.fallback.value_or(selected.explicitly_named ? graph::Fallback::forbid : graph::Fallback::warn);
    bind.prefer_decomposition = options.reference_kernels;
    if (bind.fallback != graph::Fallback::forbid) runtime->host = open_host(selected.device);
    if (const char* profile = std::getenv("TERN_PROFILE"); profile != nullptr && *profile != '\0') {
      runtime->program.profile = std::make_shared<graph::Profile>();
      record_trace(profile, *runtime);
    }
    return runtime;
  });
}

namespace {

// "npu:Ascend910B3": a backend and one of the devices that it describes; null where it names none.
accel::DevicePtr described_device(const std::string& name, const std::filesystem::path& backend_file) {
  const auto colon = name.find(':');
  if (colon == std::string::npos) return nullptr;
  const std::string profile = name.substr(colon + 1);
  const auto files = backend_file.empty() ? accel::find_backend_files() : std::vector{backend_file};
  for (const auto& file : files) {
    if (file.stem() != cat("libtern_", name.substr(0, colon))) continue;
    auto backend = accel::Backend::load(file).value();
    const auto profiles = backend->profiles();
    if (std::find(profiles.begin(), profiles.end(), profile) == profiles.end()) return nullptr;
    return accel::Device::describe(std::move(backend), profile).value();
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Runtime>> describe_runtime(const RuntimeOptions& options) {
  return catching([&] {
    auto runtime = std::make_unique<Runtime>();
    runtime->program.bind.prefer_decomposition = options.reference_kernels;
    runtime->program.bind.fallback = options.fallback.value_or(graph::Fallback::forbid);
    set_up_host(options.num_threads);
    runtime->device = described_device(options.device, options.backend_file);
    if (!runtime->device) {
      runtime = open_runtime(options).value();
      const accel::Device& here = *runtime->device;
      const std::string twin = cat(here.backend().name(), ":", here.info().arch);
      if (auto described = described_device(twin, here.backend().file())) runtime->device = std::move(described);
    }
    return runtime;
  });
}

void show_profile(const Runtime& runtime) {
  if (!runtime.program.profile || runtime.program.profile->runs() == 0) return;
  const graph::Profile& profile = *runtime.program.profile;
  log_info(cat("time by op:\n", profile.to_text(profile.by_op())));
  log_info(cat("time by op and shape:\n", profile.to_text(profile.by_shape())));
  write_trace(runtime);
}

}  // namespace tern::session
