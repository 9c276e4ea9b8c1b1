#include "backends/cuda/facts.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "backends/cuda/error.h"
#include "backends/cuda/nccl.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

constexpr std::size_t kMostDevices = 64;

// Of a device; 0 where this driver doesn't know the attribute.
int attribute(CUdevice device, int what) {
  int value = 0;
  return driver().DeviceGetAttribute(&value, what, device) == CUDA_SUCCESS ? value : 0;
}

// The host's node of memory that is nearest; -1 where nobody says.
int numa_node(CUdevice device) {
  int node = -1;
  return driver().DeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS ? node : -1;
}

std::string pci_address(CUdevice device) {
  char text[32] = "";
  if (driver().DeviceGetPCIBusId(text, sizeof text, device) != CUDA_SUCCESS) return {};
  std::string address = text;
  for (char& c : address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return address;
}

Facts read_facts(CUdevice device) {
  const Driver& api = driver();
  Facts facts;
  char name[128] = "";
  std::size_t bytes = 0;
  check(api.DeviceGetName(name, sizeof name, device), "asking for a device's name");
  check(api.DeviceTotalMem(&bytes, device), "asking for a device's memory");
  facts.name = name;
  facts.driver_version = driver_version();
  facts.pci_address = pci_address(device);
  facts.major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  facts.minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.multiprocessors = std::max(1, attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  facts.memory_bytes = bytes;
  facts.shared_memory =
      static_cast<std::uint64_t>(attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  facts.l2_bytes = static_cast<std::uint64_t>(attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  facts.numa_node = numa_node(device);
  facts.virtual_memory = attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
  facts.host_memory = attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
  facts.reads_pageable = attribute(device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
  return facts;
}

void find_peers(std::vector<Present>& devices) {
  for (Present& here : devices) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      int can = 0;
      if (devices[i].device == here.device) continue;
      if (driver().DeviceCanAccessPeer(&can, here.device, devices[i].device) == CUDA_SUCCESS && can != 0) {
        here.facts.peer_mask |= std::uint64_t{1} << i;
      }
    }
  }
}

Found find_devices() {
  Found found;
  const Driver& api = driver();
  check(api.Init(0), "starting NVIDIA's driver");
  int count = 0;
  check(api.DeviceGetCount(&count), "counting devices");
  for (int i = 0; i < count && found.devices.size() < kMostDevices; ++i) {
    CUdevice device = 0;
    check(api.DeviceGet(&device, i), "finding a device");
    Facts facts = read_facts(device);
    if (facts.capability() >= kLeastCapability) {
      found.devices.push_back({device, std::move(facts)});
    } else {
      found.notes.push_back(cat(facts.name, " is left out: its compute capability is ", facts.major, ".", facts.minor,
                                ", and the kernels are for 8.0 and later"));
    }
  }
  find_peers(found.devices);
  if (!found.devices.empty()) return found;
  found.reason = found.notes.empty() ? describe("looking for NVIDIA devices", CUDA_ERROR_NO_DEVICE) : "";
  for (const std::string& note : found.notes) found.reason += cat(found.reason.empty() ? "" : "; ", note);
  return found;
}

// "580.65.06", as the kernel's module tells it; "" where it doesn't.
std::string release() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return {};
}

}  // namespace

std::string driver_version() {
  int version = 0;
  check(driver().DriverGetVersion(&version), "asking for the driver's version");
  const std::string module = release();
  return cat(version / 1000, ".", version % 1000 / 10, module.empty() ? "" : ", ", module);
}

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
    throw Error(TERN_INVALID_ARGUMENT, cat("cuda:", ordinal, ": the last device is cuda:", found.devices.size() - 1));
  }
  return found.devices[static_cast<std::size_t>(ordinal)];
}

void fill_info(const Facts& facts, tern_device_info& info) {
  info.capabilities = TERN_CAP_EAGER | TERN_CAP_CAPTURE | TERN_CAP_DYNAMIC_SHAPES | TERN_CAP_PHILOX |
                      TERN_CAP_NATIVE_MEMORY | TERN_CAP_NATIVE_STREAMS | TERN_CAP_PROFILE;
  if (facts.virtual_memory) info.capabilities |= TERN_CAP_EVICT;
  if (facts.peer_mask != 0) info.capabilities |= TERN_CAP_PEER_COPY;
  // Where the device has memory of its own, weights that are read over the bus at each step would be slow: they're
  // copied.
  info.capabilities |= facts.host_memory ? TERN_CAP_IMPORT_HOST : TERN_CAP_IPC;
  if (facts.described || missing_nccl().empty()) {
    info.capabilities |= TERN_CAP_COLLECTIVES | TERN_CAP_COMM_ABORT;
    info.comm_bytes = std::uint64_t{256} << 20;
  }
  put_text({info.name, sizeof info.name}, facts.name);
  put_text({info.arch, sizeof info.arch}, cat("sm_", facts.capability()));
  put_text({info.driver_version, sizeof info.driver_version}, facts.driver_version);
  put_text({info.pci_address, sizeof info.pci_address}, facts.pci_address);
  info.memory_bytes = info.largest_allocation_bytes = facts.memory_bytes;
  info.alignment = kAlignment;
  info.import_alignment = 8;  // of the widest element
  for (tern_dtype dtype = 0; dtype < TERN_DTYPE_COUNT; ++dtype) info.storage_dtypes |= 1U << dtype;
  info.matrix_units = TERN_MATRIX_UNITS_TENSOR;
  info.x15_rows = 4;  // of more, the matrix units in 16 bits are as fast
  info.matmul_rate[TERN_COMPUTE_F32] = 1.0F;
  info.matmul_rate[TERN_COMPUTE_F16] = info.matmul_rate[TERN_COMPUTE_BF16] = 8.0F;
  info.preferred_kv_block = 32;
  info.compute_units = facts.multiprocessors;
  info.numa_node = facts.numa_node;
  info.peer_mask = facts.peer_mask;
  put_text({info.link, sizeof info.link}, facts.host_memory ? "host" : "pcie");
  info.activation_dtype = TERN_BF16;
  info.context_bytes = std::uint64_t{512} << 20;
}

}  // namespace tern::cuda
