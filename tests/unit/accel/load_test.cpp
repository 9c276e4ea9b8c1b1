// If these fail, a library that is no backend of this version is called nevertheless, or the user is not told why not.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/strings.h"
#include "fake_backend.h"

namespace tern::accel::test {
namespace {

std::string load_error(const std::filesystem::path& file) {
  const auto loaded = Backend::load(file);
  if (loaded.ok()) return "loaded";
  EXPECT_EQ(loaded.error().kind, ErrorKind::device);
  return loaded.error().line();
}

struct Faulty {
  const char* fault;  // TERN_TEST_PLUGIN
  const char* says;
};

TEST(Load, SaysWhatThePluginLacks) {
  const std::string where = cat("backend ", TERN_FAULTY_PLUGIN, " ");
  const std::string required = "; add them to its table, as docs/backend-spec.md says.";
  for (const Faulty& each :
       {Faulty{"refuses", "refused to start; use a plugin built for this version of tern."},
        {"other ABI",
         "has ABI 2, and this tern has ABI 1; rebuild the plugin against this version's include/tern/accel.h."},
        {"nameless", "has no name or no version; "},
        {"", "lacks required functions: device_count, device_info, "}}) {
    setenv("TERN_TEST_PLUGIN", each.fault, 1);
    const std::string line = load_error(TERN_FAULTY_PLUGIN);
    EXPECT_EQ(line.rfind(where + each.says, 0), 0U) << each.fault << ": " << line;
    EXPECT_EQ(line.ends_with(required), !std::string(each.says).ends_with(".")) << line;
  }
  unsetenv("TERN_TEST_PLUGIN");
}

TEST(Load, ALibraryWithoutTheEntryIsNoBackend) {
  EXPECT_EQ(load_error("libm.so.6"),
            "backend libm.so.6 exports no tern_backend_entry; name a backend of tern instead of this library.");
}

TEST(Load, AFileThatIsAbsentKeepsTheLoadersWords) {
  const std::string line = load_error("/nonexistent/libtern_none.so");
  EXPECT_EQ(line.rfind("cannot load backend /nonexistent/libtern_none.so: ", 0), 0U);
  EXPECT_NE(line.find("No such file"), std::string::npos) << line;
  EXPECT_TRUE(
      line.ends_with("; name a shared library that exports tern_backend_entry and was built for this machine."));
}

std::string open_error(const tern_backend& table, int ordinal) {
  const auto opened = Device::open(Backend::wrap(&table), ordinal);
  if (opened.ok()) return "opened";
  EXPECT_EQ(opened.error().kind, ErrorKind::device);
  return opened.error().line();
}

TEST(Open, SaysWhichDevicesThereAre) {
  EXPECT_EQ(open_error(fake_table(), 1),
            "device fake:1 does not exist: the only one is fake:0; choose another: `tern devices` lists them.");
  tern_backend table = fake_table();
  table.device_count = [](std::int32_t* count, tern_text) -> tern_status {
    *count = 3;
    return TERN_OK;
  };
  EXPECT_EQ(open_error(table, 3),
            "device fake:3 does not exist: they are fake:0 to fake:2; choose another: `tern devices` lists them.");
  table.device_count = [](std::int32_t* count, tern_text) -> tern_status {
    *count = 0;
    return TERN_OK;
  };
  EXPECT_EQ(open_error(table, 0), "backend fake finds no device; choose another: `tern devices` lists them.");
  table.device_count = [](std::int32_t*, tern_text reason) -> tern_status {
    reason.data[0] = '?';
    reason.data[1] = '\0';
    return TERN_INTERNAL;
  };
  EXPECT_EQ(open_error(table, 0), "backend fake finds no device: ?; choose another: `tern devices` lists them.");
}

struct Refused {
  tern_status status;
  ErrorKind kind;
  const char* says;
};

// What a device answers to a call decides the exit code: too little memory and a lost device are the device's.
TEST(Check, TellsMemoryAndLossFromOtherFailures) {
  const char* memory = "; use shorter sequences, a smaller batch or a device with more memory.";
  const char* host = "; free some of the host's memory, or use shorter sequences or a smaller batch.";
  const char* again = "; check the device with `tern doctor`, then run it again.";
  for (const Refused& each : {Refused{TERN_OUT_OF_MEMORY, ErrorKind::device, "out of device memory"},
                              {TERN_OUT_OF_HOST_MEMORY, ErrorKind::device, "out of host memory"},
                              {TERN_DEVICE_LOST, ErrorKind::device, "device lost"},
                              {TERN_ASYNC_ERROR, ErrorKind::failed, "asynchronous error"},
                              {TERN_TIMEOUT, ErrorKind::failed, "timeout"}}) {
    fake_state() = FakeState{};
    fake_state().error = "its own words";
    const auto backend = Backend::wrap(&fake_table());
    try {
      check(each.status, *backend, "a copy");
      FAIL() << each.says;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.error().kind, each.kind) << each.says;
      const char* mend = each.kind == ErrorKind::failed    ? again
                         : each.status == TERN_DEVICE_LOST ? "; check the device with `tern doctor`, then resume."
                         : each.status == TERN_OUT_OF_HOST_MEMORY ? host
                                                                  : memory;
      EXPECT_EQ(failure.what(), cat("a copy failed: ", each.says, " (its own words)", mend));
    }
  }
  EXPECT_NO_THROW(check(TERN_OK, *Backend::wrap(&fake_table()), "a copy"));
}

}  // namespace
}  // namespace tern::accel::test
