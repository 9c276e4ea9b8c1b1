// Collectives between two and three simulated devices.
#include <gtest/gtest.h>

#include <thread>

#include "accel/kernel.h"
#include "tern/accel_ops.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

// One rank: a device, a stream, a communicator and a buffer of floats.
struct Rank {
  accel::DevicePtr device;
  accel::Stream stream;
  accel::Handle<tern_comm, &tern_backend::comm_destroy> comm;
  accel::Buffer buffer;

  static constexpr std::uint64_t kCount = 12;

  Rank(Environment environment, const tern_comm_id& id, int ranks, int rank) {
    environment["TERN_SIM_DEVICES"] = std::to_string(ranks);
    device = open_sim(environment, rank);
    stream = device->make_stream();
    tern_comm raw = nullptr;
    accel::check(device->api().comm_init(device->raw(), &id, ranks, rank, nullptr, &raw), device->backend(),
                 "comm_init");
    comm = {device, raw};
    buffer = device->allocate(kCount * 4, "a test");
  }
  void put(const std::vector<float>& values, std::uint64_t at = 0) const {
    device->copy_to_device(buffer.plane(at * 4), bytes_of(values), stream);
  }
  [[nodiscard]] std::vector<float> get(std::uint64_t count, std::uint64_t at = 0) const {
    std::vector<float> out(count);
    device->copy_to_host(writable_bytes_of(out), buffer.plane(at * 4), stream);
    stream.synchronize();
    return out;
  }
  void check(tern_status status) const { accel::check(status, device->backend(), "a collective"); }
};

std::vector<Rank> make_ranks(int count, const Environment& environment = {}) {
  tern_comm_id id{};
  EXPECT_EQ(load_plugin("sim")->api().comm_unique_id(&id), TERN_OK);
  std::vector<Rank> ranks;
  for (int r = 0; r < count; ++r) ranks.emplace_back(environment, id, count, r);
  return ranks;
}

TEST(SimComm, AllReduceOnEveryPersonalityThatHasIt) {
  for (const char* personality : {"discrete", "ascend", "graph"}) {
    for (int seed = 0; seed < 4; ++seed) {
      const auto ranks = make_ranks(2, {{"TERN_SIM", personality}, {"TERN_SIM_SEED", std::to_string(seed)}});
      const auto& api = ranks[0].device->api();
      for (int round = 0; round < 2; ++round) {
        for (int r = 0; r < 2; ++r) {
          const Rank& rank = ranks[static_cast<std::size_t>(r)];
          rank.put({1.0F + static_cast<float>(r), 10.0F * static_cast<float>(r + round)});
          for (const auto& [reduce, at] : {std::pair{TERN_REDUCE_SUM, 4}, std::pair{TERN_REDUCE_MAX, 8}}) {
            rank.check(api.all_reduce(rank.comm.raw(), rank.buffer.plane(static_cast<std::uint64_t>(at) * 4),
                                      rank.buffer.plane(), 2, TERN_F32, reduce, rank.stream.raw()));
          }
        }
        for (const Rank& rank : ranks) {
          const float shift = 10.0F * static_cast<float>(round);
          EXPECT_EQ(rank.get(2, 4), (std::vector<float>{3.0F, 10.0F + 2.0F * shift}));
          EXPECT_EQ(rank.get(2, 8), (std::vector<float>{2.0F, 10.0F + shift}));
        }
      }
    }
  }
  const auto embedded = open_sim({{"TERN_SIM", "embedded"}});
  tern_comm comm = nullptr;
  tern_comm_id id{};
  EXPECT_EQ(embedded->api().comm_init(embedded->raw(), &id, 1, 0, nullptr, &comm), TERN_UNSUPPORTED);
  const Environment variables{{"TERN_SIM", "embedded"}};
  const SimEnvironment environment(variables);
  EXPECT_EQ(embedded->api().comm_unique_id(&id), TERN_UNSUPPORTED);
}

