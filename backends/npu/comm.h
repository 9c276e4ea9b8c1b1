// A communicator, and what its calls share.
#pragma once

#include <functional>
#include <vector>

#include "backends/npu/hccl.h"
#include "backends/npu/runtime.h"

namespace tern::npu {

struct Comm {
  // A send or a receive of a group, with the two ranks that it is between.
  struct Message {
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::function<void()> start;
  };
  std::shared_ptr<Shared> shared;
  HcclComm handle = nullptr;
  std::int32_t ranks = 0;
  std::int32_t rank = 0;
  std::uint64_t bytes = 0;
  bool grouped = false;  // between group_begin and group_end
  std::vector<std::function<void()>> calls;
  std::vector<Message> messages;
  std::vector<std::pair<void*, std::uint64_t>> scratch;  // of averages; the last is the largest
};

// The dtype that HCCL moves elements as; those that are only moved count by their bytes.
[[nodiscard]] HcclDataType moved_dtype(tern_dtype dtype);
[[nodiscard]] std::uint64_t element_bytes(tern_dtype dtype);

}  // namespace tern::npu

struct tern_comm_s : tern::npu::Comm {};
