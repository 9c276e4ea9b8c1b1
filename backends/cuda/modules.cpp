#include "backends/cuda/modules.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "backends/cuda/error.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

// What stands for the kernels where there are none: a driver refuses it, and the fake of tests needs no images.
constexpr unsigned char kNoKernels[16] = {};
constexpr Image kNoImage = {"", "", kNoKernels};

std::span<const Image> images_or_none() { return images().empty() ? std::span(&kNoImage, 1) : images(); }

bool has_kernel(const Image& image, std::string_view name) {
  const std::string_view names = image.kernels;
  for (std::size_t at = names.find(name); at != std::string_view::npos; at = names.find(name, at + 1)) {
    if ((at == 0 || names[at - 1] == ' ') && names.substr(at + name.size()).starts_with(' ')) return true;
  }
  return false;
}

std::size_t image_of(const std::string& name) {
  if (images().empty()) return 0;
  for (std::size_t i = 0; i < images().size(); ++i) {
    if (has_kernel(images()[i], name)) return i;
  }
  throw Error(TERN_INTERNAL, cat("no file of backends/cuda/cu has the kernel ", name));
}

}  // namespace

void Function::allow_shared(std::size_t bytes) const {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  if (bytes <= allowed_) return;
  check(driver().FuncSetAttribute(handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)),
        cat(name, ": ", bytes, " bytes of shared memory"));
  allowed_ = bytes;
}

Modules::Modules() : loaded_(images_or_none().size(), nullptr) {
  // Whether the kernels run here at all is better known now than at the first launch.
  (void)get("nothing");
}

Modules::~Modules() {
  for (CUmodule module : loaded_) {
    if (module != nullptr) (void)driver().ModuleUnload(module);
  }
}

CUmodule Modules::load(std::size_t image) {
  CUmodule& module = loaded_[image];
  if (module != nullptr) return module;
  const Image& code = images_or_none()[image];
  const CUresult result = driver().ModuleLoadData(&module, code.code);
  if (result == CUDA_SUCCESS) return module;
  module = nullptr;
  if (images().empty()) {
    throw Error(TERN_UNSUPPORTED,
                describe("this tern was built without kernels for NVIDIA devices: build it where the CUDA "
                         "toolkit's nvcc is, with the device's compute capability in "
                         "TERN_CUDA_ARCHITECTURES",
                         result));
  }
  throw Error(status_of(result), describe(cat("loading the kernels of ", code.file), result));
}

const Function& Modules::get(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& place = functions_[name];
  if (place) return *place;
  auto made = std::make_unique<Function>();
  made->name = name;
  check(driver().ModuleGetFunction(&made->handle, load(image_of(name)), name.c_str()),
        cat("finding the kernel ", name));
  place = std::move(made);
  return *place;
}

}  // namespace tern::cuda
