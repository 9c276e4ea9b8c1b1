// Structs that begin with their size, from an older host and from a newer one.
#include <cstddef>
#include <cstring>

#include "conformance/capabilities/tools.h"

namespace tern::conformance {
namespace {

constexpr std::byte kGuard{0xa5};

// A struct that the plugin fills, in rooms of several sizes: nothing beyond the room is written, and `size` says no
// more.
template <typename Info, typename Call>
std::string check_out(const char* what, const Call& call) {
  constexpr std::size_t kMember = sizeof(std::uint64_t);
  for (const std::size_t room : {sizeof(std::uint32_t), kMember, sizeof(Info) / 2 / kMember * kMember,
                                 sizeof(Info) - kMember, sizeof(Info), sizeof(Info) + 64}) {
    alignas(std::max_align_t) std::byte place[sizeof(Info) + 128];
    std::fill_n(place, sizeof(place), kGuard);
    std::fill_n(place, room, std::byte{0});
    const auto size = static_cast<std::uint32_t>(room);
    std::memcpy(place, &size, sizeof(size));
    const tern_status status = call(reinterpret_cast<Info*>(place));
    if (status != TERN_OK) return cat(what, ": a room of ", room, " bytes: ", accel::status_name(status));
    std::uint32_t written = 0;
    std::memcpy(&written, place, sizeof(written));
    if (written > room) return cat(what, ": a room of ", room, " bytes is said to hold ", written);
    for (std::size_t i = room; i < sizeof(place); ++i) {
      if (place[i] != kGuard) return cat(what, ": byte ", i, " is written, in a room of ", room);
    }
  }
  return {};
}

// A newer host's struct: what this version knows, and something behind it.
template <typename T>
struct Longer {
  T known;
  std::byte more[64];
  explicit Longer(const T& from) : known(from) {
    std::fill_n(more, sizeof(more), std::byte{0xee});
    known.size = sizeof(*this);
  }
  [[nodiscard]] const T* get() const { return &known; }
};

std::string check_plan_structs(Bench& bench) {
  const Doubling doubling;
  const auto& api = bench.device->api();
  const tern_op_desc desc = doubling.desc().c_desc();
  if (!bench.device->can(TERN_CAP_EAGER) || !accel::supports(*bench.device, doubling.desc()).native) return {};
  return check_out<tern_plan_info>("tern_plan_info of plan", [&](tern_plan_info* info) {
    tern_plan made = nullptr;
    const tern_status status = api.plan(bench.device->raw(), &desc, nullptr, &made, info);
    return status != TERN_OK ? status : api.plan_destroy(made);
  });
}

std::string check_recipe_structs(Bench& bench) {
  if (!bench.device->can(TERN_CAP_WHOLE_GRAPH)) return {};
  const Doubling doubling;
  const auto& api = bench.device->api();
  return check_out<tern_plan_info>("tern_plan_info of compile", [&](tern_plan_info* info) {
    tern_recipe made = nullptr;
    const tern_status status = api.compile(bench.device->raw(), &doubling.graph(), nullptr, &made, info);
    return status != TERN_OK ? status : api.recipe_destroy(made);
  });
}

std::string check_native_structs(Bench& bench) {
  const auto& api = bench.device->api();
  const accel::Buffer buffer = bench.device->allocate(64, "structs");
  const accel::Event event = bench.device->make_event();
  std::vector<std::string> problems;
  if (bench.device->can(TERN_CAP_NATIVE_MEMORY)) {
    problems.push_back(check_out<tern_native>(
        "buffer_native", [&](tern_native* native) { return api.buffer_native(buffer.raw(), native); }));
  }
  if (bench.device->can(TERN_CAP_NATIVE_STREAMS)) {
    problems.push_back(check_out<tern_native>(
        "stream_native", [&](tern_native* native) { return api.stream_native(bench.stream.raw(), native); }));
    problems.push_back(check_out<tern_native>(
        "event_native", [&](tern_native* native) { return api.event_native(event.raw(), native); }));
  }
  return first_problem(problems);
}

std::string check_packed_structs(Bench& bench) {
  const auto& api = bench.device->api();
  const TensorDesc weight = make_desc(TERN_F32, {64, 64});
  tern_packed_info first{};
  first.size = sizeof(first);
  if (!bench.device->backend().has(&tern_backend::packed_info)) return {};
  if (api.packed_info(bench.device->raw(), &weight, TERN_USE_FORWARD, &first) != TERN_OK) return {};
  return check_out<tern_packed_info>("packed_info", [&](tern_packed_info* info) {
    return api.packed_info(bench.device->raw(), &weight, TERN_USE_FORWARD, info);
  });
}

std::string check_comm_structs(Bench& bench) {
  if (!bench.device->can(TERN_CAP_COLLECTIVES)) return {};
  const auto& api = bench.device->api();
  tern_comm_id id{};
  tern_comm raw = nullptr;
  tern_comm_options options{};
  options.size = sizeof(options);
  const Longer<tern_comm_options> longer(options);
  accel::check(api.comm_unique_id(&id), bench.device->backend(), "comm_unique_id");
  accel::check(api.comm_init(bench.device->raw(), &id, 1, 0, longer.get(), &raw), bench.device->backend(),
               "comm_init with options of a newer version");
  const accel::Handle<tern_comm, &tern_backend::comm_destroy> comm(bench.device, raw);
  return check_out<tern_comm_info>("comm_info", [&](tern_comm_info* info) { return api.comm_info(comm.raw(), info); });
}

// One op or graph, with every struct on the way longer than this version has it.
std::string run_with_longer_structs(Bench& bench) {
  const auto& api = bench.device->api();
  const accel::Backend& backend = bench.device->backend();
  const Doubling doubling;
  const bool eager = bench.device->can(TERN_CAP_EAGER);
  if (eager && !accel::supports(*bench.device, doubling.desc()).native) return {};
  const Longer options(accel::PlanOptions{}.c_options());
  const Longer graph(doubling.graph());
  const Longer host_args(Doubling::host_args());
  tern_plan_info info{};
  info.size = sizeof(info);
  accel::Handle<tern_plan, &tern_backend::plan_destroy> plan;
  accel::Recipe recipe;
  if (eager) {
    const tern_op_desc desc = doubling.desc().c_desc();
    tern_plan raw = nullptr;
    accel::check(api.plan(bench.device->raw(), &desc, options.get(), &raw, &info), backend, "planning");
    plan = {bench.device, raw};
  } else {
    tern_recipe raw = nullptr;
    accel::check(api.compile(bench.device->raw(), graph.get(), options.get(), &raw, &info), backend, "compiling");
    recipe = {bench.device, raw};
  }
  const accel::Buffer memory = bench.device->allocate(8192, "structs");
  const accel::Buffer workspace = bench.device->allocate(info.workspace_bytes, "structs");
  std::vector<std::max_align_t> scratch(info.host_scratch_bytes / sizeof(std::max_align_t) + 1);
  const auto tensors = doubling.tensors(*bench.device, memory.plane(), memory.plane(4096));
  accel::BindMemory given;
  if (info.workspace_bytes > 0) given.workspace = workspace.plane();
  given.host_scratch = scratch.data();
  const Longer bind_args(accel::bind_args(tensors, given));
  bench.device->copy_to_device(memory.plane(), Doubling::input(3.0F), bench.stream);
  accel::Bound bound;
  if (eager) {
    tern_bound raw = nullptr;
    accel::check(api.bind(plan.raw(), bind_args.get(), &raw), backend, "binding");
    bound = {bench.device, raw};
    std::uint64_t node = 0;
    accel::check(api.launch(bound.raw(), host_args.get(), bench.stream.raw(), &node), backend, "launching");
  } else {
    accel::check(api.launch_recipe(recipe.raw(), bind_args.get(), host_args.get(), bench.stream.raw()), backend,
                 "launching");
  }
  const bool right = fetch(bench, memory.plane(4096), Doubling::kBytes) == Doubling::output(3.0F);
  return right ? "" : "structs of a newer version change what an op computes";
}

std::string adopt_with_longer_struct(Bench& bench) {
  if (!bench.device->can(TERN_CAP_NATIVE_MEMORY)) return {};
  const auto& api = bench.device->api();
  const accel::Buffer buffer = bench.device->allocate(4096, "structs");
  tern_native native{};
  native.size = sizeof(native);
  accel::check(api.buffer_native(buffer.raw(), &native), bench.device->backend(), "buffer_native");
  const Longer longer(native);
  tern_buffer raw = nullptr;
  const tern_status status = api.buffer_adopt(bench.device->raw(), longer.get(), 4096, &raw);
  return status != TERN_OK ? expect(TERN_OK, status, "buffer_adopt")
                           : expect(TERN_OK, api.buffer_destroy(raw), "buffer_destroy");
}

}  // namespace

std::string check_short_structs(Bench& bench) {
  const auto& api = bench.device->api();
  const auto backend = same_backend(bench);
  std::vector<std::string> problems = {
      check_out<tern_device_info>("device_info", [&](tern_device_info* info) { return api.device_info(0, info); }),
      check_out<tern_memory_info>("memory_info",
                                  [&](tern_memory_info* info) { return api.memory_info(bench.device->raw(), info); })};
  if (const auto profiles = backend->profiles(); !profiles.empty()) {
    problems.push_back(check_out<tern_device_info>("device_describe", [&](tern_device_info* info) {
      return api.device_describe(profiles.front().c_str(), info);
    }));
  }
  for (auto* check :
       {check_plan_structs, check_recipe_structs, check_native_structs, check_packed_structs, check_comm_structs}) {
    problems.push_back(check(bench));
  }
  return first_problem(problems);
}

std::string check_long_structs(Bench& bench) {
  const auto& api = bench.device->api();
  tern_open_args args{};
  args.size = sizeof(args);
  const Longer longer(args);
  tern_device raw = nullptr;
  const tern_status opened = api.device_open(longer.get(), &raw);
  if (opened != TERN_OK) return expect(TERN_OK, opened, "device_open with arguments of a newer version");
  return first_problem({expect(TERN_OK, api.device_close(raw), "device_close"), run_with_longer_structs(bench),
                        adopt_with_longer_struct(bench)});
}

}  // namespace tern::conformance
