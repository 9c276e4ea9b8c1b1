// If these fail, ranks that never come are waited for, or the parts of a communicator hold the wrong ranks.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

using CommHandle = accel::Handle<tern_comm, &tern_backend::comm_destroy>;

struct Member {
  accel::DevicePtr device;
  accel::Stream stream;
  CommHandle comm;
};

std::vector<Member> make_members(int count, const Environment& more = {}) {
  Environment environment = more;
  environment["TERN_SIM_DEVICES"] = std::to_string(count);
  tern_comm_id id{};
  EXPECT_EQ(load_plugin("sim")->api().comm_unique_id(&id), TERN_OK);
  std::vector<Member> out;
  for (int r = 0; r < count; ++r) {
    Member member;
    member.device = open_sim(environment, r);
    member.stream = member.device->make_stream();
    tern_comm raw = nullptr;
    EXPECT_EQ(member.device->api().comm_init(member.device->raw(), &id, count, r, nullptr, &raw), TERN_OK);
    member.comm = {member.device, raw};
    out.push_back(std::move(member));
  }
  return out;
}

tern_comm_info info_of(const CommHandle& comm) {
  tern_comm_info info{};
  info.size = sizeof info;
  EXPECT_EQ(comm.device()->api().comm_info(comm.raw(), &info), TERN_OK);
  return info;
}

constexpr tern_comm_options kSoon{sizeof(tern_comm_options), 0, 50};

TEST(SimCommGroup, ARankThatNeverComesEndsTheWait) {
  const auto device = open_sim({{"TERN_SIM_DEVICES", "2"}});
  const auto& api = device->api();
  tern_comm_id id{};
  ASSERT_EQ(api.comm_unique_id(&id), TERN_OK);
  tern_comm raw = nullptr;
  const std::uint64_t before = device->memory().in_use_by_process;
  EXPECT_EQ(api.comm_init(device->raw(), &id, 2, 0, &kSoon, &raw), TERN_TIMEOUT);
  EXPECT_TRUE(contains(device->backend().last_error(), "1 of 2 ranks came within 50 ms"));
  EXPECT_EQ(device->memory().in_use_by_process, before);
  tern_comm_options wrong = kSoon;
  wrong.timeout_ms = -1;
  EXPECT_EQ(api.comm_init(device->raw(), &id, 2, 0, &wrong, &raw), TERN_INVALID_ARGUMENT);
  wrong = kSoon;
  wrong.reserved = 1;
  EXPECT_EQ(api.comm_init(device->raw(), &id, 2, 0, &wrong, &raw), TERN_UNSUPPORTED);
  const auto members = make_members(2);
  EXPECT_EQ(api.comm_split(members[0].comm.raw(), 0, 0, &kSoon, &raw), TERN_TIMEOUT);
}

TEST(SimCommGroup, TellsWhoIsInAndWhatItTakes) {
  const auto members = make_members(3, {{"TERN_SIM", "ascend"}});
  const tern_comm_info info = info_of(members[2].comm);
  EXPECT_EQ(info.ranks, 3);
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.bytes, members[2].device->info().comm_bytes);
  EXPECT_EQ(members[2].device->memory().comm_bytes, info.bytes);
  const auto& api = members[0].device->api();
  EXPECT_FALSE(members[0].device->can(TERN_CAP_COMM_ABORT));
  EXPECT_EQ(api.comm_abort(members[0].comm.raw()), TERN_UNSUPPORTED);
}

TEST(SimCommGroup, SplitsByColourAndKey) {
  const auto members = make_members(4);
  const auto& api = members[0].device->api();
  // Ranks 0, 2 and 3 in one part, back to front but for equal keys; rank 1 in none.
  const std::int32_t colors[] = {7, -1, 7, 7};
  const std::int32_t keys[] = {5, 0, 1, 1};
  const std::int32_t expected[] = {2, -1, 0, 1};
  std::vector<tern_comm> raw(4);
  std::vector<tern_status> status(4);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 4; ++r) {
    threads.emplace_back(
        [&, r] { status[r] = api.comm_split(members[r].comm.raw(), colors[r], keys[r], nullptr, &raw[r]); });
  }
  for (auto& thread : threads) thread.join();
  std::vector<CommHandle> parts(4);
  std::vector<accel::Buffer> buffers;
  for (std::size_t r = 0; r < 4; ++r) {
    ASSERT_EQ(status[r], TERN_OK);
    ASSERT_EQ(raw[r] != nullptr, expected[r] >= 0);
    buffers.push_back(members[r].device->allocate(4, "a test"));
    if (expected[r] < 0) continue;
    parts[r] = {members[r].device, raw[r]};
    EXPECT_EQ(info_of(parts[r]).ranks, 3);
    EXPECT_EQ(info_of(parts[r]).rank, expected[r]);
    const std::vector<float> mine{static_cast<float>(r)};
    members[r].device->copy_to_device(buffers[r].plane(), bytes_of(mine), members[r].stream);
    EXPECT_EQ(api.all_reduce(raw[r], buffers[r].plane(), buffers[r].plane(), 1, TERN_F32, TERN_REDUCE_AVERAGE,
                             members[r].stream.raw()),
              TERN_OK);
  }
  for (const std::size_t r : {0U, 2U, 3U}) {
    std::vector<float> found(1);
    members[r].device->copy_to_host(writable_bytes_of(found), buffers[r].plane(), members[r].stream);
    members[r].stream.synchronize();
    EXPECT_EQ(found[0], 5.0F / 3.0F);
  }
}

TEST(SimCommGroup, OnlyFloatsHaveAnAverage) {
  const auto members = make_members(1);
  const accel::Buffer buffer = members[0].device->allocate(4, "a test");
  EXPECT_EQ(members[0].device->api().all_reduce(members[0].comm.raw(), buffer.plane(), buffer.plane(), 1, TERN_I32,
                                                TERN_REDUCE_AVERAGE, members[0].stream.raw()),
            TERN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tern::test
