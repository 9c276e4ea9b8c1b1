/* A vendor's library that is broken: loaded, it notes so in the file $TERN_TEST_LOADED and then crashes, hangs, or says
 * untruths, as $TERN_TEST_VENDOR has it. It's built under the names of several vendors' libraries. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void) {
  const char* note = getenv("TERN_TEST_LOADED");
  const char* what = getenv("TERN_TEST_VENDOR");
  FILE* file = note != NULL ? fopen(note, "a") : NULL;
  if (file != NULL) {
    fputs("loaded\n", file);
    fclose(file);
  }
  if (what != NULL && strcmp(what, "crash") == 0) *(volatile int*)0 = 1;
  if (what != NULL && strcmp(what, "exit") == 0) _exit(0);
  while (what != NULL && strcmp(what, "hang") == 0) pause();
}

/* Untruths: platforms without names, and devices that nobody could have. */
#define SHOWN __attribute__((visibility("default")))
SHOWN int32_t clIcdGetPlatformIDsKHR(uint32_t room, void** platforms, uint32_t* count) {
  for (uint32_t i = 0; platforms != NULL && i < room; ++i) platforms[i] = NULL;
  if (count != NULL) *count = 3;
  return 0;
}
SHOWN void* clGetExtensionFunctionAddress(const char* name) {
  return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? (void*)(uintptr_t)clIcdGetPlatformIDsKHR : NULL;
}
SHOWN int aclInit(const char* config) { return 0; }
SHOWN int aclrtGetDeviceCount(uint32_t* count) {
  *count = 4000000000u;
  return 0;
}
