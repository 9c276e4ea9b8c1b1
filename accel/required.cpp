// Which functions a backend must have: docs/backend-spec.md, section 4, as a table.
#include <array>

#include "accel/backend.h"
#include "base/strings.h"

namespace tern::accel {
namespace {

struct Requirement {
  const char* name;
  std::uint32_t capability;  // 0: always
  bool (*present)(const Backend& backend);
};

template <auto Member>
bool present(const Backend& backend) {
  return backend.has(Member);
}

// Who lists profiles describes them.
bool describes(const Backend& backend) {
  return backend.profiles().empty() || backend.has(&tern_backend::device_describe);
}

constexpr Requirement kRequirements[] = {
    {"device_count", 0, present<&tern_backend::device_count>},
    {"device_info", 0, present<&tern_backend::device_info>},
    {"device_describe", 0, describes},
    {"device_open", 0, present<&tern_backend::device_open>},
    {"device_close", 0, present<&tern_backend::device_close>},
    {"device_health", 0, present<&tern_backend::device_health>},
    {"memory_info", 0, present<&tern_backend::memory_info>},
    {"last_error", 0, present<&tern_backend::last_error>},
    {"buffer_create", 0, present<&tern_backend::buffer_create>},
    {"buffer_destroy", 0, present<&tern_backend::buffer_destroy>},
    {"host_alloc", 0, present<&tern_backend::host_alloc>},
    {"host_free", 0, present<&tern_backend::host_free>},
    {"copy_to_device", 0, present<&tern_backend::copy_to_device>},
    {"copy_to_host", 0, present<&tern_backend::copy_to_host>},
    {"copy_on_device", 0, present<&tern_backend::copy_on_device>},
    {"fill", 0, present<&tern_backend::fill>},
    {"stream_create", 0, present<&tern_backend::stream_create>},
    {"stream_destroy", 0, present<&tern_backend::stream_destroy>},
    {"stream_synchronize", 0, present<&tern_backend::stream_synchronize>},
    {"stream_wait_event", 0, present<&tern_backend::stream_wait_event>},
    {"event_create", 0, present<&tern_backend::event_create>},
    {"event_destroy", 0, present<&tern_backend::event_destroy>},
    {"event_record", 0, present<&tern_backend::event_record>},
    {"event_query", 0, present<&tern_backend::event_query>},
    {"event_synchronize", 0, present<&tern_backend::event_synchronize>},
    {"event_elapsed", 0, present<&tern_backend::event_elapsed>},
    {"supports", 0, present<&tern_backend::supports>},
    {"buffer_host_pointer", TERN_CAP_HOST_POINTER, present<&tern_backend::buffer_host_pointer>},
    {"import_host", TERN_CAP_IMPORT_HOST, present<&tern_backend::import_host>},
    {"ipc_export", TERN_CAP_IPC, present<&tern_backend::ipc_export>},
    {"ipc_import", TERN_CAP_IPC, present<&tern_backend::ipc_import>},
    {"buffer_evict", TERN_CAP_EVICT, present<&tern_backend::buffer_evict>},
    {"buffer_restore", TERN_CAP_EVICT, present<&tern_backend::buffer_restore>},
    {"buffer_native", TERN_CAP_NATIVE_MEMORY, present<&tern_backend::buffer_native>},
    {"buffer_adopt", TERN_CAP_NATIVE_MEMORY, present<&tern_backend::buffer_adopt>},
    {"stream_native", TERN_CAP_NATIVE_STREAMS, present<&tern_backend::stream_native>},
    {"stream_adopt", TERN_CAP_NATIVE_STREAMS, present<&tern_backend::stream_adopt>},
    {"event_native", TERN_CAP_NATIVE_STREAMS, present<&tern_backend::event_native>},
    {"event_adopt", TERN_CAP_NATIVE_STREAMS, present<&tern_backend::event_adopt>},
    {"profile_start", TERN_CAP_PROFILE, present<&tern_backend::profile_start>},
    {"profile_stop", TERN_CAP_PROFILE, present<&tern_backend::profile_stop>},
    {"profile_collect", TERN_CAP_PROFILE, present<&tern_backend::profile_collect>},
    {"copy_peer", TERN_CAP_PEER_COPY, present<&tern_backend::copy_peer>},
    {"capture_begin", TERN_CAP_CAPTURE, present<&tern_backend::capture_begin>},
    {"capture_end", TERN_CAP_CAPTURE, present<&tern_backend::capture_end>},
    {"capture_launch", TERN_CAP_CAPTURE, present<&tern_backend::capture_launch>},
    {"capture_update", TERN_CAP_CAPTURE, present<&tern_backend::capture_update>},
    {"capture_destroy", TERN_CAP_CAPTURE, present<&tern_backend::capture_destroy>},
    {"plan", TERN_CAP_EAGER, present<&tern_backend::plan>},
    {"plan_destroy", TERN_CAP_EAGER, present<&tern_backend::plan_destroy>},
    {"bind", TERN_CAP_EAGER, present<&tern_backend::bind>},
    {"launch", TERN_CAP_EAGER, present<&tern_backend::launch>},
    {"unbind", TERN_CAP_EAGER, present<&tern_backend::unbind>},
    {"compile", TERN_CAP_WHOLE_GRAPH, present<&tern_backend::compile>},
    {"launch_recipe", TERN_CAP_WHOLE_GRAPH, present<&tern_backend::launch_recipe>},
    {"recipe_destroy", TERN_CAP_WHOLE_GRAPH, present<&tern_backend::recipe_destroy>},
    {"recipe_save", TERN_CAP_RECIPE_FILES, present<&tern_backend::recipe_save>},
    {"recipe_load", TERN_CAP_RECIPE_FILES, present<&tern_backend::recipe_load>},
    {"comm_unique_id", TERN_CAP_COLLECTIVES, present<&tern_backend::comm_unique_id>},
    {"comm_init", TERN_CAP_COLLECTIVES, present<&tern_backend::comm_init>},
    {"comm_split", TERN_CAP_COLLECTIVES, present<&tern_backend::comm_split>},
    {"comm_info", TERN_CAP_COLLECTIVES, present<&tern_backend::comm_info>},
    {"all_reduce", TERN_CAP_COLLECTIVES, present<&tern_backend::all_reduce>},
    {"all_gather", TERN_CAP_COLLECTIVES, present<&tern_backend::all_gather>},
    {"reduce_scatter", TERN_CAP_COLLECTIVES, present<&tern_backend::reduce_scatter>},
    {"broadcast", TERN_CAP_COLLECTIVES, present<&tern_backend::broadcast>},
    {"all_to_all", TERN_CAP_COLLECTIVES, present<&tern_backend::all_to_all>},
    {"send", TERN_CAP_COLLECTIVES, present<&tern_backend::send>},
    {"receive", TERN_CAP_COLLECTIVES, present<&tern_backend::receive>},
    {"group_begin", TERN_CAP_COLLECTIVES, present<&tern_backend::group_begin>},
    {"group_end", TERN_CAP_COLLECTIVES, present<&tern_backend::group_end>},
    {"comm_async_error", TERN_CAP_COLLECTIVES, present<&tern_backend::comm_async_error>},
    {"comm_abort", TERN_CAP_COMM_ABORT, present<&tern_backend::comm_abort>},
    {"comm_destroy", TERN_CAP_COLLECTIVES, present<&tern_backend::comm_destroy>},
};

}  // namespace

std::string Backend::missing_functions(std::uint32_t capabilities) const {
  std::string missing;
  for (const Requirement& required : kRequirements) {
    if ((required.capability & ~capabilities) != 0 || required.present(*this)) continue;
    if (!missing.empty()) missing += ", ";
    missing += required.name;
  }
  return missing;
}

}  // namespace tern::accel
