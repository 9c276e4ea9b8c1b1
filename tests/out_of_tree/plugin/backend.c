/* The smallest backend that keeps every promise: one device in host memory, one op (axpby in fp32). A new backend
 * begins as a copy of this file. Work runs before the call that gives it returns, so an event is complete once
 * recorded. What each function owes its caller is in docs/backend-spec.md. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tern/accel.h"
#include "tern/accel_ops.h"

#define MEMORY_BYTES ((uint64_t)1 << 30)
#define ALIGNMENT 64

struct tern_device_s {
  int ordinal;
};
struct tern_buffer_s {
  unsigned char* data;
  uint64_t bytes;
};
struct tern_stream_s {
  tern_device device;
};
struct tern_event_s {
  int timing;
  struct timespec time;
};
struct tern_plan_s {
  tern_tensor_desc args[TERN_AXPBY_NUM_ARGS];
  tern_axpby_attrs attrs;
  int accumulate;
};
struct tern_bound_s {
  struct tern_plan_s plan;
  unsigned char* data[TERN_AXPBY_NUM_ARGS];
};

/* ---------------------------------------------------------------- errors */
static _Thread_local char error_text[256];

static void put_text(tern_text to, const char* text) {
  if (to.data != NULL && to.capacity > 0) (void)snprintf(to.data, (size_t)to.capacity, "%s", text);
}

static tern_status fail(tern_status status, const char* text) {
  (void)snprintf(error_text, sizeof error_text, "%s", text);
  return status;
}

static void last_error(tern_text text) { put_text(text, error_text); }

/* ---------------------------------------------------------------- devices */
static tern_status device_count(int32_t* count, tern_text reason) {
  *count = 1;
  put_text(reason, "");
  return TERN_OK;
}

static tern_status device_info(int32_t ordinal, tern_device_info* info) {
  if (ordinal != 0) return fail(TERN_INVALID_ARGUMENT, "the one device is example:0");
  tern_device_info filled;
  memset(&filled, 0, sizeof filled);
  filled.capabilities = TERN_CAP_EAGER | TERN_CAP_HOST_POINTER | TERN_CAP_DYNAMIC_SHAPES;
  (void)snprintf(filled.name, sizeof filled.name, "example device");
  (void)snprintf(filled.arch, sizeof filled.arch, "c11");
  (void)snprintf(filled.driver_version, sizeof filled.driver_version, "1");
  filled.memory_bytes = MEMORY_BYTES;
  filled.largest_allocation_bytes = MEMORY_BYTES;
  filled.alignment = ALIGNMENT;
  filled.import_alignment = 1;
  filled.storage_dtypes = 1u << TERN_F32;
  filled.preferred_kv_block = 16;
  filled.compute_units = 1;
  filled.numa_node = -1;
  (void)snprintf(filled.link, sizeof filled.link, "host");
  filled.size = info->size < sizeof filled ? info->size : (uint32_t)sizeof filled;
  memcpy(info, &filled, filled.size); /* an older host has room for less */
  return TERN_OK;
}

static tern_status device_open(int32_t ordinal, tern_device* device) {
  if (ordinal != 0) return fail(TERN_INVALID_ARGUMENT, "the one device is example:0");
  *device = calloc(1, sizeof **device);
  return *device != NULL ? TERN_OK : fail(TERN_OUT_OF_HOST_MEMORY, "no memory for a device handle");
}

static tern_status device_close(tern_device device) {
  free(device);
  return TERN_OK;
}

static tern_status device_health(tern_device device, int32_t* health, tern_text reason) {
  (void)device;
  *health = TERN_HEALTH_OK;
  put_text(reason, "");
  return TERN_OK;
}

/* ---------------------------------------------------------------- memory */
static _Atomic uint64_t in_use, peak;

static void count_bytes(uint64_t bytes) {
  const uint64_t now = atomic_fetch_add(&in_use, bytes) + bytes;
  uint64_t highest = atomic_load(&peak);
  while (now > highest && !atomic_compare_exchange_weak(&peak, &highest, now)) continue;
}

static tern_status memory_info(tern_device device, tern_memory_info* info) {
  (void)device;
  tern_memory_info filled;
  memset(&filled, 0, sizeof filled);
  filled.total = MEMORY_BYTES;
  filled.in_use_by_process = atomic_load(&in_use);
  filled.free = MEMORY_BYTES - filled.in_use_by_process;
  filled.peak_by_process = atomic_load(&peak);
  filled.size = info->size < sizeof filled ? info->size : (uint32_t)sizeof filled;
  memcpy(info, &filled, filled.size);
  return TERN_OK;
}

