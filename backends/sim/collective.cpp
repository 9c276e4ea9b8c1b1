#include "backends/sim/collective.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/strings.h"
#include "ops/ref/tensor.h"

namespace tern::sim {
namespace {

using ops::ref::Tensor;

Tensor decode(std::span<const std::byte> bytes, std::uint64_t count, tern_dtype dtype) {
  const std::span<const std::byte> planes[] = {bytes, {}, {}, {}};
  return ops::ref::decode(make_desc(dtype, {static_cast<std::int64_t>(count)}), planes);
}

template <typename T>
void combine(std::vector<T>& into, const std::vector<T>& from, std::int32_t reduce) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    switch (reduce) {
      case TERN_REDUCE_SUM:
      case TERN_REDUCE_AVERAGE:
        into[i] += from[i];
        break;
      case TERN_REDUCE_MAX:
        into[i] = std::max(into[i], from[i]);
        break;
      default:
        into[i] = std::min(into[i], from[i]);
        break;
    }
  }
}

std::span<std::byte> source(const Part& part, std::size_t rank, std::size_t ranks) {
  return world().plane(part.src, extent_of(part, ranks).src, cat("source of rank ", rank));
}
std::span<std::byte> destination(const Part& part, std::size_t rank, std::size_t ranks) {
  return world().plane(part.dst, extent_of(part, ranks).dst, cat("destination of rank ", rank));
}

void check_agreement(const std::vector<Part>& parts) {
  const Part& first = parts[0];
  for (std::size_t r = 1; r < parts.size(); ++r) {
    const Part& part = parts[r];
    const bool same_count = first.kind == CollectiveKind::all_to_all || part.count == first.count;
    if (part.kind != first.kind || part.dtype != first.dtype || part.reduce != first.reduce ||
        part.root != first.root || !same_count) {
      fail(TERN_INVALID_ARGUMENT, cat("rank 0 and rank ", r, " call different collectives"));
    }
  }
}

// The elements of all ranks' sources, combined.
Tensor reduced(const std::vector<Part>& parts, std::uint64_t count) {
  Tensor sum;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const Tensor mine = decode(source(parts[r], r, parts.size()), count, parts[r].dtype);
    if (r == 0) {
      sum = mine;
    } else {
      combine(sum.real, mine.real, parts[0].reduce);
      combine(sum.integer, mine.integer, parts[0].reduce);
    }
  }
  if (parts[0].reduce == TERN_REDUCE_AVERAGE) {
    for (double& element : sum.real) element /= static_cast<double>(parts.size());
  }
  return sum;
}

void reduce(const std::vector<Part>& parts) {
  const Part& first = parts[0];
  const bool scatter = first.kind == CollectiveKind::reduce_scatter;
  const std::uint64_t count = scatter ? first.count * parts.size() : first.count;
  const Tensor sum = reduced(parts, count);
  std::vector<std::byte> bytes(element_bytes(count, first.dtype));
  ops::ref::encode(sum, sum.desc, bytes);
  const std::size_t share = scatter ? bytes.size() / parts.size() : 0;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const auto to = destination(parts[r], r, parts.size());
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(r * share), to.size(), to.begin());
  }
}

void gather(const std::vector<Part>& parts) {
  std::vector<std::byte> all;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const auto from = source(parts[r], r, parts.size());
    all.insert(all.end(), from.begin(), from.end());
  }
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const auto to = destination(parts[r], r, parts.size());
    std::copy(all.begin(), all.end(), to.begin());
  }
}

void broadcast_from_root(const std::vector<Part>& parts) {
  const std::size_t root = static_cast<std::size_t>(parts[0].root);
  const auto from = source(parts[root], root, parts.size());
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const auto to = destination(parts[r], r, parts.size());
    if (r != root) std::copy(from.begin(), from.end(), to.begin());
  }
}

void exchange(const std::vector<Part>& parts) {
  const std::size_t ranks = parts.size();
  std::vector<std::vector<std::byte>> received(ranks);
  for (std::size_t to = 0; to < ranks; ++to) {
    for (std::size_t from = 0; from < ranks; ++from) {
      const Part& sender = parts[from];
      if (sender.send_counts[to] != parts[to].receive_counts[from]) {
        fail(TERN_INVALID_ARGUMENT, cat("all_to_all: rank ", from, " sends ", sender.send_counts[to],
                                        " elements, rank ", to, " receives ", parts[to].receive_counts[from]));
      }
      std::uint64_t before = 0;
      for (std::size_t r = 0; r < to; ++r) before += sender.send_counts[r];
      const auto piece =
          source(sender, from, ranks)
              .subspan(element_bytes(before, sender.dtype), element_bytes(sender.send_counts[to], sender.dtype));
      received[to].insert(received[to].end(), piece.begin(), piece.end());
    }
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    std::copy(received[r].begin(), received[r].end(), destination(parts[r], r, ranks).begin());
  }
}

std::uint64_t total(const std::vector<std::uint64_t>& counts) {
  std::uint64_t sum = 0;
  for (std::uint64_t count : counts) {
    if (count > UINT64_MAX - sum) fail(TERN_INVALID_ARGUMENT, "all_to_all: the counts are no size");
    sum += count;
  }
  return sum;
}

}  // namespace

std::uint64_t element_bytes(std::uint64_t count, tern_dtype dtype) {
  if (dtype < 0 || dtype >= TERN_DTYPE_COUNT) fail(TERN_INVALID_ARGUMENT, cat("dtype ", dtype, " is none"));
  const auto size = static_cast<std::uint64_t>(dtype_bytes(dtype));
  if (count > (std::uint64_t{1} << 48) / size) fail(TERN_INVALID_ARGUMENT, cat(count, " elements are too many"));
  return count * size;
}

Extent extent_of(const Part& part, std::size_t ranks) {
  const std::uint64_t one = element_bytes(part.count, part.dtype);
  const std::uint64_t all = element_bytes(part.count, part.dtype) * ranks;
  switch (part.kind) {
    case CollectiveKind::all_gather:
      return {one, all};
    case CollectiveKind::reduce_scatter:
      return {all, one};
    case CollectiveKind::all_to_all:
      return {element_bytes(total(part.send_counts), part.dtype),
              element_bytes(total(part.receive_counts), part.dtype)};
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
      break;
  }
  return {one, one};
}

void run_collective(const Collective& collective) {
  check_agreement(collective.parts);
  switch (collective.parts[0].kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      return reduce(collective.parts);
    case CollectiveKind::all_gather:
      return gather(collective.parts);
    case CollectiveKind::broadcast:
      return broadcast_from_root(collective.parts);
    case CollectiveKind::all_to_all:
      return exchange(collective.parts);
  }
}

}  // namespace tern::sim
