#include "io/atomic_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "base/strings.h"
#include "io/checksum.h"
#include "io/file_writer.h"
#include "io/json_field.h"
#include "io/system_error.h"

namespace tern::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";
constexpr const char* kLock = ".lock";  // held by the writer while it lives, also across hosts
constexpr const char* kManifest = "manifest.json";
constexpr const char* kDamaged = "the manifest is damaged: save or fetch the directory again";

// `.<name>.tmp-<pid>` beside it.
fs::path temporary_for(const fs::path& target) {
  return target.parent_path() / cat(".", target.filename().string(), kMark, static_cast<std::int64_t>(::getpid()));
}

// The pid of `.<name>.tmp-<pid>`, or 0.
int pid_of(const std::string& name) {
  const std::size_t at = name.rfind(kMark);
  if (at == std::string::npos || at == 0) return 0;
  int pid = 0;
  const char* begin = name.data() + at + kMark.size();
  const auto [end, code] = std::from_chars(begin, name.data() + name.size(), pid);
  return code == std::errc() && end == name.data() + name.size() && pid > 0 ? pid : 0;
}

bool writer_is_gone(const fs::path& directory, int pid) {
  const int fd = ::open((directory / kLock).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return ::kill(pid, 0) != 0 && errno == ESRCH;
  const bool gone = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return gone;
}

// All regular files below, as sorted relative names; directories too, for flushing.
struct Tree {
  std::vector<std::string> files;
  std::vector<fs::path> directories;
};

Tree list_tree(const fs::path& root) {
  Tree tree;
  tree.directories.push_back(root);
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_directory() && !entry.is_symlink()) tree.directories.push_back(entry.path());
    if (entry.is_regular_file()) tree.files.push_back(entry.path().lexically_relative(root).string());
  }
  std::sort(tree.files.begin(), tree.files.end());
  return tree;
}

template <typename Body>
Status guarded(Body&& body) {
  try {
    body();
    return Unit{};
  } catch (const Failure& failure) {
    return failure.error();
  } catch (const fs::filesystem_error& why) {
    return write_error(why.path1().string(), why.code().value());
  }
}

bool safe_relative(const std::string& name) {
  const fs::path path(name);
  if (name.empty() || path.is_absolute() || name.find('\0') != std::string::npos) return false;
  return std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".." || part.empty(); });
}

}  // namespace

struct AtomicDir::State {
  fs::path target;
  fs::path temporary;
  Existing existing = Existing::refuse;
  int lock = -1;
  bool done = false;

  void release() {
    if (lock >= 0) ::close(lock);
    lock = -1;
  }

  void write_manifest() {
    Json files = Json::object();
    const Tree tree = list_tree(temporary);
    for (const std::string& name : tree.files) {
      if (name == kLock || name == kManifest) continue;
      sync_file(temporary / name).value();
      files[name] = {{"size", fs::file_size(temporary / name)}, {"xxh3_64", xxh3_64_of_file(temporary / name).value()}};
    }
    Json manifest = Json::object();
    manifest["files"] = std::move(files);
    write_file(temporary / kManifest, write_json(manifest)).value();
  }

  void commit() {
    write_manifest();
    // The lock goes only now: until the rename the directory is ours by pid.
    fs::remove(temporary / kLock);
    for (const fs::path& directory : list_tree(temporary).directories) sync_directory(directory).value();
    move_into_place();
    done = true;
    release();
    sync_directory(target.parent_path()).value();
  }

  void move_into_place() {
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST && existing == Existing::refuse) {
      throw Failure(usage_error(cat("another run has just made ", target.string()), "name another directory"));
    }
    if (errno == EEXIST && ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
      std::error_code ignored;  // the old one now bears the temporary name: the next run removes it otherwise
      sync_directory(target.parent_path()).value();
      fs::remove_all(temporary, ignored);
      return;
    }
    // A file system without these flags: two renames, with a moment in which only the temporary names exist.
    fs::path old = temporary;
    old += "-old";
    if (fs::exists(target)) fs::rename(target, old);
    fs::rename(temporary, target);
    std::error_code ignored;
    fs::remove_all(old, ignored);
  }
};

AtomicDir::AtomicDir(std::unique_ptr<State> state) : state_(std::move(state)) {}
AtomicDir::AtomicDir(AtomicDir&&) noexcept = default;
AtomicDir& AtomicDir::operator=(AtomicDir&&) noexcept = default;

