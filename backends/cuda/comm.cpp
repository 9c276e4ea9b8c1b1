// How ranks meet, part and end. NCCL's communicators are made non-blocking: a wait has a deadline, and can be aborted.
#include "backends/cuda/comm.h"

#include <cstring>
#include <thread>

#include "backends/cuda/interface.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

static_assert(sizeof(tern_comm_id) >= sizeof(ncclUniqueId));
constexpr std::int64_t kMeetMs = 600'000;  // where the caller says nothing
constexpr std::int64_t kCallMs = 600'000;  // of a call that connects ranks for the first time
constexpr std::int64_t kPartMs = 5'000;    // for the others to end too

tern_comm_options take_options(const tern_comm_options* given) {
  tern_comm_options own{};
  if (given == nullptr) return own;
  require(tern_plugin_take_struct(&own, sizeof own, sizeof own, given));
  if (own.reserved != 0) throw Error(TERN_UNSUPPORTED, "a communicator's options: a reserved member isn't 0");
  if (own.timeout_ms < 0) throw Error(TERN_INVALID_ARGUMENT, "a communicator's options: the timeout is below 0 ms");
  return own;
}

std::uint64_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(driver().MemGetInfo(&free, &total), "asking for the device's memory");
  return free;
}

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl().CommGetAsyncError(comm, &state);
  return asked == ncclSuccess ? state : asked;
}

// Makes ours of a communicator that `begin` starts to make: it is given the place. Counts what it took of the memory.
tern_comm make_comm(const std::shared_ptr<DeviceState>& state, std::string_view what, Deadline deadline,
                    const std::function<ncclResult_t(ncclComm_t*)>& begin,
                    const std::function<ncclResult_t(ncclComm_t)>& progress) {
  auto made = std::make_unique<tern_comm_s>();
  made->state = state;
  const std::uint64_t before = free_memory();
  ncclComm_t handle = nullptr;
  try {
    check_nccl(begin(&handle), what);
    wait_until_done([&] { return progress(handle); }, deadline, what);
    if (handle == nullptr) return nullptr;  // this rank is in no part
    check_nccl(nccl().CommCount(handle, &made->ranks), what);
    check_nccl(nccl().CommUserRank(handle, &made->rank), what);
  } catch (...) {
    if (handle != nullptr) (void)nccl().CommAbort(handle);
    throw;
  }
  made->handle = handle;
  const std::uint64_t after = free_memory();
  const std::uint64_t taken = before > after ? before - after : 0;
  if (taken > 0 && tern_plugin_take_memory(&state->memory, taken) == TERN_OK) made->bytes = taken;
  state->comm_bytes += made->bytes;
  return made.release();
}

// Ends a communicator: the ranks part together, and whoever waits too long for the others leaves alone.
void end(ncclComm_t handle) {
  const Nccl& api = nccl();
  try {
    check_nccl(api.CommFinalize(handle), "comm_destroy");
    wait_until_done([&] { return state_of(handle); }, deadline_after(kPartMs), "comm_destroy");
    check_nccl(api.CommDestroy(handle), "comm_destroy");
  } catch (const Error&) {
    (void)api.CommAbort(handle);
  }
}

}  // namespace

