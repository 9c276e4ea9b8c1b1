// Preloaded into a program (LD_PRELOAD), writes down what it does to the files below TERN_CRASH_ROOT. Calls go on to the
// C library. One lock makes the order of the records that of the operations.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include "tests/crash/journal.h"

namespace tern::crash {
namespace {

class Recorder {
 public:
  Recorder() {
    const char* root = std::getenv(kRoot);
    const char* journal = std::getenv(kJournal);
    if (root == nullptr || journal == nullptr) return;
    root_ = std::string(root) + "/";
    journal_ = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  }

  [[nodiscard]] bool covers(const std::string& path) const { return journal_ >= 0 && path.starts_with(root_); }
  [[nodiscard]] bool is_on() const { return journal_ >= 0; }

  void record(Operation operation, std::string_view path, std::string_view data, std::uint64_t inode = 0,
              std::uint64_t offset = 0) {
    if (journal_ < 0) return;
    const RecordHead head = {operation, static_cast<std::uint32_t>(path.size()), data.size(), inode, offset};
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
    bytes.append(path).append(data);
    for (std::size_t done = 0; done < bytes.size();) {
      const long count = ::syscall(SYS_write, journal_, bytes.data() + done, bytes.size() - done);
      if (count <= 0) std::abort();  // a journal with a hole proves nothing
      done += static_cast<std::size_t>(count);
    }
  }

  std::recursive_mutex mutex;

 private:
  std::string root_;
  int journal_ = -1;
};

Recorder& recorder() {
  static Recorder* const one = new Recorder;  // outlives the destructors of the program
  return *one;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int fd) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), text.data(), text.size() - 1);
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : std::string();
}

std::string absolute(int folder, const char* path) {
  if (path[0] == '/') return path;
  std::array<char, PATH_MAX> here{};
  const std::string base = folder == AT_FDCWD ? std::string(::getcwd(here.data(), here.size())) : path_of(folder);
  return base + "/" + path;
}

std::uint64_t inode_at(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

bool exists(const std::string& path) { return inode_at(path) != 0; }

struct stat info_of(int fd) {
  struct stat info{};
  (void)::fstat(fd, &info);
  return info;
}

// What `open` makes of a path: `call` opens it.
template <typename Call>
int opened(int folder, const char* path, int flags, Call&& call) {
  const std::scoped_lock lock(recorder().mutex);
  const std::string name = recorder().is_on() ? absolute(folder, path) : std::string();
  const bool covered = recorder().covers(name) && (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
  const bool was_there = covered && exists(name);
  const int fd = call();
  if (fd < 0 || !covered) return fd;
  if (!was_there) recorder().record(Operation::create, name, "", info_of(fd).st_ino);
  if (was_there && (flags & O_TRUNC) != 0) recorder().record(Operation::truncate, "", "", info_of(fd).st_ino, 0);
  return fd;
}

// `call` writes what `data` is, at `offset` or, where that is negative, where the file stands.
template <typename Call>
ssize_t written(int fd, std::string_view data, off_t offset, Call&& call) {
  const std::scoped_lock lock(recorder().mutex);
  if (!recorder().is_on()) return call();
  const std::string path = path_of(fd);
  const bool covered = recorder().covers(path) || path.ends_with(" (deleted)");
  std::uint64_t at = static_cast<std::uint64_t>(offset);
  if (covered && offset < 0) {
    const bool appends = (::fcntl(fd, F_GETFL) & O_APPEND) != 0;
    at = static_cast<std::uint64_t>(appends ? info_of(fd).st_size : ::lseek(fd, 0, SEEK_CUR));
  }
  const ssize_t count = call();
  if (count > 0 && covered) {
    recorder().record(Operation::write, "", data.substr(0, static_cast<std::size_t>(count)), info_of(fd).st_ino, at);
  } else if (count > 0 && fd == STDERR_FILENO) {
    recorder().record(Operation::report, "", data.substr(0, static_cast<std::size_t>(count)));
  }
  return count;
}

// `call` copies from another file into `fd`, where that stands: what it wrote is read back.
template <typename Call>
ssize_t copied(int fd, Call&& call) {
  const std::scoped_lock lock(recorder().mutex);
  const std::string path = path_of(fd);
  const off_t at = ::lseek(fd, 0, SEEK_CUR);
  const ssize_t count = call();
  if (count <= 0 || !recorder().covers(path)) return count;
  std::string data(static_cast<std::size_t>(count), '\0');
  const int in = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (::pread(in, data.data(), data.size(), at) != count) std::abort();
  (void)::syscall(SYS_close, in);
  recorder().record(Operation::write, "", data, info_of(fd).st_ino, static_cast<std::uint64_t>(at));
  return count;
}

template <typename Call>
int changed(const std::string& path, Operation operation, const std::string& data, Call&& call) {
  const std::scoped_lock lock(recorder().mutex);
  const int code = call();
  if (code != 0 || !recorder().covers(path)) return code;
  const bool makes = operation == Operation::mkdir || operation == Operation::symlink;
  recorder().record(operation, path, data, makes ? inode_at(path) : 0);
  return code;
}

template <typename Call>
int sized(int fd, std::uint64_t size, bool grows_only, Call&& call) {
  const std::scoped_lock lock(recorder().mutex);
  const auto before = static_cast<std::uint64_t>(info_of(fd).st_size);
  const int code = call();
  if (code == 0 && recorder().covers(path_of(fd)) && !(grows_only && size <= before)) {
    recorder().record(Operation::truncate, "", "", info_of(fd).st_ino, size);
  }
  return code;
}

template <typename Call>
int synced(int fd, Call&& call) {
  const std::scoped_lock lock(recorder().mutex);
  const int code = call();
  const std::string path = path_of(fd);
  if (code == 0 && recorder().covers(path + "/")) recorder().record(Operation::sync, "", "", info_of(fd).st_ino);
  return code;
}

int renamed(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  const std::string source = absolute(from_folder, from);
  const bool swaps = (flags & RENAME_EXCHANGE) != 0;
  return changed(source, swaps ? Operation::exchange : Operation::rename, absolute(to_folder, to), [&] {
    return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  });
}

mode_t mode_of(int flags, va_list rest) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
}

}  // namespace
}  // namespace tern::crash

