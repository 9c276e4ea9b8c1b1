// If these fail, a recipe of another graph or device, or one that was damaged on disk, is run.
#include <gtest/gtest.h>

#include <cstring>

#include "ops/build.h"
#include "ops/tensor_desc.h"
#include "tern/accel_ops.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

// y = a x + x, as a graph of one node.
struct Doubling {
  tern_graph_value values[2] = {};
  std::int32_t inputs[3] = {0, 0, -1};
  std::int32_t outputs[3] = {-1, -1, 1};
  std::vector<std::byte> attrs;
  tern_graph_node node{};
  tern_graph_desc graph{};

  explicit Doubling(float a = 1.0F, std::int64_t count = 4) : attrs(ops::pack_attrs(tern_axpby_attrs{a, 1.0F})) {
    for (int v = 0; v < 2; ++v) {
      values[v].desc = make_desc(TERN_F32, {count});
      values[v].kind = v == 0 ? TERN_VALUE_INPUT : TERN_VALUE_OUTPUT;
      values[v].state = -1;
      values[v].argument = v;
    }
    node.op.size = sizeof node.op;
    node.op.op = TERN_OP_AXPBY;
    node.op.num_args = 3;
    node.op.attrs_size = static_cast<std::uint32_t>(attrs.size());
    node.op.attrs = attrs.data();
    node.inputs = inputs;
    node.outputs = outputs;
    graph = {sizeof graph, 2, 1, 0, 2, 0, values, &node, nullptr};
  }
  Doubling(const Doubling&) = delete;
  Doubling& operator=(const Doubling&) = delete;
};

struct Loaded {
  tern_status status;
  accel::Recipe recipe;
  tern_plan_info info{};
};

Loaded load(const accel::DevicePtr& device, const Doubling& from, const std::vector<std::byte>& data) {
  Loaded out{};
  out.info.size = sizeof out.info;
  tern_recipe raw = nullptr;
  out.status = device->api().recipe_load(device->raw(), &from.graph, data.data(), data.size(), &raw, &out.info);
  if (out.status == TERN_OK) out.recipe = accel::Recipe(device, raw);
  return out;
}

Loaded compiled(const accel::DevicePtr& device, const Doubling& from) {
  Loaded out{};
  out.info.size = sizeof out.info;
  tern_recipe raw = nullptr;
  out.status = device->api().compile(device->raw(), &from.graph, nullptr, &raw, &out.info);
  accel::check(out.status, device->backend(), "compiling");
  out.recipe = accel::Recipe(device, raw);
  return out;
}

std::vector<std::byte> saved(const accel::Recipe& recipe) {
  const auto& api = recipe.device()->api();
  std::uint64_t bytes = 0;
  EXPECT_EQ(api.recipe_save(recipe.raw(), nullptr, 0, &bytes), TERN_OK);
  std::vector<std::byte> data(bytes + 1, std::byte{0x5a});
  std::uint64_t again = 0;
  EXPECT_EQ(api.recipe_save(recipe.raw(), data.data(), bytes - 1, &again), TERN_OK);
  EXPECT_EQ(data[0], std::byte{0x5a}) << "written though it doesn't fit";
  EXPECT_EQ(api.recipe_save(recipe.raw(), data.data(), bytes, &again), TERN_OK);
  EXPECT_EQ(again, bytes);
  EXPECT_EQ(data[bytes], std::byte{0x5a});
  data.resize(bytes);
  return data;
}

std::vector<float> run(const accel::DevicePtr& device, const Loaded& loaded, const std::vector<float>& x) {
  const accel::Stream stream = device->make_stream();
  const accel::Buffer buffer = device->allocate(1024, "a test");
  const accel::Buffer workspace = device->allocate(loaded.info.workspace_bytes, "a test");
  device->copy_to_device(buffer.plane(), bytes_of(x), stream);
  const auto count = static_cast<std::int64_t>(x.size());
  tern_tensor args[2] = {{make_desc(TERN_F32, {count}), {buffer.plane()}},
                         {make_desc(TERN_F32, {count}), {buffer.plane(512)}}};
  tern_bind_args given{};
  given.size = sizeof given;
  given.num_args = 2;
  given.args = args;
  given.workspace = workspace.plane();
  tern_host_args host_args{};
  host_args.size = sizeof host_args;
  accel::check(device->api().launch_recipe(loaded.recipe.raw(), &given, &host_args, stream.raw()), device->backend(),
               "launching");
  std::vector<float> out(x.size());
  device->copy_to_host(writable_bytes_of(out), buffer.plane(512), stream);
  stream.synchronize();
  return out;
}

