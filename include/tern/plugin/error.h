/* Why a call failed, texts, structs that begin with their size, handles, and memory in use. See tern/plugin.h. */
#ifndef TERN_PLUGIN_ERROR_H
#define TERN_PLUGIN_ERROR_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern/accel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One text a thread for all sources of a plugin, C and C++: the linker keeps one of the weak definitions. Hidden, so
 * that two plugins in one process don't share it. */
enum { TERN_PLUGIN_ERROR_BYTES = 1024 };
__attribute__((weak, visibility("hidden"))) __thread char tern_plugin_error_text[TERN_PLUGIN_ERROR_BYTES];

/* The last error of the calling thread, or "". Valid until the thread's next failure. */
static inline const char* tern_plugin_error(void) { return tern_plugin_error_text; }

/* Writes the `length` bytes of `text`, terminated and cut to fit: between characters of UTF-8, not inside of one.
 * Nothing where there is no room at all. */
static inline void tern_plugin_put(tern_text to, const char* text, size_t length) {
  if (to.data == NULL || to.capacity == 0) return;
  if (length >= to.capacity) {
    length = (size_t)to.capacity - 1;
    while (length > 0 && ((unsigned char)text[length] & 0xc0u) == 0x80u) --length;
  }
  if (length > 0) memmove(to.data, text, length);
  to.data[length] = '\0';
}

static inline void tern_plugin_put_text(tern_text to, const char* text) { tern_plugin_put(to, text, strlen(text)); }

/* tern_backend.last_error. */
static inline void tern_plugin_last_error(tern_text text) { tern_plugin_put_text(text, tern_plugin_error_text); }

/* Remembers a text (as of printf, one line, at most 1023 bytes) as the calling thread's last error; gives `status`
 * back: `return tern_plugin_fail(TERN_OUT_OF_MEMORY, "%llu bytes asked for", bytes);` */
static inline tern_status tern_plugin_fail(tern_status status, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
static inline tern_status tern_plugin_fail(tern_status status, const char* format, ...) {
  char text[TERN_PLUGIN_ERROR_BYTES + 4]; /* a cut character is cut off below; and a value may be the last error */
  va_list values;
  va_start(values, format);
  (void)vsnprintf(text, sizeof text, format, values);
  va_end(values);
  for (char* c = text; *c != '\0'; ++c) { /* vendors' messages have several lines */
    if ((unsigned char)*c < 0x20u) *c = ' ';
  }
  const tern_text place = {tern_plugin_error_text, sizeof tern_plugin_error_text};
  tern_plugin_put_text(place, text);
  return status;
}

/* ---------------------------------------------------------------- structs that begin with their size */

/* Gives the host an ..._info struct. `filled` is the plugin's own, of `size` bytes; its member `size` is set here.
 * `info` is the host's, whose `size` says how much room there is: an older host's has less, and what it can't hold is
 * left out; what a newer one has beyond stays as it was. TERN_INVALID_ARGUMENT: no struct, or room for not even its
 * size. */
static inline tern_status tern_plugin_give_info(void* info, void* filled, size_t size) {
  uint32_t room = 0;
  if (info != NULL) memcpy(&room, info, sizeof room);
  if (room < sizeof room) return tern_plugin_fail(TERN_INVALID_ARGUMENT, "no struct to fill, or one without its size");
  const uint32_t written = room < size ? room : (uint32_t)size;
  memcpy(filled, &written, sizeof written);
  memcpy(info, filled, written);
  return TERN_OK;
}

/* Reads a struct that the host hands over into the plugin's own, of `size` bytes. Members that an older host doesn't
 * know are 0, and `size` is what was read; what a newer one has beyond is left. TERN_INVALID_ARGUMENT: none was given,
 * or it says that it's shorter than `least` bytes, the members that can't be done without. */
static inline tern_status tern_plugin_take_struct(void* own, size_t size, size_t least, const void* given) {
  uint32_t there = 0;
  if (given != NULL) memcpy(&there, given, sizeof there);
  if (there < least || there < sizeof there) {
    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "expected a struct of at least %llu bytes, found %lu",
                            (unsigned long long)least, (unsigned long)there);
  }
  const uint32_t read = there < size ? there : (uint32_t)size;
  memset(own, 0, size);
  memcpy(own, given, read);
  memcpy(own, &read, sizeof read);
  return TERN_OK;
}

