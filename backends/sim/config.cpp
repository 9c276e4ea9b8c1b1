#include "backends/sim/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/dtype.h"
#include "base/strings.h"
#include "tern/plugin.h"

namespace tern::sim {
namespace {

constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

std::uint64_t number(std::string_view name, std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    throw Failure(
        usage_error(cat(name, "=", text, " is not a number from ", low, " to ", high), "set it to one, or unset it"));
  }
  return value;
}

// In the order of Fault::Kind.
constexpr std::array<std::string_view, 8> kFaults = {"oom",  "host",   "async", "lost",
                                                     "hang", "update", "comm",  "commhang"};

Fault parse_fault(std::string_view where, std::string_view text) {
  const auto parts = split(text, '@');
  const auto known = std::find(kFaults.begin(), kFaults.end(), parts[0]);
  if (parts.size() != 2 || known == kFaults.end()) {
    std::string all;
    for (const std::string_view name : kFaults) all += cat(all.empty() ? "" : ", ", name, "@N");
    throw Failure(
        usage_error(cat(where, "=", text, " is not a fault"), cat("set it to one of ", all, "; or unset it")));
  }
  Fault fault;
  fault.kind = static_cast<Fault::Kind>(known - kFaults.begin());
  const auto place = split(parts[1], ':');
  fault.at = number(where, place[0], 1, UINT64_MAX);
  if (place.size() > 1) fault.ordinal = static_cast<int>(number(where, place[1], 0, 63));
  return fault;
}

// 16-bit dtypes joined by commas, as bits.
std::uint32_t parse_dtypes(std::string_view where, std::string_view text) {
  std::uint32_t dtypes = 0;
  if (text.empty()) return dtypes;
  for (const std::string_view part : split(text, ',')) {
    const auto dtype = dtype_from_name(trim(part));
    if (dtype != TERN_BF16 && dtype != TERN_F16) {
      throw Failure(usage_error(cat(where, "=", text, " names no dtype that a device may lack"),
                                "set it to bf16, f16 or both, joined by a comma; or unset it"));
    }
    dtypes |= 1U << *dtype;
  }
  return dtypes;
}

template <std::size_t N>
void set_text(char (&to)[N], std::string_view text) {
  tern_plugin::put_text({to, N}, text);
}

void describe_ascend(tern_device_info& info) {
  info.capabilities = TERN_CAP_CAPTURE | TERN_CAP_PEER_COPY | TERN_CAP_COLLECTIVES | TERN_CAP_EAGER |
                      TERN_CAP_HOST_LENGTHS | TERN_CAP_EVICT | TERN_CAP_PROFILE;
  info.context_bytes = 20 * kMebi;
  info.comm_bytes = 12 * kMebi;
  info.alignment = 32;
  info.preferred_kv_block = 128;
  info.storage_dtypes &= ~(1U << TERN_F64);
  info.matmul_rate[TERN_COMPUTE_F32] = 0.25F;
  set_text(info.link, "hccs");
}

void describe_graph(tern_device_info& info) {
  info.capabilities =
      TERN_CAP_WHOLE_GRAPH | TERN_CAP_COLLECTIVES | TERN_CAP_RECIPE_FILES | TERN_CAP_PROFILE | TERN_CAP_COMM_ABORT;
  info.context_bytes = 16 * kMebi;
  info.alignment = 128;
  info.preferred_kv_block = 128;
  info.storage_dtypes &= ~(1U << TERN_F64);
  set_text(info.link, "pcie");
}

void describe_embedded(tern_device_info& info) {
  info.capabilities = TERN_CAP_EAGER | TERN_CAP_DYNAMIC_SHAPES;
  info.memory_bytes = 512 * kMebi;
  info.largest_allocation_bytes = 8 * kMebi;
  info.context_bytes = kMebi;
  info.comm_bytes = 0;
  info.alignment = 16;
  info.matrix_units = TERN_MATRIX_UNITS_NONE;
  info.compute_units = 4;
  set_text(info.link, "host");
}

}  // namespace

std::string_view personality_name(Personality personality) {
  return kPersonalities[static_cast<std::size_t>(personality)];
}

std::vector<Fault> parse_faults(std::string_view where, std::string_view text) {
  std::vector<Fault> faults;
  if (text.empty()) return faults;
  for (std::string_view part : split(text, ',')) faults.push_back(parse_fault(where, trim(part)));
  return faults;
}

