// What `tern selftest --require` finds: a device that leaves an op of a command to the host, and no other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>

#include "base/strings.h"
#include "conformance/selftest.h"
#include "ops/rules.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

using conformance::OpReport;

using Refuses = bool (*)(const tern_op_desc& desc);

// The simulated device without some kernels. A plugin's functions have no closure: what they share.
struct World {
  std::shared_ptr<const accel::Backend> sound;
  tern_backend table{};
  Refuses refuses = nullptr;
  std::uint32_t dtypes_lost = 0;
};
World world;

tern_status supports(tern_device device, const tern_op_desc* desc, tern_text reason) {
  if (!world.refuses(*desc)) return world.sound->api().supports(device, desc, reason);
  std::strncpy(reason.data, "not written yet", reason.capacity - 1);
  return TERN_UNSUPPORTED;
}

tern_status device_info(std::int32_t ordinal, tern_device_info* info) {
  const tern_status status = world.sound->api().device_info(ordinal, info);
  info->storage_dtypes &= ~world.dtypes_lost;
  return status;
}

accel::DevicePtr without(Refuses refuses, std::uint32_t dtypes_lost = 0) {
  world = {load_plugin("sim"), {}, refuses, dtypes_lost};
  const tern_backend& sound = world.sound->api();
  std::memcpy(&world.table, &sound, std::min<std::size_t>(sizeof(world.table), sound.size));
  world.table.supports = supports;
  world.table.device_info = device_info;
  return accel::Device::open(accel::Backend::wrap(&world.table), 0).value();
}

OpReport tested(const accel::DevicePtr& device, std::uint32_t op, std::uint32_t required, std::uint64_t one_in = 1) {
  conformance::Bench bench = conformance::make_bench(device);
  conformance::SelftestOptions options;
  options.required = required;
  options.laws = false;
  options.one_in = one_in;
  return conformance::test_op(bench, op, options);
}

// The law that a device breaks which leaves `op` to the host, or "".
std::string broken(const accel::DevicePtr& device, std::uint32_t op, std::uint32_t required = ops::kEveryCommand,
                   std::uint64_t one_in = 1) {
  const OpReport report = tested(device, op, required, one_in);
  EXPECT_LE(report.findings.size(), 1U);
  return report.findings.empty() ? "" : cat(report.findings[0].law, ": ", report.findings[0].problem);
}

// One in so many of an op's cases, where every op is asked for; script/full.d/sim asks for all.
constexpr std::uint64_t kShare = 6;

TEST(Require, AWholeDevicePasses) {
  const accel::DevicePtr device = without([](const tern_op_desc&) { return false; });
  for (const ops::OpSpec& spec : ops::op_table()) {
    EXPECT_EQ(broken(device, spec.id, ops::kEveryCommand, kShare), "") << spec.name;
  }
}

// What the simulated ascend refuses, as its vendor does, no command needs.
TEST(Require, ADeviceWithAVendorsLimitsPasses) {
  const auto device = open_sim({{"TERN_SIM", "ascend"}});
  for (const ops::OpSpec& spec : ops::op_table()) {
    EXPECT_EQ(broken(device, spec.id, ops::kEveryCommand, kShare), "") << spec.name;
  }
  for (const std::uint32_t op :
       std::initializer_list<std::uint32_t>{TERN_OP_ATTENTION, TERN_OP_ATTENTION_BACKWARD, TERN_OP_ATTENTION_PAGED}) {
    EXPECT_GT(tested(device, op, ops::kEveryCommand).host, 0) << "refused and counted";
  }
}

TEST(Require, TrainingNeedsABackwardAndInferenceDoesNot) {
  const accel::DevicePtr device =
      without([](const tern_op_desc& desc) { return desc.op == TERN_OP_ATTENTION_BACKWARD; });
  EXPECT_EQ(broken(device, TERN_OP_ATTENTION_BACKWARD, ops::kInfer | ops::kServe), "");
  EXPECT_EQ(broken(device, TERN_OP_ATTENTION_BACKWARD, ops::kTrain),
            "needed by train: the host would have to run it: not written yet");
  EXPECT_EQ(broken(device, TERN_OP_ATTENTION_BACKWARD, 0), "");
}

TEST(Require, ADecompositionIsEnoughWhereItsPartsAreThere) {
  const accel::DevicePtr split = without([](const tern_op_desc& desc) { return desc.op == TERN_OP_QK_NORM_ROPE; });
  EXPECT_EQ(broken(split, TERN_OP_QK_NORM_ROPE), "");
  const accel::DevicePtr stuck =
      without([](const tern_op_desc& desc) { return desc.op == TERN_OP_QK_NORM_ROPE || desc.op == TERN_OP_ROPE; });
  EXPECT_EQ(broken(stuck, TERN_OP_QK_NORM_ROPE),
            "needed by infer, train, serve: the host would have to run it: rope: not written yet");
}

