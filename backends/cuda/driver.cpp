#include "backends/cuda/driver.h"

#include <dlfcn.h>

#include "backends/cuda/error.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

struct Loaded {
  Driver driver;
  std::string missing;
};

Loaded load() {
  Loaded loaded;
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    loaded.missing = cat("NVIDIA's driver library, ", kLibrary,
                         ", can't be opened: install the NVIDIA driver (Debian: nvidia-driver); in a container, run "
                         "it with --gpus all: ",
                         why != nullptr ? why : "no reason was given");
    return loaded;
  }
#define TERN_CUDA_FIND(member, symbol, parameters)                                                                  \
  loaded.driver.member = reinterpret_cast<decltype(loaded.driver.member)>(dlsym(library, symbol));                  \
  if (loaded.driver.member == nullptr && loaded.missing.empty()) {                                                  \
    loaded.missing = "NVIDIA's driver has no " symbol ": it is older than CUDA 12.0; install a driver from 525 on"; \
  }
  TERN_CUDA_DRIVER(TERN_CUDA_FIND)
#undef TERN_CUDA_FIND
  return loaded;  // the library stays open: it doesn't survive being closed
}

const Loaded& loaded() {
  static const Loaded instance = load();
  return instance;
}

}  // namespace

const std::string& missing_driver() { return loaded().missing; }

const Driver& driver() {
  if (!loaded().missing.empty()) throw Error(TERN_UNSUPPORTED, loaded().missing);
  return loaded().driver;
}

}  // namespace tern::cuda
