// Collectives between the simulated devices of one process, each rank on a stream of its own. One runs once every
// rank's stream has come to it.
#include <algorithm>

#include "backends/sim/collective.h"
#include "backends/sim/comm.h"
#include "backends/sim/interface.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

std::shared_ptr<Stream> stream_of(const Comm& comm, tern_stream stream, const char* what) {
  if (!comm.group->error.empty()) fail(TERN_ASYNC_ERROR, comm.group->error);
  auto s = world().streams.at(stream);
  require(s->device == comm.device, cat(what, ": the stream is another device's"));
  if (s->open_recording() != nullptr) fail(TERN_UNSUPPORTED, cat(what, ": collectives are not captured"));
  return s;
}

// The device's Nth collective may fail, or never end until somebody gives up or aborts: the group fails for good then.
void strike(Comm& comm, Work& work) {
  Opened& opened = *comm.opened;
  const std::uint64_t number = ++opened.counted.collectives;
  const std::string what = work.meets == nullptr ? cat("rank ", comm.rank, ": ", work.what) : work.what;
  const auto blame = [group = comm.group, what](const std::string& why) {
    if (group->error.empty()) group->error = cat(what, " ", why);
  };
  const bool fails = opened.struck(Fault::Kind::comm, number);
  const bool hangs = opened.struck(Fault::Kind::commhang, number);
  if (fails || hangs) work.meets = nullptr;  // the others never meet this rank
  if (fails) {
    work.ready = nullptr;
    work.run = [group = comm.group, blame](const HostArgs&) {
      blame("failed: the link reported a fault");
      fail(TERN_ASYNC_ERROR, group->error);
    };
  } else if (hangs) {
    work.ready = [group = comm.group] { return !group->error.empty(); };
    work.expire = [blame](std::chrono::milliseconds waited) {
      blame(cat("hasn't ended after ", waited.count(), " ms"));
    };
  }
}

void queue(Comm& comm, const std::shared_ptr<Stream>& stream, Work work, bool is_send) {
  strike(comm, work);
  if (!comm.grouped) {
    submit(*stream, std::move(work));
    return;
  }
  (is_send ? comm.sends : comm.others).push_back({stream, std::move(work)});
}

bool have_met(const Collective& collective) {
  return std::all_of(collective.parts.begin(), collective.parts.end(), [&](const Part& part) {
    return part.stream && !part.stream->queue.empty() && part.stream->queue.front().meets == &collective;
  });
}

// The rank whose stream will never come to its part, or -1.
int failed_rank(const Collective& collective) {
  for (std::size_t r = 0; r < collective.parts.size(); ++r) {
    const auto& stream = collective.parts[r].stream;
    if (stream && (stream->status != TERN_OK || stream->device->lost || !stream->device->hung.empty()))
      return static_cast<int>(r);
  }
  return -1;
}

// One rank goes on; the first of them runs the collective for all.
void pass(Group& group, Collective& collective, std::uint64_t number) {
  if (!collective.done) {
    if (const int rank = failed_rank(collective); group.error.empty() && rank >= 0) {
      group.error = cat("rank ", rank, " failed");
    }
    if (!group.error.empty()) fail(TERN_ASYNC_ERROR, group.error);
    try {
      run_collective(collective);
    } catch (const SimError& error) {
      group.error = error.what();
      throw;
    }
    collective.done = true;
  }
  if (++collective.left == group.ranks()) group.collectives.erase(number);
}

tern_status start(tern_comm handle, tern_stream stream, Part part, const char* what) {
  return guarded([&](auto&) {
    Comm& comm = *world().comms.at(handle);
    const auto group = comm.group;
    const auto ranks = static_cast<std::size_t>(group->ranks());
    const auto s = stream_of(comm, stream, what);
    require(part.reduce >= TERN_REDUCE_SUM && part.reduce <= TERN_REDUCE_AVERAGE, cat(what, ": no such reduction"));
    (void)element_bytes(part.count, part.dtype);
    require(part.reduce != TERN_REDUCE_AVERAGE || dtype_info(part.dtype).floating,
            cat(what, ": only floats have an average"));
    require(part.root >= 0 && part.root < group->ranks(), cat(what, ": rank ", part.root, " is none"));
    const Extent extent = extent_of(part, ranks);
    (void)world().plane(part.src, extent.src, cat(what, ": source"));
    (void)world().plane(part.dst, extent.dst, cat(what, ": destination"));
    const std::uint64_t number = group->called[static_cast<std::size_t>(comm.rank)]++;
    auto& shared = group->collectives[number];
    if (!shared) {
      shared = std::make_shared<Collective>();
      shared->parts.resize(ranks);
    }
    part.stream = s;
    shared->parts[static_cast<std::size_t>(comm.rank)] = std::move(part);
    Work work;
    work.what = cat(what, " of rank ", comm.rank);
    work.kind = TERN_PROFILE_COLLECTIVE;
    work.bytes = extent.src;
    work.meets = shared.get();
    work.ready = [group, shared = shared] {
      return shared->done || !group->error.empty() || failed_rank(*shared) >= 0 || have_met(*shared);
    };
    work.run = [group, shared = shared, number](const HostArgs&) { pass(*group, *shared, number); };
    queue(comm, s, std::move(work), false);
  });
}

