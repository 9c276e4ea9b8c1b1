// What CANN and the driver say of the devices.
#include <algorithm>
#include <array>

#include "backends/npu/chip.h"
#include "backends/npu/dcmi.h"
#include "backends/npu/doctor.h"
#include "backends/npu/interface.h"
#include "backends/npu/loader.h"

namespace tern::npu {
namespace {

// Cards that the driver counts, or else nodes.
int installed() {
  std::string why;
  const int chips = installed_chips(why);
  return chips > 0 ? chips : static_cast<int>(device_nodes().size());
}

std::string gibibytes(std::uint64_t bytes) {
  const std::uint64_t tenths = bytes * 10 / (std::uint64_t{1} << 30);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

// What is said of each visible device, by its ordinal.
template <typename Say>
std::vector<std::string> of_each(Say&& say) {
  std::vector<std::string> said;
  const auto visible = visible_devices(installed()).numbers;
  for (std::size_t ordinal = 0; ordinal < visible.size(); ++ordinal) {
    const auto state = chip_state(visible[ordinal]);
    if (!state) continue;
    if (std::string line = say(*state); !line.empty()) said.push_back("npu:" + std::to_string(ordinal) + " " + line);
  }
  return said;
}

// Processes that hold a chip's memory, though they have ended or wait to be buried.
std::string dead_holders(const ChipState& state) {
  std::vector<std::string> dead;
  for (const auto& process : state.processes) {
    const auto doing = state_of_process(process.pid);
    if (doing == ProcessState::alive) continue;
    dead.push_back("process " + std::to_string(process.pid) + ", which " +
                   (doing == ProcessState::zombie ? "has ended and waits for its parent" : "isn't there any more") +
                   ", holds " + gibibytes(process.bytes));
  }
  return join(dead, ", ");
}

std::string living_holders(const ChipState& state) {
  std::vector<std::string> alive;
  for (const auto& process : state.processes) {
    if (state_of_process(process.pid) != ProcessState::alive) continue;
    alive.push_back("process " + std::to_string(process.pid) + " (" + name_of_process(process.pid) + ") holds " +
                    gibibytes(process.bytes));
  }
  return join(alive, ", ");
}

// Memory in use that no process accounts for; a tenth of it is the driver's own.
bool is_held_by_nobody(const ChipState& state) {
  std::uint64_t counted = 0;
  for (const auto& process : state.processes) counted += process.bytes;
  return state.memory_used > counted + state.memory_total / 4;
}

}  // namespace

Finding check_visible() {
  const auto visible = visible_devices(installed());
  if (!visible.problem.empty()) return error("visible devices: " + visible.problem);
  if (variable("ASCEND_RT_VISIBLE_DEVICES").empty())
    return all_well("visible devices: all " + std::to_string(installed()));
  return all_well("visible devices: " + std::to_string(visible.numbers.size()) + " of " + std::to_string(installed()) +
                  " (ASCEND_RT_VISIBLE_DEVICES=" + variable("ASCEND_RT_VISIBLE_DEVICES") + ")");
}

Finding check_runtime() {
  std::array<char, 2048> reason{};
  std::int32_t count = 0;
  (void)device_count(&count, {reason.data(), reason.size()});
  if (count == 0) return error("runtime: CANN shows no device: " + std::string(reason.data()));
  const char* name = acl().aclrtGetSocName();
  return all_well("runtime: CANN " + cann_version() + " shows " + std::to_string(count) +
                  (count == 1 ? " device, " : " devices, ") + (name == nullptr ? "" : name));
}

Finding check_health() {
  std::string why;
  if (installed_chips(why) == 0) return warning("health: nobody can tell: " + why);
  bool critical = false;
  const auto sick = of_each([&](const ChipState& state) -> std::string {
    if (state.health == 0) return "";
    critical |= state.health >= 2;
    return "has an alarm of level " + std::to_string(state.health) + " of 3" +
           (state.errors.empty() ? "" : " (" + state.errors + ")");
  });
  if (sick.empty()) return all_well("health: no alarm");
  const std::string line =
      "health: " + join(sick, "; ") +
      "; see `npu-smi info -t health -i CARD`; let no process run on it and reset it by `npu-smi set "
      "-t reset -i CARD -c CHIP`, or hide it by ASCEND_RT_VISIBLE_DEVICES";
  return critical ? error(line) : warning(line);
}

Finding check_memory() {
  std::string why;
  if (installed_chips(why) == 0) return all_well("memory: not known without the driver's management library");
  // The processes of a container's host have other numbers, so none of theirs can be called dead.
  const auto dead = in_container() ? std::vector<std::string>() : of_each(dead_holders);
  if (!dead.empty()) {
    return error(
        "memory: " + join(dead, "; ") +
        "; end what started it (`fuser -v /dev/davinci0` names who has the card open), else reset the card when "
        "nobody uses it: npu-smi set -t reset -i CARD -c CHIP");
  }
  const auto lost = of_each([](const ChipState& state) {
    return is_held_by_nobody(state) ? gibibytes(state.memory_used) + " of " + gibibytes(state.memory_total) + " in use"
                                    : "";
  });
  if (!lost.empty()) {
    return warning(
        "memory: " + join(lost, "; ") +
        ", by nobody who can be seen from here: look into other containers and for processes that have ended "
        "(`npu-smi info` on the host)");
  }
  const auto taken = of_each([](const ChipState& state) -> std::string {
    const bool scarce = state.memory_total > 0 && state.memory_used > state.memory_total / 2;
    const std::string holders = living_holders(state);
    return scarce ? "has " + gibibytes(state.memory_total - state.memory_used) + " free of " +
                        gibibytes(state.memory_total) + (holders.empty() ? "" : " (" + holders + ")")
                  : "";
  });
  if (!taken.empty()) {
    return warning(
        "memory: " + join(taken, "; ") +
        "; end what isn't needed, or name another card; `tern doctor --model MODEL` says whether a model fits");
  }
  return all_well("memory: " + join(of_each([](const ChipState& state) {
                                      return gibibytes(state.memory_total - state.memory_used) + " free of " +
                                             gibibytes(state.memory_total);
                                    }),
                                    ", "));
}

Finding check_dtypes() {
  std::string why;
  const Acl* functions = acl(why);
  const char* name = functions == nullptr ? nullptr : functions->aclrtGetSocName();
  const Chip* chip = name == nullptr ? nullptr : find_chip(name);
  if (chip == nullptr) return all_well("dtypes: not known before the runtime starts");
  if (!chip->has_bf16()) {
    return all_well("dtypes: " + std::string(name) +
                    " has fp16 and int8, and neither bf16 (such models run in fp16, and "
                    "training scales the loss) nor FP8 (`tern convert MODEL OUT --outtype f16` makes a copy)");
  }
  if (chip->family == Family::a950) return all_well("dtypes: " + std::string(name) + " has fp16, bf16, int8 and FP8");
  return all_well("dtypes: " + std::string(name) +
                  " has fp16, bf16 and int8, and no FP8: such weights are expanded in "
                  "each product; a copy in 16 bits is faster (`tern convert MODEL OUT --outtype bf16`)");
}

}  // namespace tern::npu
