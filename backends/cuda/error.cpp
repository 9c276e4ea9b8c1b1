#include "backends/cuda/error.h"

#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

struct Code {
  CUresult code;
  const char* name;
  const char* words;  // what it means and what to do
  tern_status status;
};

#define TERN_CUDA_CODE(name) name, #name
constexpr Code kCodes[] = {
    {TERN_CUDA_CODE(CUDA_ERROR_INVALID_VALUE), "the driver refused a value", TERN_INTERNAL},
    {TERN_CUDA_CODE(CUDA_ERROR_OUT_OF_MEMORY),
     "the device has no memory left: free some, or see with nvidia-smi who else holds it", TERN_OUT_OF_MEMORY},
    {TERN_CUDA_CODE(CUDA_ERROR_NOT_INITIALIZED),
     "the driver isn't started: a process that forked after it began to use the device can't use it", TERN_INTERNAL},
    {TERN_CUDA_CODE(CUDA_ERROR_STUB_LIBRARY),
     "the libcuda.so.1 that was found is the toolkit's stub: take the folder \"stubs\" out of LD_LIBRARY_PATH",
     TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_NO_DEVICE),
     "the driver sees no NVIDIA device: look at nvidia-smi and at CUDA_VISIBLE_DEVICES; a container wants --gpus all",
     TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_INVALID_DEVICE), "there is no such device: look at CUDA_VISIBLE_DEVICES",
     TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_INVALID_IMAGE), "the driver can't read the compiled kernels", TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_INVALID_CONTEXT), "the device's context is gone", TERN_DEVICE_LOST},
    {TERN_CUDA_CODE(CUDA_ERROR_NO_BINARY_FOR_GPU),
     "no kernels were built for this device: build tern with its number in TERN_CUDA_ARCHITECTURES", TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_ECC_UNCORRECTABLE),
     "the device's memory has an error that can't be corrected: reset the device, or have it replaced",
     TERN_DEVICE_LOST},
    {TERN_CUDA_CODE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
     "the driver is older than the compiler that made these kernels: install a newer driver", TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_INVALID_HANDLE), "the driver doesn't know the handle", TERN_INTERNAL},
    {TERN_CUDA_CODE(CUDA_ERROR_NOT_FOUND), "the driver doesn't find it", TERN_INTERNAL},
    {TERN_CUDA_CODE(CUDA_ERROR_NOT_READY), "the work isn't over yet", TERN_NOT_READY},
    {TERN_CUDA_CODE(CUDA_ERROR_ILLEGAL_ADDRESS),
     "a kernel touched memory that isn't there; the process has to end. Please report this with the model's name",
     TERN_ASYNC_ERROR},
    {TERN_CUDA_CODE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
     "a kernel wants more registers or memory than a block may have", TERN_INTERNAL},
    {TERN_CUDA_CODE(CUDA_ERROR_LAUNCH_TIMEOUT),
     "a kernel ran longer than the system allows on a device that draws a screen", TERN_ASYNC_ERROR},
    {TERN_CUDA_CODE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED), "these pages are imported already", TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_LAUNCH_FAILED),
     "a kernel failed; the process has to end. Please report this with the model's name", TERN_ASYNC_ERROR},
    {TERN_CUDA_CODE(CUDA_ERROR_NOT_SUPPORTED), "this device or system doesn't do that", TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_SYSTEM_NOT_READY),
     "the system isn't ready: where devices are joined by switches, start the service nvidia-fabricmanager",
     TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
     "the driver's library and its kernel module are of different versions: reboot, as after an update; in a "
     "container, let the host's driver be mounted",
     TERN_UNSUPPORTED},
    {TERN_CUDA_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), "that isn't possible while a stream is captured",
     TERN_INVALID_ARGUMENT},
    {TERN_CUDA_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), "an earlier failure made the capture invalid",
     TERN_INVALID_ARGUMENT},
    {TERN_CUDA_CODE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED), "the capture wasn't begun on this stream",
     TERN_INVALID_ARGUMENT},
    {TERN_CUDA_CODE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),
     "a stream that joined the capture wasn't waited for before its end", TERN_INVALID_ARGUMENT},
    {TERN_CUDA_CODE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION), "work outside of the capture was waited for in it",
     TERN_INVALID_ARGUMENT},
    {TERN_CUDA_CODE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT), "work of another stream was waited for in a capture",
     TERN_INVALID_ARGUMENT},
    {TERN_CUDA_CODE(CUDA_ERROR_CAPTURED_EVENT), "the event was recorded in a capture", TERN_INVALID_ARGUMENT},
    {TERN_CUDA_CODE(CUDA_ERROR_UNKNOWN),
     "the driver failed; often its module for memory isn't loaded: run nvidia-modprobe -u, or modprobe nvidia-uvm",
     TERN_INTERNAL},
};
#undef TERN_CUDA_CODE

const Code* find(CUresult code) {
  for (const Code& known : kCodes) {
    if (known.code == code) return &known;
  }
  return nullptr;
}

}  // namespace

tern_status status_of(CUresult code) {
  const Code* const known = find(code);
  return code == CUDA_SUCCESS ? TERN_OK : known != nullptr ? known->status : TERN_INTERNAL;
}

std::string describe(std::string_view what, CUresult code) {
  const Code* const known = find(code);
  const char* name = nullptr;
  const char* text = nullptr;
  if (missing_driver().empty()) {
    (void)driver().GetErrorName(code, &name);
    (void)driver().GetErrorString(code, &text);
  }
  if (name == nullptr) name = known != nullptr ? known->name : "an unknown error";
  std::string line = cat(what, ": ", known != nullptr ? known->words : "the driver failed", " (", name, ", ", code);
  if (text != nullptr) line += cat(": ", text);
  return line + ")";
}

void check(CUresult code, std::string_view what) {
  if (code != CUDA_SUCCESS) throw Error(status_of(code), describe(what, code));
}

}  // namespace tern::cuda