static void* allocate(uint64_t bytes) {
  const uint64_t rounded = (bytes / ALIGNMENT + 1) * ALIGNMENT;
  return aligned_alloc(ALIGNMENT, (size_t)rounded);
}

static tern_status buffer_create(tern_device device, uint64_t bytes, tern_buffer* buffer) {
  (void)device;
  if (bytes > MEMORY_BYTES - atomic_load(&in_use)) return fail(TERN_OUT_OF_MEMORY, "the example device has 1 GiB");
  struct tern_buffer_s* made = malloc(sizeof *made);
  void* data = made != NULL ? allocate(bytes) : NULL;
  if (data == NULL) {
    free(made);
    return fail(TERN_OUT_OF_MEMORY, "the system has no memory left");
  }
  made->data = data;
  made->bytes = bytes;
  count_bytes(bytes);
  *buffer = made;
  return TERN_OK;
}

static tern_status buffer_destroy(tern_buffer buffer) {
  if (buffer == NULL) return TERN_OK;
  atomic_fetch_sub(&in_use, buffer->bytes);
  free(buffer->data);
  free(buffer);
  return TERN_OK;
}

static tern_status buffer_host_pointer(tern_buffer buffer, void** pointer) {
  *pointer = buffer->data;
  return TERN_OK;
}

static tern_status host_alloc(tern_device device, uint64_t bytes, void** pointer) {
  (void)device;
  *pointer = bytes <= MEMORY_BYTES ? allocate(bytes) : NULL;
  return *pointer != NULL ? TERN_OK : fail(TERN_OUT_OF_HOST_MEMORY, "the system has no memory left");
}

static tern_status host_free(tern_device device, void* pointer) {
  (void)device;
  free(pointer);
  return TERN_OK;
}

/* Where a plane lies, if `bytes` from there on are inside of its buffer. */
static unsigned char* at(tern_plane plane, uint64_t bytes) {
  if (plane.buffer == NULL || plane.offset > plane.buffer->bytes) return NULL;
  return bytes <= plane.buffer->bytes - plane.offset ? plane.buffer->data + plane.offset : NULL;
}

static tern_status copy(void* dst, const void* src, uint64_t bytes) {
  if (bytes == 0) return TERN_OK;
  if (dst == NULL || src == NULL)
    return fail(TERN_INVALID_ARGUMENT, "a copy that leaves its buffer, or a null pointer");
  memcpy(dst, src, (size_t)bytes);
  return TERN_OK;
}

static tern_status copy_to_device(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream) {
  (void)stream;
  return copy(at(dst, bytes), src, bytes);
}

static tern_status copy_to_host(void* dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  (void)stream;
  return copy(dst, at(src, bytes), bytes);
}

static tern_status copy_on_device(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  (void)stream;
  return copy(at(dst, bytes), at(src, bytes), bytes);
}

static tern_status fill(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream) {
  (void)stream;
  if (bytes == 0) return TERN_OK;
  unsigned char* data = at(dst, bytes);
  if (data == NULL) return fail(TERN_INVALID_ARGUMENT, "a fill that leaves its buffer");
  memset(data, byte, (size_t)bytes);
  return TERN_OK;
}

/* ---------------------------------------------------------------- streams and events */
static tern_status stream_create(tern_device device, int32_t priority, tern_stream* stream) {
  (void)priority;
  *stream = malloc(sizeof **stream);
  if (*stream == NULL) return fail(TERN_OUT_OF_HOST_MEMORY, "no memory for a stream");
  (*stream)->device = device;
  return TERN_OK;
}

static tern_status stream_destroy(tern_stream stream) {
  free(stream);
  return TERN_OK;
}

static tern_status stream_synchronize(tern_stream stream) {
  (void)stream;
  return TERN_OK;
}

static tern_status stream_wait_event(tern_stream stream, tern_event event) {
  (void)stream;
  (void)event;
  return TERN_OK;
}

static tern_status event_create(tern_device device, int32_t timing, tern_event* event) {
  (void)device;
  *event = calloc(1, sizeof **event);
  if (*event == NULL) return fail(TERN_OUT_OF_HOST_MEMORY, "no memory for an event");
  (*event)->timing = timing;
  return TERN_OK;
}

static tern_status event_destroy(tern_event event) {
  free(event);
  return TERN_OK;
}

static tern_status event_record(tern_event event, tern_stream stream) {
  (void)stream;
  (void)timespec_get(&event->time, TIME_UTC);
  return TERN_OK;
}

