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

  // True where this plugin's table is long enough to hold the member and it is not null.
  template <typename Function>
  [[nodiscard]] bool has(Function tern_backend::*member) const {
    const auto* base = reinterpret_cast<const char*>(table_);
    const auto* slot = reinterpret_cast<const char*>(&(table_->*member));
    return static_cast<std::uint64_t>(slot - base) + sizeof(Function) <= table_->size && table_->*member != nullptr;
  }

 private:
  Backend(const tern_backend* table, std::filesystem::path file) : table_(table), file_(std::move(file)) {}
  const tern_backend* table_;
  std::filesystem::path file_;
};

// Plugin files in the order searched: $TERN_BACKEND_PATH (colon-separated folders), then ../lib/tern/backends beside
// the program. A later file of the same name as an earlier one is left out.
[[nodiscard]] std::vector<std::filesystem::path> find_backend_files();

// A plugin's texts end where their arrays do, whatever the plugin wrote.
void terminate_texts(tern_device_info& info);

}  // namespace tern::accel
