#include "tests/fakes/cann/hccl/core.h"

#include <unistd.h>

#include "tests/fakes/cann/acl/process.h"

namespace tern::fake_hccl::core {

std::int32_t process() { return getpid(); }

int current_device() { return fake::has_device() ? fake::current_device_number() : -1; }

int physical_device(int device) { return fake::process().devices[static_cast<std::size_t>(device)]->physical; }

bool chip_has_bf16() { return fake::chip().has_bf16(); }

bool is_device_memory(const void* data, std::size_t bytes) {
  fake::Device* device = fake::device_holding(data);
  return device != nullptr && device->memory.view(data, bytes) != nullptr;
}

std::byte* host_view(const void* data) {
  fake::Device* device = fake::device_holding(data);
  return device == nullptr ? nullptr : device->memory.view(data, 1);
}

void* allocate(std::size_t bytes) { return fake::current_device().memory.allocate(bytes); }

void release(void* memory) {
  if (fake::Device* device = fake::device_holding(memory); device != nullptr) (void)device->memory.release(memory);
}

int planned_fault(const char* function) { return fake::planned_fault(function); }

bool queue(aclrtStream stream, const char* name, std::function<int()> work) {
  try {
    fake::launch(fake::stream_of(stream), {fake::TaskKind::kKernel, name, std::move(work)});
    return true;
  } catch (const fake::Refusal& refusal) {
    (void)fake::report(refusal.code, refusal.text);
    return false;
  }
}

void report(int code, const std::string& text) { (void)fake::report(code, text); }

}  // namespace tern::fake_hccl::core
