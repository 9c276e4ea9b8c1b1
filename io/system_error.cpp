#include "io/system_error.h"

#include <cerrno>
#include <system_error>

namespace tern::io {

Error read_error(const std::string& path, int code) {
  const std::string reason = std::generic_category().message(code);
  switch (code) {
    case ENOENT:
      return data_error(path, "a readable file", "no such file or directory", "check the path");
    case EACCES:
      return data_error(path, "a readable file", "permission denied", "grant read permission");
    case EISDIR:
      return data_error(path, "a file", "a directory", "name a file in it");
    case EMFILE:
    case ENFILE:
      return failed_error(path, "a free file descriptor", reason, "raise `ulimit -n`");
    case ENOMEM:
      return device_error(path, "memory to map the file", reason, "free memory or raise `ulimit -v`");
    default:
      return data_error(path, "a readable file", reason, "check the path and the disk");
  }
}

Error write_error(const std::string& path, int code) {
  const std::string reason = std::generic_category().message(code);
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return failed_error(path, "room to write", "the disk is full", "free space there, or write elsewhere");
    case EACCES:
    case EPERM:
    case EROFS:
      return failed_error(path, "a place that can be written", reason, "choose another or grant permission");
    default:
      return failed_error(path, "to write", reason, "check the path and the disk");
  }
}

}  // namespace tern::io
