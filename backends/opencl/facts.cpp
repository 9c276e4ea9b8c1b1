#include "backends/opencl/facts.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "backends/opencl/error.h"
#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

std::string device_text(cl_device_id device, cl_device_info what) {
  std::size_t bytes = 0;
  if (cl().GetDeviceInfo(device, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (cl().GetDeviceInfo(device, what, bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

std::string platform_text(cl_platform_id platform, cl_platform_info what) {
  std::size_t bytes = 0;
  if (cl().GetPlatformInfo(platform, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (cl().GetPlatformInfo(platform, what, bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

template <typename T>
T device_value(cl_device_id device, cl_device_info what) {
  T value{};
  if (cl().GetDeviceInfo(device, what, sizeof value, &value, nullptr) != CL_SUCCESS) return T{};
  return value;
}

// The kernels for matrix units are of sub-groups of 16: devices whose smallest is 8 have other functions.
constexpr std::size_t kMatrixSubGroup = 16;
std::size_t smallest_sub_group(cl_device_id device) {
  constexpr cl_device_info kSizes = 0x4108;  // CL_DEVICE_SUB_GROUP_SIZES_INTEL
  std::size_t sizes[16] = {};
  std::size_t bytes = 0;
  if (cl().GetDeviceInfo(device, kSizes, sizeof sizes, sizes, &bytes) != CL_SUCCESS || bytes < sizeof sizes[0])
    return 0;
  return *std::min_element(sizes, sizes + bytes / sizeof sizes[0]);
}

Facts read_facts(cl_platform_id platform, cl_device_id device) {
  Facts facts;
  facts.name = device_text(device, CL_DEVICE_NAME);
  facts.vendor = device_text(device, CL_DEVICE_VENDOR);
  facts.arch = device_text(device, CL_DEVICE_VERSION);
  facts.driver_version =
      cat(device_text(device, CL_DRIVER_VERSION), "; ", platform_text(platform, CL_PLATFORM_VERSION));
  facts.extensions = cat(" ", device_text(device, CL_DEVICE_EXTENSIONS), " ");
  facts.vendor_id = device_value<cl_uint>(device, CL_DEVICE_VENDOR_ID);
  facts.cpu = (device_value<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  facts.host_memory = device_value<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY) == CL_TRUE;
  facts.fp64 = facts.has("cl_khr_fp64");
  facts.fp16 = facts.has("cl_khr_fp16");
  facts.subgroups = facts.has("cl_khr_subgroups") || facts.has("cl_intel_subgroups");
  facts.integer_dot = facts.has("cl_khr_integer_dot_product");
  facts.intel_matrix =
      facts.has("cl_intel_subgroup_matrix_multiply_accumulate") && smallest_sub_group(device) == kMatrixSubGroup;
  facts.exact_division = (device_value<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG) &
                          CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  const char* const as_gpu = std::getenv(kAsGpu);
  if (facts.cpu && as_gpu != nullptr) {
    facts.cpu = false;
    facts.integer_dot = true;                                           // written out in cl/x15.cl
    facts.intel_matrix = std::string_view(as_gpu) == kWithMatrixUnits;  // and in cl/product.cl
    facts.driver_version =
        cat("as a GPU; ", facts.driver_version);  // choices that are remembered for one are none for the other
  }
  facts.compute_units = std::max<cl_uint>(1, device_value<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS));
  facts.memory_bytes = device_value<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  facts.largest_allocation = device_value<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  facts.local_memory = device_value<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE);
  facts.largest_group = std::max<std::size_t>(1, device_value<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  facts.alignment = std::max<cl_uint>(64 * 8, device_value<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN)) / 8;
  return facts;
}

// Why the device can't be used, or "".
std::string unusable(cl_device_id device, const Facts& facts) {
  if (device_value<cl_bool>(device, CL_DEVICE_AVAILABLE) == CL_FALSE) return "its driver says that it isn't available";
  if (device_value<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) == CL_FALSE) return "its driver has no compiler";
  if (device_value<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE) == CL_FALSE) return "it is big-endian";
  if (device_text(device, CL_DEVICE_PROFILE) != "FULL_PROFILE") return "it has OpenCL's embedded profile alone";
  int major = 0;
  int minor = 0;
  if (std::sscanf(facts.arch.c_str(), "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 12) {
    return cat("it has ", facts.arch, ", and 1.2 is needed");
  }
  return {};
}

void add_platform(cl_platform_id platform, Found& found) {
  cl_uint count = 0;
  const std::string name = platform_text(platform, CL_PLATFORM_NAME);
  const cl_int code = cl().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  if (code != CL_SUCCESS || count == 0) {
    found.notes.push_back(cat("the driver \"", name, "\" has no devices (", error_name(code), ")"));
    return;
  }
  std::vector<cl_device_id> ids(count);
  check(cl().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr), "listing devices");
  for (const cl_device_id id : ids) {
    Facts facts = read_facts(platform, id);
    const std::string why = unusable(id, facts);
    if (why.empty()) {
      found.devices.push_back({platform, id, std::move(facts)});
    } else {
      found.notes.push_back(cat(facts.name, " (\"", name, "\") is left out: ", why));
    }
  }
}

// Keeps what the variable names, in its order; ordinals then count these.
void keep_visible(Found& found) {
  const char* const list = std::getenv(kVisibleDevices);
  if (list == nullptr) return;
  std::vector<Present> kept;
  const std::string text = list;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::size_t place = found.devices.size();
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, place);
    if (error != std::errc{} || stop != text.data() + end || place >= found.devices.size()) {
      found.notes.push_back(cat(kVisibleDevices, "=", text, ": expected numbers below ", found.devices.size(),
                                " with commas between; what follows is ignored"));
      break;
    }
    kept.push_back(found.devices[place]);
    at = end + 1;
  }
  found.devices = std::move(kept);
  if (found.devices.empty()) found.reason = cat(kVisibleDevices, "=", text, " hides every device: unset or mend it");
}

Found find_devices() {
  Found found;
  found.reason = missing_library();
  if (!found.reason.empty()) return found;
  cl_uint count = 0;
  const cl_int code = cl().GetPlatformIDs(0, nullptr, &count);
  if (code != CL_SUCCESS || count == 0) {
    try {
      check(code != CL_SUCCESS ? code : -1001, "OpenCL's loader is there");
    } catch (const Error& error) {
      found.reason = error.what();
    }
    return found;
  }
  std::vector<cl_platform_id> platforms(count);
  check(cl().GetPlatformIDs(count, platforms.data(), nullptr), "listing drivers");
  for (const cl_platform_id platform : platforms) add_platform(platform, found);
  std::stable_sort(found.devices.begin(), found.devices.end(),
                   [](const Present& a, const Present& b) { return a.facts.cpu < b.facts.cpu; });
  if (found.devices.empty()) {
    found.reason = "OpenCL's drivers have no device that can be used";
    for (const std::string& note : found.notes) found.reason += cat("; ", note);
    return found;
  }
  keep_visible(found);
  return found;
}

}  // namespace

bool Facts::has(const char* extension) const { return extensions.find(cat(" ", extension, " ")) != std::string::npos; }

const Found& found_devices() {
  static const Found instance = [] {
    try {
      return find_devices();
    } catch (const Error& error) {
      Found none;
      none.reason = error.what();
      return none;
    }
  }();
  return instance;
}

const Present& present_device(std::int32_t ordinal) {
  const Found& found = found_devices();
  if (found.devices.empty()) throw Error(TERN_UNSUPPORTED, found.reason);
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= found.devices.size()) {
    throw Error(TERN_INVALID_ARGUMENT,
                cat("opencl:", ordinal, ": the last device is opencl:", found.devices.size() - 1));
  }
  return found.devices[static_cast<std::size_t>(ordinal)];
}

void fill_info(const Facts& facts, tern_device_info& info) {
  info.capabilities = TERN_CAP_EAGER | TERN_CAP_DYNAMIC_SHAPES | TERN_CAP_PHILOX | TERN_CAP_EVICT | TERN_CAP_PROFILE;
  if (facts.host_memory) info.capabilities |= TERN_CAP_IMPORT_HOST;
  put_text({info.name, sizeof info.name}, facts.name);
  put_text({info.arch, sizeof info.arch}, facts.arch);
  put_text({info.driver_version, sizeof info.driver_version}, facts.driver_version);
  info.memory_bytes = facts.memory_bytes;
  info.largest_allocation_bytes = facts.largest_allocation;
  info.alignment = 64;
  info.import_alignment = 8;  // of the widest element
  for (tern_dtype dtype = 0; dtype < TERN_DTYPE_COUNT; ++dtype) info.storage_dtypes |= 1U << dtype;
  if (!facts.fp64) info.storage_dtypes &= ~(1U << TERN_F64);
  info.matrix_units = facts.intel_matrix ? TERN_MATRIX_UNITS_TENSOR : TERN_MATRIX_UNITS_VECTOR;
  info.matmul_rate[TERN_COMPUTE_F32] = 1.0F;
  // Not measured: no device that has them was there (README.md).
  info.x15_rows = facts.integer_dot ? 4 : 0;
  info.preferred_kv_block = 16;
  info.compute_units = static_cast<std::int32_t>(facts.compute_units);
  info.numa_node = -1;
  put_text({info.link, sizeof info.link}, facts.host_memory ? "host" : "pcie");
  info.activation_dtype = TERN_F32;
}

}  // namespace tern::opencl