Deadline deadline_after(std::int64_t milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

void wait_until_done(const std::function<ncclResult_t()>& state, Deadline deadline, std::string_view what) {
  for (int round = 0;; ++round) {
    const ncclResult_t now = state();
    check_nccl(now, what);
    if (now == ncclSuccess) return;
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error(TERN_TIMEOUT, cat(what, ": not all ranks came in time; look for one that failed earlier"));
    }
    if (round > 100) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Comm::run(std::string_view what, const std::function<ncclResult_t(ncclComm_t)>& start) {
  const auto with_handle = [&](const auto& body) {
    const std::lock_guard lock(mutex);
    if (handle == nullptr) throw Error(TERN_ASYNC_ERROR, cat(what, ": the communicator was aborted"));
    return body(handle);
  };
  const ncclResult_t begun = with_handle(start);
  check_nccl(begun, what);
  if (begun == ncclSuccess) return;
  wait_until_done([&] { return with_handle(state_of); }, deadline_after(kCallMs), what);
}

tern_status comm_unique_id(tern_comm_id* id) {
  return guarded([&]() -> tern_status {
    if (id == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_unique_id: no place for the id");
    if (found_devices().devices.empty()) return fail(TERN_UNSUPPORTED, found_devices().reason);
    ncclUniqueId made{};
    check_nccl(nccl().GetUniqueId(&made), "comm_unique_id");
    *id = {};
    std::memcpy(id->bytes, &made, sizeof made);
    return TERN_OK;
  });
}

tern_status comm_init(tern_device device, const tern_comm_id* id, int32_t ranks, int32_t rank,
                      const tern_comm_options* options, tern_comm* comm) {
  return guarded([&]() -> tern_status {
    if (id == nullptr || comm == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_init: a null argument");
    const tern_comm_options own = take_options(options);
    (void)require_present(device);
    if (ranks <= 0 || rank < 0 || rank >= ranks) {
      return fail(TERN_INVALID_ARGUMENT, cat("comm_init: rank ", rank, " of ", ranks, " is none"));
    }
    ncclUniqueId unique{};
    std::memcpy(&unique, id->bytes, sizeof unique);
    ncclConfig_t config;
    *comm = make_comm(
        device->state, "comm_init", deadline_after(own.timeout_ms > 0 ? own.timeout_ms : kMeetMs),
        [&](ncclComm_t* handle) { return nccl().CommInitRankConfig(handle, ranks, unique, rank, &config); },
        [](ncclComm_t handle) { return handle != nullptr ? state_of(handle) : ncclInternalError; });
    return TERN_OK;
  });
}

tern_status comm_split(tern_comm comm, int32_t color, int32_t key, const tern_comm_options* options, tern_comm* part) {
  return guarded([&]() -> tern_status {
    if (comm == nullptr || part == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_split: a null argument");
    if (color < -1) return fail(TERN_INVALID_ARGUMENT, "comm_split: colours begin at 0, and -1 is none");
    const tern_comm_options own = take_options(options);
    comm->state->use();
    const ncclComm_t whole = comm->handle;
    if (whole == nullptr) return fail(TERN_ASYNC_ERROR, "comm_split: the communicator was aborted");
    *part = make_comm(
        comm->state, "comm_split", deadline_after(own.timeout_ms > 0 ? own.timeout_ms : kMeetMs),
        [&](ncclComm_t* handle) { return nccl().CommSplit(whole, color, key, handle, nullptr); },
        [&](ncclComm_t handle) {
          const ncclResult_t parent = state_of(whole);
          return parent != ncclSuccess || handle == nullptr ? parent : state_of(handle);
        });
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
    put_text(reason, "");
    try {
      const std::lock_guard lock(comm->mutex);
      if (comm->handle == nullptr) throw Error(TERN_ASYNC_ERROR, "the communicator was aborted");
      check_nccl(state_of(comm->handle), "a collective");
    } catch (const Error& error) {
      put_text(reason, error.what());
      return fail(TERN_ASYNC_ERROR, error.what());
    }
    return TERN_OK;
  });
}

// The kernels of what was queued end; streams that have some of them say so when they're waited for.
tern_status comm_abort(tern_comm comm) {
  return guarded([&]() -> tern_status {
    if (comm == nullptr) return fail(TERN_INVALID_ARGUMENT, "comm_abort: no communicator");
    comm->state->use();
    const std::lock_guard lock(comm->mutex);
    if (comm->handle == nullptr) return TERN_OK;
    comm->aborted->store(true);
    check_nccl(nccl().CommAbort(std::exchange(comm->handle, nullptr)), "comm_abort");
    return TERN_OK;
  });
}

tern_status comm_destroy(tern_comm comm) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_comm_s> owner(comm);
    if (!owner) return TERN_OK;
    (void)driver().CtxSetCurrent(owner->state->context.get());
    if (owner->handle != nullptr) end(owner->handle);
    if (owner->bytes > 0) tern_plugin_return_memory(&owner->state->memory, owner->bytes);
    owner->state->comm_bytes -= owner->bytes;
    return TERN_OK;
  });
}

}  // namespace tern::cuda
