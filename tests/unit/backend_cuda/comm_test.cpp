// Ranks of the cuda backend over the fake's NCCL. If these fail, the parts of a communicator hold the wrong ranks,
// ranks that never come are waited for, or a rank whose collective hangs can't be freed.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "accel/device.h"

namespace tern::test {
namespace {

using CommHandle = accel::Handle<tern_comm, &tern_backend::comm_destroy>;

std::shared_ptr<const accel::Backend> plugin() {
  static const std::shared_ptr<const accel::Backend> loaded =
      accel::Backend::load(std::string(TERN_PLUGIN_DIR) + "/libtern_cuda.so").value();
  return loaded;
}

struct Member {
  accel::DevicePtr device;
  accel::Stream stream;
  CommHandle comm;
  [[nodiscard]] const tern_backend& api() const { return device->api(); }
};

// Runs `body` on a thread for each rank, device r for rank r.
template <typename Body>
void on_ranks(int ranks, const Body& body) {
  tern_comm_id id{};
  ASSERT_EQ(plugin()->api().comm_unique_id(&id), TERN_OK) << plugin()->last_error();
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Member member;
      member.device = accel::Device::open(plugin(), r).value();
      member.stream = member.device->make_stream();
      tern_comm raw = nullptr;
      ASSERT_EQ(member.api().comm_init(member.device->raw(), &id, ranks, r, nullptr, &raw), TERN_OK)
          << plugin()->last_error();
      member.comm = {member.device, raw};
      body(member, r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

tern_comm_info info_of(const CommHandle& comm) {
  tern_comm_info info{};
  info.size = sizeof info;
  EXPECT_EQ(comm.device()->api().comm_info(comm.raw(), &info), TERN_OK);
  return info;
}

accel::Buffer one(Member& member, float value) {
  accel::Buffer buffer = member.device->allocate(4, "a test");
  const std::vector<float> data{value};
  member.device->copy_to_device(buffer.plane(), std::as_bytes(std::span(data)), member.stream);
  return buffer;
}

float read(Member& member, const accel::Buffer& buffer) {
  std::vector<float> found(1);
  member.device->copy_to_host(std::as_writable_bytes(std::span(found)), buffer.plane(), member.stream);
  member.stream.synchronize();
  return found[0];
}

TEST(CudaComm, SplitsByColourAndKey) {
  // Ranks 0, 2 and 3 in one part, back to front but for equal keys; rank 1 in none.
  constexpr std::int32_t kColors[] = {7, -1, 7, 7}, kKeys[] = {5, 0, 1, 1}, kExpected[] = {2, -1, 0, 1};
  on_ranks(4, [&](Member& member, int rank) {
    tern_comm raw = member.comm.raw();
    ASSERT_EQ(member.api().comm_split(member.comm.raw(), kColors[rank], kKeys[rank], nullptr, &raw), TERN_OK)
        << plugin()->last_error();
    ASSERT_EQ(raw != nullptr, kExpected[rank] >= 0);
    if (raw == nullptr) return;
    const CommHandle part(member.device, raw);
    EXPECT_EQ(info_of(part).ranks, 3);
    EXPECT_EQ(info_of(part).rank, kExpected[rank]);
    const accel::Buffer buffer = one(member, static_cast<float>(rank));
    ASSERT_EQ(member.api().all_reduce(raw, buffer.plane(), buffer.plane(), 1, TERN_F32, TERN_REDUCE_AVERAGE,
                                      member.stream.raw()),
              TERN_OK);
    EXPECT_FLOAT_EQ(read(member, buffer), 5.0F / 3.0F);
  });
}

TEST(CudaComm, ARankThatNeverComesEndsTheWait) {
  const accel::DevicePtr device = accel::Device::open(plugin(), 0).value();
  const auto& api = device->api();
  tern_comm_id id{};
  ASSERT_EQ(api.comm_unique_id(&id), TERN_OK);
  const std::uint64_t before = device->memory().in_use_by_process;
  tern_comm_options soon{sizeof(tern_comm_options), 0, 20};
  tern_comm raw = nullptr;
  EXPECT_EQ(api.comm_init(device->raw(), &id, 2, 0, &soon, &raw), TERN_TIMEOUT);
  EXPECT_NE(plugin()->last_error().find("not all ranks came in time"), std::string::npos);
  EXPECT_EQ(device->memory().in_use_by_process, before);
  soon.timeout_ms = -1;
  EXPECT_EQ(api.comm_init(device->raw(), &id, 2, 0, &soon, &raw), TERN_INVALID_ARGUMENT);
  soon.timeout_ms = 20;
  soon.reserved = 1;
  EXPECT_EQ(api.comm_init(device->raw(), &id, 2, 0, &soon, &raw), TERN_UNSUPPORTED);
}

TEST(CudaComm, ARankThatHangsIsFreed) {
  on_ranks(2, [](Member& member, int rank) {
    if (rank == 1) return;  // it never calls
    const accel::Buffer buffer = one(member, 1.0F);
    member.stream.synchronize();
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(member.api().comm_abort(member.comm.raw()), TERN_OK);
    });
    EXPECT_EQ(member.api().all_reduce(member.comm.raw(), buffer.plane(), buffer.plane(), 1, TERN_F32, TERN_REDUCE_SUM,
                                      member.stream.raw()),
              TERN_ASYNC_ERROR);
    other.join();
    EXPECT_EQ(member.api().stream_synchronize(member.stream.raw()), TERN_ASYNC_ERROR);
    std::array<char, 256> text{};
    EXPECT_EQ(member.api().comm_async_error(member.comm.raw(), {text.data(), text.size()}), TERN_ASYNC_ERROR);
  });
}

TEST(CudaComm, TellsThatTheRanksCallsDiffer) {
  on_ranks(2, [](Member& member, int rank) {
    const accel::Buffer buffer = member.device->allocate(64, "a test");
    EXPECT_NE(
        member.api().all_reduce(member.comm.raw(), buffer.plane(), buffer.plane(), static_cast<std::uint64_t>(2 + rank),
                                TERN_F32, TERN_REDUCE_SUM, member.stream.raw()),
        TERN_OK);
  });
}

}  // namespace
}  // namespace tern::test
