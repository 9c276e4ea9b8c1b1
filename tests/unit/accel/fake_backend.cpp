#include "fake_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tern::accel::test {
namespace {

void put(tern_text to, const std::string& text) {
  if (to.capacity == 0) return;
  const std::size_t n = std::min<std::size_t>(to.capacity - 1, text.size());
  std::memcpy(to.data, text.data(), n);
  to.data[n] = '\0';
}

// What every backend must have and these tests never call.
template <typename... Args>
tern_status unsupported(Args...) {
  return TERN_UNSUPPORTED;
}

void add_rest(tern_backend& t) {
  t.device_health = unsupported;
  t.host_alloc = unsupported;
  t.host_free = unsupported;
  t.copy_to_device = unsupported;
  t.copy_to_host = unsupported;
  t.copy_on_device = unsupported;
  t.fill = unsupported;
  t.stream_create = unsupported;
  t.stream_destroy = unsupported;
  t.stream_synchronize = unsupported;
  t.stream_wait_event = unsupported;
  t.event_create = unsupported;
  t.event_destroy = unsupported;
  t.event_record = unsupported;
  t.event_query = unsupported;
  t.event_synchronize = unsupported;
  t.event_elapsed = unsupported;
  t.bind = unsupported;
  t.launch = unsupported;
  t.unbind = unsupported;
}

tern_backend make_table() {
  tern_backend t{};
  t.size = sizeof(t);
  t.abi_major = TERN_ABI_MAJOR;
  t.name = "fake";
  t.version = "1";
  t.device_count = [](std::int32_t* count, tern_text) -> tern_status {
    *count = 1;
    return TERN_OK;
  };
  t.device_info = [](std::int32_t, tern_device_info* info) -> tern_status {
    info->capabilities = TERN_CAP_EAGER;
    std::strcpy(info->name, "fake");
    info->largest_allocation_bytes = std::uint64_t{1} << 40;
    info->alignment = 64;
    return TERN_OK;
  };
  t.device_open = [](const tern_open_args*, tern_device* device) -> tern_status {
    *device = reinterpret_cast<tern_device>(std::malloc(1));
    return TERN_OK;
  };
  t.device_close = [](tern_device device) -> tern_status {
    std::free(device);
    return TERN_OK;
  };
  t.memory_info = [](tern_device, tern_memory_info* info) -> tern_status {
    info->total = fake_state().limit;
    info->free = fake_state().limit - fake_state().allocated;
    return TERN_OK;
  };
  t.last_error = [](tern_text text) { put(text, fake_state().error); };
  t.buffer_create = [](tern_device, std::uint64_t bytes, std::uint32_t flags, tern_buffer* buffer) -> tern_status {
    FakeState& s = fake_state();
    if (s.allocated + bytes > s.limit) {
      s.error = "the fake device is full";
      return TERN_OUT_OF_MEMORY;
    }
    s.allocated += bytes;
    ++s.creates;
    s.flags = flags;
    *buffer = reinterpret_cast<tern_buffer>(std::malloc(1));
    s.sizes[*buffer] = bytes;
    return TERN_OK;
  };
  t.buffer_destroy = [](tern_buffer buffer) -> tern_status {
    FakeState& s = fake_state();
    s.allocated -= s.sizes.at(buffer);
    s.sizes.erase(buffer);
    ++s.destroys;
    std::free(buffer);
    return TERN_OK;
  };
  t.plan = [](tern_device, const tern_op_desc*, const tern_plan_options* options, tern_plan* plan,
              tern_plan_info* info) -> tern_status {
    const char* choice = options->choice;
    FakeState& s = fake_state();
    if (choice == nullptr) ++s.plans_measured;
    if (choice != nullptr && s.forgotten_choices.contains(choice)) return TERN_UNSUPPORTED;
    std::strcpy(info->choice, choice == nullptr ? "fast" : choice);
    *plan = reinterpret_cast<tern_plan>(std::malloc(1));
    return TERN_OK;
  };
  t.plan_destroy = [](tern_plan plan) -> tern_status {
    std::free(plan);
    return TERN_OK;
  };
  t.supports = [](tern_device, const tern_op_desc*, tern_text reason) -> tern_status {
    put(reason, "the fake has no kernels");
    return TERN_UNSUPPORTED;
  };
  add_rest(t);
  return t;
}

}  // namespace

FakeState& fake_state() {
  static FakeState state;
  return state;
}

const tern_backend& fake_table() {
  static const tern_backend table = make_table();
  return table;
}

DevicePtr open_fake() { return Device::open(Backend::wrap(&fake_table()), 0).value(); }

}  // namespace tern::accel::test