AtomicDir::~AtomicDir() {
  if (state_ == nullptr) return;
  state_->release();
  std::error_code ignored;
  if (!state_->done) fs::remove_all(state_->temporary, ignored);
}

Result<AtomicDir> AtomicDir::begin(const fs::path& target, Existing existing) {
  auto state = std::make_unique<State>();
  const auto status = guarded([&] {
    state->target = fs::absolute(target).lexically_normal();
    if (!state->target.has_filename()) state->target = state->target.parent_path();
    state->existing = existing;
    if (existing == Existing::refuse && fs::exists(state->target)) {
      throw Failure(usage_error(cat(state->target.string(), " already exists"),
                                "name another directory, or replace it with --exist_ok true"));
    }
    make_directories(state->target.parent_path()).value();
    remove_stale_directories(state->target.parent_path(), state->target.filename().string());
    state->temporary = temporary_for(state->target);
    fs::remove_all(state->temporary);  // of a former process with this pid
    fs::create_directory(state->temporary);
    state->lock = ::open((state->temporary / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (state->lock < 0) throw Failure(write_error((state->temporary / kLock).string(), errno));
    (void)::flock(state->lock, LOCK_EX | LOCK_NB);  // a file system without locks falls back to the pid
  });
  if (!status) return status.error();
  return AtomicDir(std::move(state));
}

const fs::path& AtomicDir::path() const { return state_->temporary; }

Status AtomicDir::commit() {
  return guarded([&] { state_->commit(); });
}

Status remove_directory(const fs::path& directory) {
  return guarded([&] {
    const fs::path temporary = temporary_for(fs::absolute(directory).lexically_normal());
    fs::remove_all(temporary);  // of a former process with this pid
    fs::rename(directory, temporary);
    // Else a crash may leave the old name and not the files.
    sync_directory(temporary.parent_path()).value();
    fs::remove_all(temporary);
  });
}

Status verify_manifest(const fs::path& directory, Verify depth) {
  return guarded([&] {
    const fs::path path = directory / kManifest;
    const Json manifest = read_json_file(path).value();
    const JsonField files = JsonField(manifest, path.string(), kDamaged).at("files");
    for (const Json::Member& one : files.object()) {
      const std::string& name = one.key;
      const JsonField entry = files.member(one);
      const std::string where = (directory / name).string();
      if (!safe_relative(name))
        throw Failure(files.place().error("names inside the directory", cat("\"", name, "\""), kDamaged));
      std::error_code code;
      const std::uintmax_t size = fs::file_size(directory / name, code);
      if (code)
        throw Failure(
            data_error(where, "a file that the manifest names", code.message(), "the directory is incomplete"));
      const std::uint64_t named_size = entry.at("size").natural();
      if (size != named_size) {
        throw Failure(data_error(where, cat(named_size, " bytes"), cat(size), "the file is damaged"));
      }
      const std::string_view named_sum = entry.at("xxh3_64").text();
      if (depth != Verify::checksums) continue;
      const std::string sum = xxh3_64_of_file(directory / name).value();
      if (sum != named_sum) throw Failure(data_error(where, cat("xxh3_64 ", named_sum), sum, "the file is damaged"));
    }
  });
}

std::vector<std::string> remove_stale_directories(const fs::path& parent, const std::string& target) {
  std::vector<std::string> removed;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(parent, code)) {
    const std::string name = entry.path().filename().string();
    const int pid = pid_of(name);
    std::error_code ignored;
    if (!target.empty() && name.substr(0, name.rfind(kMark)) != cat(".", target)) continue;
    if (pid == 0 || pid == ::getpid() || !entry.is_directory(ignored) || entry.is_symlink(ignored)) continue;
    if (!writer_is_gone(entry.path(), pid)) continue;
    fs::remove_all(entry.path(), ignored);
    if (!ignored) removed.push_back(name);
  }
  return removed;
}

void remove_stale_files(const fs::path& target) {
  constexpr auto kQuiet = std::chrono::minutes(1);
  const std::string prefix = cat(target.filename().string(), kMark);
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(fs::absolute(target).parent_path(), code)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const int pid = pid_of(name.substr(0, name.find('.', prefix.size())));
    std::error_code ignored;
    if (pid == 0 || !entry.is_regular_file(ignored) || ::kill(pid, 0) == 0 || errno != ESRCH) continue;
    const auto written = entry.last_write_time(ignored);
    if (!ignored && fs::file_time_type::clock::now() - written > kQuiet) fs::remove(entry.path(), ignored);
  }
}

}  // namespace tern::io
