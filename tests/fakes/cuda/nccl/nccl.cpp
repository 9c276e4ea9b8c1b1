// libnccl.so.2 of the fake: ranks are threads of one process. A call waits for its stream; then its communicator is
// busy until the other ranks have come too.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/fakes/cuda/nccl/group.h"

namespace tern::cuda::fake_nccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::uint64_t next = 1;
  std::map<std::uint64_t, std::shared_ptr<Group>> groups;  // by unique id, until all ranks have come
};
Registry& registry() {
  static Registry instance;
  return instance;
}

// The driver that this process has open.
ncclResult_t wait_for(CUstream stream) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  static const auto synchronize =
      reinterpret_cast<CUresult (*)(CUstream)>(library != nullptr ? dlsym(library, "cuStreamSynchronize") : nullptr);
  return synchronize != nullptr && synchronize(stream) == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

// Lets the communicator be busy with it.
ncclResult_t begin(ncclComm* comm, std::function<ncclResult_t()> work) {
  const auto begun = std::make_shared<Work>();
  comm->work = begun;
  std::thread([begun, work = std::move(work)] {
    const ncclResult_t result = work();
    const std::lock_guard lock(begun->mutex);
    begun->result = result;
  }).detach();
  return ncclInProgress;
}

struct Message {
  ncclComm* comm;  // while the call lasts
  std::shared_ptr<Group> group;
  int rank;
  bool sends;
  std::byte* data;
  std::size_t bytes;
  int peer;
  CUstream stream;
};

// Of the calling thread, between GroupStart and GroupEnd.
struct Open {
  int depth = 0;
  std::vector<Message> messages;
};
Open& open() {
  thread_local Open instance;
  return instance;
}

ncclResult_t send_now(const Message& message) {
  Group& group = *message.group;
  const std::lock_guard lock(group.mutex);
  group.messages[{message.rank, message.peer}].emplace_back(message.data, message.data + message.bytes);
  group.changed.notify_all();
  return ncclSuccess;
}

ncclResult_t receive_now(const Message& message) {
  Group& group = *message.group;
  std::unique_lock lock(group.mutex);
  auto& box = group.messages[{message.peer, message.rank}];
  group.changed.wait(lock, [&] { return group.failed || !box.empty(); });
  if (group.failed) return ncclRemoteError;
  const std::vector<std::byte> bytes = std::move(box.front());
  box.pop_front();
  if (bytes.size() != message.bytes) return ncclInvalidArgument;
  std::memcpy(message.data, bytes.data(), bytes.size());
  return ncclSuccess;
}

// Sends first, so that those who wait for each other find what they wait for.
ncclResult_t run_messages(const std::vector<Message>& messages) {
  for (const bool sends : {true, false}) {
    for (const Message& message : messages) {
      if (message.sends != sends) continue;
      const ncclResult_t result = sends ? send_now(message) : receive_now(message);
      if (result != ncclSuccess) return result;
    }
  }
  return ncclSuccess;
}

ncclResult_t begin_messages(std::vector<Message> messages) {
  if (messages.empty()) return ncclSuccess;
  for (const Message& message : messages) {
    if (const ncclResult_t result = wait_for(message.stream); result != ncclSuccess) return result;
  }
  ncclComm* const comm = messages.front().comm;
  return begin(comm, [messages = std::move(messages)] { return run_messages(messages); });
}

ncclResult_t queue_message(ncclComm* comm, bool sends, const void* data, std::size_t bytes, int peer, CUstream stream) {
  if (comm == nullptr || !comm->group || peer < 0 || peer >= comm->group->ranks) return ncclInvalidArgument;
  auto* const at = static_cast<std::byte*>(const_cast<void*>(data));
  const Message message{comm, comm->group, comm->rank, sends, at, bytes, peer, stream};
  if (open().depth == 0) return begin_messages({message});
  open().messages.push_back(message);
  return ncclSuccess;
}

ncclResult_t collective(ncclComm* comm, CUstream stream, const Call& call) {
  if (comm == nullptr || !comm->group) return ncclInvalidArgument;
  if (const ncclResult_t result = wait_for(stream); result != ncclSuccess) return result;
  return begin(comm, [group = comm->group, rank = comm->rank, call] { return run(*group, rank, call); });
}

// Every rank has voted: each part's ranks get their group.
void resolve(Split& split) {
  std::map<int, std::vector<Split::Vote>> parts;
  for (const Split::Vote& vote : split.votes) {
    if (vote.part != nullptr) parts[vote.color].push_back(vote);
  }
  for (auto& [color, votes] : parts) {
    std::sort(votes.begin(), votes.end(), [](const Split::Vote& a, const Split::Vote& b) {
      return std::pair(a.key, a.rank) < std::pair(b.key, b.rank);
    });
    const auto group = std::make_shared<Group>(static_cast<int>(votes.size()));
    const auto splits = std::make_shared<std::map<int, std::shared_ptr<Split>>>();
    group->joined = group->ranks;
    for (std::size_t r = 0; r < votes.size(); ++r) {
      votes[r].part->rank = static_cast<int>(r);
      votes[r].part->splits = splits;
      votes[r].part->group = group;
    }
  }
  split.done = true;
}

}  // namespace

