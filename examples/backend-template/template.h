/* What the sources of this backend share: the structs behind the handles, and the parts of its table. */
#ifndef EXAMPLE_TEMPLATE_H
#define EXAMPLE_TEMPLATE_H

#include <time.h>

#include "tern/plugin.h"

#define MEMORY_BYTES ((uint64_t)1 << 30)
#define ALIGNMENT 64

/* Devices and streams hold nothing here: there is one device, and its work runs at once. */
struct tern_buffer_s {
  uint64_t bytes;
  _Alignas(ALIGNMENT) unsigned char data[];
};
struct tern_event_s {
  int32_t timing;
  struct timespec time;
};

/* Where a plane lies, if `bytes` from there on are inside of its buffer; else, or if it has none, null. */
unsigned char* at(tern_plane plane, uint64_t bytes);

/* A kernel: what every list of tern/plugin.h begins with, and how to run it. `desc` has dynamic dimensions cut to this
 * launch's counts; data[i] is where the argument i begins, null if it's absent. */
typedef struct kernel {
  tern_plugin_kernel base;
  void (*run)(const tern_op_desc* desc, unsigned char* const* data);
} kernel;
extern const tern_plugin_kernel* const kernels[];
extern const uint32_t num_kernels;

/* Fill in their part of the table. */
void add_runtime(tern_backend* table);
void add_ops(tern_backend* table);

#endif
