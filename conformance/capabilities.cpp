#include "conformance/capabilities.h"

#include <functional>

#include "conformance/capabilities/checks.h"
#include "conformance/runtime_checks.h"

namespace tern::conformance {

std::vector<CapabilityResult> check_capabilities(Bench& bench) {
  std::vector<CapabilityResult> out;
  auto check = [&](const char* name, bool set, const std::function<std::string()>& body) {
    CapabilityResult result{name, set, {}, {}};
    try {
      result.problem = body();
    } catch (const Failure& failure) {
      result.problem = failure.what();
      renew_streams(bench);
    }
    out.push_back(std::move(result));
  };
  auto flag = [&](const char* name, std::uint32_t bit, std::string (*body)(Bench&, bool)) {
    const bool set = bench.device->can(bit);
    check(name, set, [&] { return body(bench, set); });
  };
  check("copies", true, [&] { return check_copies(bench); });
  check("events", true, [&] { return check_events(bench); });
  check("memory", true, [&] { return check_memory(bench); });
  check("memory's parts", true, [&] { return check_memory_parts(bench); });
  check("buffer flags", true, [&] { return check_buffer_flags(bench); });
  check("device options", true, [&] { return check_options(bench); });
  check("described devices", true, [&] { return check_described(bench); });
  check("extensions", true, [&] { return check_extensions(bench); });
  check("structs of an older host", true, [&] { return check_short_structs(bench); });
  check("structs of a newer host", true, [&] { return check_long_structs(bench); });
  const auto may_skip = [&](const char* name, std::string (*body)(Bench&, std::string&)) {
    std::string skipped;
    check(name, true, [&] { return body(bench, skipped); });
    out.back().skipped = skipped;
  };
  may_skip("launches", check_launch_returns);
  may_skip("offsets beyond 4 GiB", check_far_offsets);
  check("refusal", true, [&] { return check_refusal(bench); });
  flag("capture", TERN_CAP_CAPTURE, check_capture_flag);
  flag("peer_copy", TERN_CAP_PEER_COPY, check_peer);
  flag("import_host", TERN_CAP_IMPORT_HOST, check_import);
  flag("host_pointer", TERN_CAP_HOST_POINTER, check_host_pointer);
  flag("ipc", TERN_CAP_IPC, check_ipc);
  flag("evict", TERN_CAP_EVICT, check_evict);
  flag("native_memory", TERN_CAP_NATIVE_MEMORY, check_native_memory);
  flag("native_streams", TERN_CAP_NATIVE_STREAMS, check_native_streams);
  flag("profile", TERN_CAP_PROFILE, check_profile);
  flag("collectives", TERN_CAP_COLLECTIVES, check_collectives);
  if (bench.device->can(TERN_CAP_COLLECTIVES)) may_skip("collectives of several ranks", check_collectives_of_ranks);
  flag("comm_abort", TERN_CAP_COMM_ABORT, check_comm_abort);
  flag("whole_graph", TERN_CAP_WHOLE_GRAPH, check_whole_graph);
  if (bench.device->can(TERN_CAP_WHOLE_GRAPH)) may_skip("graphs of several ops", check_graph_chain);
  flag("recipe_files", TERN_CAP_RECIPE_FILES, check_recipe_files);
  flag("eager", TERN_CAP_EAGER, check_eager);
  flag("philox", TERN_CAP_PHILOX, check_philox);
  flag("device_counts", TERN_CAP_DEVICE_COUNTS, check_device_counts);
  return out;
}

}  // namespace tern::conformance
