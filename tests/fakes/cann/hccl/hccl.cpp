// libhccl.so of the fake: every argument is checked, then the exchange is queued on the stream.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "backends/npu/cann/hccl_calls.h"
#include "tests/fakes/cann/hccl/core.h"
#include "tests/fakes/cann/hccl/exchange.h"
#include "tests/fakes/cann/hccl/numbers.h"

namespace tern::fake_hccl {
namespace {

constexpr std::uint64_t kMostElements = 0x7FFFFFFFF;  // HCCL's SYS_MAX_COUNT
constexpr int kConnectSeconds = 120;                  // HCCL_CONNECT_TIMEOUT's default
constexpr int kTaskTimeout = 107020;                  // of a stream that waits for a notification which never comes

// A communicator's exchanges run one after another, in the order of the calls, whatever streams they are on.
struct Communicator {
  std::shared_ptr<Segment> segment;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::int32_t device = 0;
  void* buffer = nullptr;  // HCCL's own device memory
  std::mutex lock;
  std::condition_variable changed;
  std::uint64_t called = 0;
  std::uint64_t done = 0;
};

// What this process's root infos and communicators are.
struct Registry {
  std::mutex lock;
  std::map<HcclComm, std::shared_ptr<Communicator>> communicators;
  std::map<std::uint64_t, std::shared_ptr<Segment>> roots;  // made here, by nonce, until the ranks have met
};

Registry& registry() {
  static Registry instance;
  return instance;
}

HcclResult refuse(HcclResult result, const std::string& text) {
  core::report(result, text);
  return result;
}

std::shared_ptr<Communicator> find(HcclComm comm) {
  Registry& all = registry();
  const std::lock_guard guard(all.lock);
  const auto found = all.communicators.find(comm);
  return found == all.communicators.end() ? nullptr : found->second;
}

// Device memory of a communicator: twice HCCL_BUFFSIZE megabytes (HCCL environment variables, HCCL_BUFFSIZE).
std::size_t buffer_bytes() {
  const char* text = std::getenv("HCCL_BUFFSIZE");
  const int megabytes = text == nullptr ? 200 : std::atoi(text);
  return std::size_t{2} * static_cast<std::size_t>(megabytes > 0 ? megabytes : 200) << 20;
}

// Sits down at a rank's place and waits for all others.
HcclResult take_seat(Segment& segment, std::uint32_t ranks, std::uint32_t rank, std::int32_t device) {
  const Deadline deadline = deadline_of("HCCL_CONNECT_TIMEOUT", kConnectSeconds);
  const Segment::Lock lock(segment);
  Header& header = segment.header();
  if (header.ranks != 0 && header.ranks != ranks) {
    return refuse(HCCL_E_PARA,
                  "nRanks " + std::to_string(ranks) + " here, " + std::to_string(header.ranks) + " in other ranks");
  }
  for (std::uint32_t r = 0; r < kMostRanks; ++r) {
    const Seat& seat = header.seats[r];
    if (seat.pid == 0) continue;
    if (r == rank) return refuse(HCCL_E_PARA, "rank " + std::to_string(rank) + " has joined already");
    if (seat.device == device) {  // HCCL: one rank a device
      return refuse(HCCL_E_PARA, "ranks " + std::to_string(r) + " and " + std::to_string(rank) +
                                     " are on one device, " + std::to_string(device));
    }
  }
  header.ranks = ranks;
  header.seats[rank].pid = core::process();
  header.seats[rank].device = device;
  ++header.joined;
  segment.wake();
  if (segment.wait(
          deadline, [&] { return header.joined == ranks; }, "HcclCommInitRootInfo"))
    return HCCL_SUCCESS;
  return refuse(static_cast<HcclResult>(header.failure), header.why);
}

struct Call {
  const char* name;
  HcclComm comm;
  aclrtStream stream;
};

HcclResult check_data(const Call& call, const void* data, std::uint64_t count, std::int32_t dtype, const char* which) {
  const std::size_t unit = bytes_of(dtype);
  const std::string name = std::string(call.name) + ": ";
  if (unit == 0) return refuse(HCCL_E_PARA, name + "dataType " + std::to_string(dtype) + " is none");
  if (count > kMostElements) return refuse(HCCL_E_PARA, name + "count is above SYS_MAX_COUNT");
  if (count == 0) return HCCL_SUCCESS;
  if (data == nullptr) return refuse(HCCL_E_PTR, name + which + " is a null pointer");
  if (!core::is_device_memory(data, count * unit)) {
    return refuse(HCCL_E_PARA, name + which + " isn't device memory of that size");
  }
  return HCCL_SUCCESS;
}

// Queues the exchange in its turn.
HcclResult queue(const Call& call, Exchange exchange) {
  if (call.comm == nullptr || call.stream == nullptr) {
    return refuse(HCCL_E_PTR, std::string(call.name) + ": a null pointer");
  }
  if (const int planned = core::planned_fault(call.name); planned != 0) {
    return refuse(static_cast<HcclResult>(planned), std::string(call.name) + " failed, as TERN_FAKE_CANN_FAULT asks");
  }
  const std::shared_ptr<Communicator> comm = find(call.comm);
  if (!comm) return refuse(HCCL_E_PARA, std::string(call.name) + ": this is no communicator");
  const auto failure = [&] {
    const Segment::Lock lock(*comm->segment);
    return comm->segment->header().failure;
  };
  if (failure() != 0) return refuse(HCCL_E_INTERNAL, std::string(call.name) + ": the communicator has failed");
  std::uint64_t turn = 0;
  {
    const std::lock_guard guard(comm->lock);
    turn = comm->called++;
  }
  const bool queued = core::queue(call.stream, call.name, [comm, turn, exchange = std::move(exchange)]() -> int {
    {
      std::unique_lock guard(comm->lock);
      comm->changed.wait(guard, [&] { return comm->done >= turn; });
    }
    const bool fine = run_exchange(*comm->segment, comm->rank, exchange);
    {
      const std::lock_guard guard(comm->lock);
      ++comm->done;
    }
    comm->changed.notify_all();
    return fine ? 0 : kTaskTimeout;
  });
  return queued ? HCCL_SUCCESS : refuse(HCCL_E_RUNTIME, std::string(call.name) + ": the stream takes no task");
}

HcclResult check_reduction(const Call& call, HcclDataType dtype, HcclReduceOp op) {
  if (op < HCCL_REDUCE_SUM || op > HCCL_REDUCE_MIN) {
    return refuse(HCCL_E_PARA, std::string(call.name) + ": op " + std::to_string(op) + " is none");
  }
  // HcclAllReduce, HcclReduceScatter: the dtypes of each product; prod knows neither int16 nor bfp16.
  if (bytes_of(dtype) != 0 && !is_reducible(dtype, op, core::chip_has_bf16())) {
    return refuse(HCCL_E_NOT_SUPPORT, std::string(call.name) + ": dataType " + std::to_string(dtype) +
                                          " can't be reduced by op " + std::to_string(op) + " on this chip");
  }
  return HCCL_SUCCESS;
}

Exchange exchange_of(Kind kind, const void* send, void* receive, std::uint64_t count, HcclDataType dtype) {
  Exchange out;
  out.kind = kind;
  out.dtype = dtype;
  out.count = count;
  out.send = core::host_view(send);
  out.receive = core::host_view(receive);
  return out;
}

HcclResult queue_message(const Call& call, bool send, void* data, std::uint64_t count, HcclDataType dtype,
                         std::uint32_t peer) {
  if (call.comm == nullptr) return refuse(HCCL_E_PTR, std::string(call.name) + ": a null communicator");
  const auto comm = find(call.comm);
  if (comm && (peer >= comm->ranks || peer == comm->rank)) {
    return refuse(HCCL_E_PARA, std::string(call.name) + ": rank " + std::to_string(peer) + " is no peer");
  }
  if (const HcclResult result = check_data(call, data, count, dtype, "the buffer"); result != HCCL_SUCCESS) {
    return result;
  }
  Exchange exchange;
  exchange.kind = Kind::messages;
  exchange.messages.push_back({send, core::host_view(data), count * bytes_of(dtype), dtype, peer});
  return queue(call, std::move(exchange));
}

}  // namespace
}  // namespace tern::fake_hccl

