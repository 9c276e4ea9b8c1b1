// What a program does itself between kernels: collectives, copies to and from the host's memory, counts that a run
// computes.
#include <gtest/gtest.h>

#include <numeric>

#include "ops/gather_rows.h"
#include "ops/program_ops.h"
#include "ops/row_sum.h"
#include "ops/sum_squares.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

struct Rank {
  accel::DevicePtr device;
  std::shared_ptr<graph::TensorStore> store;
  graph::ProgramOptions options;
};

// Personalities with collectives of their own: those of `embedded` go through the host.
constexpr const char* kCollecting[] = {"discrete", "ascend", "graph"};

std::vector<Rank> make_ranks(int count, const char* personality, int seed) {
  std::vector<Rank> ranks;
  tern_comm_id id{};
  for (int r = 0; r < count; ++r) {
    const accel::DevicePtr device = open_sim({{"TERN_SIM", personality},
                                              {"TERN_SIM_SEED", std::to_string(seed)},
                                              {"TERN_SIM_DEVICES", std::to_string(count)}},
                                             r);
    Rank rank{device, std::make_shared<graph::TensorStore>(device), {}};
    if (device->can(TERN_CAP_COLLECTIVES)) {
      if (r == 0) id = comm::Communicator::unique_id(*device);
      rank.options.groups = {std::make_shared<comm::Communicator>(device, id, count, r)};
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::unique_ptr<graph::Program> build(const Graph& graph, const Rank& rank) {
  accel::ChoiceCache choices;
  return graph::Program::build(graph, rank.store, choices, rank.options);
}

void launch(graph::Program& program, const std::vector<float>& x, const graph::Counts& counts = {}) {
  const auto bytes = bytes_of(x);
  std::copy(bytes.begin(), bytes.end(), program.input(program.input_id("x")).begin());
  program.launch(counts);
}

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

// Each rank's x is doubled by a kernel before it travels, and what comes is added to x by one.
TEST(ProgramOps, CollectivesMoveWhatKernelsMade) {
  for (const char* personality : kCollecting) {
    for (int seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(personality);
      const auto ranks = make_ranks(2, personality, seed);
      std::vector<std::unique_ptr<graph::Program>> programs;
      for (std::int32_t r = 0; r < 2; ++r) {
        Graph graph;
        const ops::Group group{0, 2};
        const Value x = graph.input("x", make_desc(TERN_F32, {2, 3}));
        const Value y = ops::axpby(graph, x, {}, {.a = 2.0F});
        const Value sum = ops::all_reduce(graph, y, group);
        graph.output("sum", ops::axpby(graph, sum, x, {}));
        const Value all = ops::all_gather(graph, y, group);
        graph.output("all", all);
        graph.output("part", ops::reduce_scatter(graph, all, group, TERN_REDUCE_MAX));
        graph.output("crossed", ops::all_to_all(graph, y, group));
        const auto& store = ranks[static_cast<std::size_t>(r)].store;
        store->create("w", make_desc(TERN_F32, {2}));
        store->upload("w", bytes_of(numbers(2, static_cast<float>(10 * r))));
        graph.output("w", ops::broadcast(graph, graph.resource("w", make_desc(TERN_F32, {2})), group, 1));
        // A ring's worth of pipeline: rank 0 gives to rank 1.
        if (r == 0) ops::send(graph, sum, group, 1);
        if (r == 1) graph.output("sent", ops::receive(graph, make_desc(TERN_F32, {2, 3}), group, 0));
        programs.push_back(build(graph, ranks[static_cast<std::size_t>(r)]));
      }
      for (int run = 0; run < 2; ++run) {
        const std::vector<float> x[] = {numbers(6, static_cast<float>(run)), numbers(6, 100.0F)};
        for (int r = 0; r < 2; ++r) launch(*programs[static_cast<std::size_t>(r)], x[r]);
        for (const auto& program : programs) program->wait();
        std::vector<float> sum(6), all(12), crossed[2] = {std::vector<float>(6), std::vector<float>(6)};
        for (std::size_t i = 0; i < 6; ++i) {
          sum[i] = 2 * x[0][i] + 2 * x[1][i];
          all[i] = 2 * x[0][i];
          all[6 + i] = 2 * x[1][i];
          crossed[0][i] = 2 * x[i / 3][i % 3];
          crossed[1][i] = 2 * x[i / 3][3 + i % 3];
        }
        for (std::size_t r = 0; r < 2; ++r) {
          const graph::Program& program = *programs[r];
          std::vector<float> added = sum;
          for (std::size_t i = 0; i < 6; ++i) added[i] += x[r][i];
          EXPECT_EQ(output_of(program, "sum"), added);
          EXPECT_EQ(output_of(program, "all"), all);
          EXPECT_EQ(output_of(program, "part"), std::vector<float>(all.begin() + 6 * static_cast<int>(r),
                                                                   all.begin() + 6 * static_cast<int>(r) + 6));
          EXPECT_EQ(output_of(program, "crossed"), crossed[r]);
          EXPECT_EQ(output_of(program, "w"), numbers(2, 10.0F));
        }
        EXPECT_EQ(output_of(*programs[1], "sent"), sum);
      }
    }
  }
}

// Data parallelism: two ranks with half of the samples each have the gradients of one with all of them, whatever is
// captured between the collectives, and whatever else is on their lane.
TEST(ProgramOps, GradientsOfRanksSumToThatOfTheWhole) {
  const Batch whole = Batch::of({5, 6});
  const Batch halves[] = {Batch::of({5}), Batch::of({6}, 1)};
  TinyOptions options;
  options.comm_lane = true;
  // On the lane of the collectives a kernel goes before each and one follows it, in a capture that begins on the other.
  const auto sum_gradients = [](TinyModel& model) {
    Graph& g = model.graph;
    const auto scale = [&](Value x, float factor) {
      const Value scaled = ops::axpby(g, x, {}, {.a = factor});
      g.set_last_lane(graph::Lane::comm);
      return scaled;
    };
    Value sum;
    // On the other lane, whatever the sums are.
    const TensorDesc one = make_desc(TERN_F32, {1});
    model.weights["squares"] = one;
    Value squares = g.resource("squares", one);
    std::string summed;
    for (const std::string& name : model.trained) {
      const Value gradient = g.latest(g.find("grad." + name));
      squares = ops::sum_squares(g, gradient, squares);
      if (sum.present()) g.output("sum." + summed, scale(sum, 2.0F));
      sum = ops::all_reduce(g, scale(gradient, 0.5F), {0, 2});
      summed = name;
    }
    g.output("sum." + summed, scale(sum, 2.0F));
  };
  for (const char* personality : kCollecting) {
    SCOPED_TRACE(personality);
    TinyProgram alone(open_sim({{"TERN_SIM", personality}}), {});
    for (int run = 0; run < 2; ++run) alone.run(whole);
    for (int seed = 0; seed < 12; ++seed) {
      auto ranks = make_ranks(2, personality, seed);
      std::vector<std::unique_ptr<TinyProgram>> programs;
      for (Rank& rank : ranks) {
        rank.options.capture = seed % 3 != 0;
        programs.push_back(std::make_unique<TinyProgram>(rank.device, options, rank.options, nullptr, sum_gradients));
      }
      for (int run = 0; run < 2; ++run) {
        for (std::size_t r = 0; r < 2; ++r) {
          const graph::RunInputs inputs = inputs_of(halves[r]);
          graph::Program& program = programs[r]->program();
          give_inputs(program, inputs);
          program.launch(inputs.counts);
        }
        for (const auto& program : programs) program->program().wait();
      }
      for (const std::string& name : alone.model().trained) {
        const std::vector<float> sum = programs[0]->output("sum." + name);
        EXPECT_EQ(sum, programs[1]->output("sum." + name)) << name;
        EXPECT_LT(distance(sum, alone.stored("grad." + name)), 2e-5) << name << ", seed " << seed;
      }
    }
  }
}

TEST(ProgramOps, OffloadedStatesComeAndGo) {
  for (const char* personality : kPersonalities) {
    for (int seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(personality);
      const auto ranks = make_ranks(1, personality, seed);
      const TensorDesc desc = make_desc(TERN_F32, {4, 8});
      Graph graph;
      const Value x = graph.input("x", desc);
      Value moment = graph.host_resource("moment", desc);
      for (int step = 0; step < 2; ++step) {  // twice within a run: the second fetch waits for the first return
        const Value fetched = ops::copy_to_device(graph, moment);
        const Value decayed = ops::axpby(graph, fetched, x, {.a = 0.5F});
        moment = ops::copy_to_host(graph, decayed, moment);
      }
      const auto& store = ranks[0].store;
      store->create_on_host("moment", desc);
      store->fill_zero("moment");
      EXPECT_EQ(store->bytes(), 0U);
      EXPECT_GE(store->host_bytes(), 128U);
      const auto program = build(graph, ranks[0]);
      EXPECT_EQ(program->memory().host_resources, 128U);
      std::vector<float> expected(32, 0.0F);
      for (int run = 0; run < 3; ++run) {
        const std::vector<float> in = numbers(32, static_cast<float>(run));
        launch(*program, in);
        program->wait();
        for (int step = 0; step < 2; ++step) {
          for (std::size_t i = 0; i < 32; ++i) expected[i] = 0.5F * expected[i] + in[i];
        }
        std::vector<float> held(32);
        store->download("moment", writable_bytes_of(held));
        EXPECT_EQ(held, expected);
      }
    }
  }
}

TEST(ProgramOps, KernelsDontReadTheHostsMemory) {
  Graph graph;
  const Value host = graph.host_resource("moment", make_desc(TERN_F32, {4}));
  const Value x = graph.input("x", make_desc(TERN_F32, {4}));
  EXPECT_THROW((void)ops::axpby(graph, host, {}, {}), std::logic_error);
  EXPECT_THROW((void)ops::copy_to_device(graph, x), std::logic_error);
  EXPECT_THROW((void)ops::copy_to_host(graph, x, x), std::logic_error);
  EXPECT_THROW((void)ops::all_gather(graph, host, {0, 2}), std::logic_error);
  graph.output("sum", ops::all_reduce(graph, x, {0, 2}));
  const auto ranks = make_ranks(1, "discrete", 0);
  EXPECT_THROW((void)build(graph, ranks[0]), std::logic_error);  // a group of one rank
  Graph other;
  other.output("sum", ops::all_reduce(other, other.input("x", make_desc(TERN_F32, {4})), {1, 1}));
  EXPECT_THROW((void)build(other, ranks[0]), std::logic_error);  // no such group
}

// How many rows there are is read from device memory in the middle of a run.
TEST(ProgramOps, ACountIsLearntDuringARun) {
  const auto run_on = [](const Rank& rank) {
    Graph graph;
    const TensorDesc rows = with_dynamic(make_desc(TERN_F32, {6, 2}), 0, 3);
    const Value x = graph.input("x", rows);
    const Value n = graph.input("n", make_desc(TERN_I32, {3}));
    const Value which = graph.input("which", make_desc(TERN_I32, {1}));
    graph.output("before", ops::row_sum(graph, x, {.axis = 0}));
    ops::set_count(graph, ops::gather_rows(graph, n, which), 3);
    graph.output("after", ops::row_sum(graph, x, {.axis = 0}));
    graph.output("rows", ops::axpby(graph, x, {}, {.a = 3.0F}));
    const auto program = build(graph, rank);
    const std::vector<float> values = numbers(12, 1.0F);
    const std::vector<std::int32_t> counts = {4, 1, 6};
    for (const std::int32_t pick : {0, 1, 2, 1}) {
      const std::vector<std::int32_t> index = {pick};
      graph::RunInputs inputs;
      inputs.inputs = {{"x", bytes_of(values)}, {"n", bytes_of(counts)}, {"which", bytes_of(index)}};
      inputs.counts[3] = 6;
      program->run(inputs);
      const std::int32_t count = counts[static_cast<std::size_t>(pick)];
      EXPECT_EQ(output_of(*program, "before"), (std::vector<float>{36.0F, 42.0F}));
      std::vector<float> tripled(values.begin(), values.begin() + 2 * count);
      std::vector<float> sums(2, 0.0F);
      for (std::size_t i = 0; i < tripled.size(); ++i) {
        sums[i % 2] += tripled[i];
        tripled[i] *= 3.0F;
      }
      EXPECT_EQ(output_of(*program, "rows"), tripled);
      if (rank.device->can(TERN_CAP_DYNAMIC_SHAPES)) {
        EXPECT_EQ(output_of(*program, "after"), sums);
      }
    }
    const std::vector<std::int32_t> too_many = {7, 7, 7};
    const std::vector<std::int32_t> first = {0};
    graph::RunInputs inputs;
    inputs.inputs = {{"x", bytes_of(values)}, {"n", bytes_of(too_many)}, {"which", bytes_of(first)}};
    inputs.counts[3] = 6;
    EXPECT_TRUE(contains(failure_of([&] { program->run(inputs); }), "a count of 7, and 6 were planned for"));
  };
  for (const char* personality : kPersonalities) {
    for (const bool capture : {false, true}) {
      for (int seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(personality);
        auto ranks = make_ranks(1, personality, seed);
        ranks[0].options.capture = capture;
        run_on(ranks[0]);
      }
    }
  }
  const accel::DevicePtr cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  run_on({cpu, std::make_shared<graph::TensorStore>(cpu), {}});
}

}  // namespace
}  // namespace tern::test
