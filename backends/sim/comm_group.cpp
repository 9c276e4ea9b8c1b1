// Communicators between the simulated devices of one process: how ranks meet, part and end.
#include <algorithm>

#include "backends/sim/comm.h"
#include "backends/sim/interface.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

// By the number in their id; guarded by the world's lock.
std::map<std::uint64_t, std::weak_ptr<Group>>& groups() {
  static std::map<std::uint64_t, std::weak_ptr<Group>> instance;
  return instance;
}

tern_comm_options take_options(const tern_comm_options* given) {
  tern_comm_options own{};
  if (given == nullptr) return own;
  tern_plugin::require(tern_plugin_take_struct(&own, sizeof own, sizeof own, given));
  if (own.reserved != 0) fail(TERN_UNSUPPORTED, "a communicator's options: a reserved member isn't 0");
  require(own.timeout_ms >= 0, "a communicator's options: expected a timeout of 0 ms or more");
  return own;
}

std::shared_ptr<Comm> join(const std::shared_ptr<Opened>& opened, const std::shared_ptr<Group>& group, int rank) {
  const auto& device = opened->device;
  const std::uint64_t bytes = device->info.comm_bytes;
  if (bytes > device->info.memory_bytes - std::min(device->in_use(), device->info.memory_bytes)) {
    fail(TERN_OUT_OF_MEMORY, cat(device->name(), ": a communicator takes ", human_bytes(bytes), ", and less is free"));
  }
  auto made = std::make_shared<Comm>();
  device->take(Use::comm, bytes);
  made->opened = opened;
  made->device = device;
  made->group = group;
  made->rank = rank;
  group->joined[static_cast<std::size_t>(rank)] = true;
  return made;
}

// The groups of a split that all ranks have voted in.
void make_parts(Split& split) {
  std::map<std::int32_t, int> sizes;
  for (const auto& vote : split.votes) ++sizes[vote->first];
  for (const auto& [color, size] : sizes) {
    if (color >= 0) split.parts[color] = std::make_shared<Group>(size);
  }
}

// A rank's place in its part: by key, then by its rank.
int rank_in_part(const Split& split, std::size_t rank) {
  int before = 0;
  const auto mine = *split.votes[rank];
  for (std::size_t r = 0; r < split.votes.size(); ++r) {
    const auto& other = *split.votes[r];
    if (other.first == mine.first && std::pair(other.second, r) < std::pair(mine.second, rank)) ++before;
  }
  return before;
}

}  // namespace

tern_status comm_unique_id(tern_comm_id* id) {
  return guarded([&](auto&) {
    require(id != nullptr, "comm_unique_id: no place for the id");
    const auto config = read_config();
    if (!config) fail(TERN_INVALID_ARGUMENT, config.error().line());
    if ((describe(config.value(), 0).capabilities & TERN_CAP_COLLECTIVES) == 0) {
      fail(TERN_UNSUPPORTED, "this device has no collectives of its own");
    }
    static std::uint64_t next = 1;
    *id = {};
    const std::uint64_t number = next++;
    for (int b = 0; b < 8; ++b) id->bytes[b] = static_cast<std::uint8_t>(number >> (8 * b));
  });
}

tern_status comm_init(tern_device device, const tern_comm_id* id, int32_t ranks, int32_t rank,
                      const tern_comm_options* options, tern_comm* out) {
  return guarded([&](auto& lock) {
    require(id != nullptr && out != nullptr, "comm_init: a null argument");
    const tern_comm_options own = take_options(options);
    const std::shared_ptr<Opened> opened = world().present(device);
    const auto& d = opened->device;
    require_alive(*d);
    if (!d->can(TERN_CAP_COLLECTIVES)) fail(TERN_UNSUPPORTED, cat(d->name(), " has no collectives of its own"));
    require(ranks > 0 && rank >= 0 && rank < ranks, cat("comm_init: rank ", rank, " of ", ranks, " is none"));
    std::uint64_t number = 0;
    for (int b = 0; b < 8; ++b) number |= std::uint64_t{id->bytes[b]} << (8 * b);
    auto group = groups()[number].lock();
    if (!group) {
      group = std::make_shared<Group>(ranks);
      groups()[number] = group;
    }
    require(group->ranks() == ranks, cat("comm_init: ", ranks, " ranks here, ", group->ranks(), " elsewhere"));
    require(!group->joined[static_cast<std::size_t>(rank)], cat("comm_init: rank ", rank, " has joined before"));
    auto made = join(opened, group, rank);
    // Ranks may also be made one after another by one thread: only who names a deadline waits here.
    if (own.timeout_ms > 0) {
      const auto all_here = [&] {
        return std::find(group->joined.begin(), group->joined.end(), false) == group->joined.end();
      };
      world().changed.notify_all();
      try {
        world().drive(lock, std::chrono::milliseconds(own.timeout_ms), all_here);
      } catch (const SimError&) {
        group->joined[static_cast<std::size_t>(rank)] = false;
        const auto here = std::count(group->joined.begin(), group->joined.end(), true) + 1;
        fail(TERN_TIMEOUT, cat("comm_init: ", here, " of ", ranks, " ranks came within ", own.timeout_ms, " ms"));
      }
    }
    *out = world().comms.add(std::move(made));
    world().changed.notify_all();
  });
}