void require_peer(const Comm& comm, int peer, const char* what) {
  require(peer >= 0 && peer < comm.group->ranks() && peer != comm.rank,
          cat(what, ": rank ", comm.rank, " of ", comm.group->ranks(), " has no peer ", peer));
}

}  // namespace

tern_status all_reduce(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype, int32_t reduce,
                       tern_stream stream) {
  return start(comm, stream, {CollectiveKind::all_reduce, dst, src, count, dtype, reduce}, "all_reduce");
}

tern_status all_gather(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                       tern_stream stream) {
  return start(comm, stream, {CollectiveKind::all_gather, dst, src, count, dtype}, "all_gather");
}

tern_status reduce_scatter(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                           int32_t reduce, tern_stream stream) {
  return start(comm, stream, {CollectiveKind::reduce_scatter, dst, src, count, dtype, reduce}, "reduce_scatter");
}

tern_status broadcast(tern_comm comm, tern_plane data, uint64_t count, tern_dtype dtype, int32_t root,
                      tern_stream stream) {
  Part part{CollectiveKind::broadcast, data, data, count, dtype};
  part.root = root;
  return start(comm, stream, std::move(part), "broadcast");
}

tern_status all_to_all(tern_comm comm, tern_plane dst, tern_plane src, const uint64_t* send_counts,
                       const uint64_t* receive_counts, tern_dtype dtype, tern_stream stream) {
  Part part{CollectiveKind::all_to_all, dst, src, 0, dtype};
  const tern_status copied = guarded([&](auto&) {
    require(send_counts != nullptr && receive_counts != nullptr, "all_to_all: no counts");
    const auto ranks = world().comms.at(comm)->group->ranks();
    part.send_counts.assign(send_counts, send_counts + ranks);
    part.receive_counts.assign(receive_counts, receive_counts + ranks);
  });
  return copied == TERN_OK ? start(comm, stream, std::move(part), "all_to_all") : copied;
}

tern_status send(tern_comm comm, tern_plane src, uint64_t count, tern_dtype dtype, int32_t peer, tern_stream stream) {
  return guarded([&](auto&) {
    Comm& c = *world().comms.at(comm);
    require_peer(c, peer, "send");
    const auto s = stream_of(c, stream, "send");
    const std::uint64_t bytes = element_bytes(count, dtype);
    (void)world().plane(src, bytes, "send");
    Work work;
    work.what = cat("send to rank ", peer);
    work.kind = TERN_PROFILE_COLLECTIVE;
    work.bytes = bytes;
    work.run = [group = c.group, route = std::pair(c.rank, static_cast<int>(peer)), src, bytes](const HostArgs&) {
      if (!group->error.empty()) fail(TERN_ASYNC_ERROR, group->error);
      const auto from = world().plane(src, bytes, "source");
      group->letters[route].emplace_back(from.begin(), from.end());
    };
    queue(c, s, std::move(work), true);
  });
}

tern_status receive(tern_comm comm, tern_plane dst, uint64_t count, tern_dtype dtype, int32_t peer,
                    tern_stream stream) {
  return guarded([&](auto&) {
    Comm& c = *world().comms.at(comm);
    require_peer(c, peer, "receive");
    const auto s = stream_of(c, stream, "receive");
    const std::uint64_t bytes = element_bytes(count, dtype);
    (void)world().plane(dst, bytes, "receive");
    const auto route = std::pair(static_cast<int>(peer), c.rank);
    Work work;
    work.what = cat("receive from rank ", peer);
    work.kind = TERN_PROFILE_COLLECTIVE;
    work.bytes = bytes;
    work.ready = [group = c.group, route] { return !group->error.empty() || !group->letters[route].empty(); };
    work.run = [group = c.group, route, dst, bytes](const HostArgs&) {
      if (!group->error.empty()) fail(TERN_ASYNC_ERROR, group->error);
      const auto to = world().plane(dst, bytes, "destination");
      const std::vector<std::byte> letter = std::move(group->letters[route].front());
      group->letters[route].pop_front();
      if (letter.size() != bytes) {
        fail(TERN_INVALID_ARGUMENT, cat("expected ", bytes, " bytes, rank ", route.first, " sent ", letter.size()));
      }
      std::copy(letter.begin(), letter.end(), to.begin());
    };
    queue(c, s, std::move(work), false);
  });
}

tern_status group_begin(tern_comm comm) {
  return guarded([&](auto&) {
    Comm& c = *world().comms.at(comm);
    require(!c.grouped, "group_begin: groups do not nest");
    c.grouped = true;
  });
}

tern_status group_end(tern_comm comm) {
  return guarded([&](auto&) {
    Comm& c = *world().comms.at(comm);
    require(c.grouped, "group_end: no group was begun");
    c.grouped = false;
    // Within a group nothing waits for anything: what is sent goes first.
    for (auto* calls : {&c.sends, &c.others}) {
      for (Comm::Call& call : std::exchange(*calls, {})) submit(*call.stream, std::move(call.work));
    }
  });
}

}  // namespace tern::sim
