#include "backends/opencl/error.h"

#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

struct Code {
  cl_int code;
  const char* name;
  const char* words;  // what it means and what to do
  tern_status status;
};

#define TERN_OPENCL_CODE(name) name, #name
constexpr Code kCodes[] = {
    {TERN_OPENCL_CODE(CL_DEVICE_NOT_FOUND), "there is no such device", TERN_UNSUPPORTED},
    {TERN_OPENCL_CODE(CL_DEVICE_NOT_AVAILABLE), "the device is not available: another process may hold it",
     TERN_DEVICE_LOST},
    {TERN_OPENCL_CODE(CL_COMPILER_NOT_AVAILABLE), "the driver has no compiler: install the full driver",
     TERN_UNSUPPORTED},
    {TERN_OPENCL_CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE), "the device has no memory left", TERN_OUT_OF_MEMORY},
    {TERN_OPENCL_CODE(CL_OUT_OF_RESOURCES), "the device ran out of memory or registers", TERN_OUT_OF_MEMORY},
    {TERN_OPENCL_CODE(CL_OUT_OF_HOST_MEMORY), "the driver has no host memory left", TERN_OUT_OF_HOST_MEMORY},
    {TERN_OPENCL_CODE(CL_PROFILING_INFO_NOT_AVAILABLE), "the driver measured no times", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_MEM_COPY_OVERLAP), "source and destination overlap", TERN_INVALID_ARGUMENT},
    {TERN_OPENCL_CODE(CL_BUILD_PROGRAM_FAILURE), "the driver's compiler refused a kernel", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST), "work that was queued earlier failed",
     TERN_ASYNC_ERROR},
    {TERN_OPENCL_CODE(CL_INVALID_VALUE), "the driver refused a value", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_DEVICE), "the driver doesn't know its device any more", TERN_DEVICE_LOST},
    {TERN_OPENCL_CODE(CL_INVALID_CONTEXT), "the driver doesn't know its context any more", TERN_DEVICE_LOST},
    {TERN_OPENCL_CODE(CL_INVALID_COMMAND_QUEUE), "the queue was lost with its device", TERN_DEVICE_LOST},
    {TERN_OPENCL_CODE(CL_INVALID_MEM_OBJECT), "a buffer is none, or of another device", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_BINARY), "a kept kernel doesn't fit this driver", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_BUILD_OPTIONS), "the driver's compiler refused its options", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_PROGRAM_EXECUTABLE), "the driver made no program for this device", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_KERNEL_NAME), "a program has no such kernel", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_ARG_INDEX), "a kernel was given more arguments than it has", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_ARG_VALUE), "a kernel was given a wrong argument", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_ARG_SIZE), "a kernel was given an argument of another size", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_KERNEL_ARGS), "a kernel was given fewer arguments than it has", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_WORK_DIMENSION), "a launch has no such dimensions", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_WORK_GROUP_SIZE), "the device takes no such work-group", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_WORK_ITEM_SIZE), "the device takes no such work-group", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_EVENT_WAIT_LIST), "an event is none, or of another device", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_EVENT), "an event is none", TERN_INTERNAL},
    {TERN_OPENCL_CODE(CL_INVALID_BUFFER_SIZE), "the device allocates no buffer of that size", TERN_OUT_OF_MEMORY},
    {TERN_OPENCL_CODE(CL_INVALID_GLOBAL_WORK_SIZE), "a launch is larger than the device takes", TERN_INTERNAL},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR",
     "no driver is registered: install your device's (Intel: intel-opencl-icd; AMD: ROCm or mesa-opencl-icd; any CPU: "
     "pocl-opencl-icd), or look whether /etc/OpenCL/vendors names it",
     TERN_UNSUPPORTED},
};
#undef TERN_OPENCL_CODE

const Code* find(cl_int code) {
  for (const Code& known : kCodes) {
    if (known.code == code) return &known;
  }
  return nullptr;
}

}  // namespace

std::string_view error_name(cl_int code) {
  const Code* const known = find(code);
  return known != nullptr ? known->name : "an unknown error";
}

tern_status status_of(cl_int code) {
  const Code* const known = find(code);
  return code == CL_SUCCESS ? TERN_OK : known != nullptr ? known->status : TERN_INTERNAL;
}

void check(cl_int code, std::string_view what) {
  if (code == CL_SUCCESS) return;
  const Code* const known = find(code);
  throw Error(status_of(code), cat(what, ": ", known != nullptr ? known->words : "the driver failed", " (",
                                   error_name(code), ", ", code, ")"));
}

}  // namespace tern::opencl
