#include "tests/fakes/cuda/nccl/group.h"

#include <algorithm>
#include <cstring>

namespace tern::cuda::fake_nccl {
namespace {

float widen(std::uint16_t bits, ncclDataType_t dtype) {
  if (dtype == ncclFloat16) {
    _Float16 half{};
    std::memcpy(&half, &bits, sizeof half);
    return static_cast<float>(half);
  }
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

std::uint16_t narrow(float value, ncclDataType_t dtype) {
  std::uint16_t bits = 0;
  if (dtype == ncclFloat16) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
  }
  std::uint32_t wide = 0;
  std::memcpy(&wide, &value, sizeof wide);
  return static_cast<std::uint16_t>((wide + 0x7fffU + (wide >> 16 & 1U)) >> 16);
}

template <typename T>
T combine(T a, T b, ncclRedOp_t op) {
  if (op == ncclMax) return std::max(a, b);
  if (op == ncclMin) return std::min(a, b);
  return static_cast<T>(a + b);
}

// to[i] = the reduction over ranks of parts[rank][i]; 16-bit floats are rounded once.
template <typename T, typename Load, typename Store>
void reduce(std::byte* to, const std::vector<const std::byte*>& parts, std::size_t count, ncclRedOp_t op, Load load,
            Store store) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum = load(parts[0], i);
    for (std::size_t r = 1; r < parts.size(); ++r) sum = combine<T>(sum, load(parts[r], i), op);
    if (op == ncclAvg) sum = static_cast<T>(sum / static_cast<T>(parts.size()));
    store(to, i, sum);
  }
}

template <typename T>
void reduce_plain(std::byte* to, const std::vector<const std::byte*>& parts, std::size_t count, ncclRedOp_t op) {
  reduce<T>(
      to, parts, count, op,
      [](const std::byte* from, std::size_t i) {
        T value{};
        std::memcpy(&value, from + i * sizeof value, sizeof value);
        return value;
      },
      [](std::byte* at, std::size_t i, T value) { std::memcpy(at + i * sizeof value, &value, sizeof value); });
}

void reduce_any(std::byte* to, const std::vector<const std::byte*>& parts, const Call& call) {
  switch (call.dtype) {
    case ncclInt8:
      return reduce_plain<std::int8_t>(to, parts, call.count, call.op);
    case ncclUint8:
      return reduce_plain<std::uint8_t>(to, parts, call.count, call.op);
    case ncclInt32:
      return reduce_plain<std::int32_t>(to, parts, call.count, call.op);
    case ncclUint32:
      return reduce_plain<std::uint32_t>(to, parts, call.count, call.op);
    case ncclInt64:
      return reduce_plain<std::int64_t>(to, parts, call.count, call.op);
    case ncclUint64:
      return reduce_plain<std::uint64_t>(to, parts, call.count, call.op);
    case ncclFloat32:
      return reduce_plain<float>(to, parts, call.count, call.op);
    case ncclFloat64:
      return reduce_plain<double>(to, parts, call.count, call.op);
    default:
      reduce<float>(
          to, parts, call.count, call.op,
          [&](const std::byte* from, std::size_t i) {
            std::uint16_t bits = 0;
            std::memcpy(&bits, from + 2 * i, 2);
            return widen(bits, call.dtype);
          },
          [&](std::byte* at, std::size_t i, float value) {
            const std::uint16_t bits = narrow(value, call.dtype);
            std::memcpy(at + 2 * i, &bits, 2);
          });
  }
}

bool agree(const std::vector<Call>& calls) {
  return std::all_of(calls.begin(), calls.end(), [&](const Call& call) {
    const Call& first = calls.front();
    return call.kind == first.kind && call.count == first.count && call.dtype == first.dtype && call.op == first.op &&
           call.root == first.root;
  });
}

// What this rank's destination gets.
std::vector<std::byte> result_of(const std::vector<Call>& calls, int rank) {
  const Call& own = calls[static_cast<std::size_t>(rank)];
  const std::size_t bytes = own.count * bytes_of(own.dtype);
  std::vector<std::byte> out;
  if (own.kind == Kind::broadcast) {
    const std::byte* const from = calls[static_cast<std::size_t>(own.root)].from;
    return {from, from + bytes};
  }
  if (own.kind == Kind::all_gather) {
    for (const Call& call : calls) out.insert(out.end(), call.from, call.from + bytes);
    return out;
  }
  const std::size_t begin = own.kind == Kind::reduce_scatter ? static_cast<std::size_t>(rank) * bytes : 0;
  std::vector<const std::byte*> parts;
  for (const Call& call : calls) parts.push_back(call.from + begin);
  out.resize(bytes);
  reduce_any(out.data(), parts, own);
  return out;
}

}  // namespace

std::size_t bytes_of(ncclDataType_t dtype) {
  switch (dtype) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

bool Group::meet() {
  std::unique_lock lock(mutex);
  const std::uint64_t now = generation;
  if (++arrived == ranks) {
    arrived = 0;
    ++generation;
    changed.notify_all();
  }
  changed.wait(lock, [&] { return failed || generation != now; });
  return !failed;
}

void Group::fail() {
  const std::lock_guard lock(mutex);
  failed = true;
  changed.notify_all();
}

ncclResult_t run(Group& group, int rank, const Call& call) {
  {
    const std::lock_guard lock(group.mutex);
    group.calls[static_cast<std::size_t>(rank)] = call;
  }
  if (!group.meet()) return ncclRemoteError;
  if (!agree(group.calls)) {
    group.fail();
    return ncclInvalidArgument;
  }
  const std::vector<std::byte> out = result_of(group.calls, rank);
  if (!group.meet()) return ncclRemoteError;  // all have read
  std::memcpy(call.to, out.data(), out.size());
  return group.meet() ? ncclSuccess : ncclRemoteError;  // nobody begins the next before all have written
}

}  // namespace tern::cuda::fake_nccl
