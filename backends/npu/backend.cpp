// The table that tern_backend_entry gives. What this device cannot do answers TERN_UNSUPPORTED.
#include "backends/npu/doctor.h"
#include "backends/npu/interface.h"
#include "backends/npu/monitor.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

constexpr const char* kEnvPrefixes[] = {"ASCEND_", "HCCL_", "TERN_NPU_", nullptr};

template <typename... Args>
tern_status unsupported(Args...) {
  return fail(TERN_UNSUPPORTED, "the npu device has no such function: its capability flag is clear");
}

void put_collectives(tern_backend& t) {
  t.comm_unique_id = comm_unique_id;
  t.comm_init = comm_init;
  t.comm_split = comm_split;
  t.comm_info = comm_info;
  t.all_reduce = all_reduce;
  t.all_gather = all_gather;
  t.reduce_scatter = reduce_scatter;
  t.broadcast = broadcast;
  t.all_to_all = all_to_all;
  t.send = send;
  t.receive = receive;
  t.group_begin = group_begin;
  t.group_end = group_end;
  t.comm_async_error = comm_async_error;
  t.comm_abort = comm_abort;
  t.comm_destroy = comm_destroy;
}

void put_devices(tern_backend& t) {
  t.device_count = device_count;
  t.device_info = device_info;
  t.device_describe = device_describe;
  t.device_open = device_open;
  t.device_close = device_close;
  t.device_health = device_health;
  t.doctor = doctor;
  t.get_extension = get_extension;
  t.memory_info = memory_info;
  t.last_error = tern_plugin_last_error;
  t.finalize = finalize;
  t.buffer_create = buffer_create;
  t.buffer_destroy = buffer_destroy;
  t.buffer_host_pointer = unsupported;
  t.host_alloc = host_alloc;
  t.host_free = host_free;
  t.import_host = unsupported;
  t.ipc_export = [](tern_buffer, uint8_t*) { return unsupported(); };
  t.ipc_import = [](tern_device, const uint8_t*, uint64_t, tern_buffer*) { return unsupported(); };
  t.buffer_evict = buffer_evict;
  t.buffer_restore = buffer_restore;
  t.buffer_native = buffer_native;
  t.buffer_adopt = buffer_adopt;
}

void put_streams(tern_backend& t) {
  t.copy_to_device = copy_to_device;
  t.copy_to_host = copy_to_host;
  t.copy_on_device = copy_on_device;
  t.copy_peer = copy_peer;
  t.fill = fill;
  t.stream_create = stream_create;
  t.stream_destroy = stream_destroy;
  t.stream_synchronize = stream_synchronize;
  t.stream_wait_event = stream_wait_event;
  t.event_create = event_create;
  t.event_destroy = event_destroy;
  t.event_record = event_record;
  t.event_query = event_query;
  t.event_synchronize = event_synchronize;
  t.event_elapsed = event_elapsed;
  t.stream_native = stream_native;
  t.stream_adopt = stream_adopt;
  t.event_native = event_native;
  t.event_adopt = event_adopt;
  t.capture_begin = capture_begin;
  t.capture_end = capture_end;
  t.capture_launch = capture_launch;
  t.capture_update = capture_update;
  t.capture_destroy = capture_destroy;
  t.range_push = tern_plugin_range_push;
  t.range_pop = tern_plugin_range_pop;
  t.profile_start = unsupported;
  t.profile_stop = unsupported;
  t.profile_collect = unsupported;
}

tern_backend make_table() {
  tern_backend t{};
  t.size = sizeof t;
  t.abi_major = TERN_ABI_MAJOR;
  t.abi_minor = TERN_ABI_MINOR;
  t.probe_rank = 10;
  t.name = "npu";
  t.version = "0.1.0";
  t.visible_devices_env = "ASCEND_RT_VISIBLE_DEVICES";
  t.inherited_env_prefixes = kEnvPrefixes;
  t.profiles = chip_names();
  put_devices(t);
  put_streams(t);
  t.supports = supports;
  t.plan = plan;
  t.plan_destroy = plan_destroy;
  t.bind = bind;
  t.launch = launch;
  t.unbind = unbind;
  t.compile = unsupported;
  t.launch_recipe = unsupported;
  t.recipe_destroy = unsupported;
  t.recipe_save = unsupported;
  t.recipe_load = unsupported;
  put_collectives(t);
  return t;
}

}  // namespace
}  // namespace tern::npu

extern "C" const tern_backend* tern_backend_entry(const tern_host* host) {
  tern_host given;
  if (tern_plugin_take_struct(&given, sizeof given, offsetof(tern_host, num_threads), host) != TERN_OK) return nullptr;
  if (given.abi_major != TERN_ABI_MAJOR) return nullptr;
  tern::npu::host().log = given.log;
  static const tern_backend table = tern::npu::make_table();
  return &table;
}
