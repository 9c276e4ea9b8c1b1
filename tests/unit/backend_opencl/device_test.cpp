// If these fail, ordinals don't count what is visible, a machine without a device isn't told why, a CPU is preferred to
// the cpu device, or work on two devices isn't ordered.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/unit/backend_opencl/child.h"

namespace tern::test {
namespace {

const Variables kTwo = {{"POCL_DEVICES", "pthread basic"}};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// How many devices there are, and why none.
std::string count_devices(const tern_backend& table) {
  std::int32_t count = -1;
  std::array<char, 512> reason{};
  const tern_status status = table.device_count(&count, {reason.data(), reason.size()});
  return (status == TERN_OK ? std::to_string(count) : "failed") + " " + reason.data();
}

std::string name_of(const tern_backend& table, int ordinal) {
  tern_device_info info{};
  info.size = sizeof info;
  return table.device_info(ordinal, &info) == TERN_OK ? info.name : last_error(table);
}

std::string doctor_lines(const tern_backend& table) {
  std::string all;
  std::array<char, 512> line{};
  std::int32_t level = 0;
  for (std::uint32_t i = 0; table.doctor(i, &level, {line.data(), line.size()}) == TERN_OK; ++i) {
    all += std::to_string(level) + " " + line.data() + "\n";
  }
  return all;
}

TEST(OpenclDevices, VisibleOnesAreCounted) {
  EXPECT_EQ(in_child(kTwo, "", count_devices), "2 ");
  const auto second = [](const tern_backend& table) { return name_of(table, 1); };
  const auto first = [](const tern_backend& table) { return name_of(table, 0); };
  const std::string name = in_child(kTwo, "", second);
  EXPECT_NE(in_child(kTwo, "", first), name);
  Variables one = kTwo;
  one["TERN_OPENCL_VISIBLE_DEVICES"] = "1";
  EXPECT_EQ(in_child(one, "", count_devices), "1 ");
  EXPECT_EQ(in_child(one, "", first), name);
  EXPECT_EQ(in_child(one, "", second), "opencl:1: the last device is opencl:0");
  one["TERN_OPENCL_VISIBLE_DEVICES"] = "1,0";
  EXPECT_EQ(in_child(one, "", first), name);
  for (const char* const hidden : {"", "9", "x"}) {
    one["TERN_OPENCL_VISIBLE_DEVICES"] = hidden;
    const std::string none = in_child(one, "", count_devices);
    EXPECT_TRUE(contains(none, "0 TERN_OPENCL_VISIBLE_DEVICES=")) << none;
    EXPECT_TRUE(contains(none, "unset or mend it")) << none;
  }
}

TEST(OpenclDevices, NoDriverIsTold) {
  const Variables none = {{"OCL_ICD_VENDORS", "/nowhere"}};
  const std::string count = in_child(none, "", count_devices);
  EXPECT_TRUE(contains(count, "0 ")) << count;
  EXPECT_TRUE(contains(count, "no driver is registered: install your device's")) << count;
  const auto open = [](const tern_backend& table) { return double_numbers(table, 0); };
  EXPECT_TRUE(contains(in_child(none, "", open), "no driver is registered"));
  EXPECT_TRUE(contains(in_child(none, "", doctor_lines), std::to_string(TERN_LOG_ERROR) + " OpenCL's loader is there"));
}

TEST(OpenclDevices, ACpuIsNeverPreferredToTheCpuDevice) {
  EXPECT_EQ(in_child({}, "", [](const tern_backend& table) { return std::to_string(table.probe_rank); }), "95");
}

TEST(OpenclDevices, DoctorTellsWhatTheDeviceLacks) {
  const std::string lines = in_child({}, "", doctor_lines);
  EXPECT_TRUE(contains(lines, "a CPU: the cpu device is faster than it")) << lines;
  EXPECT_TRUE(contains(lines, "opencl:0 has no fp16 arithmetic")) << lines;
  EXPECT_TRUE(contains(lines, "there is no folder for compiled kernels")) << lines;
}

TEST(OpenclDevices, AHandleKeepsItsMemoryLimit) {
  const auto within = [](const tern_backend& table) -> std::string {
    const tern_option limit{"memory_limit", "4096"};
    tern_open_args args{};
    args.size = sizeof args;
    args.options = &limit;
    args.num_options = 1;
    tern_device device = nullptr;
    tern_buffer first = nullptr;
    tern_buffer second = nullptr;
    if (table.device_open(&args, &device) != TERN_OK) return last_error(table);
    if (table.buffer_create(device, 4000, 0, &first) != TERN_OK) return last_error(table);
    return table.buffer_create(device, 97, 0, &second) == TERN_OUT_OF_MEMORY ? last_error(table) : "it was given";
  };
  EXPECT_TRUE(contains(in_child({}, "", within), "97 bytes asked for, 4000 of the device's 4096 are in use"));
}

// A stream of one device waits for work of another, which waits for the host.
TEST(OpenclDevices, OneWaitsForAnother) {
  const auto ordered = [](const tern_backend& table) -> std::string {
    std::array<tern_device, 2> devices{};
    std::array<tern_stream, 2> streams{};
    std::array<tern_buffer, 2> buffers{};
    for (std::size_t i = 0; i < 2; ++i) {
      tern_open_args args{};
      args.size = sizeof args;
      args.ordinal = static_cast<std::int32_t>(i);
      if (table.device_open(&args, &devices[i]) != TERN_OK ||
          table.stream_create(devices[i], 0, &streams[i]) != TERN_OK ||
          table.buffer_create(devices[i], 1 << 24, 0, &buffers[i]) != TERN_OK) {
        return last_error(table);
      }
    }
    tern_event event = nullptr;
    std::vector<unsigned char> host(1 << 24);
    // Through the host's memory, which the second copy must not read before the first has written it.
    if (table.event_create(devices[0], 0, &event) != TERN_OK ||
        table.fill({buffers[0], 0}, 7, host.size(), streams[0]) != TERN_OK ||
        table.copy_to_host(host.data(), {buffers[0], 0}, host.size(), streams[0]) != TERN_OK ||
        table.event_record(event, streams[0]) != TERN_OK || table.stream_wait_event(streams[1], event) != TERN_OK ||
        table.copy_to_device({buffers[1], 0}, host.data(), host.size(), streams[1]) != TERN_OK ||
        table.stream_synchronize(streams[1]) != TERN_OK) {
      return last_error(table);
    }
    std::vector<unsigned char> back(host.size());
    if (table.copy_to_host(back.data(), {buffers[1], 0}, back.size(), streams[1]) != TERN_OK ||
        table.stream_synchronize(streams[1]) != TERN_OK) {
      return last_error(table);
    }
    for (const unsigned char byte : back) {
      if (byte != 7) return "it was read too early";
    }
    return "ordered";
  };
  EXPECT_EQ(in_child(kTwo, "", ordered), "ordered");
}

}  // namespace
}  // namespace tern::test
