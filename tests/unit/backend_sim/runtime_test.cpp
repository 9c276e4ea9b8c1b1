// The runtime contract on the simulated device: what a careless host does is told, and order is only what was asked.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "accel/kernel.h"
#include "ops/build.h"
#include "tern/accel_ops.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

accel::OpDesc axpby_desc(std::int64_t n, float a) {
  const TensorDesc x = make_desc(TERN_F32, {n});
  return {TERN_OP_AXPBY, {x, absent_desc(), x}, ops::pack_attrs(tern_axpby_attrs{a, 0.0F})};
}

// y = a x on one buffer: x at 0, y behind it.
struct Scaling {
  static constexpr std::int64_t kCount = 8;
  static constexpr std::uint64_t kBytes = kCount * 4;
  accel::DevicePtr device;
  accel::Buffer buffer;
  accel::Plan plan;
  accel::Bound bound;
  Scaling(const accel::DevicePtr& on, float factor) : device(on), buffer(on->allocate(2 * kBytes, "a test")) {
    plan = accel::Plan(device, axpby_desc(kCount, factor), {});
    tern_tensor args[3] = {};
    args[0] = {make_desc(TERN_F32, {kCount}), {buffer.plane()}};
    args[1].desc = absent_desc();
    args[2] = {make_desc(TERN_F32, {kCount}), {buffer.plane(kBytes)}};
    bound = plan.bind(args, {});
  }
  void launch(const accel::Stream& stream) const {
    tern_host_args args{};
    args.size = sizeof args;
    (void)bound.launch(args, stream);
  }
};

std::vector<float> ramp(float from) {
  std::vector<float> values(Scaling::kCount);
  std::iota(values.begin(), values.end(), from);
  return values;
}

TEST(SimMemory, IsNeverShownAndPoisoned) {
  const auto device = open_sim();
  const accel::Buffer buffer = device->allocate(16, "a test");
  void* pointer = nullptr;
  EXPECT_EQ(device->api().buffer_host_pointer(buffer.raw(), &pointer), TERN_UNSUPPORTED);
  EXPECT_FALSE(device->can(TERN_CAP_HOST_POINTER));
  std::vector<float> found(4, 0.0F);
  const accel::Stream stream = device->make_stream();
  device->copy_to_host(writable_bytes_of(found), buffer.plane(), stream);
  stream.synchronize();
  for (float value : found) EXPECT_TRUE(std::isnan(value));
}

TEST(SimMemory, AHandleThatIsDereferencedCrashes) {
  const auto device = open_sim();
  const accel::Buffer buffer = device->allocate(16, "a test");
  EXPECT_DEATH(*const_cast<volatile char*>(reinterpret_cast<const char*>(buffer.raw())) = 1, "");
}

TEST(SimMemory, UseAfterFreeAndOutOfBoundsAreTold) {
  const auto device = open_sim();
  const accel::Stream stream = device->make_stream();
  const std::vector<float> data = ramp(0);
  accel::Buffer buffer = device->allocate(Scaling::kBytes, "a test");
  const tern_plane plane = buffer.plane();
  EXPECT_TRUE(contains(failure_of([&] { device->copy_to_device(buffer.plane(4), bytes_of(data), stream); }),
                       "inside its buffer of 32 bytes, found 32 bytes at 4"));
  EXPECT_TRUE(contains(failure_of([&] { device->copy_to_device(buffer.plane(~0ULL), bytes_of(data), stream); }),
                       "inside its buffer"));
  buffer.reset();
  EXPECT_TRUE(contains(failure_of([&] { device->copy_to_device(plane, bytes_of(data), stream); }), "destroyed"));
  EXPECT_EQ(device->api().buffer_destroy(plane.buffer), TERN_INVALID_ARGUMENT);  // twice
  EXPECT_EQ(device->memory().in_use_by_process, device->info().context_bytes);
}

