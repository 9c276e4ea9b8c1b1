// What collectives need of the fake's runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "backends/npu/cann/types.h"

namespace tern::fake_hccl::core {

[[nodiscard]] std::int32_t process();
// Of the calling thread; -1: none is set.
[[nodiscard]] int current_device();
// The chip behind a device number of this process (ASCEND_RT_VISIBLE_DEVICES).
[[nodiscard]] int physical_device(int device);
[[nodiscard]] bool chip_has_bf16();
[[nodiscard]] bool is_device_memory(const void* data, std::size_t bytes);
[[nodiscard]] std::byte* host_view(const void* data);
// Device memory of the library's own; null if there is none left.
[[nodiscard]] void* allocate(std::size_t bytes);
void release(void* memory);
// `work` runs when the stream comes to it and gives an aclError; false if the stream takes nothing.
bool queue(aclrtStream stream, const char* name, std::function<int()> work);
// The result that TERN_FAKE_CANN_FAULT has this call give; 0: none.
[[nodiscard]] int planned_fault(const char* function);
// Becomes what aclGetRecentErrMsg gives this thread.
void report(int code, const std::string& text);

}  // namespace tern::fake_hccl::core