/* Reads the options of plan or compile; null stands for none of them. TERN_INVALID_ARGUMENT. */
static inline tern_status tern_plugin_take_options(const tern_plan_options* given, tern_plan_options* own) {
  memset(own, 0, sizeof *own);
  return given == NULL ? TERN_OK
                       : tern_plugin_take_struct(own, sizeof *own, offsetof(tern_plan_options, workspace_limit), given);
}

/* Whether a kernel may take that much workspace; TERN_UNSUPPORTED if not. */
static inline tern_status tern_plugin_check_workspace(const tern_plan_options* options, uint64_t bytes) {
  if (options->workspace_limit == 0 || bytes <= options->workspace_limit) return TERN_OK;
  return tern_plugin_fail(TERN_UNSUPPORTED, "it needs a workspace of %llu bytes, and may have %llu",
                          (unsigned long long)bytes, (unsigned long long)options->workspace_limit);
}

/* Reads what bind or launch_recipe is given. TERN_INVALID_ARGUMENT. */
static inline tern_status tern_plugin_take_bind_args(const tern_bind_args* given, tern_bind_args* own) {
  return tern_plugin_take_struct(own, sizeof *own, offsetof(tern_bind_args, host_scratch) + sizeof given->host_scratch,
                                 given);
}

/* ---------------------------------------------------------------- handles */

/* Makes the struct behind a handle, of `bytes` zeros: `return tern_plugin_new(sizeof **stream, stream);` `handle` is
 * the place for the pointer. TERN_OUT_OF_HOST_MEMORY. */
static inline tern_status tern_plugin_new(size_t bytes, void* handle) {
  void* made = calloc(1, bytes > 0 ? bytes : 1);
  if (made == NULL) return tern_plugin_fail(TERN_OUT_OF_HOST_MEMORY, "the host has no memory left for a handle");
  memcpy(handle, &made, sizeof made);
  return TERN_OK;
}

/* Frees what tern_plugin_new made; null: nothing. */
static inline tern_status tern_plugin_free(void* handle) {
  free(handle);
  return TERN_OK;
}

/* Whether `bytes` from `offset` on lie in a buffer of `capacity` bytes. */
static inline int tern_plugin_in_range(uint64_t offset, uint64_t bytes, uint64_t capacity) {
  return offset <= capacity && bytes <= capacity - offset;
}

/* ---------------------------------------------------------------- device memory */

/* What a device has, and what this process holds of it, in bytes; any number of threads. Begins as {.total = ...}. */
typedef struct tern_plugin_memory {
  uint64_t total;
  uint64_t in_use;
  uint64_t peak;
} tern_plugin_memory;

/* Counts `bytes` as taken, before they're allocated. TERN_OUT_OF_MEMORY: that much isn't left; nothing was counted. */
static inline tern_status tern_plugin_take_memory(tern_plugin_memory* memory, uint64_t bytes) {
  uint64_t before = __atomic_load_n(&memory->in_use, __ATOMIC_RELAXED);
  do {
    if (bytes <= memory->total - before) continue;
    return tern_plugin_fail(TERN_OUT_OF_MEMORY, "%llu bytes asked for, %llu of the device's %llu are in use",
                            (unsigned long long)bytes, (unsigned long long)before, (unsigned long long)memory->total);
  } while (
      !__atomic_compare_exchange_n(&memory->in_use, &before, before + bytes, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  uint64_t peak = __atomic_load_n(&memory->peak, __ATOMIC_RELAXED);
  while (before + bytes > peak &&
         !__atomic_compare_exchange_n(&memory->peak, &peak, before + bytes, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return TERN_OK;
}

/* Counts `bytes` that were taken as given back. */
static inline void tern_plugin_return_memory(tern_plugin_memory* memory, uint64_t bytes) {
  (void)__atomic_sub_fetch(&memory->in_use, bytes, __ATOMIC_RELAXED);
}

/* tern_backend.memory_info of a device whose only memory is what was taken here. */
static inline tern_status tern_plugin_memory_info(tern_plugin_memory* memory, tern_memory_info* info) {
  tern_memory_info filled;
  memset(&filled, 0, sizeof filled);
  filled.total = memory->total;
  filled.in_use_by_process = __atomic_load_n(&memory->in_use, __ATOMIC_RELAXED);
  filled.free = memory->total - filled.in_use_by_process;
  filled.peak_by_process = __atomic_load_n(&memory->peak, __ATOMIC_RELAXED);
  return tern_plugin_give_info(info, &filled, sizeof filled);
}

#ifdef __cplusplus
}
#endif
#endif