using namespace tern::fake_hccl;  // NOLINT: the interface below is theirs

extern "C" {

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  if (rootInfo == nullptr) return refuse(HCCL_E_PTR, "HcclGetRootInfo: rootInfo is a null pointer");
  if (core::current_device() < 0) return refuse(HCCL_E_RUNTIME, "HcclGetRootInfo: no device is set in this thread");
  auto segment = Segment::create(rootInfo->internal);
  if (!segment) return refuse(HCCL_E_MEMORY, "HcclGetRootInfo: no memory");
  Registry& all = registry();
  const std::lock_guard guard(all.lock);
  all.roots[segment->header().nonce] = segment;
  return HCCL_SUCCESS;
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
  if (rootInfo == nullptr || comm == nullptr) return refuse(HCCL_E_PTR, "HcclCommInitRootInfo: a null pointer");
  if (nRanks == 0 || nRanks > kMostRanks || rank >= nRanks) {
    return refuse(HCCL_E_PARA,
                  "HcclCommInitRootInfo: rank " + std::to_string(rank) + " of " + std::to_string(nRanks) + " is none");
  }
  const int device = core::current_device();
  if (device < 0) return refuse(HCCL_E_RUNTIME, "HcclCommInitRootInfo: no device is set in this thread");
  auto made = std::make_shared<Communicator>();
  made->segment = Segment::open(rootInfo->internal);
  if (!made->segment) {
    return refuse(HCCL_E_NETWORK, "HcclCommInitRootInfo: the process of the root info can't be reached");
  }
  made->rank = rank;
  made->ranks = nRanks;
  made->device = core::physical_device(device);
  made->buffer = core::allocate(buffer_bytes());
  if (made->buffer == nullptr) return refuse(HCCL_E_MEMORY, "HcclCommInitRootInfo: no device memory for its buffer");
  if (const HcclResult result = take_seat(*made->segment, nRanks, rank, made->device); result != HCCL_SUCCESS) {
    core::release(made->buffer);
    return result;
  }
  Registry& all = registry();
  const std::lock_guard guard(all.lock);
  all.roots.erase(made->segment->header().nonce);  // all ranks have opened it
  *comm = made.get();
  all.communicators[*comm] = std::move(made);
  return HCCL_SUCCESS;
}

