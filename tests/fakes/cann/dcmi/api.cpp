// libdcmi.so. Codes are those of the driver's own header; which of them a call gives before dcmi_init is our guess.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "backends/npu/cann/dcmi_calls.h"
#include "tests/fakes/cann/dcmi/machine.h"

namespace {

using fake_dcmi::Machine;

std::atomic<bool>& initialised() {
  static std::atomic<bool> done{false};
  return done;
}

// Runs a body over the machine and, where `card` is one, over the device's number in it.
template <typename Body>
int on_device(const char* function, int card, int chip, Body&& body) {
  const Machine machine = fake_dcmi::read_machine();
  if (const auto fault = machine.faults.find(function); fault != machine.faults.end()) return fault->second;
  if (!initialised()) return DCMI_ERR_CODE_NOT_REDAY;
  const int device = card * machine.chips_per_card + chip;
  if (card < 0 || chip < 0) return DCMI_ERR_CODE_INVALID_PARAMETER;
  if (chip >= machine.chips_per_card || device >= machine.devices) return DCMI_ERR_CODE_INVALID_DEVICE_ID;
  return body(machine, device);
}

int copy_text(const std::string& text, char* to, std::size_t room) {
  if (to == nullptr || room <= text.size()) return DCMI_ERR_CODE_INVALID_PARAMETER;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return DCMI_OK;
}

}  // namespace

#define FAKE_DCMI(type) extern "C" __attribute__((visibility("default"))) type

FAKE_DCMI(int) dcmi_init() {
  const auto machine = fake_dcmi::read_machine();
  if (const auto fault = machine.faults.find("dcmi_init"); fault != machine.faults.end()) return fault->second;
  initialised() = true;
  return DCMI_OK;
}

FAKE_DCMI(int) dcmi_get_dcmi_version(char* version, unsigned int room) { return copy_text("24.1.rc3", version, room); }

FAKE_DCMI(int) dcmi_get_driver_version(char* version, unsigned int room) {
  return on_device("dcmi_get_driver_version", 0, 0,
                   [&](const Machine&, int) { return copy_text("24.1.rc3", version, room); });
}