TEST(SimMemory, FreedUnderQueuedWorkIsAnAsynchronousError) {
  const auto device = open_sim({{"TERN_SIM_SEED", "1"}});
  std::string found;
  for (int attempt = 0; attempt < 32 && found.empty(); ++attempt) {
    const accel::Stream queue = device->make_stream();
    accel::Buffer gone = device->allocate(64, "a test");
    device->fill(gone.plane(), 1, 64, queue);
    gone.reset();
    found = failure_of([&] { queue.synchronize(); });
  }
  EXPECT_TRUE(contains(found, "its buffer was destroyed")) << found;
  EXPECT_TRUE(contains(found, "asynchronous error")) << found;
}

TEST(SimKernel, RefusesMisusedMemoryAtBind) {
  const auto device = open_sim();
  const accel::Buffer buffer = device->allocate(96, "a test");
  const accel::Plan plan(device, axpby_desc(8, 2.0F), {});
  const TensorDesc desc = make_desc(TERN_F32, {8});
  const auto bind = [&](std::uint64_t x, std::uint64_t y) {
    tern_tensor args[3] = {};
    args[0] = {desc, {buffer.plane(x)}};
    args[1].desc = absent_desc();
    args[2] = {desc, {buffer.plane(y)}};
    return failure_of([&] { (void)plan.bind(args, {}); });
  };
  EXPECT_EQ(bind(0, 32), "");
  EXPECT_TRUE(contains(bind(0, 16), "axpby: out, which is written, overlaps x"));
  EXPECT_TRUE(contains(bind(0, 36), "multiple of 16"));
  EXPECT_TRUE(contains(bind(0, 80), "inside its buffer"));
}

TEST(SimStream, RunsInStreamOrderUnderEverySeed) {
  for (int seed = 0; seed < 8; ++seed) {
    const auto device = open_sim({{"TERN_SIM_SEED", std::to_string(seed)}});
    const accel::Stream stream = device->make_stream();
    const Scaling twice(device, 2.0F);
    std::vector<float> first(Scaling::kCount);
    std::vector<float> second(Scaling::kCount);
    for (const auto& [from, to] : {std::pair<float, std::vector<float>*>{1.0F, &first}, {5.0F, &second}}) {
      device->copy_to_device(twice.buffer.plane(), bytes_of(ramp(from)), stream);  // the source goes at once
      twice.launch(stream);
      device->copy_to_host(writable_bytes_of(*to), twice.buffer.plane(Scaling::kBytes), stream);
    }
    stream.synchronize();
    EXPECT_EQ(first[3], 8.0F);
    EXPECT_EQ(second[3], 16.0F);
  }
}

// What a second stream reads after the first one's work, with or without the event that orders them.
float read_across(int seed, bool with_event) {
  const auto device = open_sim({{"TERN_SIM_SEED", std::to_string(seed)}});
  const accel::Stream writer = device->make_stream();
  const accel::Stream reader = device->make_stream();
  const Scaling twice(device, 2.0F);
  device->fill(twice.buffer.plane(), 0, 2 * Scaling::kBytes, writer);
  writer.synchronize();
  device->copy_to_device(twice.buffer.plane(), bytes_of(ramp(1.0F)), writer);
  twice.launch(writer);
  const accel::Event written = device->make_event();
  writer.record(written);
  if (with_event) reader.wait(written);
  std::vector<float> found(Scaling::kCount);
  device->copy_to_host(writable_bytes_of(found), twice.buffer.plane(Scaling::kBytes), reader);
  reader.synchronize();
  writer.synchronize();
  return found[3];
}

TEST(SimStream, AMissingEventIsVisibleUnderSomeSeed) {
  std::set<float> unordered;
  for (int seed = 0; seed < 24; ++seed) {
    EXPECT_EQ(read_across(seed, true), 8.0F);
    unordered.insert(read_across(seed, false));
  }
  EXPECT_EQ(unordered, (std::set<float>{0.0F, 8.0F}));
}