TEST(Require, AsksForTheUsualOnly) {
  const accel::DevicePtr narrow = without([](const tern_op_desc& desc) {
    const bool strided = desc.args[0].rank > 1 && desc.args[0].strides[1] != 1;
    return desc.needs != 0 || strided || desc.args[0].dtype == TERN_F16;
  });
  EXPECT_EQ(broken(narrow, TERN_OP_ACT_MUL), "");
  EXPECT_GT(tested(narrow, TERN_OP_ACT_MUL, ops::kEveryCommand).host, 0);
  const Refuses lacks_bf16 = [](const tern_op_desc& desc) { return desc.args[0].dtype == TERN_BF16; };
  EXPECT_NE(broken(without(lacks_bf16), TERN_OP_ACT_MUL), "");
  EXPECT_EQ(broken(without(lacks_bf16, 1U << TERN_BF16), TERN_OP_ACT_MUL), "");
}

// Counts, added results and sizes are what every program has: no excuse.
TEST(Require, AsksForWhatProgramsAre) {
  const accel::DevicePtr fixed = without([](const tern_op_desc& desc) { return desc.args[0].dynamic_dim >= 0; });
  EXPECT_NE(broken(fixed, TERN_OP_ROPE), "");
  const accel::DevicePtr small = without([](const tern_op_desc& desc) { return desc.args[0].shape[0] > 16; });
  EXPECT_NE(broken(small, TERN_OP_ROPE), "");
}

// The rows of docs/backend-guide.md: the kernels that a backend has after each step, and the command that judges it.
struct Step {
  std::vector<std::uint32_t> ops;
  std::string judge;
};
std::vector<Step> steps_of_guide() {
  std::vector<Step> out;
  std::ifstream guide(TERN_SOURCE_DIR "/docs/backend-guide.md");
  for (std::string line; std::getline(guide, line);) {
    const std::vector<std::string_view> cells = split(line, '|');
    if (cells.size() < 4 || cells[2].find('`') == std::string::npos) continue;
    Step step{.ops = {}, .judge = std::string(cells[3])};
    for (const std::string_view word : split(cells[2], '`')) {
      if (const ops::OpSpec* op = ops::find_op(std::string(word))) step.ops.push_back(op->id);
    }
    out.push_back(std::move(step));
  }
  return out;
}

// A device with the kernels of the guide's rows, and no other, passes the judge of each row.
std::set<std::uint32_t> written;
TEST(Guide, EachStepIsEnoughForItsJudge) {
  const std::vector<Step> steps = steps_of_guide();
  ASSERT_EQ(steps.size(), 4U);
  written.clear();
  int judged = 0;
  for (const Step& step : steps) {
    written.insert(step.ops.begin(), step.ops.end());
    const auto at = step.judge.find("--require ");
    if (at == std::string::npos) continue;
    ++judged;
    std::uint32_t required = 0;
    const std::string words = step.judge.substr(at + 10, step.judge.rfind('`') - at - 10);
    for (const std::string_view word : split(words, ',')) {
      required |= ops::find_command(word).value();
    }
    const accel::DevicePtr device = without([](const tern_op_desc& desc) { return !written.contains(desc.op); });
    for (const ops::OpSpec& spec : ops::op_table()) EXPECT_EQ(broken(device, spec.id, required, 8), "") << spec.name;
    for (const std::uint32_t op : step.ops) {
      written.erase(op);
      EXPECT_NE(broken(device, op, required, 8), "") << ops::op_spec(op).name << " is not needed";
      written.insert(op);
    }
  }
  EXPECT_EQ(judged, 2);
}

// A share of the cases is of about the size that was asked for, is the same for the same seed, and over seeds it leaves
// nothing out.
TEST(Share, IsASeededPartOfTheCases) {
  const accel::DevicePtr device = without([](const tern_op_desc&) { return false; });
  conformance::Bench bench = conformance::make_bench(device);
  conformance::SelftestOptions options;
  options.laws = false;
  const int all = conformance::test_op(bench, TERN_OP_AXPBY, options).cases;
  options.one_in = 4;
  std::vector<int> left_out;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    options.seed = seed;
    const OpReport report = conformance::test_op(bench, TERN_OP_AXPBY, options);
    EXPECT_GT(report.cases, all / 12) << "seed " << seed;
    EXPECT_LT(report.cases, all / 2) << "seed " << seed;
    EXPECT_EQ(report.cases + report.skipped, all);
    left_out.push_back(report.skip_reasons.at("left out by --one_in"));
  }
  EXPECT_NE(*std::min_element(left_out.begin(), left_out.end()), *std::max_element(left_out.begin(), left_out.end()));
  options.seed = 7;
  EXPECT_EQ(conformance::test_op(bench, TERN_OP_AXPBY, options).skip_reasons.at("left out by --one_in"), left_out[7]);
}

}  // namespace
}  // namespace tern::test
