#include "backends/npu/loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "backends/npu/errors.h"
#include "backends/npu/machine.h"
#include "tern/plugin.h"

namespace tern::npu {
namespace {

constexpr const char* kRuntimes[] = {"libascendcl.so", "libacl_rt.so"};  // of CANN 8 and of 9
// Where tensors of the operators are made, then the operators: one library in CANN 8, six in 9.
constexpr const char* kOperators[] = {
    "libnnopbase.so",          "libopapi.so",    "libopapi_math.so",   "libopapi_nn.so",
    "libopapi_transformer.so", "libopapi_cv.so", "libopapi_legacy.so", "libopapi_oam.so"};

// Folders in which a toolkit may be, the default search of the loader first.
std::vector<std::string> folders() {
  std::vector<std::string> found = {""};
  for (const char* variable : {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"}) {
    const char* home = std::getenv(variable);
    if (home != nullptr && *home != '\0') found.push_back(std::string(home) + "/lib64/");
  }
  found.push_back(on_machine("/usr/local/Ascend/ascend-toolkit/latest/lib64/").string());
  found.push_back(on_machine("/usr/local/Ascend/cann/lib64/").string());
  return found;
}

class Libraries {
 public:
  Libraries() {
    for (const char* name : kRuntimes) open(name);
    if (handles_.empty()) {
      why_ = explain_absence();
      return;
    }
    for (const char* name : kOperators) open(name);
    fill();
  }
  [[nodiscard]] const Acl* acl(std::string& why) const {
    why = why_;
    return why_.empty() ? &acl_ : nullptr;
  }
  [[nodiscard]] void* find(const char* name) const {
    for (void* handle : handles_) {
      if (void* symbol = dlsym(handle, name)) return symbol;
    }
    return nullptr;
  }
  [[nodiscard]] OpSymbols find_op(const char* name) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = ops_.try_emplace(name);
    if (is_new) at->second = {find((std::string(name) + "GetWorkspaceSize").c_str()), find(name)};
    return at->second;
  }

 private:
  void open(const char* name) {
    std::string first;
    for (const std::string& folder : folders()) {
      if (void* handle = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL)) {
        handles_.push_back(handle);
        return;
      }
      const char* said = dlerror();
      const std::string text = said != nullptr ? said : "";
      // A library that is there and lacks another one tells more than one that isn't there.
      const bool own = text.find(name) == 0 || text.find(folder + name) == 0;
      const bool absent = own && text.find("No such file") != std::string::npos;
      if (!absent && broken_.empty()) broken_ = text;
    }
  }

  [[nodiscard]] std::string explain_absence() const {
    if (broken_.find("libascend_hal.so") != std::string::npos) {
      return "the Ascend driver's libraries aren't here (libascend_hal.so): install the driver, or mount "
             "/usr/local/Ascend/driver into the container and add its lib64/driver to LD_LIBRARY_PATH: " +
             broken_;
    }
    if (!broken_.empty()) return "CANN's runtime can't be loaded; mend the toolkit's installation: " + broken_;
    return "libascendcl.so: not found; install the CANN toolkit and run `source set_env.sh` of it, or set "
           "ASCEND_HOME_PATH";
  }

  void fill() {
    std::string missing;
    const auto load = [&](auto& function, const char* name, bool required) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(name));
      if (required && function == nullptr && missing.empty()) missing = name;
    };
#define TERN_NPU_LOAD(name) load(acl_.name, #name, true);
    TERN_NPU_REQUIRED(TERN_NPU_LOAD)
#undef TERN_NPU_LOAD
#define TERN_NPU_LOAD(name) load(acl_.name, #name, false);
    TERN_NPU_OPTIONAL(TERN_NPU_LOAD)
#undef TERN_NPU_LOAD
    if (missing.empty()) return;
    why_ = "CANN's libraries have no " + missing + ": ";
    why_ += missing.starts_with("aclCreate") || missing.starts_with("aclDestroy")
                ? "libnnopbase.so and libopapi.so belong beside libascendcl.so; install the whole toolkit"
                : "this version is too old; install CANN 8.0 or later";
  }

  std::vector<void*> handles_;
  std::string broken_;
  std::string why_;
  Acl acl_;
  std::mutex mutex_;
  std::map<std::string, OpSymbols, std::less<>> ops_;
};

Libraries& libraries() {
  static Libraries* const opened = new Libraries;  // outlives every thread that may still launch
  return *opened;
}

}  // namespace

const Acl* acl(std::string& why) { return libraries().acl(why); }

const Acl& acl() {
  std::string why;
  const Acl* found = libraries().acl(why);
  if (found == nullptr) throw tern_plugin::Error(TERN_UNSUPPORTED, why);
  return *found;
}

void* open_library(const char* name, std::string& why) {
  for (const std::string& folder : folders()) {
    if (void* handle = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
    const char* said = dlerror();
    if (folder.empty()) why = said != nullptr ? said : "";
  }
  return nullptr;
}

void* find_in(void* library, const char* name) { return dlsym(library, name); }

void* find_symbol(const char* name) { return libraries().find(name); }
OpSymbols find_op(const char* name) { return libraries().find_op(name); }

std::string cann_version() {
  std::string why;
  const Acl* found = acl(why);
  std::int32_t major = 0;
  std::int32_t minor = 0;
  std::int32_t patch = 0;
  if (found == nullptr || found->aclrtGetVersion == nullptr || found->aclrtGetVersion(&major, &minor, &patch) != 0) {
    return "unknown";
  }
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace tern::npu
