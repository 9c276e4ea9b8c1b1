// Nodes, driver, toolkit: what has to be on the machine, or mounted into the container.
#include <unistd.h>

#include <algorithm>

#include "backends/npu/chip.h"
#include "backends/npu/dcmi.h"
#include "backends/npu/doctor.h"
#include "backends/npu/loader.h"

namespace tern::npu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriver = "/usr/local/Ascend/driver";
constexpr const char* kSetEnv[] = {"/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/cann/set_env.sh"};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// How a container is started that has all it needs; `cards`: as the PCI bus counts them.
std::string docker_line(int cards) {
  std::string line = "docker run";
  for (int i = 0; i < std::max(cards, 1); ++i) line += " --device=/dev/davinci" + std::to_string(i);
  line += " --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc";
  for (const char* mount : {kDriver, "/usr/local/dcmi", "/usr/local/bin/npu-smi", "/etc/ascend_install.info"}) {
    line += std::string(" -v ") + mount + ":" + mount + ":ro";
  }
  return line + " --network=host --ipc=host IMAGE";
}

std::string mend_absence(int cards) {
  if (in_container()) return "start the container with: " + docker_line(cards);
  return "install the driver and firmware (the package Ascend-hdk-...-npu-driver), and restart the machine";
}

// Folders of kernels by chip: what CANN calls them, and the names of the chips begin with it.
std::string kernel_folder(const Chip& chip) {
  switch (chip.family) {
    case Family::a910:
      return "ascend910";
    case Family::a310p:
      return "ascend310p";
    case Family::a2:
      return "ascend910b";
    case Family::a3:
      return "ascend910_93";
    case Family::a950:
      return "ascend950";
  }
  return "";
}

// "Ascend910B1", from the runtime or else the driver; "": nobody tells.
std::string chip_name() {
  std::string why;
  if (const Acl* functions = acl(why); functions != nullptr && functions->aclrtGetSocName != nullptr) {
    if (const char* name = functions->aclrtGetSocName(); name != nullptr) return name;
  }
  if (installed_chips(why) == 0) return "";
  const auto state = chip_state(0);
  return !state || state->name.empty() ? "" : "Ascend" + state->name;
}

std::string described(const Toolkit& toolkit) {
  return toolkit.root.string() + " (" + toolkit.version +
         (toolkit.named_by.empty() ? "" : ", named by " + join(toolkit.named_by, ", ")) + ")";
}

}  // namespace