TEST(SimComm, TheOtherCollectives) {
  const auto ranks = make_ranks(3);
  const auto& api = ranks[0].device->api();
  const auto each = [&](auto&& call) {
    for (int r = 0; r < 3; ++r) {
      const Rank& rank = ranks[static_cast<std::size_t>(r)];
      const auto from = static_cast<float>(r);
      rank.put({from, from + 10, from + 20, from + 30, from + 40, from + 50});
      rank.check(call(rank, r));
    }
  };
  each([&](const Rank& rank, int) {
    return api.all_gather(rank.comm.raw(), rank.buffer.plane(24), rank.buffer.plane(), 2, TERN_F32, rank.stream.raw());
  });
  for (const Rank& rank : ranks) EXPECT_EQ(rank.get(6, 6), (std::vector<float>{0, 10, 1, 11, 2, 12}));
  each([&](const Rank& rank, int) {
    return api.reduce_scatter(rank.comm.raw(), rank.buffer.plane(24), rank.buffer.plane(), 2, TERN_F32, TERN_REDUCE_SUM,
                              rank.stream.raw());
  });
  for (std::size_t r = 0; r < 3; ++r) {
    const float base = 3.0F + 60.0F * static_cast<float>(r);
    EXPECT_EQ(ranks[r].get(2, 6), (std::vector<float>{base, base + 30}));
  }
  each([&](const Rank& rank, int) {
    return api.broadcast(rank.comm.raw(), rank.buffer.plane(), 2, TERN_F32, 1, rank.stream.raw());
  });
  for (const Rank& rank : ranks) EXPECT_EQ(rank.get(2), (std::vector<float>{1, 11}));
  // Rank r sends r + 1 elements to each.
  each([&](const Rank& rank, int r) {
    const std::uint64_t n = static_cast<std::uint64_t>(r) + 1;
    const std::uint64_t sends[] = {n % 3, n % 3, n % 3};
    const std::uint64_t receives[] = {1, 2, 0};
    return api.all_to_all(rank.comm.raw(), rank.buffer.plane(24), rank.buffer.plane(), sends, receives, TERN_F32,
                          rank.stream.raw());
  });
  EXPECT_EQ(ranks[0].get(3, 6), (std::vector<float>{0, 1, 11}));
  EXPECT_EQ(ranks[2].get(3, 6), (std::vector<float>{20, 41, 51}));
}

TEST(SimComm, PeersExchangeInAGroup) {
  const auto ranks = make_ranks(2);
  const auto& api = ranks[0].device->api();
  for (int r = 0; r < 2; ++r) {
    const Rank& rank = ranks[static_cast<std::size_t>(r)];
    rank.put({5.0F + static_cast<float>(r)});
    rank.check(api.group_begin(rank.comm.raw()));
    rank.check(api.receive(rank.comm.raw(), rank.buffer.plane(16), 1, TERN_F32, 1 - r, rank.stream.raw()));
    rank.check(api.send(rank.comm.raw(), rank.buffer.plane(), 1, TERN_F32, 1 - r, rank.stream.raw()));
    rank.check(api.group_end(rank.comm.raw()));
  }
  EXPECT_EQ(ranks[0].get(1, 4)[0], 6.0F);
  EXPECT_EQ(ranks[1].get(1, 4)[0], 5.0F);
  EXPECT_EQ(api.send(ranks[0].comm.raw(), ranks[0].buffer.plane(), 1, TERN_F32, 0, ranks[0].stream.raw()),
            TERN_INVALID_ARGUMENT);
}

