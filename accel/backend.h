// A loaded backend plugin, and where plugins are found.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "tern/accel.h"

namespace tern::accel {

// What the host hands to every plugin. Set before the first plugin is loaded; a plugin keeps the pointer.
struct HostOptions {
  int num_threads = 0;              // 0: as many as the process may use
  std::filesystem::path cache_dir;  // empty: none
};
void set_host_options(const HostOptions& options);

// True where the table is long enough to hold the member and it is not null.
template <typename Function>
[[nodiscard]] bool has_member(const tern_backend* table, Function tern_backend::*member) {
  const auto* base = reinterpret_cast<const char*>(table);
  const auto* slot = reinterpret_cast<const char*>(&(table->*member));
  return static_cast<std::uint64_t>(slot - base) + sizeof(Function) <= table->size && table->*member != nullptr;
}

// One plugin, loaded for the life of the process: vendor libraries do not survive unloading.
class Backend {
 public:
  // Loads `file` and checks its ABI. Errors: the file is absent, is no plugin, or has another major version.
  static Result<std::shared_ptr<const Backend>> load(const std::filesystem::path& file);
  // Wraps a table that is linked in (tests, mutants).
  static std::shared_ptr<const Backend> wrap(const tern_backend* table);

  [[nodiscard]] const tern_backend& api() const { return *table_; }
  [[nodiscard]] std::string name() const { return table_->name; }
  [[nodiscard]] const std::filesystem::path& file() const { return file_; }
  [[nodiscard]] std::string last_error() const;
  // The functions that a backend with devices of these capabilities must have and this one lacks, separated by commas.
  [[nodiscard]] std::string missing_functions(std::uint32_t capabilities) const;

  // What the backend gives of an extension, cut off by no version: null where it has none of that name, or a shorter
  // one.
  template <typename Extension>
  [[nodiscard]] const Extension* extension(const char* name) const {
    const void* found = has(&tern_backend::get_extension) ? table_->get_extension(name) : nullptr;
    if (found == nullptr || *static_cast<const std::uint32_t*>(found) < sizeof(Extension)) return nullptr;
    return static_cast<const Extension*>(found);
  }
  // Lines "key: what it does", and names of devices that can be described.
  [[nodiscard]] std::vector<std::string> device_options() const;
  [[nodiscard]] std::vector<std::string> profiles() const;
  // The variable that hides devices, or "".
  [[nodiscard]] std::string visible_devices_env() const;
  [[nodiscard]] std::vector<std::string> inherited_env_prefixes() const;

  // True where this plugin's table is long enough to hold the member and it is not null.
  template <typename Function>
  [[nodiscard]] bool has(Function tern_backend::*member) const {
    return has_member(table_, member);
  }

 private:
  Backend(const tern_backend* table, std::filesystem::path file) : table_(table), file_(std::move(file)) {}
  const tern_backend* table_;
  std::filesystem::path file_;
};

// Ends the loaded plugins in order: tells each that has no open device that nothing more will be asked of it. The
// program's last act.
void finalize_backends();

// Plugin files in the order searched: $TERN_BACKEND_PATH (colon-separated folders), then ../lib/tern/backends beside
// the program. A later file of the same name as an earlier one is left out.
[[nodiscard]] std::vector<std::filesystem::path> find_backend_files();

// Devices of one table that are open: until there are none, it isn't finalized.
class OpenDevice {
 public:
  explicit OpenDevice(const tern_backend* table);
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  ~OpenDevice();

 private:
  const tern_backend* table_;
};

// A plugin's texts end where their arrays do, whatever the plugin wrote.
void terminate_texts(tern_device_info& info);

}  // namespace tern::accel
