// What is known of a device before it is opened: the present ones, and those that are only described.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/opencl/cl.h"
#include "tern/accel.h"

namespace tern::opencl {

struct Facts {
  std::string name;
  std::string vendor;
  std::string arch;            // the version text of the device and the C that its compiler takes
  std::string driver_version;  // with the platform's
  std::uint32_t vendor_id = 0;
  bool cpu = false;          // work-items are loops on the host's threads: a work-item should do more
  bool host_memory = false;  // the device works in the host's memory
  bool fp64 = false;
  bool fp16 = false;            // arithmetic in half; storage of f16 needs nothing
  bool subgroups = false;       // cl_khr_subgroups or Intel's
  bool integer_dot = false;     // cl_khr_integer_dot_product with packed bytes
  bool intel_matrix = false;    // cl_intel_subgroup_matrix_multiply_accumulate
  bool exact_division = false;  // -cl-fp32-correctly-rounded-divide-sqrt is taken
  bool profiling_timer_is_monotonic = false;
  std::uint32_t compute_units = 1;
  std::uint64_t memory_bytes = 0;
  std::uint64_t largest_allocation = 0;
  std::uint64_t local_memory = 0;   // bytes of a work-group
  std::uint64_t largest_group = 1;  // work-items
  std::uint64_t alignment = 64;     // of a buffer's begin
  std::string extensions;

  [[nodiscard]] bool has(const char* extension) const;
};

struct Present {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  Facts facts;
};

// The devices of all drivers, GPUs first, then others, CPUs last; those that TERN_OPENCL_VISIBLE_DEVICES names, if it
// is set. Found once. `reason`: why there are none.
struct Found {
  std::vector<Present> devices;
  std::string reason;
  std::vector<std::string> notes;  // what was left out, and why: for doctor
};
[[nodiscard]] const Found& found_devices();

// The device of an ordinal; throws Error where there is none.
[[nodiscard]] const Present& present_device(std::int32_t ordinal);

// Devices that can be described: null-terminated, and the facts of one.
extern const char* const kProfiles[];
[[nodiscard]] const Facts& described_facts(const char* profile);

inline constexpr const char* kVisibleDevices = "TERN_OPENCL_VISIBLE_DEVICES";
// If set, CPUs are given the kernels of GPUs: slow, but so these are tested where there is no GPU.
// Compiling what stands for matrix units takes CPUs long, so that is apart.
inline constexpr const char* kAsGpu = "TERN_OPENCL_AS_GPU";
inline constexpr const char* kWithMatrixUnits = "matrix";

void fill_info(const Facts& facts, tern_device_info& info);

}  // namespace tern::opencl