Result<Config> read_config() {
  return catching([] {
    Config config;
    if (const auto name = variable("TERN_SIM"); !name.empty()) {
      bool known = false;
      for (std::size_t p = 0; kPersonalities[p] != nullptr; ++p) {
        if (kPersonalities[p] != name) continue;
        config.personality = static_cast<Personality>(p);
        known = true;
      }
      if (!known) {
        throw Failure(usage_error(cat("TERN_SIM=", name, " is not a kind of device"),
                                  "set it to discrete, ascend, graph or embedded, or unset it"));
      }
    }
    if (const auto text = variable("TERN_SIM_DEVICES"); !text.empty()) {
      config.devices = static_cast<int>(number("TERN_SIM_DEVICES", text, 1, 64));
    }
    if (const auto text = variable("TERN_SIM_SEED"); !text.empty()) {
      config.seed = number("TERN_SIM_SEED", text, 0, UINT64_MAX);
    }
    if (const auto text = variable("TERN_SIM_LARGEST"); !text.empty()) {
      config.largest_allocation = number("TERN_SIM_LARGEST", text, 1, UINT64_MAX);
    }
    if (const auto text = variable("TERN_SIM_TIMEOUT_MS"); !text.empty()) {
      config.timeout = std::chrono::milliseconds(number("TERN_SIM_TIMEOUT_MS", text, 1, 3'600'000));
    }
    if (const auto text = variable("TERN_SIM_GRAPH_NODES"); !text.empty()) {
      config.graph_nodes = number("TERN_SIM_GRAPH_NODES", text, 1, UINT64_MAX);
    }
    config.without = parse_dtypes("TERN_SIM_WITHOUT", variable("TERN_SIM_WITHOUT"));
    config.faults = parse_faults("TERN_SIM_FAULT", variable("TERN_SIM_FAULT"));
    return config;
  });
}

tern_device_info describe(const Config& config, int ordinal) {
  tern_device_info info{};
  info.size = sizeof info;
  info.capabilities = TERN_CAP_CAPTURE | TERN_CAP_PEER_COPY | TERN_CAP_IMPORT_HOST | TERN_CAP_DYNAMIC_SHAPES |
                      TERN_CAP_COLLECTIVES | TERN_CAP_PHILOX | TERN_CAP_EAGER | TERN_CAP_DEVICE_COUNTS |
                      TERN_CAP_EVICT | TERN_CAP_NATIVE_MEMORY | TERN_CAP_NATIVE_STREAMS | TERN_CAP_PROFILE |
                      TERN_CAP_COMM_ABORT;
  set_text(info.name, cat("simulated ", personality_name(config.personality), " device"));
  set_text(info.arch, cat("sim_", personality_name(config.personality)));
  set_text(info.driver_version, "0.1.0");
  info.memory_bytes = 4096 * kMebi;
  info.context_bytes = 8 * kMebi;
  info.comm_bytes = 4 * kMebi;
  info.activation_dtype = TERN_F32;
  info.largest_allocation_bytes = info.memory_bytes;
  info.alignment = 16;
  info.import_alignment = 32;
  info.storage_dtypes = (1U << TERN_DTYPE_COUNT) - 1;
  info.matrix_units = TERN_MATRIX_UNITS_TENSOR;
  info.matmul_rate[TERN_COMPUTE_F32] = 1.0F;
  info.matmul_rate[TERN_COMPUTE_BF16] = 1.0F;
  info.matmul_rate[TERN_COMPUTE_F16] = 1.0F;
  info.preferred_kv_block = 16;
  info.compute_units = 1;
  info.numa_node = -1;
  set_text(info.pci_address, cat("sim:", ordinal));
  set_text(info.link, "pcie");
  switch (config.personality) {
    case Personality::discrete:
      break;
    case Personality::ascend:
      describe_ascend(info);
      break;
    case Personality::graph:
      describe_graph(info);
      break;
    case Personality::embedded:
      describe_embedded(info);
      break;
  }
  if (config.personality != Personality::discrete && config.personality != Personality::embedded) {
    info.largest_allocation_bytes = info.memory_bytes / 2;
  }
  info.storage_dtypes &= ~config.without;
  for (const tern_dtype dtype : {TERN_F16, TERN_BF16}) {
    if ((config.without >> dtype & 1U) != 0) info.matmul_rate[dtype] = 0;
  }
  if (config.largest_allocation > 0) info.largest_allocation_bytes = config.largest_allocation;
  if (config.devices < 2) info.capabilities &= ~std::uint32_t{TERN_CAP_PEER_COPY};  // no peer is there
  if ((info.capabilities & TERN_CAP_PEER_COPY) != 0) {
    for (int d = 0; d < config.devices; ++d) info.peer_mask |= d == ordinal ? 0 : std::uint64_t{1} << d;
  }
  return info;
}

}  // namespace tern::sim
