#include "tests/fakes/cann/hccl/numbers.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/npu/cann/hccl.h"
#include "base/half.h"

namespace tern::fake_hccl {
namespace {

template <typename Number>
Number combine(Number a, Number b, std::int32_t reduce) {
  switch (reduce) {
    case HCCL_REDUCE_SUM:
      return static_cast<Number>(a + b);
    case HCCL_REDUCE_PROD:
      return static_cast<Number>(a * b);
    case HCCL_REDUCE_MAX:
      return std::max(a, b);
    default:
      return std::min(a, b);
  }
}

// `Stored` in memory, `Number` in sums.
template <typename Stored, typename Number, typename Widen, typename Narrow>
void reduce_as(std::byte* into, const std::byte* const* parts, std::uint32_t ranks, std::size_t count,
               std::int32_t reduce, Widen widen, Narrow narrow) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto read = [&](std::uint32_t rank) {
      Stored stored;
      std::memcpy(&stored, parts[rank] + i * sizeof(Stored), sizeof(Stored));
      return static_cast<Number>(widen(stored));
    };
    Number total = read(0);
    for (std::uint32_t rank = 1; rank < ranks; ++rank) total = combine(total, read(rank), reduce);
    const Stored stored = narrow(total);
    std::memcpy(into + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

template <typename Number>
void reduce_plain(std::byte* into, const std::byte* const* parts, std::uint32_t ranks, std::size_t count,
                  std::int32_t reduce) {
  const auto same = [](Number number) { return number; };
  reduce_as<Number, Number>(into, parts, ranks, count, reduce, same, same);
}

}  // namespace

std::size_t bytes_of(std::int32_t dtype) {
  constexpr std::array<std::size_t, 12> kBytes = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2};  // by HcclDataType
  return dtype < 0 || dtype >= static_cast<std::int32_t>(kBytes.size()) ? 0 : kBytes[static_cast<std::size_t>(dtype)];
}

bool is_reducible(std::int32_t dtype, std::int32_t reduce, bool chip_has_bf16) {
  switch (dtype) {
    case HCCL_DATA_TYPE_BFP16:
      return chip_has_bf16 && reduce != HCCL_REDUCE_PROD;
    case HCCL_DATA_TYPE_INT16:
      return reduce != HCCL_REDUCE_PROD;
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_FP32:
      return true;
    default:
      return false;
  }
}

void reduce_parts(std::byte* into, const std::byte* const* parts, std::uint32_t ranks, std::size_t count,
                  std::int32_t dtype, std::int32_t reduce) {
  switch (dtype) {
    case HCCL_DATA_TYPE_BFP16:
      reduce_as<std::uint16_t, float>(into, parts, ranks, count, reduce, bf16_to_float, float_to_bf16);
      break;
    case HCCL_DATA_TYPE_FP16:
      reduce_as<std::uint16_t, float>(into, parts, ranks, count, reduce, fp16_to_float, float_to_fp16);
      break;
    case HCCL_DATA_TYPE_FP32:
      reduce_plain<float>(into, parts, ranks, count, reduce);
      break;
    case HCCL_DATA_TYPE_INT8:
      reduce_plain<std::int8_t>(into, parts, ranks, count, reduce);
      break;
    case HCCL_DATA_TYPE_INT16:
      reduce_plain<std::int16_t>(into, parts, ranks, count, reduce);
      break;
    case HCCL_DATA_TYPE_INT32:
      reduce_plain<std::int32_t>(into, parts, ranks, count, reduce);
      break;
    default:
      reduce_plain<std::int64_t>(into, parts, ranks, count, reduce);
  }
}

}  // namespace tern::fake_hccl
