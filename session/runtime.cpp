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

void write_trace(const accel::Trace& trace, const std::filesystem::path& file) {
  if (trace.steps() == 0) {
    log_warn(cat("no profile was written: the run ended before step ", trace.first(),
                 "; give --profile_steps 1 to begin with the first"));
    return;
  }
  auto out = io::FileWriter::create(file).value();
  trace.write([&](std::string_view piece) { out.append(piece).value(); });
  out.finish().value();
  if (trace.is_cut()) log_warn(cat("the profile ends with event ", trace.events(), ": later ones were not kept"));
  log_info(cat("profile of ", trace.steps(), trace.steps() == 1 ? " step: " : " steps: ", file.string(),
               " (open it at https://ui.perfetto.dev or chrome://tracing)"));
}

// Its folder is made now: nobody trains to learn that there is no place for the profile.
void begin_trace(const RuntimeOptions& options, Runtime& runtime) {
  const std::filesystem::path file = std::filesystem::absolute(options.trace_file);
  if (const Status made = io::make_directories(file.parent_path()); !made.ok()) {
    throw Failure(usage_error(cat("--profile ", options.trace_file.string(), ": ", made.error().problem),
                              "name a file in a folder that can be written"));
  }
  runtime.program.trace = std::make_shared<accel::Trace>(
      runtime.device, options.trace, [file](const accel::Trace& trace) { write_trace(trace, file); });
  if (!runtime.trace()->reads_device()) {
    log_info(cat(runtime.device->name(),
                 " doesn't say when its work ran: while steps are profiled the host times each ",
                 "op alone, with its launch and the wait for it"));
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
    }
    if (!options.trace_file.empty()) begin_trace(options, *runtime);
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

void end_profile(const Runtime& runtime) {
  if (accel::Trace* const trace = runtime.trace()) trace->end();
  if (!runtime.program.profile || runtime.program.profile->runs() == 0) return;
  const graph::Profile& profile = *runtime.program.profile;
  log_info(cat("time by op:\n", profile.to_text(profile.by_op())));
  log_info(cat("time by op and shape:\n", profile.to_text(profile.by_shape())));
}

}  // namespace tern::session
