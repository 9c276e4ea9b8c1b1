#include "io/system_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tern::io {
namespace {

struct Case {
  int code;
  ErrorKind kind;
  const char* line;
};

// Most of these depend on the machine and the user's rights, so they are asked for by number.
TEST(SystemError, SaysWhatCouldNotBeReadAndWhatToDo) {
  const Case cases[] = {
      {ENOENT, ErrorKind::data, "p: expected a readable file, found no such file or directory; check the path"},
      {EACCES, ErrorKind::data, "p: expected a readable file, found permission denied; grant read permission"},
      {EISDIR, ErrorKind::data, "p: expected a file, found a directory; name a file in it"},
      {EMFILE, ErrorKind::failed, "cannot open p: too many open files; raise the limit with `ulimit -n`."},
      {ENOMEM, ErrorKind::device,
       "cannot map p into memory: cannot allocate memory; free memory, or raise the limit with `ulimit -v`."},
      {EIO, ErrorKind::data, "p: expected a readable file, found input/output error; check the path and the disk"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(read_error("p", one.code).line(), one.line);
    EXPECT_EQ(read_error("p", one.code).kind, one.kind);
  }
}

TEST(SystemError, SaysWhatCouldNotBeWrittenAndWhatToDo) {
  const Case cases[] = {
      {ENOSPC, ErrorKind::failed,
       "cannot write p: no space left on device; free some space there, or write elsewhere."},
      {EROFS, ErrorKind::failed,
       "cannot write p: read-only file system; choose another place, or grant permission to write there."},
      {EIO, ErrorKind::failed, "cannot write p: input/output error; check the path and the disk."},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(write_error("p", one.code).line(), one.line);
    EXPECT_EQ(write_error("p", one.code).kind, one.kind);
  }
}

}  // namespace
}  // namespace tern::io
