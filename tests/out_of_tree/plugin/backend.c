/* The smallest backend that keeps every promise: one device in host memory, one op (axpby in fp32). A new backend
 * begins as a copy of this file. Work runs before the call that gives it returns, so an event is complete once
 * recorded. docs/backend-spec.md says what each function owes its caller; tern/plugin.h has what all would repeat. */
#include <time.h>

#include "tern/plugin.h"

#define MEMORY_BYTES ((uint64_t)1 << 30)
#define ALIGNMENT 64

/* Behind the handles. Devices and streams hold nothing here: there is one device, and its work runs at once. */
struct tern_buffer_s {
  uint64_t bytes;
  _Alignas(ALIGNMENT) unsigned char data[];
};
struct tern_event_s {
  int32_t timing;
  struct timespec time;
};
struct tern_plan_s {
  tern_op_desc desc; /* its own copy */
};
struct tern_bound_s {
  const tern_op_desc* desc; /* the plan's, which outlives this */
  float* data[TERN_AXPBY_NUM_ARGS];
};

/* ---------------------------------------------------------------- devices */
static tern_status device_count(int32_t* count, tern_text reason) {
  *count = 1; /* if there were none, `reason` would say why */
  return TERN_OK;
}

static tern_status device_info(int32_t ordinal, tern_device_info* info) {
  if (ordinal != 0) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "there is example:0 alone");
  /* clang-format off */
  tern_device_info filled = {
      .capabilities = TERN_CAP_EAGER | TERN_CAP_HOST_POINTER | TERN_CAP_DYNAMIC_SHAPES,
      .name = "example device", .arch = "c11", .driver_version = "1", .compute_units = 1, .numa_node = -1, .link = "host",
      .memory_bytes = MEMORY_BYTES, .largest_allocation_bytes = MEMORY_BYTES, .alignment = ALIGNMENT,
      .import_alignment = 1, .storage_dtypes = 1u << TERN_F32, .activation_dtype = TERN_F32, .preferred_kv_block = 16,
  };
  /* clang-format on */
  return tern_plugin_give_info(info, &filled, sizeof filled);
}

static tern_status device_open(const tern_open_args* given, tern_device* device) {
  tern_open_args own;
  const tern_status status = tern_plugin_take_open_args(given, NULL, &own);
  if (status != TERN_OK) return status;
  if (own.ordinal != 0) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "there is example:0 alone");
  return tern_plugin_new(1, device);
}
static tern_status device_close(tern_device device) { return tern_plugin_free(device); }
static tern_status device_health(tern_device device, int32_t* health, tern_text reason) {
  *health = TERN_HEALTH_OK;
  return TERN_OK;
}

/* ---------------------------------------------------------------- memory */
static tern_plugin_memory memory = {.total = MEMORY_BYTES};
static tern_status memory_info(tern_device device, tern_memory_info* info) {
  return tern_plugin_memory_info(&memory, info);
}

static tern_status host_alloc(tern_device device, uint64_t bytes, void** pointer) {
  *pointer = bytes <= 2 * MEMORY_BYTES ? aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT) : NULL;
  return *pointer != NULL ? TERN_OK : tern_plugin_fail(TERN_OUT_OF_HOST_MEMORY, "the system has no memory left");
}
static tern_status host_free(tern_device device, void* pointer) { return tern_plugin_free(pointer); }

static tern_status buffer_create(tern_device device, uint64_t bytes, uint32_t flags, tern_buffer* buffer) {
  if (flags != 0) return tern_plugin_fail(TERN_UNSUPPORTED, "this memory is for nothing special");
  void* made = NULL;
  const tern_status status = tern_plugin_take_memory(&memory, bytes);
  if (status != TERN_OK) return status;
  if (host_alloc(device, sizeof **buffer + bytes, &made) != TERN_OK) {
    tern_plugin_return_memory(&memory, bytes);
    return TERN_OUT_OF_MEMORY; /* host memory is the device's */
  }
  *buffer = made;
  (*buffer)->bytes = bytes;
  return TERN_OK;
}
static tern_status buffer_destroy(tern_buffer buffer) {
  if (buffer != NULL) tern_plugin_return_memory(&memory, buffer->bytes);
  return tern_plugin_free(buffer);
}

static tern_status buffer_host_pointer(tern_buffer buffer, void** pointer) {
  *pointer = buffer->data;
  return TERN_OK;
}

