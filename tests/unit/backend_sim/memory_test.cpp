// If these fail, memory that was given back is used, or what other libraries see of it is somewhere else.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

std::vector<float> fetched(const accel::DevicePtr& device, tern_plane plane, std::size_t count) {
  const accel::Stream stream = device->make_stream();
  std::vector<float> out(count);
  device->copy_to_host(writable_bytes_of(out), plane, stream);
  stream.synchronize();
  return out;
}

tern_native native_of(const accel::Buffer& buffer) {
  tern_native native{};
  native.size = sizeof native;
  accel::check(buffer.device()->api().buffer_native(buffer.raw(), &native), buffer.device()->backend(), "native");
  return native;
}

accel::Buffer adopt(const accel::DevicePtr& device, const tern_native& native, std::uint64_t bytes) {
  tern_buffer raw = nullptr;
  accel::check(device->api().buffer_adopt(device->raw(), &native, bytes, &raw), device->backend(), "adopting");
  return {device, raw, bytes};
}

TEST(SimFlags, AreThoseOfThePersonality) {
  const auto discrete = open_sim();
  (void)discrete->allocate(16, "a test", TERN_BUFFER_COLLECTIVES | TERN_BUFFER_RECLAIMABLE);
  EXPECT_TRUE(
      contains(failure_of([&] { (void)discrete->allocate(16, "a test", TERN_BUFFER_SHAREABLE); }), "unsupported"));
  EXPECT_TRUE(contains(failure_of([&] { (void)discrete->allocate(16, "a test", 1U << 31); }), "unsupported"));
  const auto embedded = open_sim({{"TERN_SIM", "embedded"}});
  for (const std::uint32_t flag : {TERN_BUFFER_COLLECTIVES, TERN_BUFFER_RECLAIMABLE}) {
    EXPECT_TRUE(contains(failure_of([&] { (void)embedded->allocate(16, "a test", flag); }), "unsupported"));
  }
}

TEST(SimEvict, GivesTheMemoryBackAndPoisonsIt) {
  const auto device = open_sim();
  const accel::Stream stream = device->make_stream();
  const std::uint64_t before = device->memory().in_use_by_process;
  const accel::Buffer buffer = device->allocate(4096, "a test", TERN_BUFFER_RECLAIMABLE);
  const std::uint64_t address = native_of(buffer).handle;
  device->fill(buffer.plane(), 0, 4096, stream);
  stream.synchronize();
  buffer.evict();
  buffer.evict();
  EXPECT_EQ(device->memory().in_use_by_process, before);
  buffer.restore();
  buffer.restore();
  EXPECT_EQ(device->memory().in_use_by_process, before + 4096);
  EXPECT_EQ(native_of(buffer).handle, address);
  for (const float value : fetched(device, buffer.plane(), 4)) EXPECT_TRUE(std::isnan(value));
  const accel::Buffer plain = device->allocate(16, "a test");
  EXPECT_TRUE(contains(failure_of([&] { plain.evict(); }), "not made reclaimable"));
}

TEST(SimEvict, QueuedWorkThatTouchesItFailsAndNamesIt) {
  const auto device = open_sim({{"TERN_SIM_SEED", "1"}});
  const accel::Buffer buffer = device->allocate(4096, "a test", TERN_BUFFER_RECLAIMABLE);
  int late = 0;  // some seeds run work before it is waited for
  for (int i = 0; i < 8; ++i) {
    const accel::Stream stream = device->make_stream();
    device->fill(buffer.plane(), 0, 4096, stream);
    buffer.evict();
    const std::string found = failure_of([&] { stream.synchronize(); });
    if (!found.empty()) {
      ++late;
      EXPECT_TRUE(contains(found, "asynchronous error (fill: destination: its buffer of 4096 bytes is evicted"))
          << found;
    }
    EXPECT_TRUE(contains(failure_of([&] { device->fill(buffer.plane(), 0, 4096, device->make_stream()); }), "evicted"));
    buffer.restore();
  }
  EXPECT_GT(late, 0);
}

