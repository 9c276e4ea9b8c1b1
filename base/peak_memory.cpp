#include "base/peak_memory.h"

#include <cstdio>
#include <memory>

namespace tern {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

}  // namespace

// proc(5): VmHWM of /proc/self/status, in KiB.
std::uint64_t peak_memory() {
  const File file(std::fopen("/proc/self/status", "r"), &std::fclose);
  char line[256];
  while (file && std::fgets(line, sizeof line, file.get()) != nullptr) {
    unsigned long long kib = 0;
    if (std::sscanf(line, "VmHWM: %llu", &kib) == 1) return kib * 1024;
  }
  return 0;
}

// proc(5): 5 written to /proc/self/clear_refs.
void forget_peak_memory() {
  const File file(std::fopen("/proc/self/clear_refs", "w"), &std::fclose);
  if (file) (void)std::fputs("5", file.get());
}

}  // namespace tern
