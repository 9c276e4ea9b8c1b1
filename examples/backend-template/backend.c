/* The table of this backend, and the one symbol that the plugin exports. A new backend begins as a copy of this folder;
 * docs/backend-guide.md of tern says in which order to replace what is here. */
#include "template.h"

static tern_backend table = {
    .size = sizeof(tern_backend),
    .abi_major = TERN_ABI_MAJOR,
    .abi_minor = TERN_ABI_MINOR,
    .name = "example",
    .version = "1.0",
    .probe_rank = -1, /* only when it is named */
};

/* tern calls it once in a process. */
const tern_backend* tern_backend_entry(const tern_host* host) {
  if (host == NULL || host->abi_major != TERN_ABI_MAJOR) return NULL;
  add_runtime(&table);
  add_ops(&table);
  return &table;
}