TEST(SimEvict, StaysEvictedWhereThereIsNoMemoryLeft) {
  const SimEnvironment environment(Environment{});
  const auto device = accel::Device::open(load_plugin("sim"), 0, {{"memory_limit", "8192"}}).value();
  const accel::Buffer buffer = device->allocate(8000, "a test", TERN_BUFFER_RECLAIMABLE);
  buffer.evict();
  {
    const accel::Buffer other = device->allocate(8000, "a test");
    EXPECT_TRUE(contains(failure_of([&] { buffer.restore(); }), "out of device memory"));
    EXPECT_TRUE(contains(failure_of([&] { device->fill(buffer.plane(), 0, 1, device->make_stream()); }), "evicted"));
  }
  buffer.restore();
}

TEST(SimNative, AnAdoptedBufferIsTheSameMemory) {
  const auto device = open_sim();
  const accel::Stream stream = device->make_stream();
  accel::Buffer whole = device->allocate(256, "a test");
  tern_native native = native_of(whole);
  EXPECT_EQ(native.device_type, 12);
  EXPECT_EQ(native.device_id, 0);
  native.offset += 64;
  const std::uint64_t before = device->memory().in_use_by_process;
  const accel::Buffer part = adopt(device, native, 64);
  EXPECT_EQ(device->memory().in_use_by_process, before);
  const std::vector<float> data(16, 3.0F);
  device->copy_to_device(part.plane(), bytes_of(data), stream);
  stream.synchronize();
  EXPECT_EQ(fetched(device, whole.plane(64), 16), data);
  EXPECT_EQ(native_of(part).handle + native_of(part).offset, native_of(whole).handle + 64);
  for (auto spoil : {+[](tern_native& n) { n.device_type = 2; }, +[](tern_native& n) { n.device_id = 1; },
                     +[](tern_native& n) { n.offset = 224; }, +[](tern_native& n) { n.offset = 1; },
                     +[](tern_native& n) { n.handle += 1ULL << 40; }, +[](tern_native& n) { n.size = 8; }}) {
    tern_native wrong = native;
    spoil(wrong);
    tern_buffer raw = nullptr;
    EXPECT_EQ(device->api().buffer_adopt(device->raw(), &wrong, 64, &raw), TERN_INVALID_ARGUMENT);
  }
  whole.reset();
  EXPECT_TRUE(contains(failure_of([&] { (void)fetched(device, part.plane(), 1); }), "gave the adopted memory back"));
}

TEST(SimNative, AdoptedStreamsAndEventsKeepOneOrder) {
  for (int seed = 0; seed < 8; ++seed) {
    const auto device = open_sim({{"TERN_SIM_SEED", std::to_string(seed)}});
    const auto& api = device->api();
    accel::Stream stream = device->make_stream();
    const accel::Event event = device->make_event();
    tern_native native{};
    native.size = sizeof native;
    ASSERT_EQ(api.stream_native(stream.raw(), &native), TERN_OK);
    tern_stream raw_stream = nullptr;
    ASSERT_EQ(api.stream_adopt(device->raw(), &native, &raw_stream), TERN_OK);
    const accel::Stream adopted(device, raw_stream);
    ASSERT_EQ(api.event_native(event.raw(), &native), TERN_OK);
    tern_event raw_event = nullptr;
    ASSERT_EQ(api.event_adopt(device->raw(), &native, &raw_event), TERN_OK);
    const accel::Event mark(device, raw_event);
    const accel::Buffer buffer = device->allocate(64, "a test");
    for (int i = 0; i < 6; ++i)
      device->fill(buffer.plane(), static_cast<std::uint8_t>(i), 64, i % 2 ? stream : adopted);
    adopted.record(mark);
    event.synchronize();  // the same mark
    std::vector<float> found(1);
    device->copy_to_host(writable_bytes_of(found), buffer.plane(), adopted);
    stream.synchronize();
    EXPECT_EQ(std::to_integer<int>(bytes_of(found)[0]), 5);
    stream.reset();
    EXPECT_TRUE(contains(failure_of([&] { device->fill(buffer.plane(), 0, 1, adopted); }), "destroyed by its maker"));
  }
  const auto ascend = open_sim({{"TERN_SIM", "ascend"}});
  const accel::Stream stream = ascend->make_stream();
  tern_native native{};
  native.size = sizeof native;
  EXPECT_EQ(ascend->api().stream_native(stream.raw(), &native), TERN_UNSUPPORTED);
}

}  // namespace
}  // namespace tern::test
