#include "backends/npu/hccl.h"

#include <cstdlib>
#include <vector>

#include "backends/npu/errors.h"
#include "tern/plugin.h"

namespace tern::npu {
namespace {

struct Opened {
  Opened() {
    std::vector<void*> handles;
    for (const char* name : {"libhccl.so", "libhcomm.so"}) {  // one library in CANN 8, two in 9
      if (void* handle = open_library(name, why)) handles.push_back(handle);
    }
    if (handles.empty()) {
      why =
          "libhccl.so can't be loaded, so there are no collectives between devices; install the whole CANN toolkit: " +
          why;
      return;
    }
    why.clear();
    const auto load = [&](auto& function, const char* name) {
      for (void* handle : handles) {
        if (function == nullptr) {
          function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find_in(handle, name));
        }
      }
      if (function == nullptr && why.empty()) why = std::string("HCCL has no ") + name + "; install CANN 8.0 or later";
    };
#define TERN_NPU_LOAD(name) load(functions.name, #name);
    TERN_NPU_HCCL(TERN_NPU_LOAD)
#undef TERN_NPU_LOAD
  }
  Hccl functions;
  std::string why;
};

struct Meaning {
  HcclResult code;
  tern_status status;
  const char* words;
};
constexpr Meaning kMeanings[] = {
    {HCCL_E_PARA, TERN_INVALID_ARGUMENT, "the ranks don't agree, or an argument is wrong"},
    {HCCL_E_PTR, TERN_INVALID_ARGUMENT, "a null pointer"},
    {HCCL_E_MEMORY, TERN_OUT_OF_MEMORY, "no device memory for its buffers; lower HCCL_BUFFSIZE or free some"},
    {HCCL_E_NOT_SUPPORT, TERN_UNSUPPORTED, "this chip's HCCL doesn't do that"},
    {HCCL_E_TIMEOUT, TERN_TIMEOUT,
     "not all ranks came in time; look for one that failed earlier, or raise HCCL_CONNECT_TIMEOUT"},
    {HCCL_E_NETWORK, TERN_INTERNAL,
     "the ranks can't reach each other; set HCCL_SOCKET_IFNAME or HCCL_IF_IP to the network between the hosts"},
    {HCCL_E_REMOTE, TERN_ASYNC_ERROR, "another rank failed or ended; its own log says why"},
};

}  // namespace

const Hccl* hccl(std::string& why) {
  static const Opened opened;
  why = opened.why;
  return why.empty() ? &opened.functions : nullptr;
}

const Hccl& hccl() {
  std::string why;
  const Hccl* found = hccl(why);
  if (found == nullptr) throw tern_plugin::Error(TERN_UNSUPPORTED, why);
  return *found;
}

void check_hccl(HcclResult result, const char* what) {
  if (result == HCCL_SUCCESS) return;
  std::string text = std::string(what) + ": ";
  tern_status status = TERN_INTERNAL;
  for (const Meaning& meaning : kMeanings) {
    if (meaning.code != result) continue;
    status = meaning.status;
    text += std::string(meaning.words) + " (";
  }
  const char* name = hccl().HcclGetErrorString(result);
  text += std::string("HCCL: ") + (name == nullptr ? "no text" : name) + ", code " + std::to_string(result);
  if (status != TERN_INTERNAL || result == HCCL_E_NETWORK) text += ")";
  if (const auto recent = acl().aclGetRecentErrMsg; recent != nullptr) {
    if (const char* said = recent(); said != nullptr) text += std::string(": ") + said;
  }
  for (char& letter : text) {
    if (letter == '\n') letter = ' ';
  }
  throw tern_plugin::Error(status, text);
}

std::uint64_t comm_bytes() {
  constexpr std::uint64_t kDefault = 200;  // megabytes each way
  const char* text = std::getenv("HCCL_BUFFSIZE");
  const long given = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return 2 * (given > 0 ? static_cast<std::uint64_t>(given) : kDefault) << 20;
}

}  // namespace tern::npu