Finding check_nodes() {
  const auto cards = device_nodes();
  std::vector<std::string> missing;
  if (cards.empty()) missing.emplace_back("/dev/davinci0");
  for (const char* node : {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"}) {
    if (!is_there(on_machine(node))) missing.emplace_back(node);
  }
  const int on_bus = std::max(cards_on_bus(), static_cast<int>(cards.size()));
  if (!missing.empty()) {
    return error("device nodes: missing " + join(missing, ", ") + "; " + mend_absence(on_bus));
  }
  std::vector<std::string> closed;
  std::vector<std::string> nodes = {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"};
  for (const int card : cards) nodes.push_back("/dev/davinci" + std::to_string(card));
  for (const auto& node : nodes) {
    if (access(on_machine(node).c_str(), R_OK | W_OK) != 0) closed.push_back(node);
  }
  if (!closed.empty()) {
    return error("device nodes: this user may not open " + join(closed, ", ") +
                 "; add the user to their group and log in again: sudo usermod -aG HwHiAiUser $USER");
  }
  return all_well("device nodes: " + std::to_string(cards.size()) + " cards, and those of the driver" +
                  (in_container() ? "; in a container" : ""));
}

Finding check_driver() {
  std::vector<std::string> places;
  for (const char* folder : {"/lib64/driver", "/lib64/common", "/lib64"}) {
    if (is_there(on_machine(std::string(kDriver) + folder + "/libascend_hal.so"))) places.emplace_back(folder);
  }
  if (places.empty()) {
    return error(std::string("driver: libascend_hal.so isn't below ") + kDriver + "; " +
                 mend_absence(std::max(cards_on_bus(), static_cast<int>(device_nodes().size()))));
  }
  std::string why;
  (void)acl(why);
  if (why.find("libascend_hal.so") != std::string::npos) {
    return error(std::string("driver: its libraries are there, and the loader doesn't look for them; export "
                             "LD_LIBRARY_PATH=") +
                 kDriver + "/lib64/driver:" + kDriver + "/lib64/common:$LD_LIBRARY_PATH");
  }
  const std::string version = driver_version();
  return all_well("driver: " + (version.empty() ? "of an unknown version" : version));
}

Finding check_toolkit() {
  const auto found = toolkits();
  if (found.empty()) {
    return error(
        "toolkit: no CANN toolkit is here (looked for in ASCEND_HOME_PATH, in LD_LIBRARY_PATH and in "
        "/usr/local/Ascend); install Ascend-cann-toolkit and the kernels of the chip");
  }
  std::string set_env = (found.front().root / "set_env.sh").string();
  for (const char* script : kSetEnv) {
    if (is_there(on_machine(script))) set_env = script;
  }
  std::vector<std::string> unset;
  for (const char* name : {"ASCEND_HOME_PATH", "ASCEND_OPP_PATH"}) {
    if (variable(name).empty()) unset.emplace_back(name);
  }
  if (!unset.empty()) {
    return error("toolkit: " + described(found.front()) + " is here, but " + join(unset, " and ") +
                 (unset.size() == 1 ? " isn't set" : " aren't set") + ", so its operators aren't found; run: source " +
                 set_env);
  }
  for (const char* name : {"ASCEND_HOME_PATH", "ASCEND_OPP_PATH"}) {
    if (!is_there(variable(name))) {
      return error("toolkit: " + std::string(name) + "=" + variable(name) + " isn't there; run: source " + set_env);
    }
  }
  return all_well("toolkit: " + described(found.front()));
}

Finding check_stubs() {
  bool real_before = false;
  for (const auto& folder : split(variable("LD_LIBRARY_PATH"), ':')) {
    const bool has_library = is_there(fs::path(folder) / "libascendcl.so") ||
                             is_there(fs::path(folder) / "libacl_rt.so") ||
                             is_there(fs::path(folder) / "libascend_hal.so");
    const bool is_stub = is_stub_folder(folder);
    if (has_library && is_stub && !real_before) {
      return error("stub libraries: LD_LIBRARY_PATH has " + folder +
                   " before the real ones: it is for linking on machines without a card, and each of its functions "
                   "fails with code 100039; take it out of LD_LIBRARY_PATH");
    }
    real_before |= has_library && !is_stub;
  }
  return all_well("stub libraries: none comes first");
}

Finding check_one_toolkit() {
  std::vector<std::string> named;
  std::vector<std::string> others;
  for (const auto& toolkit : toolkits()) {
    (toolkit.named_by.empty() ? others : named).push_back(described(toolkit));
  }
  if (named.size() > 1) {
    return error(
        "one toolkit: variables name " + std::to_string(named.size()) + " at once: " + join(named, " and ") +
        "; libraries of one with operators of another fail in odd ways: in a fresh shell, source the set_env.sh "
        "of one alone");
  }
  if (named.size() == 1 && !others.empty()) {
    return all_well("one toolkit: " + named[0] + "; also installed, and not used: " + join(others, ", "));
  }
  return all_well("one toolkit: " + (named.empty() ? "none is named" : named[0]));
}

Finding check_kernels() {
  const std::string name = chip_name();
  if (name.empty()) return all_well("chip and toolkit: the chip's name isn't known yet; mend what is above first");
  const Chip* chip = find_chip(name);
  if (chip == nullptr) {
    return error("chip and toolkit: " + name + " is none that tern knows; report it with `tern doctor --bundle`");
  }
  const fs::path kernels = fs::path(variable("ASCEND_OPP_PATH")) / "built-in/op_impl/ai_core/tbe/kernel";
  if (variable("ASCEND_OPP_PATH").empty() || !is_there(kernels)) {
    return warning("chip and toolkit: " + name + ", and the toolkit has no folder of kernels (" + kernels.string() +
                   "); install Ascend-cann-kernels for " + name);
  }
  const std::string wanted = kernel_folder(*chip);
  if (is_there(kernels / wanted)) return all_well("chip and toolkit: " + name + ", and its kernels are installed");
  std::vector<std::string> has;
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(kernels, ignored)) {
    if (const auto kind = folder.path().filename().string(); kind.rfind("ascend", 0) == 0) has.push_back(kind);
  }
  std::sort(has.begin(), has.end());
  return error("chip and toolkit: the chip is " + name + ", and the toolkit has kernels for " +
               (has.empty() ? "none" : join(has, ", ")) + "; install Ascend-cann-kernels for it (" + wanted +
               "), of the toolkit's own version");
}

}  // namespace tern::npu
