// What kernels are given at launch: arguments, queueing, options of their programs.
#include "backends/opencl/error.h"
#include "backends/opencl/kernel.h"
#include "backends/opencl/runtime.h"
#include "backends/opencl/text.h"

namespace tern::opencl {

Defines& Defines::set(const char* name, std::int64_t value) {
  text_ += cat(text_.empty() ? "-D " : " -D ", name, "=", value);
  return *this;
}

Defines& Defines::tensor(const char* name, const PlanDesc& desc, int arg) {
  set(cat("HAS_", name).c_str(), desc.present(arg) ? 1 : 0);
  return set(cat(name, "_T").c_str(), desc.present(arg) ? desc.arg(arg).dtype : TERN_F32);
}

Defines& Defines::adds(const char* name, const PlanDesc& desc, int arg) {
  return set(cat("ADDS_", name).c_str(), desc.accumulates(arg) ? 1 : 0);
}

Call& Call::arg(const Place& place) {
  bytes(&place.memory, sizeof place.memory);
  return bytes(&place.offset, sizeof place.offset);
}

Call& Call::local(std::size_t bytes) {
  check(cl().SetKernelArg(kernel_, next_++, bytes, nullptr), cat(name_, ": local memory"));
  return *this;
}

Call& Call::bytes(const void* value, std::size_t size) {
  const cl_int code = cl().SetKernelArg(kernel_, next_, size, value);
  if (code != CL_SUCCESS) check(code, cat(name_, ": argument ", next_));
  ++next_;
  return *this;
}

void Call::run(std::array<std::int64_t, 3> items, std::array<std::int64_t, 3> group) {
  std::array<std::size_t, 3> global{};
  std::array<std::size_t, 3> local{};
  cl_uint dimensions = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    if (items[d] <= 0) return;
    local[d] = static_cast<std::size_t>(group[d]);
    global[d] = (static_cast<std::size_t>(items[d]) + local[d] - 1) / local[d] * local[d];
    if (global[d] > 1) dimensions = static_cast<cl_uint>(d + 1);
  }
  submit(stream_, TERN_PROFILE_KERNEL, name_, 0, [&](cl_event* event) {
    return cl().EnqueueNDRangeKernel(stream_.queue.get(), kernel_, dimensions, nullptr, global.data(), local.data(), 0,
                                     nullptr, event);
  });
}

bool Launch::accumulates(int i) const { return (planned().accumulate >> i & 1U) != 0; }
const tern_op_desc& Launch::planned() const { return *bound_.plan->desc; }
const Facts& Launch::device() const { return *bound_.plan->device->facts; }
int Launch::variant() const { return bound_.plan->kernel->variant; }
const void* Launch::attrs() const { return planned().attrs; }

Place Launch::workspace(std::uint64_t offset) const {
  tern_plane plane = bound_.workspace;
  plane.offset += offset;
  return find_place(plane, 0, "workspace");
}

Call Launch::call(std::size_t i) const { return {bound_.kernels[i].get(), stream_, bound_.plan->functions[i].second}; }

void Launch::fill(const Place& place, std::uint8_t byte, std::uint64_t bytes) const {
  fill_bytes(stream_, place, byte, bytes);
}

}  // namespace tern::opencl
