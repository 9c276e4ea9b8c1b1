#include "cli/device_setup.h"

#include "base/log.h"
#include "base/strings.h"
#include "cli/model_names.h"

namespace tern::cli {

void set_up_host(const Arguments& arguments) {
  accel::HostOptions options;
  options.num_threads = static_cast<int>(arguments.maybe_integer("threads").value_or(0));
  options.cache_dir = std::filesystem::path(tern_home()) / "choices";
  accel::set_host_options(options);
}

accel::ProbeOptions probe_options() {
  accel::ProbeOptions options;
  options.verdict_dir = std::filesystem::path(tern_home()) / "probes";
  return options;
}

std::vector<std::filesystem::path> backend_files(const Arguments& arguments) {
  auto files = accel::find_backend_files();
  if (const auto named = arguments.maybe_string("backend")) files.insert(files.begin(), *named);
  return files;
}

accel::SelectedDevice open_device(const Arguments& arguments) {
  set_up_host(arguments);
  accel::DeviceRequest request;
  request.device = arguments.string("device");
  request.backend_file = arguments.maybe_string("backend").value_or("");
  auto selected = accel::select_device(request, probe_options()).value();
  log_info(cat("device: ", selected.device->name(), " (", selected.device->info().name, "), ", selected.why));
  return selected;
}

}  // namespace tern::cli