TEST(SimStream, PinnedMemoryIsReadLate) {
  std::set<float> found;
  for (int seed = 0; seed < 32; ++seed) {
    const auto device = open_sim({{"TERN_SIM_SEED", std::to_string(seed)}});
    const accel::Stream stream = device->make_stream();
    const accel::Buffer buffer = device->allocate(4, "a test");
    const accel::HostBuffer pinned = device->allocate_host(4);
    const float before = 1.0F;
    const float after = 2.0F;
    std::memcpy(pinned.data(), &before, 4);
    device->copy_to_device(buffer.plane(), {pinned.data(), 4}, stream);
    std::memcpy(pinned.data(), &after, 4);  // too early: the copy may not have run
    std::vector<float> value(1);
    device->copy_to_host(writable_bytes_of(value), buffer.plane(), stream);
    stream.synchronize();
    found.insert(value[0]);
  }
  EXPECT_EQ(found, (std::set<float>{1.0F, 2.0F}));
}

TEST(SimEvent, QueriesEndAndTimesRise) {
  const auto device = open_sim();
  const accel::Stream stream = device->make_stream();
  const accel::Event start = device->make_event(true);
  const accel::Event end = device->make_event(true);
  const Scaling twice(device, 2.0F);
  stream.record(start);
  twice.launch(stream);
  stream.record(end);
  int asked = 0;
  while (!end.finished()) ASSERT_LT(++asked, 1000);
  EXPECT_GE(end.elapsed_since(start), 0.0F);
}

TEST(SimCapture, ReplaysWithoutRunningWhileCaptured) {
  const auto device = open_sim();
  const accel::Stream stream = device->make_stream();
  const Scaling twice(device, 2.0F);
  const auto& api = device->api();
  device->fill(twice.buffer.plane(), 0, 2 * Scaling::kBytes, stream);
  stream.synchronize();
  ASSERT_EQ(api.capture_begin(stream.raw()), TERN_OK);
  EXPECT_EQ(api.stream_synchronize(stream.raw()), TERN_INVALID_ARGUMENT);
  twice.launch(stream);
  tern_capture raw = nullptr;
  ASSERT_EQ(api.capture_end(stream.raw(), &raw), TERN_OK);
  const accel::Capture capture(device, raw);
  for (float from : {1.0F, 5.0F}) {
    device->copy_to_device(twice.buffer.plane(), bytes_of(ramp(from)), stream);
    std::vector<float> after(Scaling::kCount);
    ASSERT_EQ(api.capture_launch(capture.raw(), stream.raw()), TERN_OK);
    device->copy_to_host(writable_bytes_of(after), twice.buffer.plane(Scaling::kBytes), stream);
    stream.synchronize();
    EXPECT_EQ(after[3], 2.0F * (from + 3.0F));
  }
  const tern_node_update update{7, nullptr};
  EXPECT_EQ(api.capture_update(capture.raw(), stream.raw(), &update, 1), TERN_INVALID_ARGUMENT);
}

TEST(SimCapture, ALaunchOfSomethingUnboundIsTold) {
  const auto device = open_sim();
  const accel::Stream stream = device->make_stream();
  Scaling twice(device, 2.0F);
  ASSERT_EQ(device->api().capture_begin(stream.raw()), TERN_OK);
  twice.launch(stream);
  tern_capture raw = nullptr;
  ASSERT_EQ(device->api().capture_end(stream.raw(), &raw), TERN_OK);
  const accel::Capture capture(device, raw);
  twice.bound.reset();
  (void)device->api().capture_launch(capture.raw(), stream.raw());
  EXPECT_TRUE(contains(failure_of([&] { stream.synchronize(); }), "binding was undone"));
}

TEST(SimCapture, AFailedCallSpoilsIt) {
  const auto device = open_sim();
  const accel::Stream stream = device->make_stream();
  const Scaling twice(device, 2.0F);
  const auto& api = device->api();
  ASSERT_EQ(api.capture_begin(stream.raw()), TERN_OK);
  EXPECT_EQ(api.fill(twice.buffer.plane(1000), 0, 4, stream.raw()), TERN_INVALID_ARGUMENT);
  twice.launch(stream);
  tern_capture raw = nullptr;
  EXPECT_EQ(api.capture_end(stream.raw(), &raw), TERN_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(device->backend().last_error(), "inside its buffer"));
  EXPECT_EQ(raw, nullptr);
  twice.launch(stream);  // usable again
  stream.synchronize();
}

