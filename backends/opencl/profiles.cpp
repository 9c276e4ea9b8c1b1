// Devices that need not be here: what their vendors publish of them. Kernels are chosen by it as on a present one.
#include "backends/opencl/error.h"
#include "backends/opencl/facts.h"

namespace tern::opencl {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;

Facts gpu(const char* name, const char* vendor, std::uint32_t units, std::uint64_t gibibytes, std::uint64_t local_kib) {
  Facts facts;
  facts.name = name;
  facts.vendor = vendor;
  facts.arch = "described";
  facts.driver_version = "described";
  facts.fp16 = true;
  facts.compute_units = units;
  facts.memory_bytes = gibibytes * kGiB;
  facts.largest_allocation = facts.memory_bytes / 4;
  facts.local_memory = local_kib * kKiB;
  facts.largest_group = 256;
  facts.alignment = 128;
  return facts;
}

Facts intel_arc_a770() {
  Facts facts = gpu("Intel Arc A770", "Intel", 512, 16, 64);
  facts.vendor_id = 0x8086;
  facts.subgroups = facts.integer_dot = facts.intel_matrix = true;
  facts.largest_group = 1024;
  return facts;
}

Facts amd_rx_7900_xtx() {
  Facts facts = gpu("AMD Radeon RX 7900 XTX", "AMD", 48, 24, 64);
  facts.vendor_id = 0x1002;
  facts.fp64 = facts.exact_division = true;
  return facts;
}

Facts qualcomm_adreno_740() {
  Facts facts = gpu("Qualcomm Adreno 740", "Qualcomm", 6, 8, 32);
  facts.subgroups = facts.integer_dot = facts.host_memory = true;
  facts.largest_group = 1024;
  return facts;
}

Facts arm_mali_g715() {
  Facts facts = gpu("Arm Mali-G715", "Arm", 11, 8, 32);
  facts.subgroups = facts.integer_dot = facts.host_memory = true;
  facts.largest_group = 512;
  return facts;
}

}  // namespace

const char* const kProfiles[] = {"intel_arc_a770", "amd_rx_7900_xtx", "qualcomm_adreno_740", "arm_mali_g715", nullptr};

const Facts& described_facts(const char* profile) {
  static const Facts facts[] = {intel_arc_a770(), amd_rx_7900_xtx(), qualcomm_adreno_740(), arm_mali_g715()};
  std::uint32_t place = 0;
  require(tern_plugin_find_profile(kProfiles, profile, &place));
  return facts[place];
}

}  // namespace tern::opencl