// The C library's own names and signatures.
// NOLINTBEGIN(cert-dcl50-cpp,readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)
extern "C" {
using namespace tern::crash;  // NOLINT(google-build-using-namespace)

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return opened(AT_FDCWD, path, flags, [&] { return next<int(const char*, int, ...)>("open")(path, flags, mode); });
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return opened(AT_FDCWD, path, flags, [&] { return next<int(const char*, int, ...)>("open64")(path, flags, mode); });
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return opened(folder, path, flags,
                [&] { return next<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode); });
}
FILE* fopen64(const char* path, const char* how) {
  const std::string_view words = how;
  const bool updates = words.find('+') != std::string_view::npos;
  int flags = words[0] == 'r' && !updates ? O_RDONLY : O_WRONLY;
  if (words[0] != 'r') flags |= O_CREAT;
  if (words[0] == 'w') flags |= O_TRUNC;
  FILE* file = nullptr;
  (void)opened(AT_FDCWD, path, flags, [&] {
    file = next<FILE*(const char*, const char*)>("fopen64")(path, how);
    return file == nullptr ? -1 : ::fileno(file);
  });
  return file;
}
FILE* fopen(const char* path, const char* how) { return fopen64(path, how); }

ssize_t write(int fd, const void* data, size_t size) {
  return written(fd, {static_cast<const char*>(data), size}, -1,
                 [&] { return next<ssize_t(int, const void*, size_t)>("write")(fd, data, size); });
}
ssize_t writev(int fd, const iovec* parts, int count) {
  std::string data;
  for (int i = 0; i < count; ++i) data.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return written(fd, data, -1, [&] { return next<ssize_t(int, const iovec*, int)>("writev")(fd, parts, count); });
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return written(fd, {static_cast<const char*>(data), size}, offset,
                 [&] { return next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, data, size, offset); });
}
ssize_t pwrite64(int fd, const void* data, size_t size, off_t offset) { return pwrite(fd, data, size, offset); }
size_t fwrite(const void* data, size_t size, size_t count, FILE* file) {
  using Real = size_t(const void*, size_t, size_t, FILE*);
  if (file != stderr) return next<Real>("fwrite")(data, size, count, file);
  (void)written(STDERR_FILENO, {static_cast<const char*>(data), size * count}, -1, [&] {
    const size_t done = next<Real>("fwrite")(data, size, count, file);
    return static_cast<ssize_t>(done * size);
  });
  return count;
}

ssize_t sendfile(int to, int from, off_t* offset, size_t size) {
  return copied(to, [&] { return next<ssize_t(int, int, off_t*, size_t)>("sendfile")(to, from, offset, size); });
}
ssize_t sendfile64(int to, int from, off_t* offset, size_t size) { return sendfile(to, from, offset, size); }
ssize_t copy_file_range(int from, off_t* from_offset, int to, off_t* to_offset, size_t size, unsigned flags) {
  using Real = ssize_t(int, off_t*, int, off_t*, size_t, unsigned);
  return copied(to, [&] { return next<Real>("copy_file_range")(from, from_offset, to, to_offset, size, flags); });
}

int ftruncate(int fd, off_t size) {
  return sized(fd, static_cast<std::uint64_t>(size), false,
               [&] { return next<int(int, off_t)>("ftruncate")(fd, size); });
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
int posix_fallocate(int fd, off_t offset, off_t size) {
  return sized(fd, static_cast<std::uint64_t>(offset + size), true,
               [&] { return next<int(int, off_t, off_t)>("posix_fallocate")(fd, offset, size); });
}
int posix_fallocate64(int fd, off_t offset, off_t size) { return posix_fallocate(fd, offset, size); }

int fsync(int fd) {
  return synced(fd, [&] { return next<int(int)>("fsync")(fd); });
}
int fdatasync(int fd) {
  return synced(fd, [&] { return next<int(int)>("fdatasync")(fd); });
}

int rename(const char* from, const char* to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return renamed(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return renamed(from_folder, from, to_folder, to, flags);
}
int mkdir(const char* path, mode_t mode) {
  return changed(absolute(AT_FDCWD, path), Operation::mkdir, "",
                 [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}
int symlink(const char* target, const char* path) {
  return changed(absolute(AT_FDCWD, path), Operation::symlink, target,
                 [&] { return next<int(const char*, const char*)>("symlink")(target, path); });
}
int unlink(const char* path) {
  return changed(absolute(AT_FDCWD, path), Operation::unlink, "",
                 [&] { return next<int(const char*)>("unlink")(path); });
}
int rmdir(const char* path) {
  return changed(absolute(AT_FDCWD, path), Operation::unlink, "",
                 [&] { return next<int(const char*)>("rmdir")(path); });
}
int remove(const char* path) {
  return changed(absolute(AT_FDCWD, path), Operation::unlink, "",
                 [&] { return next<int(const char*)>("remove")(path); });
}
int unlinkat(int folder, const char* path, int flags) {
  return changed(absolute(folder, path), Operation::unlink, "",
                 [&] { return next<int(int, const char*, int)>("unlinkat")(folder, path, flags); });
}
}
#pragma GCC visibility pop
// NOLINTEND(cert-dcl50-cpp,readability-inconsistent-declaration-parameter-name)
