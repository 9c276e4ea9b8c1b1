#include "io/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/strings.h"
#include "io/system_error.h"

namespace tern::io {

Result<FileWriter> FileWriter::create(const std::filesystem::path& path) {
  FileWriter file;
  file.path_ = path.string();
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.fd_ < 0) return write_error(file.path_, errno);
  return file;
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), end_(other.end_) {}

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(end_, other.end_);
  return *this;
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status FileWriter::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return write_error(path_, count < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return Unit{};
}

Status FileWriter::append(std::span<const std::byte> bytes) {
  auto status = write_at(end_, bytes);
  if (status) end_ += bytes.size();
  return status;
}

Status FileWriter::append(std::string_view text) { return append(std::as_bytes(std::span(text))); }

Status FileWriter::reserve(std::uint64_t size) {
  if (size == 0) return Unit{};
  const int code = ::posix_fallocate(fd_, 0, static_cast<off_t>(size));
  // A file system without preallocation finds out while writing.
  if (code != 0 && code != EOPNOTSUPP && code != EINVAL) return write_error(path_, code);
  return Unit{};
}

Status FileWriter::finish() {
  if (::fsync(fd_) != 0) return write_error(path_, errno);
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) return write_error(path_, errno);
  return Unit{};
}

Status write_file(const std::filesystem::path& path, std::string_view text) {
  auto file = FileWriter::create(path);
  if (!file) return file.error();
  if (auto status = file->append(text); !status) return status;
  return file->finish();
}

Status replace_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path temporary = path;
  temporary += cat(".tmp-", static_cast<std::int64_t>(::getpid()));
  auto status = write_file(temporary, text);
  std::error_code code;
  if (status) {
    std::filesystem::rename(temporary, path, code);
    if (code) status = write_error(path.string(), code.value());
  }
  if (!status) {
    std::filesystem::remove(temporary, code);
    return status;
  }
  return sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

namespace {

Status sync_path(const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return write_error(path.string(), errno);
  const int failed = ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  // Some network file systems cannot flush a directory.
  if (failed != 0 && !(flags != 0 && failed == EINVAL)) return write_error(path.string(), failed);
  return Unit{};
}

}  // namespace

Status make_directories(const std::filesystem::path& path) {
  const std::filesystem::path target = std::filesystem::absolute(path).lexically_normal();
  std::filesystem::path made;
  for (const auto& part : target) {
    const std::filesystem::path above = made;
    made /= part;
    std::error_code code;
    if (std::filesystem::is_directory(made, code)) continue;
    std::filesystem::create_directory(made, code);
    if (code) return write_error(made.string(), code.value());
    if (auto status = sync_directory(above); !status) return status;
  }
  return Unit{};
}

Status sync_directory(const std::filesystem::path& directory) { return sync_path(directory, O_DIRECTORY); }
Status sync_file(const std::filesystem::path& path) { return sync_path(path, 0); }

}  // namespace tern::io
