// What the environment asks of the simulated device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tern/accel.h"

namespace tern::sim {

enum class Personality { discrete, ascend, graph, embedded };
inline constexpr std::array<const char*, 5> kPersonalities = {"discrete", "ascend", "graph", "embedded", nullptr};
[[nodiscard]] std::string_view personality_name(Personality personality);

struct Fault {
  enum class Kind { oom, host, async, lost, hang, update, comm, commhang };
  friend bool operator==(const Fault&, const Fault&) = default;
  Kind kind = Kind::oom;
  std::uint64_t at = 0;  // counted from 1
  int ordinal = -1;      // -1: every device
};

struct Config {
  friend bool operator==(const Config&, const Config&) = default;
  Personality personality = Personality::discrete;
  int devices = 1;
  std::uint64_t seed = 0;
  std::uint64_t graph_nodes = 192;  // that a compiled graph may have
  std::vector<Fault> faults;
  std::uint64_t largest_allocation = 0;  // bytes; 0: as the personality has it
  std::uint32_t without = 0;             // bit per dtype that the device neither stores nor multiplies by
  std::chrono::milliseconds timeout{20'000};
};

// TERN_SIM and its fellows; see README.md. Errors (usage): a value that is none of those allowed.
[[nodiscard]] Result<Config> read_config();

// Faults joined by commas; `where` is the variable or option that holds them. Throws Failure (usage).
[[nodiscard]] std::vector<Fault> parse_faults(std::string_view where, std::string_view text);

// What a personality is: capabilities and limits. `devices` of them are linked.
[[nodiscard]] tern_device_info describe(const Config& config, int ordinal);

}  // namespace tern::sim