HcclResult HcclCommDestroy(HcclComm comm) {
  if (comm == nullptr) return refuse(HCCL_E_PTR, "HcclCommDestroy: a null pointer");
  Registry& all = registry();
  const std::lock_guard guard(all.lock);
  const auto found = all.communicators.find(comm);
  if (found == all.communicators.end()) return refuse(HCCL_E_PARA, "HcclCommDestroy: this is no communicator");
  core::release(found->second->buffer);
  {
    // A rank that has left in order is not one that died.
    Segment& segment = *found->second->segment;
    const Segment::Lock lock(segment);
    segment.header().seats[found->second->rank].pid = 0;
  }
  all.communicators.erase(found);
  return HCCL_SUCCESS;
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
  if (comm == nullptr || rankSize == nullptr) return refuse(HCCL_E_PTR, "HcclGetRankSize: a null pointer");
  const auto found = find(comm);
  if (!found) return refuse(HCCL_E_PARA, "HcclGetRankSize: this is no communicator");
  *rankSize = found->ranks;
  return HCCL_SUCCESS;
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
  if (comm == nullptr || rank == nullptr) return refuse(HCCL_E_PTR, "HcclGetRankId: a null pointer");
  const auto found = find(comm);
  if (!found) return refuse(HCCL_E_PARA, "HcclGetRankId: this is no communicator");
  *rank = found->rank;
  return HCCL_SUCCESS;
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  if (comm == nullptr || asyncError == nullptr) return refuse(HCCL_E_PTR, "HcclGetCommAsyncError: a null pointer");
  const auto found = find(comm);
  if (!found) return refuse(HCCL_E_PARA, "HcclGetCommAsyncError: this is no communicator");
  const Segment::Lock lock(*found->segment);
  *asyncError = static_cast<HcclResult>(found->segment->header().failure);
  if (*asyncError != HCCL_SUCCESS) core::report(*asyncError, found->segment->header().why);
  return HCCL_SUCCESS;
}

