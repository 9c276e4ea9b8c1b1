// What one rank does in a collective. It runs on the thread of its stream and waits there for the others.
#pragma once

#include <vector>

#include "tests/fakes/cann/hccl/segment.h"

namespace tern::fake_hccl {

enum class Kind : std::int32_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, barrier, messages };

// Part of an all-to-all, in bytes.
struct Parcel {
  std::uint64_t send_bytes = 0;
  std::uint64_t send_offset = 0;
  std::uint64_t receive_bytes = 0;
  std::uint64_t receive_offset = 0;
};

struct Message {
  bool send = false;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::int32_t dtype = 0;
  std::uint32_t peer = 0;
};

// Pointers are host-visible.
struct Exchange {
  Kind kind = Kind::barrier;
  std::int32_t dtype = 0;
  std::int32_t reduce = 0;
  std::uint32_t root = 0;
  std::uint64_t count = 0;
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::vector<Parcel> parcels;
  std::vector<Message> messages;
};

// False if the communicator has failed; its header says why.
bool run_exchange(Segment& segment, std::uint32_t rank, const Exchange& exchange);

}  // namespace tern::fake_hccl