accel::DevicePtr open_graph_device() { return open_sim({{"TERN_SIM", "graph"}}); }

TEST(SimRecipe, ComesBackAndComputesTheSame) {
  const auto device = open_graph_device();
  const Doubling graph(1.5F);
  const Loaded made = compiled(device, graph);
  const std::vector<std::byte> data = saved(made.recipe);
  const Loaded again = load(device, graph, data);
  ASSERT_EQ(again.status, TERN_OK) << device->backend().last_error();
  EXPECT_STREQ(again.info.choice, made.info.choice);
  EXPECT_EQ(again.info.workspace_bytes, made.info.workspace_bytes);
  EXPECT_EQ(again.info.library_bytes, made.info.library_bytes);
  const std::vector<float> x{1.0F, 2.0F, -3.0F, 0.25F};
  EXPECT_EQ(run(device, again, x), run(device, made, x));
  EXPECT_EQ(saved(again.recipe), data);
  const auto described = accel::Device::describe(load_plugin("sim"), "graph").value();
  EXPECT_EQ(load(device, graph, saved(compiled(described, graph).recipe)).status, TERN_OK);
}

TEST(SimRecipe, OfAnotherGraphOrDeviceIsRefused) {
  const auto device = open_graph_device();
  const std::vector<std::byte> data = saved(compiled(device, Doubling(1.5F)).recipe);
  EXPECT_EQ(load(device, Doubling(1.25F), data).status, TERN_UNSUPPORTED) << "another attribute";
  EXPECT_TRUE(contains(device->backend().last_error(), "another graph"));
  EXPECT_EQ(load(device, Doubling(1.5F, 5), data).status, TERN_UNSUPPORTED) << "another shape";
  Doubling needs(1.5F);
  needs.node.op.needs = TERN_NEED_DETERMINISTIC;
  EXPECT_EQ(load(device, needs, data).status, TERN_UNSUPPORTED);
  Doubling wires(1.5F);
  wires.inputs[1] = -1;
  EXPECT_EQ(load(device, wires, data).status, TERN_UNSUPPORTED);
  const auto eager = open_sim();
  EXPECT_EQ(load(eager, Doubling(1.5F), data).status, TERN_UNSUPPORTED);
}

TEST(SimRecipe, DamagedDataIsRefused) {
  const auto device = open_graph_device();
  const Doubling graph;
  const std::vector<std::byte> data = saved(compiled(device, graph).recipe);
  ASSERT_GT(data.size(), 100U);
  for (std::size_t length = 0; length < data.size(); ++length) {
    const std::vector<std::byte> cut(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(load(device, graph, cut).status, TERN_UNSUPPORTED) << "cut to " << length;
  }
  for (std::size_t at = 0; at < data.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::vector<std::byte> flipped = data;
      flipped[at] ^= std::byte{1} << bit;
      EXPECT_EQ(load(device, graph, flipped).status, TERN_UNSUPPORTED) << "byte " << at << ", bit " << bit;
    }
    std::vector<std::byte> inverted = data;
    inverted[at] = ~inverted[at];
    EXPECT_EQ(load(device, graph, inverted).status, TERN_UNSUPPORTED) << "byte " << at;
  }
  std::vector<std::byte> longer = data;
  longer.push_back(std::byte{0});
  EXPECT_EQ(load(device, graph, longer).status, TERN_UNSUPPORTED);
  EXPECT_EQ(device->memory().library_bytes, 0U) << "a refused recipe keeps memory";
}

}  // namespace
}  // namespace tern::test
