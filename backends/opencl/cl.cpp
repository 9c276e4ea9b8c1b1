#include "backends/opencl/cl.h"

#include <dlfcn.h>

#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

struct Loaded {
  Api api;
  std::string missing;
};

Loaded load() {
  Loaded loaded;
  void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    loaded.missing = cat(
        "OpenCL's loader, libOpenCL.so.1, can't be opened: install it (Debian: ocl-icd-libopencl1) and your device's "
        "driver: ",
        why != nullptr ? why : "no reason was given");
    return loaded;
  }
#define TERN_OPENCL_FIND(name)                                                                              \
  loaded.api.name = reinterpret_cast<decltype(loaded.api.name)>(dlsym(library, "cl" #name));                \
  if (loaded.api.name == nullptr && loaded.missing.empty()) {                                               \
    loaded.missing = "libOpenCL.so.1 has no cl" #name ": it is older than OpenCL 1.2; install a newer one"; \
  }
  TERN_OPENCL_FUNCTIONS(TERN_OPENCL_FIND)
#undef TERN_OPENCL_FIND
  return loaded;  // the library stays open: drivers don't survive being closed
}

const Loaded& loaded() {
  static const Loaded instance = load();
  return instance;
}

}  // namespace

const std::string& missing_library() { return loaded().missing; }
const Api& cl() { return loaded().api; }

}  // namespace tern::opencl