TEST(SimDevice, OpenedTwiceIsShared) {
  const auto first = open_sim();
  const auto second = open_sim();
  const accel::Buffer buffer = first->allocate(4096, "a test");
  EXPECT_EQ(second->memory().in_use_by_process, second->info().context_bytes + 4096U);
  const accel::Stream stream = second->make_stream();
  second->fill(buffer.plane(), 0, 4096, stream);
  stream.synchronize();
}

TEST(SimDevice, NothingIsDestroyedByANullHandle) {
  const tern_backend& api = load_plugin("sim")->api();
  EXPECT_EQ(api.device_close(nullptr), TERN_OK);
  EXPECT_EQ(api.buffer_destroy(nullptr), TERN_OK);
  EXPECT_EQ(api.stream_destroy(nullptr), TERN_OK);
  EXPECT_EQ(api.event_destroy(nullptr), TERN_OK);
  EXPECT_EQ(api.capture_destroy(nullptr), TERN_OK);
  EXPECT_EQ(api.plan_destroy(nullptr), TERN_OK);
  EXPECT_EQ(api.unbind(nullptr), TERN_OK);
  EXPECT_EQ(api.recipe_destroy(nullptr), TERN_OK);
  EXPECT_EQ(api.comm_destroy(nullptr), TERN_OK);
  EXPECT_EQ(api.stream_synchronize(nullptr), TERN_INVALID_ARGUMENT);
}

TEST(SimFault, OutOfMemoryAtTheNthAllocation) {
  const auto device = open_sim({{"TERN_SIM_FAULT", "oom@2"}});
  const accel::Buffer first = device->allocate(16, "a test");
  const std::string found = failure_of([&] { (void)device->allocate(16, "the second"); });
  EXPECT_TRUE(contains(found, "allocating 16 B for the second failed: out of device memory")) << found;
  const accel::Buffer third = device->allocate(16, "a test");
}

TEST(SimFault, AnAsynchronousErrorIsFinalForItsStream) {
  const auto device = open_sim({{"TERN_SIM_FAULT", "async@2"}});
  const accel::Stream stream = device->make_stream();
  const accel::Stream other = device->make_stream();
  const Scaling twice(device, 2.0F);
  twice.launch(stream);
  stream.synchronize();
  const std::string found = failure_of([&] {
    twice.launch(stream);
    stream.synchronize();
  });
  EXPECT_TRUE(contains(found, "asynchronous error (axpby: axpby: the device reported a fault)")) << found;
  EXPECT_NE(failure_of([&] { twice.launch(stream); }), "");
  EXPECT_EQ(failure_of([&] {
              twice.launch(other);
              other.synchronize();
            }),
            "");
}

TEST(SimFault, ALostDeviceStaysLost) {
  const auto device = open_sim({{"TERN_SIM_FAULT", "lost@1"}});
  const accel::Stream stream = device->make_stream();
  const Scaling twice(device, 2.0F);
  const std::string found = failure_of([&] {
    twice.launch(stream);
    stream.synchronize();
  });
  EXPECT_TRUE(contains(found, "device lost")) << found;
  EXPECT_TRUE(contains(found, "tern doctor")) << found;
  std::int32_t health = TERN_HEALTH_OK;
  char reason[64] = "";
  EXPECT_EQ(device->api().device_health(device->raw(), &health, {reason, sizeof reason}), TERN_OK);
  EXPECT_EQ(health, TERN_HEALTH_LOST);
  EXPECT_TRUE(contains(failure_of([&] { (void)device->allocate(16, "a test"); }), "device lost"));
}

