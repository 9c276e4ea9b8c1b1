/* The runtime: one device in host memory. Work runs before the call that gives it returns, so an event is complete once
 * recorded. docs/backend-spec.md says what each function owes its caller (sections 4 to 8). */
#include "template.h"

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

unsigned char* at(tern_plane plane, uint64_t bytes) {
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

void add_runtime(tern_backend* table) {
  table->device_count = device_count;
  table->device_info = device_info;
  table->device_open = device_open;
  table->device_close = device_close;
  table->device_health = device_health;
  table->memory_info = memory_info;
  table->last_error = tern_plugin_last_error;
  table->buffer_create = buffer_create;
  table->buffer_destroy = buffer_destroy;
  table->buffer_host_pointer = buffer_host_pointer;
  table->host_alloc = host_alloc;
  table->host_free = host_free;
  table->copy_to_device = copy_to_device;
  table->copy_to_host = copy_to_host;
  table->copy_on_device = copy_on_device;
  table->fill = fill;
  table->stream_create = stream_create;
  table->stream_destroy = stream_destroy;
  table->stream_synchronize = stream_synchronize;
  table->stream_wait_event = stream_wait_event;
  table->event_create = event_create;
  table->event_destroy = event_destroy;
  table->event_record = event_record;
  table->event_query = event_done;
  table->event_synchronize = event_done;
  table->event_elapsed = event_elapsed;
}