#define TERN_FAKE_DECLARE(member, parameters) \
  __attribute__((visibility("default"))) ncclResult_t member parameters asm("nccl" #member);
TERN_CUDA_NCCL(TERN_FAKE_DECLARE)
#undef TERN_FAKE_DECLARE
__attribute__((visibility("default"))) const char* GetErrorString(ncclResult_t result) asm("ncclGetErrorString");

const char* GetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "the fake refuses"; }

ncclResult_t GetVersion(int* version) {
  *version = 22803;
  return ncclSuccess;
}

ncclResult_t GetUniqueId(ncclUniqueId* id) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  *id = {};
  const std::uint64_t number = all.next++;
  std::memcpy(id->internal, &number, sizeof number);
  all.groups[number] = nullptr;
  return ncclSuccess;
}

ncclResult_t CommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0) return ncclInvalidArgument;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const auto found = all.groups.find(number);
  if (found == all.groups.end()) return ncclInvalidArgument;
  static std::map<Group*, std::shared_ptr<std::map<int, std::shared_ptr<Split>>>> splits;
  if (!found->second) found->second = std::make_shared<Group>(ranks);
  const std::shared_ptr<Group> group = found->second;
  if (group->ranks != ranks) return ncclInvalidArgument;
  auto& rounds = splits[group.get()];
  if (!rounds) rounds = std::make_shared<std::map<int, std::shared_ptr<Split>>>();
  auto made = std::make_unique<ncclComm>();
  made->group = group;
  made->rank = rank;
  made->splits = rounds;
  const std::lock_guard group_lock(group->mutex);
  if (++group->joined == ranks) {
    splits.erase(group.get());
    all.groups.erase(found);
  }
  *comm = made.release();
  return ncclInProgress;
}

ncclResult_t CommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* /*config*/) {
  if (comm == nullptr || !comm->group) return ncclInvalidArgument;
  const std::lock_guard lock(comm->group->mutex);
  auto& split = (*comm->splits)[comm->split_count++];
  if (!split) split = std::make_shared<Split>();
  *part = color < 0 ? nullptr : new ncclComm();
  split->votes.push_back({color, key, comm->rank, *part});
  comm->pending = split;
  if (static_cast<int>(split->votes.size()) == comm->group->ranks) resolve(*split);
  return ncclInProgress;
}

ncclResult_t CommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (comm == nullptr) return ncclInvalidArgument;
  *state = ncclInProgress;
  const std::shared_ptr<Group> group = comm->group;
  if (!group) return ncclSuccess;
  const std::lock_guard lock(group->mutex);
  if (comm->work) {
    const std::lock_guard work_lock(comm->work->mutex);
    if (comm->work->result != ncclSuccess) {
      *state = comm->work->result;
      return ncclSuccess;
    }
  }
  const bool busy = group->joined < group->ranks || (comm->pending && !comm->pending->done);
  *state = group->failed ? ncclRemoteError : busy ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t CommCount(ncclComm_t comm, int* ranks) {
  *ranks = comm->group->ranks;
  return ncclSuccess;
}
ncclResult_t CommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t CommFinalize(ncclComm_t /*comm*/) { return ncclSuccess; }
ncclResult_t CommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t CommAbort(ncclComm_t comm) {
  if (comm->group) comm->group->fail();
  delete comm;
  return ncclSuccess;
}

ncclResult_t AllReduce(const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                       ncclComm_t comm, CUstream stream) {
  return collective(
      comm, stream,
      {Kind::all_reduce, static_cast<const std::byte*>(from), static_cast<std::byte*>(to), count, dtype, op, 0});
}
ncclResult_t AllGather(const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclComm_t comm,
                       CUstream stream) {
  return collective(
      comm, stream,
      {Kind::all_gather, static_cast<const std::byte*>(from), static_cast<std::byte*>(to), count, dtype, ncclSum, 0});
}
ncclResult_t ReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, CUstream stream) {
  return collective(
      comm, stream,
      {Kind::reduce_scatter, static_cast<const std::byte*>(from), static_cast<std::byte*>(to), count, dtype, op, 0});
}
ncclResult_t Broadcast(const void* from, void* to, std::size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
                       CUstream stream) {
  return collective(
      comm, stream,
      {Kind::broadcast, static_cast<const std::byte*>(from), static_cast<std::byte*>(to), count, dtype, ncclSum, root});
}
ncclResult_t Send(const void* from, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                  CUstream stream) {
  return queue_message(comm, true, from, count * bytes_of(dtype), peer, stream);
}
ncclResult_t Recv(void* to, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm, CUstream stream) {
  return queue_message(comm, false, to, count * bytes_of(dtype), peer, stream);
}

ncclResult_t GroupStart() {
  ++open().depth;
  return ncclSuccess;
}
ncclResult_t GroupEnd() {
  if (open().depth == 0) return ncclInvalidUsage;
  if (--open().depth > 0) return ncclSuccess;
  return begin_messages(std::exchange(open().messages, {}));
}

}  // namespace tern::cuda::fake_nccl