static tern_status event_done(tern_event event) {
  (void)event;
  return TERN_OK;
}

static tern_status event_elapsed(tern_event start, tern_event end, float* milliseconds) {
  if (!start->timing || !end->timing) return fail(TERN_INVALID_ARGUMENT, "an event without timing");
  const double seconds = difftime(end->time.tv_sec, start->time.tv_sec);
  const double milli = seconds * 1e3 + (double)(end->time.tv_nsec - start->time.tv_nsec) * 1e-6;
  *milliseconds = milli > 0 ? (float)milli : 0; /* this clock may be set back */
  return TERN_OK;
}

/* ---------------------------------------------------------------- the op */
static int goes_with(const tern_tensor_desc* arg, const tern_tensor_desc* out) {
  if (arg->rank != out->rank) return 0;
  for (int d = 0; d < arg->rank; ++d) {
    if (arg->shape[d] != out->shape[d]) return 0;
  }
  /* A broadcast input may be static beside a dynamic output. */
  return arg->dynamic_dim < 0 || (arg->dynamic_dim == out->dynamic_dim && arg->count_slot == out->count_slot);
}

/* Elements from the first to one past the last; -1: too many for any buffer here. */
static int64_t extent(const tern_tensor_desc* desc) {
  int64_t last = 0;
  for (int d = 0; d < desc->rank; ++d) {
    if (desc->shape[d] == 0) return 0;
  }
  for (int d = 0; d < desc->rank; ++d) {
    const int64_t limit = (int64_t)MEMORY_BYTES;
    const int64_t steps = desc->shape[d] - 1;
    if (steps > 0 && desc->strides[d] > (limit - last) / steps) return -1;
    last += steps * desc->strides[d];
  }
  return last + 1;
}

static tern_status refuse(tern_status status, const char* text, tern_text reason) {
  put_text(reason, text);
  return fail(status, text);
}

static tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  (void)device;
  put_text(reason, "");
  if (desc->op != TERN_OP_AXPBY) return refuse(TERN_UNSUPPORTED, "this device knows axpby alone", reason);
  const uint32_t known_needs = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT; /* an elementwise op meets both */
  if ((desc->needs & ~known_needs) != 0) return refuse(TERN_UNSUPPORTED, "axpby: an unknown need", reason);
  if (desc->num_args != TERN_AXPBY_NUM_ARGS || desc->attrs == NULL || desc->attrs_size < sizeof(tern_axpby_attrs)) {
    return refuse(TERN_INVALID_ARGUMENT, "axpby: three arguments and attributes are expected", reason);
  }
  const tern_tensor_desc* out = &desc->args[TERN_AXPBY_OUT];
  for (int i = 0; i < TERN_AXPBY_NUM_ARGS; ++i) {
    const tern_tensor_desc* arg = &desc->args[i];
    if (arg->rank == 0 && i == TERN_AXPBY_Y) continue; /* absent */
    if (arg->rank < 1 || arg->rank > TERN_MAX_RANK || !goes_with(arg, out)) {
      return refuse(TERN_INVALID_ARGUMENT, "axpby: shapes differ, or a required argument is absent", reason);
    }
    if (arg->dtype != TERN_F32) return refuse(TERN_UNSUPPORTED, "axpby: fp32 alone", reason);
    if (arg->layout != 0 || arg->scheme.packing != TERN_PACK_NONE) {
      return refuse(TERN_INVALID_ARGUMENT, "axpby: no argument is packed or quantised", reason);
    }
    if (extent(arg) < 0) return refuse(TERN_UNSUPPORTED, "axpby: larger than this device", reason);
  }
  return TERN_OK;
}

static tern_status plan(tern_device device, const tern_op_desc* desc, const char* choice, tern_plan* out,
                        tern_plan_info* info) {
  const tern_text nowhere = {NULL, 0};
  const tern_status status = supports(device, desc, nowhere);
  if (status != TERN_OK) return status;
  if (choice != NULL && *choice != '\0' && strcmp(choice, "loop") != 0) {
    return fail(TERN_UNSUPPORTED, "axpby: the one kernel here is called loop");
  }
  struct tern_plan_s* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(TERN_OUT_OF_HOST_MEMORY, "no memory for a plan");
  memcpy(made->args, desc->args, sizeof made->args);
  memcpy(&made->attrs, desc->attrs, sizeof made->attrs);
  made->accumulate = (desc->accumulate >> TERN_AXPBY_OUT & 1u) != 0;
  tern_plan_info filled;
  memset(&filled, 0, sizeof filled);
  (void)snprintf(filled.choice, sizeof filled.choice, "loop");
  filled.size = info->size < sizeof filled ? info->size : (uint32_t)sizeof filled;
  memcpy(info, &filled, filled.size);
  *out = made;
  return TERN_OK;
}

