// If these fail, what a device is opened with is ignored or told wrongly, or a description answers otherwise than a
// device.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel/device_profile.h"
#include "accel/kernel.h"
#include "backends/sim/extension.h"
#include "ops/build.h"
#include "tern/accel_ops.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

accel::OpDesc scaling() {
  const TensorDesc x = make_desc(TERN_F32, {4});
  return {TERN_OP_AXPBY, {x, absent_desc(), x}, ops::pack_attrs(tern_axpby_attrs{2.0F, 0.0F})};
}

std::string open_error_with(const accel::DeviceOptions& options) {
  const SimEnvironment environment(Environment{});
  const auto opened = accel::Device::open(load_plugin("sim"), 0, options);
  return opened.ok() ? "" : opened.error().line();
}

TEST(SimOptions, AreTheHandlesOwn) {
  const SimEnvironment environment(Environment{});
  const auto limited =
      accel::Device::open(load_plugin("sim"), 0, {{"memory_limit", "4096"}, {"faults", "oom@3"}}).value();
  const auto free = accel::Device::open(load_plugin("sim"), 0).value();
  EXPECT_EQ(limited->memory().total, 4096U);
  const accel::Buffer first = limited->allocate(4000, "a test");
  EXPECT_EQ(limited->memory().free, 96U);
  const std::string full = failure_of([&] { (void)limited->allocate(97, "a test"); });
  EXPECT_TRUE(contains(full, "96 B of 4.00 KiB free")) << full;
  EXPECT_TRUE(contains(failure_of([&] { (void)limited->allocate(1, "a test"); }), "allocation 3 fails"));
  for (int i = 0; i < 4; ++i) (void)free->allocate(1 << 20, "a test");  // neither the limit nor the faults
  const accel::Stream stream = free->make_stream();
  free->fill(first.plane(), 0, 4000, stream);  // one device
  stream.synchronize();
}

TEST(SimOptions, WhatTheyCannotBeIsTold) {
  EXPECT_TRUE(
      contains(open_error_with({{"colour", "red"}}),
               R"(device option "colour": expected one of faults, graph_nodes, memory_limit, seed, found "colour")"))
      << open_error_with({{"colour", "red"}});
  EXPECT_TRUE(contains(open_error_with({{"seed", "x"}}), R"("seed": expected a number from 0 to )"));
  EXPECT_TRUE(contains(open_error_with({{"seed", "18446744073709551616"}}), "expected a number"));
  EXPECT_EQ(open_error_with({{"seed", "18446744073709551615"}}), "");
  EXPECT_TRUE(contains(open_error_with({{"seed", "1"}, {"seed", "2"}}), "found it twice"));
  EXPECT_TRUE(contains(open_error_with({{"faults", "oops"}}), R"(device option "faults"=oops is not a fault)"));
}

TEST(SimDescribed, SaysWhatTheDeviceWouldSay) {
  for (const char* profile : {"discrete", "ascend", "graph", "embedded"}) {
    const auto device = accel::Device::describe(load_plugin("sim"), profile).value();
    const auto present = open_sim({{"TERN_SIM", profile}});
    EXPECT_EQ(device->name(), std::string("sim:") + profile);
    EXPECT_EQ(device->info().described, 1U);
    EXPECT_EQ(present->info().described, 0U);
    EXPECT_EQ(device->info().capabilities, present->info().capabilities);
    EXPECT_STREQ(device->info().arch, present->info().arch);
    EXPECT_TRUE(accel::supports(*device, scaling()).native);
    EXPECT_EQ(device->memory().in_use_by_process, 0U);
    EXPECT_TRUE(contains(failure_of([&] { (void)device->allocate(16, "a test"); }), "a description alone"));
    EXPECT_TRUE(contains(failure_of([&] { (void)device->make_stream(); }), "a description alone"));
    if (!device->can(TERN_CAP_EAGER)) continue;
    const accel::Plan plan(device, scaling(), {});
    EXPECT_STREQ(plan.info().choice, accel::Plan(present, scaling(), {}).info().choice);
    EXPECT_EQ(device->memory().in_use_by_process, 0U);
    tern_tensor args[3] = {};
    EXPECT_TRUE(contains(failure_of([&] { (void)plan.bind(args, {}); }), "a description alone"));
  }
  const auto none = accel::Device::describe(load_plugin("sim"), "quantum");
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(contains(none.error().line(), R"(profile "quantum": expected one of discrete, ascend, graph, embedded)"));
}