tern_status comm_split(tern_comm comm, int32_t color, int32_t key, const tern_comm_options* options, tern_comm* part) {
  return guarded([&](auto& lock) {
    require(part != nullptr, "comm_split: no place for the part");
    require(color >= -1, cat("comm_split: colour ", color, " is none"));
    const tern_comm_options own = take_options(options);
    const auto whole = world().comms.at(comm);
    const auto group = whole->group;
    if (!group->error.empty()) fail(TERN_ASYNC_ERROR, group->error);
    const auto rank = static_cast<std::size_t>(whole->rank);
    const std::uint64_t number = group->split_calls[rank]++;
    auto& shared = group->splits[number];
    if (!shared) {
      shared = std::make_shared<Split>();
      shared->votes.resize(group->joined.size());
    }
    const std::shared_ptr<Split> split = shared;
    split->votes[rank] = std::pair(color, key);
    world().changed.notify_all();
    const auto timeout = own.timeout_ms > 0 ? std::chrono::milliseconds(own.timeout_ms) : whole->device->config.timeout;
    const auto has_voted = [](const auto& vote) { return vote.has_value(); };
    try {
      world().drive(lock, timeout, [&] {
        return split->failed || !group->error.empty() ||
               std::all_of(split->votes.begin(), split->votes.end(), has_voted);
      });
    } catch (const SimError&) {
      split->failed = true;
      world().changed.notify_all();
    }
    if (!group->error.empty()) fail(TERN_ASYNC_ERROR, group->error);
    if (split->failed) {
      fail(TERN_TIMEOUT, cat("comm_split: ", std::count_if(split->votes.begin(), split->votes.end(), has_voted), " of ",
                             group->ranks(), " ranks came in time"));
    }
    if (split->left++ == 0) make_parts(*split);
    if (split->left == group->ranks()) group->splits.erase(number);
    *part = nullptr;
    if (color < 0) return;
    *part = world().comms.add(join(whole->opened, split->parts.at(color), rank_in_part(*split, rank)));
  });
}

tern_status comm_info(tern_comm comm, tern_comm_info* info) {
  return guarded([&](auto&) {
    const Comm& c = *world().comms.at(comm);
    tern_comm_info filled{};
    filled.ranks = c.group->ranks();
    filled.rank = c.rank;
    filled.bytes = c.device->info.comm_bytes;
    tern_plugin::require(give_info(info, filled));
  });
}

tern_status comm_async_error(tern_comm comm, tern_text reason) {
  return guarded([&](auto&) {
    const std::string& error = world().comms.at(comm)->group->error;
    put_text(reason, error);
    if (!error.empty()) fail(TERN_ASYNC_ERROR, error);
  });
}

tern_status comm_abort(tern_comm comm) {
  return guarded([&](auto&) {
    const Comm& c = *world().comms.at(comm);
    if (!c.device->can(TERN_CAP_COMM_ABORT)) {
      fail(TERN_UNSUPPORTED, cat(c.device->name(), ": a rank that hangs ends with its process alone"));
    }
    if (c.group->error.empty()) c.group->error = cat("rank ", c.rank, " aborted");
    world().changed.notify_all();
  });
}

tern_status comm_destroy(tern_comm comm) {
  return guarded([&](auto&) {
    if (comm != nullptr) world().comms.remove(comm);
  });
}

}  // namespace tern::sim
