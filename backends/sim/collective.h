// What one collective does with the data of all ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/sim/world.h"

namespace tern::sim {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all };

// One rank's share of a collective.
struct Part {
  CollectiveKind kind = CollectiveKind::all_reduce;
  tern_plane dst{};
  tern_plane src{};
  std::uint64_t count = 0;  // elements, as the interface counts them
  tern_dtype dtype = TERN_F32;
  std::int32_t reduce = TERN_REDUCE_SUM;
  std::int32_t root = 0;
  std::vector<std::uint64_t> send_counts;     // all_to_all
  std::vector<std::uint64_t> receive_counts;  // all_to_all
  std::shared_ptr<Stream> stream;             // null: this rank has not called yet
};

struct Collective {
  std::vector<Part> parts;  // per rank
  bool done = false;
  int left = 0;  // ranks that have gone on
};

// Bytes of `count` elements; throws where that is no size.
[[nodiscard]] std::uint64_t element_bytes(std::uint64_t count, tern_dtype dtype);
// Bytes that a rank reads and writes; throws where they are no sizes.
struct Extent {
  std::uint64_t src = 0;
  std::uint64_t dst = 0;
};
[[nodiscard]] Extent extent_of(const Part& part, std::size_t ranks);

// Runs it for all ranks at once: sums in fp64 in the order of ranks, rounded once. Throws where the ranks disagree on
// what they do.
void run_collective(const Collective& collective);

}  // namespace tern::sim