TEST(SimExtension, ArmsAFaultInTheMiddleOfARun) {
  const auto device = open_sim();
  const auto* faults = device->backend().extension<tern_sim_faults>("sim.faults");
  ASSERT_NE(faults, nullptr);
  EXPECT_EQ(device->backend().extension<tern_sim_faults>("sim.no_such_thing"), nullptr);
  struct Longer : tern_sim_faults {
    void* more;
  };
  EXPECT_EQ(device->backend().extension<Longer>("sim.faults"), nullptr) << "of a newer version";
  for (int i = 0; i < 5; ++i) (void)device->allocate(16, "a test");
  EXPECT_EQ(faults->arm(device->raw(), "oom@2"), TERN_OK);
  (void)device->allocate(16, "a test");
  EXPECT_TRUE(contains(failure_of([&] { (void)device->allocate(16, "a test"); }), "allocation 2 fails"));
  EXPECT_EQ(faults->arm(device->raw(), ""), TERN_OK);
  for (int i = 0; i < 5; ++i) (void)device->allocate(16, "a test");
  EXPECT_EQ(faults->arm(device->raw(), "earthquake"), TERN_INVALID_ARGUMENT);
}

// In a process of its own: nothing can be called afterwards.
template <typename Body>
int run_in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SimFinalize, ComesAfterTheLastDeviceAndEndsEverything) {
  const auto child = [] {
    const auto backend = load_plugin("sim");
    auto device = open_sim();
    accel::finalize_backends();
    if (!accel::Device::open(backend, 0).ok()) return 1;  // a device was open, so it isn't the end
    device.reset();
    accel::finalize_backends();
    const auto again = accel::Device::open(backend, 0);
    if (again.ok() || !contains(again.error().line(), "finalized")) return 2;
    char text[256] = "";
    backend->api().last_error({text, sizeof text});
    if (!contains(text, "finalized")) return 3;
    if (backend->api().finalize() != TERN_INVALID_ARGUMENT) return 4;
    return 0;
  };
  EXPECT_EQ(run_in_child(child), 0);
  const auto early = [] {
    const auto device = open_sim();
    return device->api().finalize() == TERN_INVALID_ARGUMENT ? 0 : 1;
  };
  EXPECT_EQ(run_in_child(early), 0);
}

TEST(SimProfile, TellsWhatRanBetweenStartAndStopOnEveryHandle) {
  const auto device = open_sim();
  const auto other = open_sim();
  const accel::Stream stream = device->make_stream();
  const accel::Buffer buffer = device->allocate(64, "a test");
  device->fill(buffer.plane(), 1, 64, stream);
  {
    const accel::DeviceProfile profile(other);
    EXPECT_TRUE(contains(failure_of([&] { const accel::DeviceProfile second(device); }), "has been started"));
    {
      const accel::ProfileRange outer(*device, "layer 0");
      const accel::ProfileRange inner(*device, "copying \"it\"");
      device->copy(buffer.plane(32), buffer.plane(), 32, stream);
    }
    device->fill(buffer.plane(), 2, 16, stream);
    stream.synchronize();
    const auto records = profile.collect();
    ASSERT_EQ(records.size(), 2U) << "and the fill before it isn't told";
    EXPECT_EQ(records[0].kind, static_cast<std::uint32_t>(TERN_PROFILE_COPY));
    EXPECT_STREQ(records[0].range, "copying \"it\"");
    EXPECT_EQ(records[0].bytes, 32U);
    EXPECT_EQ(records[1].kind, static_cast<std::uint32_t>(TERN_PROFILE_FILL));
    EXPECT_STREQ(records[1].range, "");
    EXPECT_EQ(records[0].stream, records[1].stream);
    EXPECT_LE(records[0].end_ns, records[1].begin_ns);
    EXPECT_TRUE(profile.collect().empty());
  }
  device->fill(buffer.plane(), 3, 16, stream);
  stream.synchronize();
  EXPECT_TRUE(accel::DeviceProfile(device).collect().empty());
  const auto embedded = open_sim({{"TERN_SIM", "embedded"}});
  EXPECT_TRUE(contains(failure_of([&] { const accel::DeviceProfile none(embedded); }), "unsupported"));
}

}  // namespace
}  // namespace tern::test