static tern_status plan_destroy(tern_plan made) {
  free(made);
  return TERN_OK;
}

static tern_status bind(tern_plan planned, const tern_tensor* args, tern_plane workspace, void* host_scratch,
                        tern_bound* out) {
  (void)workspace;
  (void)host_scratch;
  struct tern_bound_s* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(TERN_OUT_OF_HOST_MEMORY, "no memory for a binding");
  made->plan = *planned;
  for (int i = 0; i < TERN_AXPBY_NUM_ARGS; ++i) {
    const int64_t elements = planned->args[i].rank == 0 ? 0 : extent(&planned->args[i]);
    if (elements == 0) continue;
    made->data[i] = at(args[i].planes[0], (uint64_t)elements * sizeof(float));
    if (made->data[i] == NULL) {
      free(made);
      return fail(TERN_INVALID_ARGUMENT, "axpby: a tensor leaves its buffer");
    }
  }
  *out = made;
  return TERN_OK;
}

static tern_status unbind(tern_bound bound) {
  free(bound);
  return TERN_OK;
}

/* One element; `index` is its place in each dimension. */
static void run_element(const struct tern_bound_s* bound, const int64_t* index, int valid) {
  float* element[TERN_AXPBY_NUM_ARGS] = {NULL, NULL, NULL};
  for (int i = 0; i < TERN_AXPBY_NUM_ARGS; ++i) {
    const tern_tensor_desc* desc = &bound->plan.args[i];
    if (desc->rank == 0) continue;
    int64_t offset = 0;
    for (int d = 0; d < desc->rank; ++d) offset += index[d] * desc->strides[d];
    element[i] = (float*)(void*)bound->data[i] + offset;
  }
  float* out = element[TERN_AXPBY_OUT];
  if (!valid) { /* beyond the count: something finite, unless it is added to */
    if (!bound->plan.accumulate) *out = 0;
    return;
  }
  float value = bound->plan.attrs.a * *element[TERN_AXPBY_X];
  if (element[TERN_AXPBY_Y] != NULL) value += bound->plan.attrs.b * *element[TERN_AXPBY_Y];
  *out = bound->plan.accumulate ? *out + value : value;
}

static tern_status launch(tern_bound bound, const tern_host_args* host_args, tern_stream stream, uint64_t* node) {
  (void)stream;
  (void)node; /* nothing is captured here */
  const tern_tensor_desc* out = &bound->plan.args[TERN_AXPBY_OUT];
  int64_t count = 0;
  if (out->dynamic_dim >= 0) {
    if (host_args == NULL) return fail(TERN_INVALID_ARGUMENT, "axpby: the counts are missing");
    count = host_args->counts[out->count_slot];
    if (count < 0 || count > out->shape[out->dynamic_dim]) {
      return fail(TERN_INVALID_ARGUMENT, "axpby: a count beyond its capacity");
    }
  }
  if (extent(out) == 0) return TERN_OK;
  int64_t index[TERN_MAX_RANK] = {0};
  for (int d = 0; d >= 0;) {
    run_element(bound, index, out->dynamic_dim < 0 || index[out->dynamic_dim] < count);
    for (d = out->rank - 1; d >= 0 && ++index[d] == out->shape[d]; --d) index[d] = 0;
  }
  return TERN_OK;
}

/* ---------------------------------------------------------------- the table */
static const tern_backend table = {
    .size = sizeof(tern_backend),
    .abi_major = TERN_ABI_MAJOR,
    .abi_minor = TERN_ABI_MINOR,
    .probe_rank = -1, /* only when it is named */
    .name = "example",
    .version = "1.0",
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .device_health = device_health,
    .memory_info = memory_info,
    .last_error = last_error,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_host_pointer = buffer_host_pointer,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy_to_device = copy_to_device,
    .copy_to_host = copy_to_host,
    .copy_on_device = copy_on_device,
    .fill = fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_done,
    .event_synchronize = event_done,
    .event_elapsed = event_elapsed,
    .supports = supports,
    .plan = plan,
    .plan_destroy = plan_destroy,
    .bind = bind,
    .launch = launch,
    .unbind = unbind,
};

const tern_backend* tern_backend_entry(const tern_host* host) {
  return host != NULL && host->abi_major == TERN_ABI_MAJOR ? &table : NULL;
}
