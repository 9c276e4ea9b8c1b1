// How ranks meet, part and end. HCCL has no deadline of its own for one call, so a thread waits for it.
#include "backends/npu/comm.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "backends/npu/interface.h"

namespace tern::npu {
namespace {

static_assert(sizeof(tern_comm_id) >= sizeof(HcclRootInfo));

tern_comm_options take_options(const tern_comm_options* given) {
  tern_comm_options own{};
  if (given == nullptr) return own;
  require(tern_plugin_take_struct(&own, sizeof own, sizeof own, given));
  if (own.reserved != 0) throw Error(TERN_UNSUPPORTED, "a communicator's options: a reserved member isn't 0");
  if (own.timeout_ms < 0) throw Error(TERN_INVALID_ARGUMENT, "a communicator's options: the timeout is below 0 ms");
  return own;
}

// HCCL's own wait for the other ranks, which may outlive ours.
struct Meeting {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool abandoned = false;
  HcclResult result = HCCL_SUCCESS;
  HcclComm comm = nullptr;
  std::string why;
};

void meet(const std::shared_ptr<Meeting>& meeting, const Shared& shared, const HcclRootInfo& root, std::uint32_t ranks,
          std::uint32_t rank) {
  HcclComm comm = nullptr;
  std::string why;
  HcclResult result = HCCL_E_RUNTIME;
  try {
    shared.use();
    result = hccl().HcclCommInitRootInfo(ranks, &root, rank, &comm);
    check_hccl(result, "comm_init");
  } catch (const Error& error) {
    why = error.what();
  }
  const std::lock_guard lock(meeting->mutex);
  meeting->done = true;
  meeting->result = result;
  meeting->comm = comm;
  meeting->why = why;
  if (meeting->abandoned && comm != nullptr) (void)hccl().HcclCommDestroy(comm);  // nobody waits for it any more
  meeting->changed.notify_all();
}

HcclComm join(const std::shared_ptr<Shared>& shared, const HcclRootInfo& root, std::int32_t ranks, std::int32_t rank,
              std::int64_t timeout_ms) {
  const auto meeting = std::make_shared<Meeting>();
  std::thread waiter(
      [=] { meet(meeting, *shared, root, static_cast<std::uint32_t>(ranks), static_cast<std::uint32_t>(rank)); });
  std::unique_lock lock(meeting->mutex);
  const auto over = [&] { return meeting->done; };
  if (timeout_ms == 0) {
    meeting->changed.wait(lock, over);
  } else if (!meeting->changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), over)) {
    meeting->abandoned = true;
    lock.unlock();
    waiter.detach();
    throw Error(TERN_TIMEOUT, "comm_init: not all of " + std::to_string(ranks) + " ranks came within " +
                                  std::to_string(timeout_ms) + " ms; look for one that failed earlier");
  }
  lock.unlock();
  waiter.join();
  if (meeting->result != HCCL_SUCCESS) {
    const bool late = meeting->result == HCCL_E_TIMEOUT;
    const bool wrong = meeting->result == HCCL_E_PARA;
    throw Error(late                               ? TERN_TIMEOUT
                : wrong                            ? TERN_INVALID_ARGUMENT
                : meeting->result == HCCL_E_MEMORY ? TERN_OUT_OF_MEMORY
                                                   : TERN_INTERNAL,
                meeting->why);
  }
  return meeting->comm;
}

tern_comm make_comm(const std::shared_ptr<Shared>& shared, const HcclRootInfo& root, std::int32_t ranks,
                    std::int32_t rank, std::int64_t timeout_ms) {
  auto made = std::make_unique<tern_comm_s>();
  made->shared = shared;
  made->ranks = ranks;
  made->rank = rank;
  made->bytes = comm_bytes();
  require(tern_plugin_take_memory(&shared->memory, made->bytes));
  try {
    made->handle = join(shared, root, ranks, rank, timeout_ms);
  } catch (...) {
    tern_plugin_return_memory(&shared->memory, made->bytes);
    throw;
  }
  shared->comm_bytes += made->bytes;
  return made.release();
}

// Memory and a stream for what ranks tell each other.
class Exchange {
 public:
  explicit Exchange(Comm& comm) : comm_(comm), api_(acl()) {
    comm.shared->use();
    check(api_.aclrtCreateStream(&stream_), "aclrtCreateStream");
  }
  ~Exchange() { (void)api_.aclrtDestroyStream(stream_); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // `own` of every rank, by rank.
  template <typename T>
  std::vector<T> gather(const T& own) {
    std::vector<T> all(static_cast<std::size_t>(comm_.ranks));
    const std::uint64_t total = sizeof(T) * all.size();
    auto* memory = static_cast<std::byte*>(comm_.shared->allocate(total));
    auto* mine = memory + sizeof(T) * static_cast<std::size_t>(comm_.rank);
    try {
      check(api_.aclrtMemcpy(mine, sizeof(T), &own, sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE), "comm_split: a copy");
      check_hccl(hccl().HcclAllGather(mine, memory, sizeof(T), HCCL_DATA_TYPE_UINT8, comm_.handle, stream_),
                 "comm_split");
      check(api_.aclrtSynchronizeStream(stream_), "comm_split: waiting for the other ranks");
      check(api_.aclrtMemcpy(all.data(), total, memory, total, ACL_MEMCPY_DEVICE_TO_HOST), "comm_split: a copy");
    } catch (...) {
      comm_.shared->free(memory, total);
      throw;
    }
    comm_.shared->free(memory, total);
    return all;
  }

 private:
  Comm& comm_;
  const Acl& api_;
  aclrtStream stream_ = nullptr;
};

struct Vote {
  std::int32_t color;
  std::int32_t key;
};

// The ranks of the caller's part, in their new order.
std::vector<std::int32_t> members(const std::vector<Vote>& votes, std::int32_t color) {
  std::vector<std::int32_t> out;
  for (std::size_t r = 0; r < votes.size(); ++r) {
    if (votes[r].color == color) out.push_back(static_cast<std::int32_t>(r));
  }
  std::stable_sort(out.begin(), out.end(), [&](std::int32_t a, std::int32_t b) {
    return votes[static_cast<std::size_t>(a)].key < votes[static_cast<std::size_t>(b)].key;
  });
  return out;
}

}  // namespace

