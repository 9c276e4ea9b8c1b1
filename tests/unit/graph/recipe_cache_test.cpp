// If these fail, each process compiles every graph anew, or runs what an earlier one compiled for something else.
#include <gtest/gtest.h>

#include <fstream>

#include "base/log.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

int compiled_graphs = 0;
const tern_backend* counted_inner = nullptr;

// The simulated device that takes graphs alone, and counts those that it compiles.
accel::DevicePtr open_counting() {
  const SimEnvironment environment(Environment{{"TERN_SIM", "graph"}});
  static const auto sim_backend = load_plugin("sim");
  static tern_backend table = sim_backend->api();
  counted_inner = &sim_backend->api();
  table.compile = [](tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                     tern_recipe* recipe, tern_plan_info* info) {
    ++compiled_graphs;
    return counted_inner->compile(device, graph, options, recipe, info);
  };
  return accel::Device::open(accel::Backend::wrap(&table), 0).value();
}

// y = a x + x, run on a device of its own; what a process of its own would do.
std::vector<float> run_axpby(const std::filesystem::path& dir, float a) {
  const auto device = open_counting();
  const auto store = std::make_shared<graph::TensorStore>(device);
  Graph graph;
  const Value x = graph.input("x", make_desc(TERN_F32, {4}));
  graph.output("y", ops::axpby(graph, x, x, {a, 1.0F}));
  accel::ChoiceCache choices(*device, dir);
  const auto program = graph::Program::build(graph, store, choices, {}, nullptr);
  const std::vector<float> data{1.0F, 2.0F, 3.0F, 4.0F};
  graph::RunInputs inputs;
  inputs.inputs["x"] = bytes_of(data);
  program->run(inputs);
  choices.save();
  std::vector<float> out(4);
  const auto found = program->output("y");
  std::copy(found.begin(), found.end(), writable_bytes_of(out).begin());
  return out;
}

std::vector<std::filesystem::path> kept_recipes(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file() && entry.path().extension() == ".recipe") out.push_back(entry.path());
  }
  return out;
}

TEST(RecipeCache, ASecondRunLoadsAndAChangedGraphCompiles) {
  const TempDir dir;
  compiled_graphs = 0;
  const auto first = run_axpby(dir.path(), 2.0F);
  const int of_one = compiled_graphs;
  EXPECT_GE(of_one, 1);
  EXPECT_EQ(first, (std::vector<float>{3.0F, 6.0F, 9.0F, 12.0F}));
  EXPECT_EQ(run_axpby(dir.path(), 2.0F), first);
  EXPECT_EQ(compiled_graphs, of_one) << "compiled though it was kept";
  EXPECT_EQ(run_axpby(dir.path(), 4.0F), (std::vector<float>{5.0F, 10.0F, 15.0F, 20.0F}));
  EXPECT_EQ(compiled_graphs, 2 * of_one) << "another attribute is another graph";
  EXPECT_EQ(run_axpby({}, 2.0F), first);
  EXPECT_EQ(compiled_graphs, 3 * of_one) << "without a folder nothing is kept";
}

TEST(RecipeCache, ABadFileIsCompiledAgainWithOneLine) {
  const TempDir dir;
  const auto first = run_axpby(dir.path(), 2.0F);
  const auto files = kept_recipes(dir.path());
  ASSERT_EQ(files.size(), 1U) << "and no scratch file is left";
  std::filesystem::resize_file(files[0], std::filesystem::file_size(files[0]) - 1);
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  compiled_graphs = 0;
  EXPECT_EQ(run_axpby(dir.path(), 2.0F), first);
  set_log_sink({});
  EXPECT_EQ(compiled_graphs, 1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(contains(lines[0], "a kept graph, ")) << lines[0];
  EXPECT_TRUE(contains(lines[0], "is compiled again: recipe_load: expected ")) << lines[0];
  EXPECT_EQ(run_axpby(dir.path(), 2.0F), first);
  EXPECT_EQ(compiled_graphs, 1) << "the mended file is loaded";
}

}  // namespace
}  // namespace tern::test