TEST(SimComm, RanksInThreadsWaitForEachOther) {
  const auto ranks = make_ranks(2);
  std::vector<std::vector<float>> found(2);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const Rank& rank = ranks[r];
      for (int step = 0; step < 20; ++step) {
        rank.put({static_cast<float>(step), static_cast<float>(r)});
        rank.check(rank.device->api().all_reduce(rank.comm.raw(), rank.buffer.plane(16), rank.buffer.plane(), 2,
                                                 TERN_F32, TERN_REDUCE_SUM, rank.stream.raw()));
        found[r] = rank.get(2, 4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found[0], (std::vector<float>{38, 1}));
  EXPECT_EQ(found[1], found[0]);
}

TEST(SimComm, MistakesAndLossesEndIt) {
  {  // a rank that does not come
    const auto ranks = make_ranks(2, {{"TERN_SIM_TIMEOUT_MS", "20"}});
    const Rank& rank = ranks[0];
    rank.check(rank.device->api().broadcast(rank.comm.raw(), rank.buffer.plane(), 1, TERN_F32, 0, rank.stream.raw()));
    const std::string found = failure_of([&] { rank.stream.synchronize(); });
    EXPECT_TRUE(contains(found, "timeout") && contains(found, "broadcast of rank 0 waits")) << found;
    ASSERT_EQ(rank.device->api().comm_abort(rank.comm.raw()), TERN_OK);
    EXPECT_TRUE(contains(failure_of([&] { rank.stream.synchronize(); }), "rank 0 aborted"));
    char reason[64] = "";
    EXPECT_EQ(rank.device->api().comm_async_error(ranks[1].comm.raw(), {reason, sizeof reason}), TERN_ASYNC_ERROR);
    EXPECT_STREQ(reason, "rank 0 aborted");
  }
  {  // a collective that never ends, and somebody who doesn't wait for its deadline
    const auto ranks = make_ranks(2, {{"TERN_SIM_FAULT", "commhang@1:1"}});
    const auto& api = ranks[0].device->api();
    for (const Rank& rank : ranks) {
      rank.check(api.broadcast(rank.comm.raw(), rank.buffer.plane(), 1, TERN_F32, 0, rank.stream.raw()));
    }
    EXPECT_EQ(api.comm_async_error(ranks[1].comm.raw(), {nullptr, 0}), TERN_OK);
    ASSERT_EQ(api.comm_abort(ranks[0].comm.raw()), TERN_OK);
    for (const Rank& rank : ranks) {
      EXPECT_TRUE(contains(failure_of([&] { rank.stream.synchronize(); }), "rank 0 aborted"));
    }
  }
  {  // a message that fails on its way
    const auto ranks = make_ranks(2, {{"TERN_SIM_FAULT", "comm@1:0"}});
    const auto& api = ranks[0].device->api();
    (void)api.receive(ranks[1].comm.raw(), ranks[1].buffer.plane(), 1, TERN_F32, 0, ranks[1].stream.raw());
    (void)api.send(ranks[0].comm.raw(), ranks[0].buffer.plane(), 1, TERN_F32, 1, ranks[0].stream.raw());
    const std::string found = failure_of([&] { ranks[1].stream.synchronize(); });
    EXPECT_TRUE(contains(found, "rank 0: send to rank 1 failed: the link reported a fault")) << found;
  }
  {  // ranks that disagree
    const auto ranks = make_ranks(2);
    for (std::size_t r = 0; r < 2; ++r) {
      const Rank& rank = ranks[r];
      rank.put({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
      rank.check(rank.device->api().all_reduce(rank.comm.raw(), rank.buffer.plane(), rank.buffer.plane(), 1 + r,
                                               TERN_F32, TERN_REDUCE_SUM, rank.stream.raw()));
    }
    for (const Rank& rank : ranks) {
      const std::string found = failure_of([&] { rank.stream.synchronize(); });
      EXPECT_TRUE(contains(found, "rank 0 and rank 1 call different collectives")) << found;
    }
  }
  {  // a device that is lost before the collective
    const auto ranks = make_ranks(2, {{"TERN_SIM_FAULT", "lost@1:1"}});
    const auto& api = ranks[0].device->api();
    const TensorDesc desc = make_desc(TERN_F32, {1});
    const accel::OpDesc scale{TERN_OP_CAST_COPY, {desc, desc}, {}};
    const accel::Plan plan(ranks[1].device, scale, {});
    tern_tensor args[2] = {{desc, {ranks[1].buffer.plane()}}, {desc, {ranks[1].buffer.plane(16)}}};
    const accel::Bound bound = plan.bind(args, {});
    tern_host_args host_args{};
    host_args.size = sizeof host_args;
    (void)bound.launch(host_args, ranks[1].stream);
    for (const Rank& rank : ranks) {
      (void)api.all_reduce(rank.comm.raw(), rank.buffer.plane(), rank.buffer.plane(), 1, TERN_F32, TERN_REDUCE_SUM,
                           rank.stream.raw());
    }
    EXPECT_TRUE(contains(failure_of([&] { ranks[0].stream.synchronize(); }), "rank 1 failed"));
    EXPECT_TRUE(contains(failure_of([&] { ranks[1].stream.synchronize(); }), "device lost"));
  }
}

}  // namespace
}  // namespace tern::test
