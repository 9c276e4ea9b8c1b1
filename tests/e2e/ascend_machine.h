// A machine with Ascend cards, below a folder of the test's own: TERN_NPU_ROOT and the fake of CANN make it one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run.h"

namespace tern::e2e {

inline constexpr const char* kToolkit = "usr/local/Ascend/ascend-toolkit/latest";

// Two cards of an A2 with driver and toolkit, all in order, below a folder.
class Machine {
 public:
  Machine() {
    for (const char* node : {"davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"}) {
      write(std::string("dev/") + node, "");
    }
    for (const char* card : {"0000:c1:00.0", "0000:c2:00.0"}) {
      write(std::string("sys/bus/pci/devices/") + card + "/vendor", "0x19e5\n");
      write(std::string("sys/bus/pci/devices/") + card + "/class", "0x120000\n");
    }
    write("usr/local/Ascend/driver/lib64/driver/libascend_hal.so", "");
    write("usr/local/Ascend/driver/version.info", "Version=24.1.rc3\n");
    install(kToolkit);
    write(std::string(kToolkit) + "/opp/built-in/op_impl/ai_core/tbe/kernel/ascend910b/list", "");
    link(std::string(TERN_FAKE_CANN) + "/libdcmi.so", "usr/local/dcmi/libdcmi.so");
    write("sys/class/net/eth0/mtu", "1500\n");
    write("proc/net/tcp", kHeading);
    write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
    write("proc/sys/net/ipv4/ip_local_reserved_ports", "60000-60031\n");
    options.variables["TERN_NPU_ROOT"] = root();
    options.variables["TERN_HOME"] = root() + "/home";
    options.variables["HOME"] = root() + "/home";
    options.variables["TERN_FAKE_CANN_DEVICES"] = "2";
    source(kToolkit);
  }

  static constexpr const char* kHeading = "  sl  local_address rem_address   st tx_queue rx_queue\n";

  [[nodiscard]] std::string root() const { return scratch_.path().string(); }
  void write(const std::string& file, const std::string& text) const { (void)scratch_.write(file, text); }
  void remove(const std::string& file) const { std::filesystem::remove_all(scratch_ / file); }
  void link(const std::string& to, const std::string& file) const {
    std::filesystem::create_directories((scratch_ / file).parent_path());
    std::filesystem::create_symlink(to, scratch_ / file);
  }
  // The fake's libraries as a toolkit in this folder.
  void install(const std::string& folder) const {
    for (const auto& file : std::filesystem::directory_iterator(TERN_FAKE_CANN)) {
      link(file.path().string(), folder + "/lib64/" + file.path().filename().string());
    }
    write(folder + "/version.cfg", "toolkit_installed_version=[7.7.0.1.238:8.1.RC1]\n");
    write(folder + "/set_env.sh", "");
    std::filesystem::create_directories(scratch_ / (folder + "/opp"));
  }
  void source(const std::string& folder) {
    options.variables["ASCEND_HOME_PATH"] = root() + "/" + folder;
    options.variables["ASCEND_OPP_PATH"] = root() + "/" + folder + "/opp";
  }
  [[nodiscard]] Outcome doctor(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"doctor", "--device", "npu"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options);
  }
  // Level and text of the line about something, as "error    npu: memory: ...".
  [[nodiscard]] std::string says(const std::string& about) const {
    const std::string out = doctor().out;
    const auto at = out.find(" npu: " + about + ": ");
    if (at == std::string::npos) return "nothing of " + about + " in:\n" + out;
    const auto begin = out.rfind('\n', at);
    return out.substr(begin == std::string::npos ? 0 : begin + 1, out.find('\n', at) - begin - 1);
  }

  Options options;

 private:
  Scratch scratch_;
};

}  // namespace tern::e2e
