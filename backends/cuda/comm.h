// A communicator, and what its calls share.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/nccl.h"
#include "backends/cuda/runtime.h"

namespace tern::cuda {

struct Comm {
  std::shared_ptr<DeviceState> state;
  std::int32_t ranks = 0;
  std::int32_t rank = 0;
  std::uint64_t bytes = 0;
  bool grouped = false;                      // between group_begin and group_end
  std::vector<std::function<void()>> calls;  // of the group
  std::vector<std::function<void()>> after;  // what follows a group on the stream
  // The communicator never blocks in a call, so another thread can abort it between two questions of ours.
  std::mutex mutex;
  ncclComm_t handle = nullptr;  // null: aborted
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);

  // Calls `start`, and waits until NCCL has queued what it began. Throws Error.
  void run(std::string_view what, const std::function<ncclResult_t(ncclComm_t)>& start);
};

using Deadline = std::chrono::steady_clock::time_point;
// Asks until a communicator is no longer busy; throws TERN_TIMEOUT beyond the deadline, and what failed. `state` asks.
void wait_until_done(const std::function<ncclResult_t()>& state, Deadline deadline, std::string_view what);
[[nodiscard]] Deadline deadline_after(std::int64_t milliseconds);

}  // namespace tern::cuda

struct tern_comm_s : tern::cuda::Comm {};
