// What HCCL needs to join ranks: settings in their range, an interface that is there, ports that are free.
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

#include "backends/npu/doctor.h"

namespace tern::npu {
namespace {

namespace fs = std::filesystem;

struct Range {
  const char* name;
  int least;
  int most;
};
// hccl's documentation of its environment.
constexpr auto kRanges = std::to_array<Range>({{"HCCL_CONNECT_TIMEOUT", 120, 7200},
                                               {"HCCL_IF_BASE_PORT", 1024, 65520},
                                               {"HCCL_EXEC_TIMEOUT", 0, 2147483647},
                                               {"HCCL_BUFFSIZE", 1, 2147483647}});
constexpr int kBasePort = 60000;
constexpr int kPorts = 32;  // that HCCL takes from the base on

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "eth" stands for all that begin with it, "=eth0" for one, "^..." for all others.
std::string unknown_interface() {
  std::string names = variable("HCCL_SOCKET_IFNAME");
  if (names.empty() || names[0] == '^') return "";
  const bool exact = names[0] == '=';
  if (exact) names.erase(0, 1);
  std::error_code error;
  std::vector<std::string> here;
  for (const auto& at : fs::directory_iterator(on_machine("/sys/class/net"), error)) {
    here.push_back(at.path().filename().string());
  }
  for (const auto& wanted : split(names, ',')) {
    for (const auto& name : here) {
      if (exact ? name == wanted : name.rfind(wanted, 0) == 0) return "";
    }
  }
  return "HCCL_SOCKET_IFNAME=" + variable("HCCL_SOCKET_IFNAME") + " is no interface of this machine (" +
         join(here, ", ") + "); name one that reaches the other ranks' machines";
}

// Ports of this machine that somebody listens on, from Linux's tables.
std::vector<int> listening(int first, int last) {
  std::vector<int> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(on_machine(table));
    std::string line;
    std::getline(in, line);  // the heading
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::string slot;
      std::string local;
      std::string remote;
      std::string state;
      words >> slot >> local >> remote >> state;
      const auto colon = local.rfind(':');
      int port = 0;
      if (state != "0A" || colon == std::string::npos) continue;  // LISTEN
      std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
      if (port >= first && port <= last) found.push_back(port);
    }
  }
  return found;
}

// Whether the kernel may give the ports to anybody: they lie in the range of its own choice and aren't reserved.
bool may_be_given_away(int first, int last) {
  std::ifstream range(on_machine("/proc/sys/net/ipv4/ip_local_port_range"));
  int least = 0;
  int most = 0;
  if (!(range >> least >> most) || last < least || first > most) return false;
  for (const auto& part : split(first_line(on_machine("/proc/sys/net/ipv4/ip_local_reserved_ports")), ',')) {
    const auto ends = split(part, '-');
    const auto from = number(ends.empty() ? "" : ends.front());
    const auto to = number(ends.empty() ? "" : ends.back());
    if (from && to && *from <= first && *to >= last) return false;
  }
  return true;
}

}  // namespace

Finding check_hccl_settings() {
  std::vector<std::string> wrong;
  for (const auto& range : kRanges) {
    const std::string text = variable(range.name);
    const auto value = number(text);
    if (text.empty() || (value && *value >= range.least && *value <= range.most)) continue;
    wrong.push_back(std::string(range.name) + "=" + text + " is no number from " + std::to_string(range.least) +
                    " to " + std::to_string(range.most) + "; set it to one, or unset it");
  }
  if (std::string unknown = unknown_interface(); !unknown.empty()) wrong.push_back(std::move(unknown));
  if (!wrong.empty()) return error("HCCL settings: " + join(wrong, "; "));
  return all_well("HCCL settings: in order");
}

Finding check_hccl_ports() {
  const int first = number(variable("HCCL_IF_BASE_PORT")).value_or(kBasePort);
  const int last = first + kPorts - 1;
  const std::string ports = std::to_string(first) + " to " + std::to_string(last);
  std::vector<std::string> taken;
  for (const int port : listening(first, last)) taken.push_back(std::to_string(port));
  if (!taken.empty()) {
    return error("HCCL ports: of " + ports + ", somebody listens on " + join(taken, ", ") +
                 ": another run, or one that hasn't ended (`ss -ltnp` names it); end it, or set HCCL_IF_BASE_PORT to "
                 "the first of " +
                 std::to_string(kPorts) + " free ports");
  }
  if (may_be_given_away(first, last)) {
    return warning("HCCL ports: " + ports +
                   " are free now, but the kernel gives them to anybody who asks for a port: "
                   "sysctl -w net.ipv4.ip_local_reserved_ports=" +
                   std::to_string(first) + "-" + std::to_string(last));
  }
  return all_well("HCCL ports: " + ports + " are free");
}

}  // namespace tern::npu