FAKE_DCMI(int) dcmi_get_card_list(int* card_num, int* card_list, int list_len) {
  return on_device("dcmi_get_card_list", 0, 0, [&](const Machine& machine, int) {
    const int cards = (machine.devices + machine.chips_per_card - 1) / machine.chips_per_card;
    if (card_num == nullptr || card_list == nullptr || list_len < cards) return int{DCMI_ERR_CODE_INVALID_PARAMETER};
    *card_num = cards;
    for (int i = 0; i < cards; ++i) card_list[i] = i;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_num_in_card(int card, int* number) {
  return on_device("dcmi_get_device_num_in_card", card, 0, [&](const Machine& machine, int device) {
    *number = std::min(machine.chips_per_card, machine.devices - device);
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_id_in_card(int card, int* device_id_max, int* mcu_id, int* cpu_id) {
  return on_device("dcmi_get_device_id_in_card", card, 0, [&](const Machine& machine, int device) {
    if (device_id_max == nullptr || mcu_id == nullptr || cpu_id == nullptr) return int{DCMI_ERR_CODE_INVALID_PARAMETER};
    *device_id_max = std::min(machine.chips_per_card, machine.devices - device);
    *mcu_id = -1;
    *cpu_id = -1;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_chip_info(int card, int chip, dcmi_chip_info* info) {
  return on_device("dcmi_get_device_chip_info", card, chip, [&](const Machine& machine, int) {
    if (info == nullptr) return int{DCMI_ERR_CODE_INVALID_PARAMETER};
    *info = {};
    std::memcpy(info->chip_type, "Ascend", 7);
    std::memcpy(info->chip_name, machine.chip.c_str(), std::min<std::size_t>(machine.chip.size(), 31));
    std::memcpy(info->chip_ver, "V1", 3);
    info->aicore_cnt = 24;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_pcie_info_v2(int card, int chip, dcmi_pcie_info_all* info) {
  return on_device("dcmi_get_device_pcie_info_v2", card, chip, [&](const Machine&, int device) {
    if (info == nullptr) return int{DCMI_ERR_CODE_INVALID_PARAMETER};
    *info = {};
    info->venderid = 0x19e5;
    info->domain = 0;
    info->bdf_busid = static_cast<unsigned>(0xc1 + device);
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_power_info(int card, int chip, int* power) {
  return on_device("dcmi_get_device_power_info", card, chip, [&](const Machine&, int device) {
    *power = 935 + device;  // tenths of a watt
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_health(int card, int chip, unsigned int* health) {
  return on_device("dcmi_get_device_health", card, chip, [&](const Machine& machine, int device) {
    const auto found = machine.health.find(device);
    *health = found == machine.health.end() ? 0 : found->second;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_errorcode_v2(int card, int chip, int* count, unsigned int* codes, unsigned int room) {
  return on_device("dcmi_get_device_errorcode_v2", card, chip, [&](const Machine& machine, int device) {
    const bool sick = machine.health.count(device) != 0 && machine.health.at(device) != 0;
    if (count == nullptr || codes == nullptr || room == 0) return int{DCMI_ERR_CODE_INVALID_PARAMETER};
    *count = sick ? 1 : 0;
    if (sick) codes[0] = 0x80E01801;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int)
dcmi_get_device_errorcode_string(int card, int chip, unsigned int code, unsigned char* text, int room) {
  return on_device("dcmi_get_device_errorcode_string", card, chip, [&](const Machine&, int) {
    const char* said = code == 0x80E01801 ? "HBM multi-bit ECC error" : "unknown";
    return copy_text(said, reinterpret_cast<char*>(text), static_cast<std::size_t>(std::max(room, 0)));
  });
}

FAKE_DCMI(int) dcmi_get_device_temperature(int card, int chip, int* temperature) {
  return on_device("dcmi_get_device_temperature", card, chip, [&](const Machine&, int device) {
    *temperature = 45 + device;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_hbm_info(int card, int chip, dcmi_hbm_info* info) {
  return on_device("dcmi_get_device_hbm_info", card, chip, [&](const Machine& machine, int device) {
    if (machine.chip.rfind("310P", 0) == 0) return int{DCMI_ERR_CODE_NOT_SUPPORT};  // it has DDR
    *info = {};
    info->memory_size = machine.memory_megabytes;
    const auto used = machine.used.find(device);
    info->memory_usage = used == machine.used.end() ? 0 : used->second;
    info->temp = 40;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_memory_info_v3(int card, int chip, dcmi_get_memory_info_stru* info) {
  return on_device("dcmi_get_device_memory_info_v3", card, chip, [&](const Machine& machine, int device) {
    *info = {};
    const auto used = machine.used.find(device);
    info->memory_size = machine.memory_megabytes;
    info->memory_available = machine.memory_megabytes - (used == machine.used.end() ? 0 : used->second);
    info->hugepagesize = 2048;
    info->hugepages_total = 100;
    info->hugepages_free = 80;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_utilization_rate(int card, int chip, int type, unsigned int* rate) {
  return on_device("dcmi_get_device_utilization_rate", card, chip, [&](const Machine& machine, int device) {
    constexpr int kAiCore = 2;
    if (type != kAiCore) return int{DCMI_ERR_CODE_NOT_SUPPORT};
    const auto runs = [&](const fake_dcmi::Process& process) { return process.device == device; };
    *rate = std::any_of(machine.processes.begin(), machine.processes.end(), runs) ? 71 : 0;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_logic_id(int* logic_id, int card, int chip) {
  return on_device("dcmi_get_device_logic_id", card, chip, [&](const Machine&, int device) {
    *logic_id = device;
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_device_resource_info(int card, int chip, dcmi_proc_mem_info* info, int* number) {
  return on_device("dcmi_get_device_resource_info", card, chip, [&](const Machine& machine, int device) {
    if (info == nullptr || number == nullptr) return int{DCMI_ERR_CODE_INVALID_PARAMETER};
    *number = 0;
    for (const auto& process : machine.processes) {
      if (process.device == device) info[(*number)++] = {process.pid, process.megabytes << 20};
    }
    return int{DCMI_OK};
  });
}

FAKE_DCMI(int) dcmi_get_topo_info_by_device_id(int card1, int chip1, int card2, int chip2, int* type) {
  return on_device("dcmi_get_topo_info_by_device_id", card1, chip1, [&](const Machine& machine, int a) {
    return on_device("dcmi_get_topo_info_by_device_id", card2, chip2, [&](const Machine&, int b) {
      *type = fake_dcmi::link_of(machine, a, b);
      return int{DCMI_OK};
    });
  });
}

FAKE_DCMI(int) dcmi_get_affinity_cpu_info_by_device_id(int card, int chip, char* cpus, int* length) {
  return on_device("dcmi_get_affinity_cpu_info_by_device_id", card, chip, [&](const Machine&, int device) {
    constexpr int kCpus = 24;  // of a NUMA node, which two devices are near
    const int first = device / 2 * kCpus;
    const std::string text = std::to_string(first) + "-" + std::to_string(first + kCpus - 1);
    const int code = copy_text(text, cpus, static_cast<std::size_t>(std::max(*length, 0)));
    *length = static_cast<int>(text.size());
    return code;
  });
}