const char* HcclGetErrorString(HcclResult code) {
  switch (code) {
    case HCCL_SUCCESS:
      return "no error";
    case HCCL_E_PARA:
      return "parameter error";
    case HCCL_E_PTR:
      return "empty pointer";
    case HCCL_E_MEMORY:
      return "memory error";
    case HCCL_E_INTERNAL:
      return "internal error";
    case HCCL_E_NOT_SUPPORT:
      return "not support feature";
    case HCCL_E_TIMEOUT:
      return "timeout";
    case HCCL_E_RUNTIME:
      return "call runtime api fail";
    case HCCL_E_NETWORK:
      return "call network api fail";
    case HCCL_E_REMOTE:
      return "error cqe";
    default:
      return "unknown error";
  }
}

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
  const Call call{"HcclAllReduce", comm, stream};
  HcclResult result = check_reduction(call, dataType, op);
  if (result == HCCL_SUCCESS) result = check_data(call, sendBuf, count, dataType, "sendBuf");
  if (result == HCCL_SUCCESS) result = check_data(call, recvBuf, count, dataType, "recvBuf");
  if (result != HCCL_SUCCESS) return result;
  Exchange exchange = exchange_of(Kind::all_reduce, sendBuf, recvBuf, count, dataType);
  exchange.reduce = op;
  return queue(call, std::move(exchange));
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                         aclrtStream stream) {
  const Call call{"HcclAllGather", comm, stream};
  const auto found = find(comm);
  HcclResult result = check_data(call, sendBuf, sendCount, dataType, "sendBuf");
  if (result == HCCL_SUCCESS && found) {
    result = check_data(call, recvBuf, sendCount * found->ranks, dataType, "recvBuf");
  }
  return result != HCCL_SUCCESS ? result
                                : queue(call, exchange_of(Kind::all_gather, sendBuf, recvBuf, sendCount, dataType));
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
  const Call call{"HcclReduceScatter", comm, stream};
  const auto found = find(comm);
  HcclResult result = check_reduction(call, dataType, op);
  if (result == HCCL_SUCCESS && found) {
    result = check_data(call, sendBuf, recvCount * found->ranks, dataType, "sendBuf");
  }
  if (result == HCCL_SUCCESS) result = check_data(call, recvBuf, recvCount, dataType, "recvBuf");
  if (result != HCCL_SUCCESS) return result;
  Exchange exchange = exchange_of(Kind::reduce_scatter, sendBuf, recvBuf, recvCount, dataType);
  exchange.reduce = op;
  return queue(call, std::move(exchange));
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
  const Call call{"HcclBroadcast", comm, stream};
  if (const auto found = find(comm); found && root >= found->ranks) {
    return refuse(HCCL_E_PARA, "HcclBroadcast: root " + std::to_string(root) + " is no rank");
  }
  const HcclResult result = check_data(call, buf, count, dataType, "buf");
  if (result != HCCL_SUCCESS) return result;
  Exchange exchange = exchange_of(Kind::broadcast, buf, buf, count, dataType);
  exchange.root = root;
  return queue(call, std::move(exchange));
}

// Counts and displacements are uint64 of host memory, in elements.
HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType,
                         const void* recvBuf, const void* recvCounts, const void* rdispls, HcclDataType recvType,
                         HcclComm comm, aclrtStream stream) {
  const Call call{"HcclAlltoAllV", comm, stream};
  if (sendCounts == nullptr || sdispls == nullptr || recvCounts == nullptr || rdispls == nullptr) {
    return refuse(HCCL_E_PTR, "HcclAlltoAllV: a null pointer");
  }
  if (sendType != recvType) return refuse(HCCL_E_PARA, "HcclAlltoAllV: sendType and recvType differ");
  Exchange exchange = exchange_of(Kind::all_to_all, sendBuf, const_cast<void*>(recvBuf), 0, sendType);
  const auto found = find(comm);
  const std::uint64_t unit = bytes_of(sendType);
  std::uint64_t send_end = 0, receive_end = 0;
  for (std::uint32_t r = 0; found && r < found->ranks; ++r) {
    const auto at = [&](const void* list) { return static_cast<const std::uint64_t*>(list)[r]; };
    exchange.parcels.push_back({at(sendCounts) * unit, at(sdispls) * unit, at(recvCounts) * unit, at(rdispls) * unit});
    send_end = std::max(send_end, at(sendCounts) + at(sdispls));
    receive_end = std::max(receive_end, at(recvCounts) + at(rdispls));
  }
  HcclResult result = check_data(call, sendBuf, send_end, sendType, "sendBuf");
  if (result == HCCL_SUCCESS) result = check_data(call, recvBuf, receive_end, recvType, "recvBuf");
  return result != HCCL_SUCCESS ? result : queue(call, std::move(exchange));
}

HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
  return queue_message({"HcclSend", comm, stream}, true, sendBuf, count, dataType, destRank);
}

HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream) {
  return queue_message({"HcclRecv", comm, stream}, false, recvBuf, count, dataType, srcRank);
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  Exchange exchange;
  exchange.kind = Kind::barrier;
  return queue({"HcclBarrier", comm, stream}, std::move(exchange));
}
}