/* Where a plane lies, if `bytes` from there on are inside of its buffer; else, or if it has none, null. */
static unsigned char* at(tern_plane plane, uint64_t bytes) {
  const int inside = plane.buffer != NULL && tern_plugin_in_range(plane.offset, bytes, plane.buffer->bytes);
  return inside ? plane.buffer->data + plane.offset : NULL;
}

static tern_status copy(void* dst, const void* src, uint64_t bytes) {
  if (bytes == 0) return TERN_OK;
  if (dst == NULL || src == NULL) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "a copy that leaves its buffer");
  memcpy(dst, src, bytes);
  return TERN_OK;
}

static tern_status copy_to_device(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream) {
  return copy(at(dst, bytes), src, bytes);
}
static tern_status copy_to_host(void* dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return copy(dst, at(src, bytes), bytes);
}
static tern_status copy_on_device(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return copy(at(dst, bytes), at(src, bytes), bytes);
}

static tern_status fill(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream) {
  unsigned char* data = at(dst, bytes);
  if (data == NULL && bytes > 0) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "a fill that leaves its buffer");
  if (bytes > 0) memset(data, byte, bytes);
  return TERN_OK;
}

/* ---------------------------------------------------------------- streams and events */
static tern_status stream_create(tern_device device, int32_t priority, tern_stream* stream) {
  return tern_plugin_new(1, stream);
}
static tern_status stream_destroy(tern_stream stream) { return tern_plugin_free(stream); }
static tern_status stream_synchronize(tern_stream stream) { return TERN_OK; }
static tern_status stream_wait_event(tern_stream stream, tern_event event) { return TERN_OK; }

static tern_status event_create(tern_device device, int32_t timing, tern_event* event) {
  const tern_status status = tern_plugin_new(sizeof **event, event);
  if (status == TERN_OK) (*event)->timing = timing;
  return status;
}
static tern_status event_destroy(tern_event event) { return tern_plugin_free(event); }
static tern_status event_done(tern_event event) { return TERN_OK; }
static tern_status event_record(tern_event event, tern_stream stream) {
  (void)timespec_get(&event->time, TIME_UTC);
  return TERN_OK;
}

static tern_status event_elapsed(tern_event start, tern_event end, float* milliseconds) {
  if (!start->timing || !end->timing) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "an event without timing");
  const double whole = difftime(end->time.tv_sec, start->time.tv_sec);
  const double milli = whole * 1e3 + (double)(end->time.tv_nsec - start->time.tv_nsec) * 1e-6;
  *milliseconds = milli > 0 ? (float)milli : 0; /* this clock may be set back */
  return TERN_OK;
}

/* ---------------------------------------------------------------- the op */
static tern_status loop_supports(const tern_plugin_kernel* kernel, tern_device device, const tern_op_desc* desc) {
  for (uint32_t i = 0; i < desc->num_args; ++i) {
    const tern_tensor_desc* arg = &desc->args[i];
    if (arg->rank == 0) continue; /* y may be absent */
    if (arg->dtype != TERN_F32) return tern_plugin_fail(TERN_UNSUPPORTED, "this kernel knows f32 alone");
    if (tern_plugin_same_shape(arg, &desc->args[TERN_AXPBY_OUT])) continue;
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "its arguments differ in shape");
  }
  return TERN_OK;
}

static const tern_plugin_kernel loop = {.op = TERN_OP_AXPBY, .name = "loop", .supports = loop_supports};
static const tern_plugin_kernel* const kernels[] = {&loop};

static tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  tern_plugin_desc own;
  return tern_plugin_answer(tern_plugin_find_kernel(kernels, 1, device, desc, NULL, &own, NULL), reason);
}

static tern_status plan(tern_device device, const tern_op_desc* desc, const tern_plan_options* options, tern_plan* out,
                        tern_plan_info* info) {
  const tern_plugin_kernel* found = NULL;
  tern_plan_info filled = {.workspace_bytes = 0}; /* nor scratch */
  tern_plan_options asked;
  tern_plugin_desc own;
  tern_status status = tern_plugin_take_options(options, &asked);
  if (status == TERN_OK) status = tern_plugin_find_kernel(kernels, 1, device, desc, asked.choice, &own, &found);
  if (status != TERN_OK) return status;
  tern_plugin_choice(found, device, (tern_text){filled.choice, sizeof filled.choice});
  status = tern_plugin_give_info(info, &filled, sizeof filled);
  return status == TERN_OK ? tern_plugin_copy_desc(&own.desc, sizeof **out, out) : status;
}

