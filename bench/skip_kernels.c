/* A device on which no kernel runs: the cpu backend in $TERN_SKIP_REAL with its launches left out, so that what remains
 * of a step is the host's own time. With TERN_SKIP_CAPTURE=0 it captures nothing. Built by script/bench.d/host against
 * the headers of the commit that it measures. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tern/accel.h"

static tern_backend skipping;
static tern_status (*real_info)(int32_t ordinal, tern_device_info* info);

static tern_status skip_launch(tern_bound bound, const tern_host_args* args, tern_stream stream, uint64_t* node) {
  (void)bound;
  (void)args;
  (void)stream;
  if (node != NULL) *node = 0;
  return TERN_OK;
}

/* Nothing was recorded that could be updated; its arguments are not the same in every version. */
static tern_status skip_update() { return TERN_OK; }

static tern_status info_without_capture(int32_t ordinal, tern_device_info* info) {
  const tern_status status = real_info(ordinal, info);
  info->capabilities &= ~(uint32_t)TERN_CAP_CAPTURE;
  return status;
}

TERN_EXPORT const tern_backend* tern_backend_entry(const tern_host* host) {
  void* library = dlopen(getenv("TERN_SKIP_REAL"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return NULL;
  const tern_backend_entry_fn entry = (tern_backend_entry_fn)dlsym(library, "tern_backend_entry");
  const tern_backend* real = entry != NULL ? entry(host) : NULL;
  if (real == NULL) return NULL;
  memcpy(&skipping, real, sizeof(skipping));
  skipping.name = "skip";
  skipping.launch = skip_launch;
  skipping.capture_update = (__typeof__(skipping.capture_update))skip_update;
  const char* capture = getenv("TERN_SKIP_CAPTURE");
  if (capture != NULL && strcmp(capture, "0") == 0) {
    real_info = real->device_info;
    skipping.device_info = info_without_capture;
  }
  return &skipping;
}
