// The table that tern_backend_entry gives. What this device cannot do answers TERN_UNSUPPORTED.
#include "backends/cuda/interface.h"
#include "backends/cuda/runtime.h"

namespace tern::cuda {
namespace {

constexpr const char* kEnvPrefixes[] = {"CUDA_", "NCCL_", "TERN_CUDA_", nullptr};

template <typename... Args>
tern_status unsupported(Args...) {
  return fail(TERN_UNSUPPORTED, "the cuda device has no such function: its capability flag is clear");
}

tern_backend make_table() {
  tern_backend t{};
  t.size = sizeof t;
  t.abi_major = TERN_ABI_MAJOR;
  t.abi_minor = TERN_ABI_MINOR;
  t.probe_rank = 20;
  t.name = "cuda";
  t.version = "0.1.0";
  t.visible_devices_env = kVisibleDevices;
  t.inherited_env_prefixes = kEnvPrefixes;
  t.device_options = kDeviceOptions;
  t.profiles = kProfiles;
  t.device_count = device_count;
  t.device_info = device_info;
  t.device_describe = device_describe;
  t.device_open = device_open;
  t.device_close = device_close;
  t.device_health = device_health;
  t.doctor = doctor;
  t.memory_info = memory_info;
  t.last_error = tern_plugin_last_error;
  t.buffer_create = buffer_create;
  t.buffer_destroy = buffer_destroy;
  t.buffer_host_pointer = unsupported;
  t.host_alloc = host_alloc;
  t.host_free = host_free;
  t.import_host = import_host;
  t.ipc_export = ipc_export;
  t.ipc_import = ipc_import;
  t.buffer_evict = buffer_evict;
  t.buffer_restore = buffer_restore;
  t.buffer_native = buffer_native;
  t.buffer_adopt = buffer_adopt;
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
  t.profile_start = profile_start;
  t.profile_stop = profile_stop;
  t.profile_collect = profile_collect;
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
  return t;
}

}  // namespace
}  // namespace tern::cuda

extern "C" const tern_backend* tern_backend_entry(const tern_host* host) {
  tern_host given;
  if (tern_plugin_take_struct(&given, sizeof given, offsetof(tern_host, num_threads), host) != TERN_OK) return nullptr;
  if (given.abi_major != TERN_ABI_MAJOR) return nullptr;
  tern::cuda::host().log = given.log;
  static const tern_backend table = tern::cuda::make_table();
  return &table;
}
