// What a device is opened with, devices that are described alone, and extensions.
#include <algorithm>

#include "conformance/capabilities/tools.h"

namespace tern::conformance {
namespace {

constexpr std::uint32_t kOfPlace = TERN_CAP_PEER_COPY;  // depends on what is beside the device, not on what it is

std::string check_option_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const auto colon = line.find(": ");
    const std::string key = line.substr(0, colon);
    const bool plain = std::all_of(key.begin(), key.end(),
                                   [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
    if (colon == std::string::npos || key.empty() || !plain)
      return cat("the option \"", line, "\" is not \"key: what\"");
  }
  return {};
}

// What answers "unsupported" on a description, memory before all.
std::string check_absence(const accel::Device& device) {
  const auto& api = device.api();
  tern_buffer buffer = nullptr;
  tern_stream stream = nullptr;
  tern_event event = nullptr;
  void* pointer = nullptr;
  std::vector<std::string> problems = {
      expect_unsupported(api.buffer_create(device.raw(), 64, 0, &buffer), "buffer_create"),
      expect_unsupported(api.host_alloc(device.raw(), 64, &pointer), "host_alloc"),
      expect_unsupported(api.stream_create(device.raw(), 0, &stream), "stream_create"),
      expect_unsupported(api.event_create(device.raw(), 0, &event), "event_create")};
  if (device.can(TERN_CAP_IMPORT_HOST)) {
    problems.push_back(expect_unsupported(api.import_host(device.raw(), &pointer, 8, &buffer), "import_host"));
  }
  if (device.can(TERN_CAP_PROFILE)) {
    problems.push_back(expect_unsupported(api.profile_start(device.raw()), "profile_start"));
  }
  std::int32_t health = 0;
  problems.push_back(expect(TERN_OK, api.device_health(device.raw(), &health, {}), "device_health"));
  if (device.memory().in_use_by_process != 0) problems.emplace_back("something is in use on a device that isn't there");
  return first_problem(problems);
}

bool describes(const accel::Device& described, const accel::Device& present) {
  const tern_device_info& a = described.info();
  const tern_device_info& b = present.info();
  return std::string(a.arch) == b.arch && std::string(a.driver_version) == b.driver_version &&
         ((a.capabilities ^ b.capabilities) & ~kOfPlace) == 0;
}

// A plan that was made without the device is one that the device takes, with the memory that was told.
std::string compare_plans(const accel::DevicePtr& described, const accel::DevicePtr& present,
                          const accel::OpDesc& desc) {
  if (!present->can(TERN_CAP_EAGER)) return {};
  const accel::Plan far(described, desc, {});
  accel::PlanOptions options;
  options.choice = far.info().choice;
  const auto near = accel::Plan::of_choice(present, desc, options);
  if (!near) return cat("the device doesn't take the choice ", options.choice, " that its description made");
  const tern_plan_info& a = far.info();
  const tern_plan_info& b = near->info();
  const bool same = a.workspace_bytes == b.workspace_bytes && a.host_scratch_bytes == b.host_scratch_bytes &&
                    a.library_bytes == b.library_bytes;
  return same ? "" : "a plan on the description asks for other memory than one on the device";
}

// Every op's smaller cases get the same answers.
std::string compare_answers(const accel::DevicePtr& described, const accel::DevicePtr& present) {
  for (const ops::OpSpec& spec : ops::op_table()) {
    for (const CaseSource& source : case_sources(spec.id, std::max(1, present->info().preferred_kv_block))) {
      if (source.variant.size > 1 || source.variant.special != 0 || source.variant.packed) continue;
      const Case c = source.make(1);
      const accel::OpDesc desc = op_desc(c);
      const accel::Verdict far = accel::supports(*described, desc);
      const accel::Verdict near = accel::supports(*present, desc);
      if (far.native != near.native) {
        return cat(spec.name, " (", c.label, "): the description says ", far.native ? "yes" : far.reason,
                   ", the device ", near.native ? "yes" : near.reason);
      }
      if (!far.native) continue;
      if (std::string problem = compare_plans(described, present, desc); !problem.empty()) {
        return cat(spec.name, " (", c.label, "): ", problem);
      }
    }
  }
  return {};
}

// What a description compiles.
std::string compile_described(const accel::DevicePtr& described) {
  if (!described->can(TERN_CAP_WHOLE_GRAPH)) return {};
  const Doubling graph;
  tern_plan_info info{};
  info.size = sizeof(info);
  tern_recipe raw = nullptr;
  accel::check(described->api().compile(described->raw(), &graph.graph(), nullptr, &raw, &info), described->backend(),
               "compiling for a description");
  const accel::Recipe recipe(described, raw);
  std::uint64_t bytes = 0;
  if (described->can(TERN_CAP_RECIPE_FILES)) {
    accel::check(described->api().recipe_save(raw, nullptr, 0, &bytes), described->backend(), "recipe_save");
  }
  return {};
}

}  // namespace

std::string check_options(Bench& bench) {
  const auto backend = same_backend(bench);
  if (std::string problem = check_option_lines(backend->device_options()); !problem.empty()) return problem;
  const auto& api = bench.device->api();
  const tern_option unknown{"no_such_option", "1"};
  tern_open_args args{};
  args.size = sizeof(args);
  args.options = &unknown;
  args.num_options = 1;
  tern_device raw = nullptr;
  const std::string found = expect(TERN_INVALID_ARGUMENT, api.device_open(&args, &raw), "an unknown option");
  if (!found.empty()) return found;
  const std::string said = backend->last_error();
  if (said.find("no_such_option") == std::string::npos)
    return cat("an unknown option is refused without its name: ", said);
  args.num_options = 0;
  args.ordinal = -1;
  return expect(TERN_INVALID_ARGUMENT, api.device_open(&args, &raw), "no ordinal and no profile");
}

std::string check_described(Bench& bench) {
  const auto backend = same_backend(bench);
  bool matched = false;
  for (const std::string& profile : backend->profiles()) {
    const accel::DevicePtr described = accel::Device::describe(backend, profile).value();
    if (described->info().described != 1) return cat("the description ", profile, " doesn't say that it is one");
    for (const std::string& problem : {check_absence(*described), compile_described(described)}) {
      if (!problem.empty()) return cat(profile, ": ", problem);
    }
    if (matched || !describes(*described, *bench.device)) continue;
    matched = true;
    if (std::string problem = compare_answers(described, bench.device); !problem.empty()) return problem;
  }
  if (backend->profiles().empty()) return {};
  tern_device_info info{};
  info.size = sizeof(info);
  const std::string problem =
      expect(TERN_INVALID_ARGUMENT, backend->api().device_describe("no such profile", &info), "an unknown profile");
  if (!problem.empty()) return problem;
  const std::string said = backend->last_error();
  const bool lists = said.find(backend->profiles().front()) != std::string::npos;
  return lists ? "" : cat("an unknown profile is refused without a list of those that there are: ", said);
}

std::string check_extensions(Bench& bench) {
  if (bench.device->info().described != 0) return "a device that is there says that it is a description";
  const auto& backend = bench.device->backend();
  if (!backend.has(&tern_backend::get_extension)) return {};
  const bool none =
      backend.api().get_extension("tern.no_such_extension") == nullptr && backend.api().get_extension("") == nullptr;
  return none ? "" : "get_extension gives something for a name that is none";
}

}  // namespace tern::conformance
