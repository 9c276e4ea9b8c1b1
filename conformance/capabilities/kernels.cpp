// What a device runs: single ops, whole graphs, and graphs that were kept.
#include <algorithm>

#include "conformance/capabilities/tools.h"

namespace tern::conformance {

// A kernel that was told nothing: required arguments missing must be refused, not tried.
std::string check_refusal(Bench& bench) {
  accel::OpDesc desc = op_desc(plain_source(TERN_OP_MATMUL).make(1));
  desc.args[TERN_MATMUL_B].shape[0] += 1;
  const tern_op_desc c = desc.c_desc();
  char reason[256] = "";
  const tern_status status = bench.device->api().supports(bench.device->raw(), &c, {reason, sizeof(reason)});
  return status == TERN_OK ? "supports says yes to a product whose inner sizes differ" : "";
}

std::string check_whole_graph(Bench& bench, bool set) {
  const Case c = plain_source(TERN_OP_AXPBY).make(1);
  if (!set) {
    if (!bench.device->backend().has(&tern_backend::compile)) return {};
    tern_graph_desc graph{};
    graph.size = sizeof(graph);
    tern_recipe recipe = nullptr;
    tern_plan_info info{};
    info.size = sizeof(info);
    return expect_unsupported(bench.device->api().compile(bench.device->raw(), &graph, nullptr, &recipe, &info),
                              "compile");
  }
  CaseMemory memory(bench.device, c, 0);
  const Kernel kernel(bench.device, memory.op_desc(), {}, true);
  const auto instance = kernel.bind(memory.tensors(), 0);
  memory.upload(c, bench.stream);
  HostArgs host_args(c);
  instance->launch(host_args.get(), bench.stream, 0xff);
  host_args.unmap();
  const Snapshot snapshot = memory.fetch(bench.stream);
  bench.stream.synchronize();
  return judge(c, run_oracle(c), memory.outputs(snapshot)).problem;
}

std::string check_eager(Bench& bench, bool set) {
  const accel::OpDesc desc = op_desc(plain_source(TERN_OP_AXPBY).make(1));
  if (set) {
    static_cast<void>(Kernel(bench.device, desc, {}));
    return {};
  }
  if (!bench.device->can(TERN_CAP_WHOLE_GRAPH)) return "neither single ops nor whole graphs";
  if (!bench.device->backend().has(&tern_backend::plan)) return {};
  const tern_op_desc c = desc.c_desc();
  tern_plan plan = nullptr;
  tern_plan_info info{};
  info.size = sizeof(info);
  return expect_unsupported(bench.device->api().plan(bench.device->raw(), &c, nullptr, &plan, &info), "plan");
}

std::string check_philox(Bench& bench, bool set) {
  const bool dropout = accel::supports(*bench.device, op_desc(plain_source(TERN_OP_DROPOUT).make(1))).native;
  if (dropout == set) return {};
  return set ? "dropout without a mask is not supported" : "dropout without a mask is said to be supported";
}

namespace {

struct Compiled {
  accel::Recipe handle;
  tern_plan_info info{};
};

Compiled compiled(const accel::DevicePtr& device, const Doubling& from) {
  Compiled out;
  out.info.size = sizeof(out.info);
  tern_recipe raw = nullptr;
  accel::check(device->api().compile(device->raw(), &from.graph(), nullptr, &raw, &out.info), device->backend(),
               "compiling");
  out.handle = accel::Recipe(device, raw);
  return out;
}

tern_status load(const accel::DevicePtr& device, const tern_graph_desc& graph, const Bytes& data, Compiled& out) {
  out.info.size = sizeof(out.info);
  tern_recipe raw = nullptr;
  const tern_status status =
      device->api().recipe_load(device->raw(), &graph, data.data(), data.size(), &raw, &out.info);
  if (status == TERN_OK) out.handle = accel::Recipe(device, raw);
  return status;
}

Bytes run(Bench& bench, const Compiled& recipe, const Doubling& graph) {
  const accel::Buffer memory = bench.device->allocate(8192, "a recipe");
  const accel::Buffer workspace = bench.device->allocate(recipe.info.workspace_bytes, "a recipe");
  std::vector<std::byte> scratch(recipe.info.host_scratch_bytes);
  const auto tensors = graph.tensors(*bench.device, memory.plane(), memory.plane(4096));
  accel::BindMemory given;
  if (recipe.info.workspace_bytes > 0) given.workspace = workspace.plane();
  given.host_scratch = scratch.data();
  const tern_bind_args args = accel::bind_args(tensors, given);
  const tern_host_args host_args = Doubling::host_args();
  bench.device->copy_to_device(memory.plane(), Doubling::input(0.5F), bench.stream);
  accel::check(bench.device->api().launch_recipe(recipe.handle.raw(), &args, &host_args, bench.stream.raw()),
               bench.device->backend(), "launching a recipe");
  return fetch(bench, memory.plane(4096), Doubling::kBytes);
}

// What is refused: data that was cut or changed, in steps that reach every part of it, and another graph.
std::string refuse_damage(Bench& bench, const Doubling& graph, const Bytes& data) {
  Compiled none;
  const std::size_t step = std::max<std::size_t>(data.size() / 64, 1);
  for (std::size_t at = 0; at < data.size(); at += step) {
    const Bytes cut(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(at));
    Bytes changed = data;
    changed[at] ^= std::byte{0x10};
    const std::string problem =
        first_problem({expect_unsupported(load(bench.device, graph.graph(), cut, none), cat("a recipe cut to ", at)),
                       expect_unsupported(load(bench.device, graph.graph(), changed, none),
                                          cat("a recipe whose byte ", at, " was changed"))});
    if (!problem.empty()) return problem;
  }
  tern_graph_node node = graph.graph().nodes[0];
  node.op.needs = TERN_NEED_DETERMINISTIC;
  tern_graph_desc other = graph.graph();
  other.nodes = &node;
  return expect_unsupported(load(bench.device, other, data, none), "a recipe of another graph");
}

std::string save_and_load(Bench& bench) {
  const auto& api = bench.device->api();
  const Doubling graph;
  const Compiled made = compiled(bench.device, graph);
  std::uint64_t bytes = 0;
  accel::check(api.recipe_save(made.handle.raw(), nullptr, 0, &bytes), bench.device->backend(), "recipe_save");
  if (bytes == 0) return "a saved recipe has no bytes";
  Bytes data(bytes + 64, std::byte{0x5a});
  accel::check(api.recipe_save(made.handle.raw(), data.data(), bytes - 1, &bytes), bench.device->backend(),
               "recipe_save without room");
  if (data != Bytes(bytes + 64, std::byte{0x5a})) return "recipe_save writes where there isn't room for all";
  accel::check(api.recipe_save(made.handle.raw(), data.data(), bytes, &bytes), bench.device->backend(), "recipe_save");
  if (bytes + 64 != data.size()) return "recipe_save gives two sizes";
  if (std::count(data.end() - 64, data.end(), std::byte{0x5a}) != 64) return "recipe_save writes more than its size";
  data.resize(bytes);
  Compiled again;
  accel::check(load(bench.device, graph.graph(), data, again), bench.device->backend(), "recipe_load");
  if (again.info.workspace_bytes != made.info.workspace_bytes ||
      again.info.host_scratch_bytes != made.info.host_scratch_bytes ||
      std::string(again.info.choice) != made.info.choice) {
    return "a loaded recipe asks for other memory, or has another choice, than the compiled one";
  }
  const Bytes expected = run(bench, made, graph);
  if (expected != Doubling::output(0.5F)) return "a compiled graph computes wrongly";
  if (run(bench, again, graph) != expected) return "a loaded recipe computes something else than the compiled one";
  return refuse_damage(bench, graph, data);
}

}  // namespace

std::string check_recipe_files(Bench& bench, bool set) {
  if (!bench.device->backend().has(&tern_backend::recipe_save)) return set ? "recipe_save is absent" : "";
  if (set && !bench.device->can(TERN_CAP_WHOLE_GRAPH)) return "set without whole graphs, of which it speaks";
  if (set) return save_and_load(bench);
  const Doubling graph;
  Compiled none;
  const std::string loading = expect_unsupported(load(bench.device, graph.graph(), Bytes(64), none), "recipe_load");
  if (!loading.empty() || !bench.device->can(TERN_CAP_WHOLE_GRAPH)) return loading;
  std::uint64_t bytes = 0;
  const Compiled made = compiled(bench.device, graph);
  return expect_unsupported(bench.device->api().recipe_save(made.handle.raw(), nullptr, 0, &bytes), "recipe_save");
}

}  // namespace tern::conformance
