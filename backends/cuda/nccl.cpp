#include "backends/cuda/nccl.h"

#include <dlfcn.h>

#include <cstdlib>

#include "backends/cuda/error.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

struct Loaded {
  Nccl functions;
  std::string missing;
};

Loaded load() {
  Loaded loaded;
  const char* const given = std::getenv(kNcclPath);
  const char* const name = given != nullptr && *given != '\0' ? given : "libnccl.so.2";
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    loaded.missing = cat("NVIDIA's collectives, ", name,
                         ", can't be opened: install them (Debian: libnccl2; pip: "
                         "nvidia-nccl-cu13) or set ",
                         kNcclPath, " to the library's path: ", why != nullptr ? why : "no reason was given");
    return loaded;
  }
#define TERN_CUDA_FIND(member, parameters) TERN_CUDA_FIND_SYMBOL(member)
#define TERN_CUDA_FIND_SYMBOL(member)                                                                            \
  loaded.functions.member = reinterpret_cast<decltype(loaded.functions.member)>(dlsym(library, "nccl" #member)); \
  if (loaded.functions.member == nullptr && loaded.missing.empty()) {                                            \
    loaded.missing = cat(name, " has no nccl" #member ": install NCCL 2.18 or later");                           \
  }
  TERN_CUDA_NCCL(TERN_CUDA_FIND)
  TERN_CUDA_FIND_SYMBOL(GetErrorString)
#undef TERN_CUDA_FIND_SYMBOL
#undef TERN_CUDA_FIND
  return loaded;
}

const Loaded& loaded() {
  static const Loaded instance = load();
  return instance;
}

struct Meaning {
  ncclResult_t result;
  tern_status status;
  const char* words;
};
constexpr Meaning kMeanings[] = {
    {ncclUnhandledCudaError, TERN_INTERNAL, "a call of CUDA failed: NCCL_DEBUG=WARN says which"},
    {ncclSystemError, TERN_INTERNAL,
     "the ranks can't reach each other: NCCL_DEBUG=WARN says why; NCCL_SOCKET_IFNAME names the network between hosts"},
    {ncclInternalError, TERN_INTERNAL, "it failed inside: NCCL_DEBUG=WARN says more"},
    {ncclInvalidArgument, TERN_INVALID_ARGUMENT, "an argument is wrong, or the ranks don't agree"},
    {ncclInvalidUsage, TERN_INVALID_ARGUMENT, "the ranks don't go together, as where two are on one device"},
    {ncclRemoteError, TERN_ASYNC_ERROR, "another rank failed or ended: its own log says why"},
};

}  // namespace

const std::string& missing_nccl() { return loaded().missing; }

const Nccl& nccl() {
  if (!loaded().missing.empty()) throw Error(TERN_UNSUPPORTED, loaded().missing);
  return loaded().functions;
}

void check_nccl(ncclResult_t result, std::string_view what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  tern_status status = TERN_INTERNAL;
  const char* words = "it failed";
  for (const Meaning& meaning : kMeanings) {
    if (meaning.result != result) continue;
    status = meaning.status;
    words = meaning.words;
  }
  const char* const text = nccl().GetErrorString(result);
  throw Error(status, cat(what, ": ", words, " (NCCL: ", text != nullptr ? text : "no text", ", ", result, ")"));
}

}  // namespace tern::cuda
