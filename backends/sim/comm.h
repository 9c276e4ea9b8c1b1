// Who is in a communicator, and what they are doing together.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "backends/sim/collective.h"

namespace tern::sim {

struct Group;

// One comm_split: what each rank asked for, and the groups that came of it.
struct Split {
  std::vector<std::optional<std::pair<std::int32_t, std::int32_t>>> votes;  // colour and key, per rank
  std::map<std::int32_t, std::shared_ptr<Group>> parts;                     // by colour, once all have voted
  int left = 0;                                                             // ranks that have gone on
  bool failed = false;                                                      // a rank didn't come in time
};

// The ranks that made a communicator from one id.
struct Group {
  explicit Group(int ranks)
      : joined(static_cast<std::size_t>(ranks)),
        called(static_cast<std::size_t>(ranks)),
        split_calls(static_cast<std::size_t>(ranks)) {}
  std::vector<bool> joined;                                                   // per rank
  std::vector<std::uint64_t> called;                                          // collectives so far, per rank
  std::map<std::uint64_t, std::shared_ptr<Collective>> collectives;           // under way, by their number
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters;  // sent, by sender and receiver
  std::map<std::uint64_t, std::shared_ptr<Split>> splits;                     // under way, by their number
  std::vector<std::uint64_t> split_calls;                                     // so far, per rank
  std::string error;  // not empty: the group has failed for good
  [[nodiscard]] int ranks() const { return static_cast<int>(joined.size()); }
};

struct Comm {
  struct Call {
    std::shared_ptr<Stream> stream;
    Work work;
  };
  std::shared_ptr<Opened> opened;  // counts its collectives
  std::shared_ptr<Device> device;
  std::shared_ptr<Group> group;
  int rank = 0;
  bool grouped = false;  // between group_begin and group_end
  std::vector<Call> sends;
  std::vector<Call> others;
  ~Comm() { device->give(Use::comm, device->info.comm_bytes); }
};

}  // namespace tern::sim
