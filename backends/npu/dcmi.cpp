#include "backends/npu/dcmi.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "backends/npu/cann/dcmi_calls.h"
#include "backends/npu/machine.h"

namespace tern::npu {
namespace {

#define TERN_NPU_DCMI(X)                                                                                          \
  X(dcmi_init)                                                                                                    \
  X(dcmi_get_card_list)                                                                                           \
  X(dcmi_get_device_id_in_card)                                                                                   \
  X(dcmi_get_device_logic_id)                                                                                     \
  X(dcmi_get_device_chip_info)                                                                                    \
  X(dcmi_get_device_pcie_info_v2)                                                                                 \
  X(dcmi_get_device_power_info)                                                                                   \
  X(dcmi_get_device_health) X(dcmi_get_device_errorcode_v2) X(dcmi_get_device_errorcode_string)                   \
      X(dcmi_get_device_temperature) X(dcmi_get_device_hbm_info) X(dcmi_get_device_memory_info_v3)                \
          X(dcmi_get_device_utilization_rate) X(dcmi_get_device_resource_info) X(dcmi_get_topo_info_by_device_id) \
              X(dcmi_get_affinity_cpu_info_by_device_id) X(dcmi_get_driver_version)

struct Functions {
#define TERN_NPU_MEMBER(name) decltype(&::name) name = nullptr;
  TERN_NPU_DCMI(TERN_NPU_MEMBER)
#undef TERN_NPU_MEMBER
};

struct Place {
  int card = 0;
  int chip = 0;
};

// The library, opened once; any function may be missing, as containers and old drivers have fewer.
class Library {
 public:
  Library() {
    std::string first;
    for (const std::string& file : {std::string("libdcmi.so"), on_machine("/usr/local/dcmi/libdcmi.so").string(),
                                    on_machine("/usr/local/Ascend/driver/lib64/driver/libdcmi.so").string()}) {
      if ((handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
      const char* said = dlerror();
      if (first.empty() && said != nullptr) first = said;
    }
    if (handle_ == nullptr) {
      why_ = "libdcmi.so, which npu-smi uses, isn't here (" + first +
             "); install the driver, or mount /usr/local/dcmi into the container";
      return;
    }
#define TERN_NPU_LOAD(name) functions_.name = reinterpret_cast<decltype(functions_.name)>(dlsym(handle_, #name));
    TERN_NPU_DCMI(TERN_NPU_LOAD)
#undef TERN_NPU_LOAD
    find_chips();
  }
  [[nodiscard]] const Functions& functions() const { return functions_; }
  [[nodiscard]] const std::map<int, Place>& chips() const { return chips_; }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  void find_chips() {
    const Functions& f = functions_;
    if (f.dcmi_init == nullptr || f.dcmi_get_card_list == nullptr || f.dcmi_get_device_id_in_card == nullptr) {
      why_ = "libdcmi.so lacks the functions that count cards; install a newer driver";
      return;
    }
    constexpr int kMostCards = 64;
    std::array<int, kMostCards> cards{};
    int count = 0;
    int code = f.dcmi_init();
    if (code == 0) code = f.dcmi_get_card_list(&count, cards.data(), kMostCards);
    if (code != 0) {
      why_ = "the driver's management library doesn't answer (code " + std::to_string(code) +
             "); look at `npu-smi info` and `dmesg`" +
             (in_container() ? ", and give the container /dev/davinci_manager" : "");
      return;
    }
    for (int i = 0; i < std::min(count, kMostCards); ++i) add_chips(cards[static_cast<std::size_t>(i)]);
  }
  void add_chips(int card) {
    int chips = 0;
    int mcu = 0;
    int cpu = 0;
    if (functions_.dcmi_get_device_id_in_card(card, &chips, &mcu, &cpu) != 0) return;
    for (int chip = 0; chip < chips; ++chip) {
      int number = static_cast<int>(chips_.size());
      if (functions_.dcmi_get_device_logic_id != nullptr) {
        (void)functions_.dcmi_get_device_logic_id(&number, card, chip);
      }
      chips_[number] = {card, chip};
    }
  }

  void* handle_ = nullptr;
  Functions functions_;
  std::map<int, Place> chips_;
  std::string why_;
};

const Library& library() {
  static const Library* const opened = new Library;  // outlives every thread that may still ask
  return *opened;
}

// A number that a function of the driver gives for a chip; none where it's missing or fails.
template <typename Function, typename Number, typename... More>
bool ask(Function function, Place at, Number* number, More... more) {
  return function != nullptr && function(at.card, at.chip, more..., number) == 0;
}

std::string errors_of(const Functions& f, Place at) {
  constexpr unsigned kMost = 16;
  std::array<unsigned, kMost> codes{};
  int count = 0;
  if (f.dcmi_get_device_errorcode_v2 == nullptr ||
      f.dcmi_get_device_errorcode_v2(at.card, at.chip, &count, codes.data(), kMost) != 0) {
    return "";
  }
  std::vector<std::string> texts;
  for (int i = 0; i < std::min<int>(count, kMost); ++i) {
    std::array<unsigned char, 256> text{};
    std::array<char, 16> code{};
    std::snprintf(code.data(), code.size(), "0x%08X", codes[static_cast<std::size_t>(i)]);
    const bool named = f.dcmi_get_device_errorcode_string != nullptr &&
                       f.dcmi_get_device_errorcode_string(at.card, at.chip, codes[static_cast<std::size_t>(i)],
                                                          text.data(), static_cast<int>(text.size()) - 1) == 0;
    texts.push_back(std::string(code.data()) + (named ? " " + std::string(reinterpret_cast<char*>(text.data())) : ""));
  }
  return join(texts, ", ");
}

void fill_memory(const Functions& f, Place at, ChipState& state) {
  constexpr std::uint64_t kMega = std::uint64_t{1} << 20;
  const auto less = [](std::uint64_t all, std::uint64_t some) { return all - std::min(all, some); };
  dcmi_get_memory_info_stru memory{};
  if (ask(f.dcmi_get_device_memory_info_v3, at, &memory)) {
    state.memory_total = memory.memory_size * kMega;
    state.memory_used = less(state.memory_total, memory.memory_available * kMega);
    state.huge_pages_total = memory.hugepages_total;
    state.huge_pages_used = less(memory.hugepages_total, memory.hugepages_free);
  }
  // Where there is HBM, that is the memory which matters.
  dcmi_hbm_info hbm{};
  if (ask(f.dcmi_get_device_hbm_info, at, &hbm) && hbm.memory_size > 0) {
    state.memory_total = hbm.memory_size * kMega;
    state.memory_used = hbm.memory_usage * kMega;
  }
}

void fill_processes(const Functions& f, Place at, ChipState& state) {
  std::array<dcmi_proc_mem_info, 256> processes{};
  int count = 0;
  if (!(f.dcmi_get_device_resource_info != nullptr &&
        f.dcmi_get_device_resource_info(at.card, at.chip, processes.data(), &count) == 0)) {
    return;
  }
  for (int i = 0; i < std::min<int>(count, static_cast<int>(processes.size())); ++i) {
    const auto& process = processes[static_cast<std::size_t>(i)];
    state.processes.push_back({process.proc_id, process.proc_mem_usage});
  }
}

std::string pci_address(const dcmi_pcie_info_all& info) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(info.domain), info.bdf_busid,
                info.bdf_deviceid, info.bdf_funcid);
  return text.data();
}

const Place* place_of(int number) {
  const auto at = library().chips().find(number);
  return at == library().chips().end() ? nullptr : &at->second;
}

}  // namespace

int installed_chips(std::string& why) {
  why = library().why();
  return static_cast<int>(library().chips().size());
}

std::optional<ChipState> chip_state(int number) {
  const Place* at = place_of(number);
  if (at == nullptr) return std::nullopt;
  const Functions& f = library().functions();
  ChipState state;
  state.card = at->card;
  state.chip = at->chip;
  (void)ask(f.dcmi_get_device_health, *at, &state.health);
  if (state.health != 0) state.errors = errors_of(f, *at);
  dcmi_chip_info chip{};
  if (ask(f.dcmi_get_device_chip_info, *at, &chip)) {
    chip.chip_name[sizeof chip.chip_name - 1] = '\0';
    state.name = reinterpret_cast<const char*>(chip.chip_name);
  }
  dcmi_pcie_info_all pci{};
  if (ask(f.dcmi_get_device_pcie_info_v2, *at, &pci)) state.pci = pci_address(pci);
  int degrees = 0;
  if (ask(f.dcmi_get_device_temperature, *at, &degrees)) state.temperature = static_cast<float>(degrees);
  int tenths = 0;
  if (ask(f.dcmi_get_device_power_info, *at, &tenths)) state.watts = static_cast<float>(tenths) / 10.0F;
  constexpr int kAiCore = 2;
  unsigned percent = 0;
  if (ask(f.dcmi_get_device_utilization_rate, *at, &percent, kAiCore)) state.computing = static_cast<float>(percent);
  fill_memory(f, *at, state);
  fill_processes(f, *at, state);
  return state;
}

std::string chip_link(int from, int to) {
  const Place* a = place_of(from);
  const Place* b = place_of(to);
  const auto function = library().functions().dcmi_get_topo_info_by_device_id;
  int type = 0;
  if (a == nullptr || b == nullptr || function == nullptr) return "";
  if (function(a->card, a->chip, b->card, b->chip, &type) != 0) return "";
  constexpr std::array<const char*, 8> kNames = {"X", "SYS", "PHB", "HCCS", "PXB", "PIX", "SIO", "HCCS_SW"};
  return type >= 0 && type < static_cast<int>(kNames.size()) ? kNames[static_cast<std::size_t>(type)] : "";
}

std::string chip_affinity(int number) {
  const Place* at = place_of(number);
  const auto function = library().functions().dcmi_get_affinity_cpu_info_by_device_id;
  std::array<char, 1024> cpus{};
  int length = static_cast<int>(cpus.size()) - 1;
  if (at == nullptr || function == nullptr || function(at->card, at->chip, cpus.data(), &length) != 0) return "";
  return cpus.data();
}

std::string driver_version() {
  const auto function = library().functions().dcmi_get_driver_version;
  std::array<char, 256> version{};
  if (function != nullptr && function(version.data(), version.size() - 1) == 0) return version.data();
  return value_in(on_machine("/usr/local/Ascend/driver/version.info"), "Version");
}

}  // namespace tern::npu
