// Ranks of one process that meet: what NCCL's kernels do between devices, done by the thread that calls.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/nccl.h"

namespace tern::cuda {

namespace fake_nccl {

enum class Kind { all_reduce, all_gather, reduce_scatter, broadcast };

// What a rank brings to a collective: all must bring the same but for addresses.
struct Call {
  Kind kind = Kind::all_reduce;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t dtype = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};

struct Group {
  explicit Group(int size) : ranks(size), calls(static_cast<std::size_t>(size)) {}
  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  bool failed = false;  // aborted by a rank, or the ranks don't agree
  std::vector<Call> calls;
  int arrived = 0;
  std::uint64_t generation = 0;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages;  // by [from, to]

  // Every rank comes here before any goes on; false where the group has failed.
  bool meet();
  void fail();
};

// One round of comm_split: who is in which part.
struct Split {
  struct Vote {
    int color = 0;
    int key = 0;
    int rank = 0;
    ncclComm* part = nullptr;
  };
  std::vector<Vote> votes;
  bool done = false;
};

[[nodiscard]] std::size_t bytes_of(ncclDataType_t dtype);
// A collective of one rank; the stream has come so far.
ncclResult_t run(Group& group, int rank, const Call& call);

// What a communicator is busy with: a thread of its own waits for the other ranks.
struct Work {
  std::mutex mutex;
  ncclResult_t result = ncclInProgress;
};

}  // namespace fake_nccl

struct ncclComm {
  std::shared_ptr<fake_nccl::Group> group;                                   // null: the split that makes it isn't done
  std::shared_ptr<std::map<int, std::shared_ptr<fake_nccl::Split>>> splits;  // of the group, by their number
  std::shared_ptr<fake_nccl::Split> pending;                                 // that this rank waits for
  std::shared_ptr<fake_nccl::Work> work;                                     // the last
  int rank = 0;
  int split_count = 0;
};

}  // namespace tern::cuda
