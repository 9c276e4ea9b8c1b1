/* tern's accelerator interface: the table of functions that a backend plugin implements. C11, with tern/accel_types.h.
 *
 * A backend is one shared library exporting `tern_backend_entry`. docs/backend-spec.md is the formal contract of every
 * function here (threading, errors, versioning, required or optional); the operations are in tern/accel_ops.h. */
#ifndef TERN_ACCEL_H
#define TERN_ACCEL_H

#include "tern/accel_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- the table */
typedef struct tern_backend {
  uint32_t size;
  uint32_t abi_major;
  uint32_t abi_minor;
  int32_t probe_rank; /* lower is probed and preferred first: npu 10, cuda 20, opencl 30, cpu 90; sim never by itself
                         (-1) */
  const char* name;   /* "cpu": the word before the colon in --device */
  const char* version;
  const char* visible_devices_env;           /* or null */
  const char* const* inherited_env_prefixes; /* null-terminated: what ranks on other hosts must inherit */
  const char* const* device_options;         /* null-terminated lines "key: what it does", of tern_open_args; or null */
  const char* const* profiles;               /* null-terminated: devices that can be described; or null */

  /* Devices. `reason` says in plain words, with the mend, why there is none. */
  tern_status (*device_count)(int32_t* count, tern_text reason);
  tern_status (*device_info)(int32_t ordinal, tern_device_info* info);
  tern_status (*device_describe)(const char* profile, tern_device_info* info); /* a device that need not be here */
  tern_status (*device_open)(const tern_open_args* args, tern_device* device);
  tern_status (*device_close)(tern_device device);
  tern_status (*device_health)(tern_device device, int32_t* health, tern_text reason);
  tern_status (*doctor)(uint32_t check, int32_t* level, tern_text line); /* TERN_UNSUPPORTED past the last check */
  tern_status (*memory_info)(tern_device device, tern_memory_info* info);
  void (*last_error)(tern_text text); /* of the calling thread's last failed call: plain words and the vendor's */
  const void* (*get_extension)(const char* name); /* a struct that begins with its size; null: no such extension */
  tern_status (*finalize)(void);                  /* every device is closed; nothing but last_error is called again */

  /* Memory. */
  tern_status (*buffer_create)(tern_device device, uint64_t bytes, uint32_t flags, tern_buffer* buffer);
  tern_status (*buffer_destroy)(tern_buffer buffer);
  tern_status (*buffer_host_pointer)(tern_buffer buffer, void** pointer);
  tern_status (*host_alloc)(tern_device device, uint64_t bytes, void** pointer); /* pinned */
  tern_status (*host_free)(tern_device device, void* pointer);
  tern_status (*import_host)(tern_device device, void* pointer, uint64_t bytes, tern_buffer* buffer);
  tern_status (*ipc_export)(tern_buffer buffer, uint8_t handle[128]);
  tern_status (*ipc_import)(tern_device device, const uint8_t handle[128], uint64_t bytes, tern_buffer* buffer);
  tern_status (*buffer_evict)(
      tern_buffer buffer); /* gives the memory back and keeps the address; the content is lost */
  tern_status (*buffer_restore)(tern_buffer buffer);
  tern_status (*buffer_native)(tern_buffer buffer, tern_native* native);
  tern_status (*buffer_adopt)(tern_device device, const tern_native* native, uint64_t bytes, tern_buffer* buffer);

  /* Copies, in stream order. Host memory may be pageable: then the call may return late, never wrongly. */
  tern_status (*copy_to_device)(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream);
  tern_status (*copy_to_host)(void* dst, tern_plane src, uint64_t bytes, tern_stream stream);
  tern_status (*copy_on_device)(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream);
  tern_status (*copy_peer)(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream);
  tern_status (*fill)(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream);

  /* Streams and events. */
  tern_status (*stream_create)(tern_device device, int32_t priority, tern_stream* stream);
  tern_status (*stream_destroy)(tern_stream stream);
  tern_status (*stream_synchronize)(tern_stream stream);
  tern_status (*stream_wait_event)(tern_stream stream, tern_event event);
  tern_status (*event_create)(tern_device device, int32_t timing, tern_event* event);
  tern_status (*event_destroy)(tern_event event);
  tern_status (*event_record)(tern_event event, tern_stream stream);
  tern_status (*event_query)(tern_event event); /* TERN_OK or TERN_NOT_READY */
  tern_status (*event_synchronize)(tern_event event);
  tern_status (*event_elapsed)(tern_event start, tern_event end, float* milliseconds);
  tern_status (*stream_native)(tern_stream stream, tern_native* native);
  tern_status (*stream_adopt)(tern_device device, const tern_native* native, tern_stream* stream);
  tern_status (*event_native)(tern_event event, tern_native* native);
  tern_status (*event_adopt)(tern_device device, const tern_native* native, tern_event* event);

  /* Capture: between begin and end nothing runs; launch gives node ids for update. An update is ordered by the stream:
   * launches queued before it keep their numbers. TERN_UNSUPPORTED: these launches are to be captured again. Updates
   * name only what changed. */
  tern_status (*capture_begin)(tern_stream stream);
  tern_status (*capture_end)(tern_stream stream, tern_capture* capture);
  tern_status (*capture_launch)(tern_capture capture, tern_stream stream);
  tern_status (*capture_update)(tern_capture capture, tern_stream stream, const tern_node_update* updates,
                                uint32_t count);
  tern_status (*capture_destroy)(tern_capture capture);

  /* Profiler. Ranges nest in each thread; either may be null. Records are collected once. */
  void (*range_push)(const char* name);
  void (*range_pop)(void);
  tern_status (*profile_start)(tern_device device);
  tern_status (*profile_stop)(tern_device device);
  tern_status (*profile_collect)(tern_device device, tern_profile_record* records, uint64_t capacity, uint64_t* count);

  /* Private layouts of weights. */
  tern_status (*packed_info)(tern_device device, const tern_tensor_desc* weight, uint32_t uses, tern_packed_info* info);
  tern_status (*pack)(tern_tensor packed, tern_tensor weight, uint32_t uses, tern_stream stream);
  tern_status (*unpack)(tern_tensor weight, tern_tensor packed, uint32_t uses, tern_stream stream);

  /* Kernels. */
  tern_status (*supports)(tern_device device, const tern_op_desc* desc, tern_text reason);
  tern_status (*plan)(tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* plan,
                      tern_plan_info* info);
  tern_status (*plan_destroy)(tern_plan plan);
  tern_status (*bind)(tern_plan plan, const tern_bind_args* args, tern_bound* bound);
  tern_status (*launch)(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node);
  tern_status (*unbind)(tern_bound bound);

  /* Whole graphs (TERN_CAP_WHOLE_GRAPH). */
  tern_status (*compile)(tern_device device, const tern_graph_desc* graph, const tern_plan_options* options,
                         tern_recipe* recipe, tern_plan_info* info);
  tern_status (*launch_recipe)(tern_recipe recipe, const tern_bind_args* args, const tern_host_args* host_args,
                               tern_stream stream);
  tern_status (*recipe_destroy)(tern_recipe recipe);
  tern_status (*recipe_save)(tern_recipe recipe, void* data, uint64_t capacity, uint64_t* bytes);
  tern_status (*recipe_load)(tern_device device, const tern_graph_desc* graph, const void* data, uint64_t bytes,
                             tern_recipe* recipe, tern_plan_info* info); /* TERN_UNSUPPORTED: compile it again */

  /* Collectives (TERN_CAP_COLLECTIVES). Counts are elements. */
  tern_status (*comm_unique_id)(tern_comm_id* id);
  tern_status (*comm_init)(tern_device device, const tern_comm_id* id, int32_t ranks, int32_t rank,
                           const tern_comm_options* options, tern_comm* comm);
  tern_status (*comm_split)(tern_comm comm, int32_t color, int32_t key, const tern_comm_options* options,
                            tern_comm* part); /* color -1: this rank is in no part */
  tern_status (*comm_info)(tern_comm comm, tern_comm_info* info);
  tern_status (*all_reduce)(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                            int32_t reduce, tern_stream stream);
  tern_status (*all_gather)(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                            tern_stream stream); /* count: of src */
  tern_status (*reduce_scatter)(tern_comm comm, tern_plane dst, tern_plane src, uint64_t count, tern_dtype dtype,
                                int32_t reduce, tern_stream stream); /* count: of dst */
  tern_status (*broadcast)(tern_comm comm, tern_plane data, uint64_t count, tern_dtype dtype, int32_t root,
                           tern_stream stream);
  tern_status (*all_to_all)(tern_comm comm, tern_plane dst, tern_plane src, const uint64_t* send_counts,
                            const uint64_t* receive_counts, tern_dtype dtype, tern_stream stream);
  tern_status (*send)(tern_comm comm, tern_plane src, uint64_t count, tern_dtype dtype, int32_t peer,
                      tern_stream stream);
  tern_status (*receive)(tern_comm comm, tern_plane dst, uint64_t count, tern_dtype dtype, int32_t peer,
                         tern_stream stream);
  tern_status (*group_begin)(tern_comm comm);
  tern_status (*group_end)(tern_comm comm);
  tern_status (*comm_async_error)(tern_comm comm, tern_text reason);
  tern_status (*comm_abort)(tern_comm comm);
  tern_status (*comm_destroy)(tern_comm comm);
} tern_backend;

#if defined(_WIN32)
#define TERN_EXPORT __declspec(dllexport)
#else
#define TERN_EXPORT __attribute__((visibility("default")))
#endif

/* The one exported symbol. `host` outlives the plugin. Null: the plugin refuses this host. */
typedef const tern_backend* (*tern_backend_entry_fn)(const tern_host* host);
TERN_EXPORT const tern_backend* tern_backend_entry(const tern_host* host);

#ifdef __cplusplus
}
#endif
#endif
