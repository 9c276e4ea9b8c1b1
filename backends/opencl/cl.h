// OpenCL's functions, found in the loader's library at run time: nothing is linked, so that a machine without OpenCL
// still loads the plugin and is told what it lacks.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>
#include <utility>

namespace tern::opencl {

// Every function in use, all of OpenCL 1.2.
#define TERN_OPENCL_FUNCTIONS(X) \
  X(GetPlatformIDs)              \
  X(GetPlatformInfo)             \
  X(GetDeviceIDs)                \
  X(GetDeviceInfo)               \
  X(CreateContext)               \
  X(ReleaseContext)              \
  X(CreateCommandQueue)          \
  X(RetainCommandQueue)          \
  X(ReleaseCommandQueue)         \
  X(CreateBuffer)                \
  X(RetainMemObject)             \
  X(ReleaseMemObject)            \
  X(CreateProgramWithSource)     \
  X(CreateProgramWithBinary)     \
  X(BuildProgram)                \
  X(GetProgramInfo)              \
  X(GetProgramBuildInfo)         \
  X(ReleaseProgram)              \
  X(CreateKernel)                \
  X(ReleaseKernel)               \
  X(SetKernelArg)                \
  X(GetKernelWorkGroupInfo)      \
  X(EnqueueNDRangeKernel)        \
  X(EnqueueReadBuffer)           \
  X(EnqueueWriteBuffer)          \
  X(EnqueueCopyBuffer)           \
  X(EnqueueFillBuffer)           \
  X(EnqueueMapBuffer)            \
  X(EnqueueUnmapMemObject)       \
  X(EnqueueMarkerWithWaitList)   \
  X(EnqueueBarrierWithWaitList)  \
  X(CreateUserEvent)             \
  X(SetUserEventStatus)          \
  X(SetEventCallback)            \
  X(WaitForEvents)               \
  X(GetEventInfo)                \
  X(GetEventProfilingInfo)       \
  X(RetainEvent)                 \
  X(ReleaseEvent)                \
  X(Flush)                       \
  X(Finish)

struct Api {
#define TERN_OPENCL_MEMBER(name) decltype(&::cl##name) name = nullptr;
  TERN_OPENCL_FUNCTIONS(TERN_OPENCL_MEMBER)
#undef TERN_OPENCL_MEMBER
};

// Why there are no functions, in plain words with the mend; "": they are all there. Loads the library once.
[[nodiscard]] const std::string& missing_library();
// Only where missing_library() is "".
[[nodiscard]] const Api& cl();

// Owner of an object of OpenCL, which is released by the function that the type gives.
template <typename Object, auto Api::*Release>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Object object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) reset(std::exchange(other.object_, nullptr));
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { reset(); }
  void reset(Object object = nullptr) noexcept {
    if (object_ != nullptr) (void)(cl().*Release)(object_);
    object_ = object;
  }
  // Gives the object up: somebody else releases it.
  [[nodiscard]] Object release() noexcept { return std::exchange(object_, nullptr); }
  [[nodiscard]] Object get() const { return object_; }
  [[nodiscard]] explicit operator bool() const { return object_ != nullptr; }

 private:
  Object object_ = nullptr;
};
using OwnedContext = Owned<cl_context, &Api::ReleaseContext>;
using OwnedQueue = Owned<cl_command_queue, &Api::ReleaseCommandQueue>;
using OwnedMemory = Owned<cl_mem, &Api::ReleaseMemObject>;
using OwnedProgram = Owned<cl_program, &Api::ReleaseProgram>;
using OwnedKernel = Owned<cl_kernel, &Api::ReleaseKernel>;
using OwnedEvent = Owned<cl_event, &Api::ReleaseEvent>;

// Another owner of the same event; none of none.
[[nodiscard]] inline OwnedEvent share(cl_event event) {
  if (event != nullptr) (void)cl().RetainEvent(event);
  return OwnedEvent(event);
}

}  // namespace tern::opencl
