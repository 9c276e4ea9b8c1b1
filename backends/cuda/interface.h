// The functions behind tern_backend's table; tern/accel.h says what each does.
#pragma once

#include "tern/accel.h"

namespace tern::cuda {

// device.cpp
tern_status device_count(int32_t* count, tern_text reason);
tern_status device_info(int32_t ordinal, tern_device_info* info);
extern const char* const kDeviceOptions[];  // lines of tern_backend.device_options
tern_status device_describe(const char* profile, tern_device_info* info);
tern_status device_open(const tern_open_args* args, tern_device* device);
tern_status device_close(tern_device device);
tern_status device_health(tern_device device, int32_t* health, tern_text reason);
tern_status doctor(uint32_t check, int32_t* level, tern_text line);
tern_status memory_info(tern_device device, tern_memory_info* info);

// memory.cpp
tern_status buffer_create(tern_device device, uint64_t bytes, uint32_t flags, tern_buffer* buffer);
tern_status buffer_destroy(tern_buffer buffer);
tern_status buffer_evict(tern_buffer buffer);
tern_status buffer_restore(tern_buffer buffer);
tern_status host_alloc(tern_device device, uint64_t bytes, void** pointer);
tern_status host_free(tern_device device, void* pointer);
tern_status ipc_export(tern_buffer buffer, uint8_t handle[128]);
tern_status ipc_import(tern_device device, const uint8_t handle[128], uint64_t bytes, tern_buffer* buffer);
tern_status buffer_native(tern_buffer buffer, tern_native* native);
tern_status buffer_adopt(tern_device device, const tern_native* native, uint64_t bytes, tern_buffer* buffer);
tern_status import_host(tern_device device, void* pointer, uint64_t bytes, tern_buffer* buffer);

// profile.cpp
tern_status profile_start(tern_device device);
tern_status profile_stop(tern_device device);
tern_status profile_collect(tern_device device, tern_profile_record* records, uint64_t capacity, uint64_t* count);

// stream.cpp
tern_status copy_to_device(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream);
tern_status copy_to_host(void* dst, tern_plane src, uint64_t bytes, tern_stream stream);
tern_status copy_on_device(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream);
tern_status copy_peer(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream);
tern_status fill(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream);
tern_status stream_create(tern_device device, int32_t priority, tern_stream* stream);
tern_status stream_destroy(tern_stream stream);
tern_status stream_synchronize(tern_stream stream);
tern_status stream_native(tern_stream stream, tern_native* native);
tern_status stream_adopt(tern_device device, const tern_native* native, tern_stream* stream);

// event.cpp
tern_status stream_wait_event(tern_stream stream, tern_event event);
tern_status event_create(tern_device device, int32_t timing, tern_event* event);
tern_status event_destroy(tern_event event);
tern_status event_record(tern_event event, tern_stream stream);
tern_status event_query(tern_event event);
tern_status event_synchronize(tern_event event);
tern_status event_elapsed(tern_event start, tern_event end, float* milliseconds);

tern_status event_native(tern_event event, tern_native* native);
tern_status event_adopt(tern_device device, const tern_native* native, tern_event* event);

// capture.cpp
tern_status capture_begin(tern_stream stream);
tern_status capture_end(tern_stream stream, tern_capture* capture);
tern_status capture_launch(tern_capture capture, tern_stream stream);
tern_status capture_update(tern_capture capture, tern_stream stream, const tern_node_update* updates, uint32_t count);
tern_status capture_destroy(tern_capture capture);

// plan.cpp
tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason);
tern_status plan(tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* plan,
                 tern_plan_info* info);
tern_status plan_destroy(tern_plan plan);
tern_status bind(tern_plan plan, const tern_bind_args* args, tern_bound* bound);
tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node);
tern_status unbind(tern_bound bound);

// comm.cpp
tern_status comm_unique_id(tern_comm_id* id);
tern_status comm_init(tern_device device, const tern_comm_id* id, int32_t ranks, int32_t rank,
                      const tern_comm_options* options, tern_comm* comm);
tern_status comm_split(tern_comm comm, int32_t color, int32_t key, const tern_comm_options* options, tern_comm* part);
tern_status comm_info(tern_comm comm, tern_comm_info* info);
tern_status comm_async_error(tern_comm comm, tern_text reason);
tern_status comm_abort(tern_comm comm);
tern_status comm_destroy(tern_comm comm);

// collective.cpp
tern_status all_reduce(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype, int32_t reduce,
                       tern_stream stream);
tern_status all_gather(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                       tern_stream stream);
tern_status reduce_scatter(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                           int32_t reduce, tern_stream stream);
tern_status broadcast(tern_comm comm, tern_plane data, uint64_t count, tern_dtype dtype, int32_t root,
                      tern_stream stream);
tern_status all_to_all(tern_comm comm, tern_plane dst, tern_plane src, const uint64_t* send_counts,
                       const uint64_t* receive_counts, tern_dtype dtype, tern_stream stream);
tern_status send(tern_comm comm, tern_plane src, uint64_t count, tern_dtype dtype, int32_t peer, tern_stream stream);
tern_status receive(tern_comm comm, tern_plane dst, uint64_t count, tern_dtype dtype, int32_t peer, tern_stream stream);
tern_status group_begin(tern_comm comm);
tern_status group_end(tern_comm comm);

}  // namespace tern::cuda
