#include "cli/probed_devices.h"

#include <algorithm>
#include <functional>

#include "base/strings.h"
#include "cli/device_report.h"
#include "cli/session_flags.h"

namespace tern::cli {
namespace {

// A named device that is not there is an error, with the reason that its backend gave.
void require(const std::string& device, const std::vector<accel::ProbedBackend>& backends) {
  if (device == "auto") return;
  const auto name = device.substr(0, device.find(':'));
  std::vector<std::string> known;
  std::string reason;
  for (const auto& backend : backends) {
    known.push_back(backend.name.empty() ? backend.file.stem().string() : backend.name);
    for (int i = 0; i < static_cast<int>(backend.devices.size()); ++i) {
      if (is_wanted(device, backend, i)) return;
    }
    if (backend.name == name || (backend.name.empty() && backend.file.stem() == cat("libtern_", name))) {
      reason = backend.absent_reason.empty() ? cat("backend ", name, " has ", backend.devices.size(),
                                                   backend.devices.size() == 1 ? " device" : " devices")
                                             : backend.absent_reason;
    }
  }
  if (!reason.empty()) {
    throw Failure(device_error(cat("there is no device ", device, ": ", reason), "see tern devices"));
  }
  throw Failure(device_error(cat("no backend is called ", name),
                             known.empty() ? "put its library into a folder of $TERN_BACKEND_PATH"
                                           : cat("choose one of ", join(known, ", "))));
}

// A named device probes only its own plugin, where the file's name tells which that is; a plugin that was named must
// load.
std::vector<accel::ProbedBackend> probe_fresh(const Arguments& arguments) {
  auto options = session::probe_options();
  options.forget = true;
  auto files = backend_files(arguments);
  const auto named = cat("libtern_", split(arguments.string("device"), ':')[0]);
  const auto is_named = [&](const std::filesystem::path& file) { return file.stem() == named; };
  if (std::any_of(files.begin(), files.end(), is_named)) {
    files.erase(std::remove_if(files.begin(), files.end(), std::not_fn(is_named)), files.end());
  }
  auto backends = accel::probe_backends(files, options);
  const auto file = arguments.maybe_string("backend");
  for (const auto& backend : backends) {
    if (file && backend.file == *file && backend.name.empty()) {
      throw Failure(
          device_error(cat("--backend ", *file, " cannot be loaded: ", backend.absent_reason), "check the path"));
    }
  }
  return backends;
}

}  // namespace

std::vector<accel::ProbedBackend> probe_wanted(const Arguments& arguments) {
  const auto& device = arguments.string("device");
  auto backends = probe_fresh(arguments);
  require(device, backends);
  const auto name = device.substr(0, device.find(':'));
  if (name != "auto") std::erase_if(backends, [&](const auto& backend) { return backend.name != name; });
  return backends;
}

}  // namespace tern::cli
