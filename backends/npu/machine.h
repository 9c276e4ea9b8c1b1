// The machine as the checks of doctor see it: device nodes, folders of driver and toolkit, processes, variables. Below
// TERN_NPU_ROOT where that is set, so that a container's host can be looked at, and a test can make a machine of its
// own.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern::npu {

// "" where the variable isn't set, or empty.
[[nodiscard]] std::string variable(const char* name);
// A folder of libraries that are for linking on machines without a card.
[[nodiscard]] bool is_stub_folder(const std::string& folder);

// `path`, which begins with /, below TERN_NPU_ROOT.
[[nodiscard]] std::filesystem::path on_machine(std::string_view path);

[[nodiscard]] std::vector<std::string> split(std::string_view text, char at);
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view between);
// The first line of a file, "" where there is none.
[[nodiscard]] std::string first_line(const std::filesystem::path& file);
// What follows `key=` (or `key:`) in a file of such lines, without quotes and blanks; "": nothing does.
[[nodiscard]] std::string value_in(const std::filesystem::path& file, std::string_view key);

// Numbers N of the nodes /dev/davinciN, ascending.
[[nodiscard]] std::vector<int> device_nodes();
// Ascend cards on the PCI bus, which a container sees even where their nodes weren't given to it.
[[nodiscard]] int cards_on_bus();
[[nodiscard]] bool in_container();

// Folders that hold a whole toolkit (lib64 and opp): installed in the usual places, or named by variables; each once.
struct Toolkit {
  std::filesystem::path root;         // real, without links
  std::string version;                // "8.1.RC1", or "unknown"
  std::vector<std::string> named_by;  // ASCEND_HOME_PATH and so on; empty: it's only there
};
[[nodiscard]] std::vector<Toolkit> toolkits();

// What a process of this machine is doing.
enum class ProcessState { alive, zombie, gone };
[[nodiscard]] ProcessState state_of_process(int pid);
[[nodiscard]] std::string name_of_process(int pid);  // "python3"; "" where it's gone

// What ASCEND_RT_VISIBLE_DEVICES shows of so many devices: CANN stops reading at the first entry that is wrong.
struct VisibleDevices {
  std::vector<int> numbers;  // the driver's, by ordinal
  std::string problem;       // what stopped it, with the mend; "": nothing did
};
[[nodiscard]] VisibleDevices visible_devices(int installed);

// Newest first: logs of CANN's libraries on the host's side.
[[nodiscard]] std::vector<std::filesystem::path> log_files();
[[nodiscard]] std::filesystem::path log_folder();

}  // namespace tern::npu
