#include "backends/sim/config.h"

#include <charconv>
#include <cstdlib>

#include "base/strings.h"
#include "tern/plugin.h"

namespace tern::sim {
namespace {

constexpr std::string_view kNames[] = {"discrete", "ascend", "graph", "embedded"};

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

std::uint64_t number(const char* name, std::string_view text, std::uint64_t low, std::uint64_t high) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    throw Failure(
        usage_error(cat(name, "=", text, " is not a number from ", low, " to ", high), "set it to one, or unset it"));
  }
  return value;
}

Fault parse_fault(std::string_view text) {
  const auto parts = split(text, '@');
  Fault fault;
  if (parts.size() == 2 && parts[0] == "oom") {
    fault.kind = Fault::Kind::oom;
  } else if (parts.size() == 2 && parts[0] == "async") {
    fault.kind = Fault::Kind::async;
  } else if (parts.size() == 2 && parts[0] == "lost") {
    fault.kind = Fault::Kind::lost;
  } else if (parts.size() == 2 && parts[0] == "update") {
    fault.kind = Fault::Kind::update;
  } else {
    throw Failure(usage_error(cat("TERN_SIM_FAULT=", text, " is not a fault"),
                              "set it to oom@N, async@N, lost@N or update@N, or unset it"));
  }
  const auto place = split(parts[1], ':');
  fault.at = number("TERN_SIM_FAULT", place[0], 1, UINT64_MAX);
  if (place.size() > 1) fault.ordinal = static_cast<int>(number("TERN_SIM_FAULT", place[1], 0, 63));
  return fault;
}

template <std::size_t N>
void set_text(char (&to)[N], std::string_view text) {
  tern_plugin::put_text({to, N}, text);
}

void describe_ascend(tern_device_info& info) {
  info.capabilities = TERN_CAP_CAPTURE | TERN_CAP_PEER_COPY | TERN_CAP_COLLECTIVES | TERN_CAP_PHILOX | TERN_CAP_EAGER |
                      TERN_CAP_HOST_LENGTHS;
  info.alignment = 32;
  info.preferred_kv_block = 128;
  info.storage_dtypes &= ~(1U << TERN_F64);
  info.matmul_rate[TERN_COMPUTE_F32] = 0.25F;
  set_text(info.link, "hccs");
}

void describe_graph(tern_device_info& info) {
  info.capabilities = TERN_CAP_WHOLE_GRAPH | TERN_CAP_COLLECTIVES | TERN_CAP_PHILOX;
  info.alignment = 128;
  info.preferred_kv_block = 128;
  info.storage_dtypes &= ~(1U << TERN_F64);
  set_text(info.link, "pcie");
}

void describe_embedded(tern_device_info& info) {
  info.capabilities = TERN_CAP_EAGER | TERN_CAP_DYNAMIC_SHAPES;
  info.memory_bytes = std::uint64_t{512} << 20;
  info.largest_allocation_bytes = std::uint64_t{8} << 20;
  info.alignment = 16;
  info.matrix_units = TERN_MATRIX_UNITS_NONE;
  info.compute_units = 4;
  set_text(info.link, "host");
}

}  // namespace

std::string_view personality_name(Personality personality) { return kNames[static_cast<int>(personality)]; }

Result<Config> read_config() {
  return catching([] {
    Config config;
    if (const auto name = variable("TERN_SIM"); !name.empty()) {
      bool known = false;
      for (int p = 0; p < 4; ++p) {
        if (kNames[p] != name) continue;
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
    if (const auto text = variable("TERN_SIM_TIMEOUT_MS"); !text.empty()) {
      config.timeout = std::chrono::milliseconds(number("TERN_SIM_TIMEOUT_MS", text, 1, 3'600'000));
    }
    if (const auto text = variable("TERN_SIM_FAULT"); !text.empty()) {
      for (std::string_view part : split(text, ',')) config.faults.push_back(parse_fault(trim(part)));
    }
    return config;
  });
}

tern_device_info describe(const Config& config, int ordinal) {
  tern_device_info info{};
  info.size = sizeof info;
  info.capabilities = TERN_CAP_CAPTURE | TERN_CAP_PEER_COPY | TERN_CAP_IMPORT_HOST | TERN_CAP_DYNAMIC_SHAPES |
                      TERN_CAP_COLLECTIVES | TERN_CAP_PHILOX | TERN_CAP_EAGER | TERN_CAP_DEVICE_COUNTS;
  set_text(info.name, cat("simulated ", personality_name(config.personality), " device"));
  set_text(info.arch, cat("sim_", personality_name(config.personality)));
  set_text(info.driver_version, "0.1.0");
  info.memory_bytes = std::uint64_t{4} << 30;
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
  if (config.devices < 2) info.capabilities &= ~std::uint32_t{TERN_CAP_PEER_COPY};  // no peer is there
  if ((info.capabilities & TERN_CAP_PEER_COPY) != 0) {
    for (int d = 0; d < config.devices; ++d) info.peer_mask |= d == ordinal ? 0 : std::uint64_t{1} << d;
  }
  return info;
}

}  // namespace tern::sim