tern_status comm_unique_id(tern_comm_id* id) {
  return guarded([&]() -> tern_status {
    if (id == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_unique_id: no place for the id");
    // It may be the first call of all: this starts the runtime.
    std::int32_t devices = 0;
    std::array<char, 512> why{};
    require(device_count(&devices, {why.data(), why.size()}));
    if (devices == 0) return fail(TERN_UNSUPPORTED, std::string("comm_unique_id: there is no device: ") + why.data());
    const Hccl& functions = hccl();
    // A root info is made on a device; a thread that has none yet gets the first.
    std::int32_t current = 0;
    const auto device_of_thread = reinterpret_cast<decltype(&::aclrtGetDevice)>(find_symbol("aclrtGetDevice"));
    if (device_of_thread == nullptr || device_of_thread(&current) != 0) {
      check(acl().aclrtSetDevice(0), "aclrtSetDevice");
    }
    HcclRootInfo root{};
    check_hccl(functions.HcclGetRootInfo(&root), "comm_unique_id");
    *id = {};
    std::memcpy(id->bytes, &root, sizeof root);
    return TERN_OK;
  });
}

tern_status comm_init(tern_device device, const tern_comm_id* id, int32_t ranks, int32_t rank,
                      const tern_comm_options* options, tern_comm* comm) {
  return guarded([&]() -> tern_status {
    if (id == nullptr || comm == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_init: a null argument");
    const tern_comm_options own = take_options(options);
    (void)present(device);
    if (ranks <= 0 || rank < 0 || rank >= ranks) {
      return fail(TERN_INVALID_ARGUMENT,
                  "comm_init: rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " is none");
    }
    HcclRootInfo root{};
    std::memcpy(&root, id->bytes, sizeof root);
    *comm = make_comm(device->shared, root, ranks, rank, own.timeout_ms);
    return TERN_OK;
  });
}

// Colours and keys are gathered, then the first rank of each part makes its root info, and those are gathered too.
// HcclCreateSubCommConfig would be shorter, but its argument differs between CANN's versions.
tern_status comm_split(tern_comm comm, int32_t color, int32_t key, const tern_comm_options* options, tern_comm* part) {
  return guarded([&]() -> tern_status {
    if (comm == nullptr || part == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_split: a null argument");
    if (color < -1) return fail(TERN_INVALID_ARGUMENT, "comm_split: colours begin at 0, and -1 is none");
    const tern_comm_options own = take_options(options);
    Exchange exchange(*comm);
    const std::vector<Vote> votes = exchange.gather(Vote{color, key});
    const std::vector<std::int32_t> ranks = members(votes, color);
    HcclRootInfo root{};
    if (color >= 0 && ranks.front() == comm->rank) check_hccl(hccl().HcclGetRootInfo(&root), "comm_split");
    const std::vector<HcclRootInfo> roots = exchange.gather(root);
    *part = nullptr;
    if (color < 0) return TERN_OK;
    const auto place = std::find(ranks.begin(), ranks.end(), comm->rank) - ranks.begin();
    *part = make_comm(comm->shared, roots[static_cast<std::size_t>(ranks.front())],
                      static_cast<std::int32_t>(ranks.size()), static_cast<std::int32_t>(place), own.timeout_ms);
    return TERN_OK;
  });
}

tern_status comm_info(tern_comm comm, tern_comm_info* info) {
  return guarded([&]() -> tern_status {
    if (comm == nullptr || info == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_info: a null argument");
    tern_comm_info filled{};
    filled.ranks = comm->ranks;
    filled.rank = comm->rank;
    filled.bytes = comm->bytes;
    return give_info(info, filled);
  });
}

tern_status comm_async_error(tern_comm comm, tern_text reason) {
  return guarded([&]() -> tern_status {
    if (comm == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_async_error: no communicator");
    HcclResult failed = HCCL_SUCCESS;
    check_hccl(hccl().HcclGetCommAsyncError(comm->handle, &failed), "comm_async_error");
    put_text(reason, "");
    try {
      check_hccl(failed, "a collective");
    } catch (const Error& error) {
      put_text(reason, error.what());
      return fail(TERN_ASYNC_ERROR, error.what());
    }
    return TERN_OK;
  });
}

tern_status comm_abort(tern_comm comm) {
  if (comm == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_abort: no communicator");
  return fail(TERN_UNSUPPORTED, "HCCL can't end a collective that hangs: end the process");
}

tern_status comm_destroy(tern_comm comm) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_comm_s> owner(comm);
    if (comm == nullptr) return TERN_OK;
    comm->shared->use();
    for (const auto& [memory, bytes] : comm->scratch) comm->shared->free(memory, bytes);
    const HcclResult result = hccl().HcclCommDestroy(comm->handle);
    tern_plugin_return_memory(&comm->shared->memory, comm->bytes);
    comm->shared->comm_bytes -= comm->bytes;
    check_hccl(result, "comm_destroy");
    return TERN_OK;
  });
}

}  // namespace tern::npu
