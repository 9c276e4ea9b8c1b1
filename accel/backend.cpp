#include "accel/backend.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "base/log.h"
#include "base/strings.h"

namespace tern::accel {
namespace {

void forward_log(std::int32_t level, const char* line) {
  log(static_cast<LogLevel>(std::clamp(level, 0, 3)), line == nullptr ? "" : line);
}

struct HostState {
  std::string cache_dir;
  tern_host host{};
};

// What plugins see of the host: one for the process, as a plugin keeps the pointer.
HostState& host_state() {
  static HostState state = [] {
    HostState made;
    made.host = {sizeof(tern_host), TERN_ABI_MAJOR, TERN_ABI_MINOR, 0, nullptr, forward_log};
    return made;
  }();
  return state;
}

// Tables that were loaded, and how many of their devices are open.
struct LoadedState {
  std::mutex mutex;
  std::map<const tern_backend*, int> open;  // of every table
  std::set<const tern_backend*> loaded;     // from files, and not finalized
};

LoadedState& loaded_state() {
  static LoadedState state;
  return state;
}

std::vector<std::string> words(const char* const* list) {
  std::vector<std::string> out;
  for (; list != nullptr && *list != nullptr; ++list) out.emplace_back(*list);
  return out;
}

}  // namespace

OpenDevice::OpenDevice(const tern_backend* table) : table_(table) {
  auto& state = loaded_state();
  const std::lock_guard lock(state.mutex);
  ++state.open[table_];
}

OpenDevice::~OpenDevice() {
  auto& state = loaded_state();
  const std::lock_guard lock(state.mutex);
  --state.open[table_];
}

void finalize_backends() {
  auto& state = loaded_state();
  const std::lock_guard lock(state.mutex);
  std::erase_if(state.loaded, [&](const tern_backend* table) {
    if (state.open[table] > 0) return false;
    // It's the end: what a backend cannot put in order, nobody can now.
    if (has_member(table, &tern_backend::finalize)) (void)table->finalize();
    return true;
  });
}

std::vector<std::string> Backend::device_options() const {
  return has(&tern_backend::device_options) ? words(table_->device_options) : std::vector<std::string>();
}

std::vector<std::string> Backend::profiles() const {
  return has(&tern_backend::profiles) ? words(table_->profiles) : std::vector<std::string>();
}

std::string Backend::visible_devices_env() const {
  const bool named = has(&tern_backend::visible_devices_env);
  return named ? table_->visible_devices_env : "";
}

std::vector<std::string> Backend::inherited_env_prefixes() const {
  return has(&tern_backend::inherited_env_prefixes) ? words(table_->inherited_env_prefixes)
                                                    : std::vector<std::string>();
}

void set_host_options(const HostOptions& options) {
  auto& state = host_state();
  state.cache_dir = options.cache_dir.string();
  state.host.num_threads = options.num_threads;
  state.host.cache_dir = state.cache_dir.empty() ? nullptr : state.cache_dir.c_str();
}

Result<std::shared_ptr<const Backend>> Backend::load(const std::filesystem::path& file) {
  const std::string where = cat("backend ", file.string());
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return device_error(cat("cannot load ", where, ": ", reason == nullptr ? "the loader gives no reason" : reason),
                        "name a shared library that exports tern_backend_entry and was built for this machine");
  }
  auto entry = reinterpret_cast<tern_backend_entry_fn>(dlsym(library, "tern_backend_entry"));
  if (entry == nullptr) {
    return device_error(cat(where, " exports no tern_backend_entry"), "name a backend of tern instead of this library");
  }
  const tern_backend* table = entry(&host_state().host);
  if (table == nullptr) {
    return device_error(cat(where, " refused to start"), "use a plugin built for this version of tern");
  }
  if (table->abi_major != TERN_ABI_MAJOR) {
    return device_error(cat(where, " has ABI ", table->abi_major, ", and this tern has ABI ", TERN_ABI_MAJOR),
                        "rebuild the plugin against this version's include/tern/accel.h");
  }
  std::shared_ptr<const Backend> backend(new Backend(table, file));
  if (table->name == nullptr || *table->name == '\0' || table->version == nullptr) {
    return device_error(cat(where, " has no name or no version"),
                        "add them to its table, as docs/backend-spec.md says");
  }
  if (const std::string missing = backend->missing_functions(0); !missing.empty()) {
    return device_error(cat(where, " lacks required functions: ", missing),
                        "add them to its table, as docs/backend-spec.md says");
  }
  auto& state = loaded_state();
  const std::lock_guard lock(state.mutex);
  state.loaded.insert(table);
  return backend;
}

std::shared_ptr<const Backend> Backend::wrap(const tern_backend* table) {
  return std::shared_ptr<const Backend>(new Backend(table, {}));
}

std::string Backend::last_error() const {
  std::array<char, 1024> text{};
  table_->last_error({text.data(), text.size() - 1});
  return text.data();
}

void terminate_texts(tern_device_info& info) {
  info.name[sizeof(info.name) - 1] = '\0';
  info.arch[sizeof(info.arch) - 1] = '\0';
  info.driver_version[sizeof(info.driver_version) - 1] = '\0';
  info.pci_address[sizeof(info.pci_address) - 1] = '\0';
  info.link[sizeof(info.link) - 1] = '\0';
}

std::vector<std::filesystem::path> find_backend_files() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("TERN_BACKEND_PATH")) {
    for (auto part : split(path, ':')) {
      if (!part.empty()) folders.emplace_back(part);
    }
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path() / ".." / "lib" / "tern" / "backends");

  std::vector<fs::path> files;
  for (const auto& folder : folders) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".so") found.push_back(fs::weakly_canonical(entry.path(), error));
    }
    std::sort(found.begin(), found.end());
    for (auto& file : found) {
      const bool shadowed = std::any_of(files.begin(), files.end(),
                                        [&](const fs::path& earlier) { return earlier.filename() == file.filename(); });
      if (!shadowed) files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace tern::accel