static tern_status bind(tern_plan planned, const tern_bind_args* given, tern_bound* out) {
  struct tern_bound_s made = {.desc = &planned->desc};
  tern_bind_args own; /* no workspace was asked for, and counts come at launch */
  tern_status status = tern_plugin_take_bind_args(given, &own);
  if (status == TERN_OK) status = tern_plugin_check_bound(&planned->desc, &own);
  for (uint32_t i = 0; status == TERN_OK && i < TERN_AXPBY_NUM_ARGS; ++i) {
    const tern_plane plane = tern_plugin_bound_arg(&own, i)->planes[0];
    if (planned->desc.args[i].rank == 0) continue; /* absent: its planes mean nothing */
    status = tern_plugin_check_plane(&planned->desc, i, plane.offset, plane.buffer != NULL ? plane.buffer->bytes : 0);
    made.data[i] = (float*)(void*)at(plane, 0);
  }
  if (status == TERN_OK) status = tern_plugin_new(sizeof **out, out);
  if (status == TERN_OK) **out = made;
  return status;
}

static tern_status plan_destroy(tern_plan made) { return tern_plugin_free(made); }
static tern_status unbind(tern_bound bound) { return tern_plugin_free(bound); }

/* One element of `out`. */
static void run_element(const struct tern_bound_s* bound, const int64_t* index) {
  const tern_tensor_desc* args = bound->desc->args;
  const tern_axpby_attrs* attrs = bound->desc->attrs;
  float* out = bound->data[TERN_AXPBY_OUT] + tern_plugin_offset(&args[TERN_AXPBY_OUT], index);
  const float* x = bound->data[TERN_AXPBY_X] + tern_plugin_offset(&args[TERN_AXPBY_X], index);
  const float* y = bound->data[TERN_AXPBY_Y]; /* null: absent */
  float value = attrs->a * *x;
  if (y != NULL) value += attrs->b * y[tern_plugin_offset(&args[TERN_AXPBY_Y], index)];
  *out = bound->desc->accumulate != 0 ? *out + value : value; /* only `out` may add */
}

static tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node) {
  const tern_tensor_desc* out = &bound->desc->args[TERN_AXPBY_OUT];
  const tern_status status = tern_plugin_check_host_args(bound->desc, host_args);
  if (status != TERN_OK || tern_plugin_elements(out) == 0) return status;
  int64_t index[TERN_MAX_RANK] = {0};
  do { /* nobody looks beyond the count */
    const int valid = out->dynamic_dim < 0 || index[out->dynamic_dim] < host_args->counts[out->count_slot];
    if (valid) run_element(bound, index);
  } while (tern_plugin_next(out, index));
  return TERN_OK;
}

/* clang-format off */
static const tern_backend table = {
    .size = sizeof(tern_backend), .abi_major = TERN_ABI_MAJOR, .abi_minor = TERN_ABI_MINOR,
    .name = "example", .version = "1.0", .probe_rank = -1, /* only when it is named */
    .device_count = device_count, .device_info = device_info, .device_open = device_open, .device_close = device_close,
    .device_health = device_health, .memory_info = memory_info, .last_error = tern_plugin_last_error,
    .buffer_create = buffer_create, .buffer_destroy = buffer_destroy, .buffer_host_pointer = buffer_host_pointer,
    .host_alloc = host_alloc, .host_free = host_free,
    .copy_to_device = copy_to_device, .copy_to_host = copy_to_host, .copy_on_device = copy_on_device, .fill = fill,
    .stream_create = stream_create, .stream_destroy = stream_destroy, .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event, .event_create = event_create, .event_destroy = event_destroy,
    .event_record = event_record, .event_query = event_done, .event_synchronize = event_done,
    .event_elapsed = event_elapsed,
    .supports = supports, .plan = plan, .plan_destroy = plan_destroy, .bind = bind, .launch = launch, .unbind = unbind,
};
/* clang-format on */

const tern_backend* tern_backend_entry(const tern_host* host) {
  return host != NULL && host->abi_major == TERN_ABI_MAJOR ? &table : NULL;
}
