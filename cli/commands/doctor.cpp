// tern doctor: what each backend says of its drivers and libraries, with the mend.
#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/diagnosis.h"
#include "cli/session_flags.h"
#include "cli/support_bundle.h"

namespace tern::cli {
namespace {

// The backends that --device asks for, absent ones as well.
std::vector<accel::ProbedBackend> probe(const Arguments& arguments) {
  auto options = session::probe_options();
  options.forget = true;
  const auto& device = arguments.string("device");
  const std::string wanted = device.substr(0, device.find(':'));
  auto backends = accel::probe_backends(backend_files(arguments), options);
  std::erase_if(backends, [&](const accel::ProbedBackend& probed) {
    return wanted != "auto" && probed.name != wanted && probed.file.stem() != cat("libtern_", wanted);
  });
  if (backends.empty()) throw Failure(device_error(cat("no backend is called ", wanted), "see tern devices"));
  return backends;
}

void append(std::vector<Check>& to, const std::vector<Check>& more) { to.insert(to.end(), more.begin(), more.end()); }

void pack(const Arguments& arguments, const std::vector<accel::ProbedBackend>& backends,
          const std::vector<Check>& checks) {
  const std::filesystem::path file = arguments.string("bundle");
  const auto entries = collect_bundle(backends, checks);
  write_bundle(file, entries);
  if (arguments.boolean("json")) {
    log_info(bundle_listing(file, entries));
  } else {
    std::fputs(bundle_listing(file, entries).c_str(), stdout);
  }
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  session::set_up_host(runtime_options(arguments).num_threads);
  if (arguments.has("bundle")) require_bundle_name(arguments.string("bundle"));
  const auto backends = probe(arguments);
  auto checks = backend_checks(backends);
  append(checks, launch_checks(backends));
  if (arguments.has("model")) {
    const auto path = model_path(arguments, arguments.string("model"));
    append(checks, model_checks(backends, arguments.string("device"), path));
  }
  std::fputs((arguments.boolean("json") ? checks_json(checks) : checks_text(checks)).c_str(), stdout);
  if (arguments.has("bundle")) pack(arguments, backends, checks);
  const auto errors = std::count_if(checks.begin(), checks.end(), [](const Check& check) {
    return check.finding.level == accel::Finding::Level::error;
  });
  if (errors == 0) return 0;
  throw Failure(
      device_error(cat(errors, errors == 1 ? " check of tern doctor failed" : " checks of tern doctor failed"),
                   "fix what the lines above say"));
}

}  // namespace tern::cli
