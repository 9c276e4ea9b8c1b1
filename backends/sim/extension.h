/* Extensions of the simulated device, which tern_backend.get_extension gives. */
#ifndef TERN_SIM_EXTENSION_H
#define TERN_SIM_EXTENSION_H

#include "tern/accel_types.h"

/* "sim.faults": what goes wrong on a handle from now on. */
typedef struct tern_sim_faults {
  uint32_t size;
  uint32_t reserved;
  /* `faults` as TERN_SIM_FAULT has them (README.md says what each does: oom, host, async, lost, hang, update, comm,
   * commhang), counted from this call on, in place of those that there were; "": none.
   * TERN_INVALID_ARGUMENT: it's no list of faults. */
  tern_status (*arm)(tern_device device, const char* faults);
} tern_sim_faults;

#endif
