/* The extension "tern.monitor" (tern_backend.get_extension): what a device does at this moment, how devices are linked,
 * and where the vendor's logs lie. `tern devices`, `tern topo` and `tern doctor` show it; no run needs it.
 * docs/backend-spec.md, section 5, is the contract. */
#ifndef TERN_ACCEL_MONITOR_H
#define TERN_ACCEL_MONITOR_H

#include "tern/accel_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What isn't known is NaN, of the texts "", of the page counts both 0. */
typedef struct tern_device_state {
  uint32_t size;
  int32_t health; /* TERN_HEALTH_* */
  float temperature_celsius;
  float power_watts;
  float compute_percent; /* of its time in which the device computes */
  uint32_t reserved;
  uint64_t memory_total;     /* bytes */
  uint64_t memory_used;      /* bytes, by all processes */
  uint64_t huge_pages_total; /* of the device's own memory */
  uint64_t huge_pages_used;
  char place[64];   /* as the vendor's tool counts: "card 0 chip 1" */
  char reason[256]; /* why the health isn't TERN_HEALTH_OK */
} tern_device_state;

typedef struct tern_device_process {
  uint32_t size;
  int32_t pid;
  uint64_t memory_bytes; /* of the device's, that it holds */
} tern_device_process;

/* Each function may be null, needs no open device, takes no device memory, and may be called from any thread. */
typedef struct tern_monitor {
  uint32_t size;
  uint32_t reserved;
  tern_status (*device_state)(int32_t ordinal, tern_device_state* state);
  /* Processes that hold memory of the device, 0, 1, 2, ...; TERN_UNSUPPORTED past the last. */
  tern_status (*device_process)(int32_t ordinal, uint32_t index, tern_device_process* process);
  /* What two devices are joined by, in the vendor's word: "HCCS", "PIX", "SYS"; TERN_UNSUPPORTED: not known. */
  tern_status (*device_link)(int32_t from, int32_t to, tern_text link);
  /* CPUs that are near the device, as Linux lists them: "0-23,48-71". */
  tern_status (*cpu_affinity)(int32_t ordinal, tern_text cpus);
  /* Log files of the vendor's libraries, newest first; TERN_UNSUPPORTED past the last. */
  tern_status (*log_file)(uint32_t index, tern_text path);
} tern_monitor;

#ifdef __cplusplus
}
#endif

#endif
