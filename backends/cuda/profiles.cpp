// Devices that need not be here: what NVIDIA publishes of them. Kernels are chosen by it as on a present one.
#include "backends/cuda/error.h"
#include "backends/cuda/facts.h"

namespace tern::cuda {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kKiB = std::uint64_t{1} << 10;

struct Published {
  const char* name;
  int major;
  int minor;
  int multiprocessors;
  std::uint64_t gibibytes;
  std::uint64_t l2_mebibytes;
};

Facts gpu(const Published& card) {
  Facts facts;
  facts.name = card.name;
  facts.driver_version = "described";
  facts.major = card.major;
  facts.minor = card.minor;
  facts.multiprocessors = card.multiprocessors;
  facts.memory_bytes = card.gibibytes * kGiB;
  facts.l2_bytes = card.l2_mebibytes * kMiB;
  // The CUDA programming guide, "Technical Specifications per Compute Capability".
  facts.shared_memory = (card.major >= 9 ? 227 : card.minor == 0 ? 163 : 99) * kKiB;
  facts.virtual_memory = true;
  facts.described = true;
  return facts;
}

}  // namespace

const char* const kProfiles[] = {"a100", "h100", "h200", "b200", "rtx4090", "l4", nullptr};

const Facts& described_facts(const char* profile) {
  static const Facts facts[] = {
      gpu({"NVIDIA A100-SXM4-80GB", 8, 0, 108, 80, 40}),
      gpu({"NVIDIA H100 80GB HBM3", 9, 0, 132, 80, 50}),
      gpu({"NVIDIA H200", 9, 0, 132, 141, 50}),
      gpu({"NVIDIA B200", 10, 0, 148, 180, 126}),
      gpu({"NVIDIA GeForce RTX 4090", 8, 9, 128, 24, 72}),
      gpu({"NVIDIA L4", 8, 9, 58, 24, 48}),
  };
  std::uint32_t place = 0;
  require(tern_plugin_find_profile(kProfiles, profile, &place));
  return facts[place];
}

}  // namespace tern::cuda
