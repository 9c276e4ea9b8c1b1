#include "train/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/strings.h"
#include "io/file_writer.h"
#include "train/checkpoint.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

// N of a name `vN-...`, else -1.
std::int64_t version_of(const std::string& name) {
  if (name.size() < 3 || name[0] != 'v') return -1;
  std::int64_t version = -1;
  const auto [end, failure] = std::from_chars(name.data() + 1, name.data() + name.size(), version);
  return failure == std::errc{} && end != name.data() + name.size() && *end == '-' && version >= 0 ? version : -1;
}

std::string model_name(const std::string& model) {
  const fs::path path(model);
  const std::string name = path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
  return name.empty() ? "model" : name;
}

Failure unwritable(const fs::path& directory, const std::string& reason) {
  return Failure(
      failed_error(cat("cannot write to ", directory.string(), ": ", reason), "choose another --output_dir"));
}

void make_directories(const fs::path& directory) {
  if (const Status made = io::make_directories(directory); !made.ok()) {
    throw Failure(failed_error(made.error().problem, "choose another --output_dir"));
  }
}

}  // namespace

DirectoryLock::DirectoryLock(const fs::path& directory) {
  make_directories(directory);
  const fs::path file = directory / ".lock";
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw unwritable(directory, std::strerror(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(fd_);
  throw Failure(failed_error(cat("another run is writing to ", directory.string()),
                             "wait until it ends, or choose another --output_dir"));
}

DirectoryLock::~DirectoryLock() { ::close(fd_); }

fs::path default_output_dir(const std::string& model) { return cat("output/", model_name(model)); }

fs::path new_version(const fs::path& base) {
  make_directories(base);
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::int64_t next = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(base, error)) {
      next = std::max(next, version_of(entry.path().filename().string()) + 1);
    }
    fs::path directory = base / cat("v", next, "-", stamp);
    if (fs::create_directory(directory, error)) {
      io::sync_directory(base).value();
      return directory;
    }
    if (error) throw unwritable(directory, error.message());
  }
  throw unwritable(base, "no free version");
}

Result<fs::path> find_checkpoint(const std::string& from, const fs::path& base) {
  std::error_code error;
  if (from != "last") {
    if (fs::is_directory(from, error)) return fs::path(from);
    return data_error(cat("--resume_from_checkpoint ", from), "a checkpoint directory", "none", "name one, or last");
  }
  std::vector<std::pair<std::int64_t, fs::path>> folders = {{-1, base}};
  for (const auto& entry : fs::directory_iterator(base, error)) {
    const auto version = version_of(entry.path().filename().string());
    if (version >= 0 && entry.is_directory(error)) folders.emplace_back(version, entry.path());
  }
  std::sort(folders.rbegin(), folders.rend());
  for (const auto& [version, folder] : folders) {
    if (fs::path found = newest_sound_checkpoint(folder); !found.empty()) return found;
  }
  return data_error(cat("--resume_from_checkpoint last in ", base.string()), "a sound checkpoint", "none",
                    "start a new run without the flag");
}

}  // namespace tern::train