TEST(SimConfig, BadVariablesAreTold) {
  for (const auto& [name, value, expected] :
       {std::tuple{"TERN_SIM", "quantum", "discrete, ascend, graph or embedded"},
        std::tuple{"TERN_SIM_DEVICES", "0", "1 to 64"}, std::tuple{"TERN_SIM_SEED", "x", "a number"},
        std::tuple{"TERN_SIM_FAULT", "oom", "oom@N"}, std::tuple{"TERN_SIM_FAULT", "async@-1", "a number"}}) {
    const std::string found = failure_of([&, n = name, v = value] { (void)open_sim({{n, v}}); });
    EXPECT_TRUE(contains(found, expected)) << found;
  }
  EXPECT_TRUE(contains(failure_of([] { (void)open_sim({}, 1); }), "the only one is sim:0"));
}

// Capability flags both ways: set means it works, clear means the call answers TERN_UNSUPPORTED.
TEST(SimPersonality, FlagsTellTheTruth) {
  for (const char* name : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(name);
    const auto device = open_sim({{"TERN_SIM", name}, {"TERN_SIM_DEVICES", "2"}});
    const auto other = open_sim({{"TERN_SIM", name}, {"TERN_SIM_DEVICES", "2"}}, 1);
    const auto& api = device->api();
    const accel::Stream stream = device->make_stream();
    const auto expect = [&](std::uint32_t capability, tern_status status) {
      EXPECT_EQ(status, device->can(capability) ? TERN_OK : TERN_UNSUPPORTED) << capability;
    };
    EXPECT_LT(device->backend().api().probe_rank, 0);
    tern_capture capture = nullptr;
    const tern_status begun = api.capture_begin(stream.raw());
    expect(TERN_CAP_CAPTURE, begun);
    if (begun == TERN_OK) {
      ASSERT_EQ(api.capture_end(stream.raw(), &capture), TERN_OK);
      EXPECT_EQ(api.capture_destroy(capture), TERN_OK);
    }
    const accel::Buffer here = device->allocate(16, "a test");
    const accel::Buffer there = other->allocate(16, "a test");
    expect(TERN_CAP_PEER_COPY, api.copy_peer(there.plane(), here.plane(), 16, stream.raw()));
    EXPECT_EQ(device->info().peer_mask, device->can(TERN_CAP_PEER_COPY) ? 2U : 0U);
    alignas(64) std::byte page[64] = {};
    tern_buffer imported = nullptr;
    expect(TERN_CAP_IMPORT_HOST, api.import_host(device->raw(), page, sizeof page, &imported));
    if (imported != nullptr) {
      EXPECT_EQ(api.buffer_destroy(imported), TERN_OK);
    }
    const accel::OpDesc desc = axpby_desc(4, 1.0F);
    const tern_op_desc c = desc.c_desc();
    tern_plan plan = nullptr;
    tern_plan_info info{};
    info.size = sizeof info;
    expect(TERN_CAP_EAGER, api.plan(device->raw(), &c, nullptr, &plan, &info));
    if (plan != nullptr) {
      EXPECT_EQ(api.plan_destroy(plan), TERN_OK);
    }
    tern_graph_desc graph{};
    graph.size = sizeof graph;
    tern_recipe recipe = nullptr;
    expect(TERN_CAP_WHOLE_GRAPH, api.compile(device->raw(), &graph, nullptr, &recipe, &info));
    if (recipe != nullptr) {
      EXPECT_EQ(api.recipe_destroy(recipe), TERN_OK);
    }
    stream.synchronize();
  }
}

TEST(SimPersonality, EmbeddedAllocatesNoLargePiece) {
  const auto device = open_sim({{"TERN_SIM", "embedded"}});
  const std::uint64_t largest = device->info().largest_allocation_bytes;
  const accel::Buffer fits = device->allocate(largest, "a test");
  const std::string found = failure_of([&] { (void)device->allocate(largest + 1, "a test"); });
  EXPECT_TRUE(contains(found, "at most 8")) << found;
}

}  // namespace
}  // namespace tern::test
