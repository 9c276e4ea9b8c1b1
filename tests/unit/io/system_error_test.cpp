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
      {EMFILE, ErrorKind::failed, "p: expected a free file descriptor, found Too many open files; raise `ulimit -n`"},
      {ENOMEM, ErrorKind::device,
       "p: expected memory to map the file, found Cannot allocate memory; free memory or raise `ulimit -v`"},
      {EIO, ErrorKind::data, "p: expected a readable file, found Input/output error; check the path and the disk"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(read_error("p", one.code).line(), one.line);
    EXPECT_EQ(read_error("p", one.code).kind, one.kind);
  }
}

TEST(SystemError, SaysWhatCouldNotBeWrittenAndWhatToDo) {
  const Case cases[] = {
      {ENOSPC, ErrorKind::failed,
       "p: expected room to write, found the disk is full; free space there, or write elsewhere"},
      {EROFS, ErrorKind::failed,
       "p: expected a place that can be written, found Read-only file system; choose another or grant permission"},
      {EIO, ErrorKind::failed, "p: expected to write, found Input/output error; check the path and the disk"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(write_error("p", one.code).line(), one.line);
    EXPECT_EQ(write_error("p", one.code).kind, one.kind);
  }
}

}  // namespace
}  // namespace tern::io
