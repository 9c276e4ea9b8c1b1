// The collectives of the fake: what they give, and that each of their checks says no.
#include "backends/npu/cann/hccl_calls.h"
#include "tests/fakes/cann/hccl/exchange.h"
#include "tests/unit/fake_cann/support.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <thread>

namespace fake_test {
namespace {

using tern::fake_hccl::deadline_of;
using tern::fake_hccl::Exchange;
using tern::fake_hccl::Kind;
using tern::fake_hccl::Segment;

HcclRootInfo root_info() {
  HcclRootInfo root{};
  EXPECT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
  return root;
}

// Runs `rank` with a communicator of its own on each of two threads, device r for rank r.
void two_ranks(const std::function<void(std::uint32_t, HcclComm)>& rank) {
  const HcclRootInfo root = root_info();
  const auto run = [&](std::uint32_t r) {
    ASSERT_EQ(aclrtSetDevice(static_cast<std::int32_t>(r)), ACL_SUCCESS);
    HcclComm comm = nullptr;
    ASSERT_EQ(HcclCommInitRootInfo(2, &root, r, &comm), HCCL_SUCCESS) << message();
    rank(r, comm);
    EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

constexpr Settings kTwo = {{"TERN_FAKE_CANN_DEVICES", "2"}};
constexpr Settings kHasty = {{"TERN_FAKE_CANN_DEVICES", "2"},
                             {"HCCL_CONNECT_TIMEOUT", "1"},
                             {"HCCL_EXEC_TIMEOUT", "2"},
                             {"TERN_FAKE_CANN_HCCL_SECOND_MS", "200"}};

TEST(Hccl, SumsOverRanks) {
  const Fake fake(kTwo);
  two_ranks([](std::uint32_t rank, HcclComm comm) {
    const StreamHandle stream;
    const Array<float> own(std::vector<float>(100'000, static_cast<float>(rank + 1))), sum(100'000);
    ASSERT_EQ(HcclAllReduce(own.data(), sum.data(), 100'000, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream),
              HCCL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
    EXPECT_EQ(sum.values(), std::vector<float>(100'000, 3.0F));
  });
}

TEST(Hccl, SaysWhereRanksDiffer) {
  const Fake fake(kTwo);
  two_ranks([](std::uint32_t rank, HcclComm comm) {
    const StreamHandle stream;
    const Array<float> data(std::vector<float>(8, 1.0F));
    ASSERT_EQ(HcclAllReduce(data.data(), data.data(), 7 + rank, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream),
              HCCL_SUCCESS);
    EXPECT_NE(aclrtSynchronizeStream(stream), ACL_SUCCESS);
    HcclResult error = HCCL_SUCCESS;
    ASSERT_EQ(HcclGetCommAsyncError(comm, &error), HCCL_SUCCESS);
    EXPECT_EQ(error, HCCL_E_PARA);
    EXPECT_NE(message().find("another count"), std::string::npos);
    EXPECT_EQ(HcclBarrier(comm, stream), HCCL_E_INTERNAL);  // nothing works after it
  });
}

TEST(Hccl, RefusesWrongArguments) {
  const Fake fake(kTwo);
  HcclRootInfo root{};
  EXPECT_EQ(HcclGetRootInfo(nullptr), HCCL_E_PTR);
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclCommInitRootInfo(1, &root, 0, &comm), HCCL_E_NETWORK);  // nobody made it
  root = root_info();
  EXPECT_EQ(HcclCommInitRootInfo(0, &root, 0, &comm), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitRootInfo(2, &root, 2, &comm), HCCL_E_PARA);
  ASSERT_EQ(HcclCommInitRootInfo(1, &root, 0, &comm), HCCL_SUCCESS);
  const StreamHandle stream;
  const Array<float> data(std::vector<float>(4, 1.0F));
  std::array<float, 4> host{};
  const auto sum = [&](void* memory, std::uint64_t count, HcclDataType dtype, HcclReduceOp op) {
    return HcclAllReduce(memory, memory, count, dtype, op, comm, stream);
  };
  EXPECT_EQ(sum(data.data(), 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM), HCCL_SUCCESS);
  EXPECT_EQ(sum(nullptr, 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM), HCCL_E_PTR);
  EXPECT_EQ(sum(host.data(), 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM), HCCL_E_PARA);
  EXPECT_EQ(sum(data.data(), 1 << 20, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM), HCCL_E_PARA);
  EXPECT_EQ(sum(data.data(), 4, HCCL_DATA_TYPE_RESERVED, HCCL_REDUCE_SUM), HCCL_E_PARA);
  EXPECT_EQ(sum(data.data(), 4, HCCL_DATA_TYPE_UINT8, HCCL_REDUCE_SUM), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(sum(data.data(), 4, HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_PROD), HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(HcclBroadcast(data.data(), 4, HCCL_DATA_TYPE_FP32, 1, comm, stream), HCCL_E_PARA);
  EXPECT_EQ(HcclSend(data.data(), 4, HCCL_DATA_TYPE_FP32, 0, comm, stream), HCCL_E_PARA);  // to itself
  EXPECT_EQ(HcclBarrier(comm, nullptr), HCCL_E_PTR);
  EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_E_PARA);
}

TEST(Hccl, GivesEachRankADeviceOfItsOwn) {
  const Fake fake(kHasty);
  const HcclRootInfo root = root_info();
  HcclComm comms[2] = {};
  HcclResult results[2] = {};
  std::thread other([&] {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    results[1] = HcclCommInitRootInfo(2, &root, 1, &comms[1]);
  });
  results[0] = HcclCommInitRootInfo(2, &root, 0, &comms[0]);
  other.join();
  EXPECT_TRUE(results[0] == HCCL_E_PARA || results[1] == HCCL_E_PARA);
}

TEST(Hccl, WaitsNoLongerThanItsDeadline) {
  const Fake fake(kHasty);
  const HcclRootInfo root = root_info();
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclCommInitRootInfo(2, &root, 0, &comm), HCCL_E_TIMEOUT);
}

TEST(Hccl, ARingOfSendsIsADeadlock) {
  const Fake fake(kHasty);
  two_ranks([](std::uint32_t rank, HcclComm comm) {
    const StreamHandle stream;
    const Array<float> data(std::vector<float>(4, 1.0F)), to(4);
    const std::uint32_t peer = 1 - rank;
    ASSERT_EQ(HcclSend(data.data(), 4, HCCL_DATA_TYPE_FP32, peer, comm, stream), HCCL_SUCCESS);
    ASSERT_EQ(HcclRecv(to.data(), 4, HCCL_DATA_TYPE_FP32, peer, comm, stream), HCCL_SUCCESS);
    EXPECT_NE(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  });
}

TEST(Hccl, KnowsNoBf16OnOldChips) {
  const Fake fake({{"TERN_FAKE_CANN_CHIP", "910A"}});
  const HcclRootInfo root = root_info();
  HcclComm comm = nullptr;
  ASSERT_EQ(HcclCommInitRootInfo(1, &root, 0, &comm), HCCL_SUCCESS);
  const StreamHandle stream;
  const Array<float> data(4);
  EXPECT_EQ(HcclAllReduce(data.data(), data.data(), 4, HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_SUM, comm, stream),
            HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
}

// A rank in a process of its own, over host memory: the exchange is the same.
TEST(Hccl, RanksMayBeProcesses) {
  std::array<char, 4108> name{};
  const auto segment = Segment::create(name);
  ASSERT_NE(segment, nullptr);
  segment->header().ranks = 2;
  const auto sum = [&](std::uint32_t rank) {
    const auto own = Segment::open(name);
    std::vector<float> data(1000, static_cast<float>(rank + 1));
    Exchange exchange;
    exchange.kind = Kind::all_reduce;
    exchange.dtype = HCCL_DATA_TYPE_FP32;
    exchange.count = data.size();
    exchange.send = reinterpret_cast<const std::byte*>(data.data());
    exchange.receive = reinterpret_cast<std::byte*>(data.data());
    return own != nullptr && run_exchange(*own, rank, exchange) && data == std::vector<float>(1000, 3.0F);
  };
  const pid_t child = fork();
  if (child == 0) _exit(sum(1) ? 0 : 1);
  EXPECT_TRUE(sum(0));
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Hccl, NoticesThatARankHasEnded) {
  std::array<char, 4108> name{};
  const auto segment = Segment::create(name);
  ASSERT_NE(segment, nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  segment->header().ranks = 2;
  segment->header().seats[1].pid = child;
  EXPECT_FALSE(segment->barrier(deadline_of("HCCL_EXEC_TIMEOUT", 60), "a test"));
  EXPECT_EQ(segment->header().failure, HCCL_E_REMOTE);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace fake_test
