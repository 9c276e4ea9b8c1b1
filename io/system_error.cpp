#include "io/system_error.h"

#include <cctype>
#include <cerrno>
#include <system_error>

#include "base/strings.h"

namespace tern::io {
namespace {

// As the end of a sentence: "no space left on device".
std::string reason_of(int code) {
  std::string reason = std::generic_category().message(code);
  if (!reason.empty()) reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(reason[0])));
  return reason;
}

}  // namespace

Error read_error(const std::string& path, int code) {
  const std::string reason = reason_of(code);
  switch (code) {
    case ENOENT:
      return data_error(path, "a readable file", "no such file or directory", "check the path");
    case EACCES:
      return data_error(path, "a readable file", "permission denied", "grant read permission");
    case EISDIR:
      return data_error(path, "a file", "a directory", "name a file in it");
    case EMFILE:
    case ENFILE:
      return failed_error(cat("cannot open ", path, ": ", reason), "raise the limit with `ulimit -n`");
    case ENOMEM:
      return device_error(cat("cannot map ", path, " into memory: ", reason),
                          "free memory, or raise the limit with `ulimit -v`");
    default:
      return data_error(path, "a readable file", reason, "check the path and the disk");
  }
}

Error write_error(const std::string& path, int code) {
  const std::string reason = reason_of(code);
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return failed_error(cat("cannot write ", path, ": ", reason), "free some space there, or write elsewhere");
    case EACCES:
    case EPERM:
    case EROFS:
      return failed_error(cat("cannot write ", path, ": ", reason),
                          "choose another place, or grant permission to write there");
    default:
      return failed_error(cat("cannot write ", path, ": ", reason), "check the path and the disk");
  }
}

}  // namespace tern::io
