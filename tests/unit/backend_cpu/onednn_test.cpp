// oneDNN as a candidate for products: its values, what it refuses, and how the choice between it and our kernels is
// made.
#include <gtest/gtest.h>

#include <atomic>
#include <string_view>

#include "ops/ref/tensor.h"
#include "tests/unit/backend_cpu/calls.h"
#include "tests/unit/backend_cpu/op_harness.h"
#include "tests/unit/backend_cpu/plugin.h"

namespace tern::test {
namespace {

struct Shape {
  std::int64_t m, n, k;
};

struct Form {
  tern_dtype a = TERN_F32, b = TERN_F32, out = TERN_F32, compute = TERN_F32;
  bool ta = false, tb = true;
};

OpCase product(Shape s, const Form& f) {
  OpCase c(TERN_OP_MATMUL);
  c.set_attrs(tern_matmul_attrs{f.ta ? 1 : 0, f.tb ? 1 : 0, f.compute, 1.0F});
  c.random(TERN_MATMUL_A, make_desc(f.a, {f.ta ? s.k : s.m, f.ta ? s.m : s.k}), 1);
  c.random(TERN_MATMUL_B, make_desc(f.b, {f.tb ? s.n : s.k, f.tb ? s.k : s.n}), 2);
  c.output(TERN_MATMUL_OUT, make_desc(f.out, {s.m, s.n}));
  c.needs = TERN_NEED_DETERMINISTIC;
  return c;
}

// The plugin says which libraries it was built with.
bool built_with_onednn() {
  const Plugin plugin("baseline", 1);
  tern_device_info info{};
  info.size = sizeof info;
  EXPECT_EQ(plugin.table->device_info(0, &info), TERN_OK);
  return std::string_view(info.driver_version).find("oneDNN") != std::string_view::npos;
}

bool is_served(const std::string& target, tern_dtype compute) {
  if (target == "avx512_bf16" || target == "amx_bf16") return true;
  return compute == TERN_F32 && (target == "avx512" || target == "avx512_vnni");
}

// On every target: oneDNN's result is the oracle's where it serves the form, and is refused where it does not.
void check_onednn(OpCase c, tern_dtype compute, const std::string& label) {
  const bool built = built_with_onednn();
  for (const std::string& target : targets()) {
    c.choice = "onednn@" + target;
    if (!built || !is_served(target, compute)) {
      EXPECT_THROW(static_cast<void>(run_on(target, c)), std::runtime_error) << label << " on " << target;
      continue;
    }
    const Outcome outcome = run_on(target, c);
    EXPECT_EQ(outcome.choice, c.choice);
    expect_oracle(c, outcome, label + " by oneDNN on " + target);
  }
}

// Rests of rows and of columns, parts of the rows, and more columns than are packed at once.
TEST(OneDnn, CrossesEveryBorderOfItsSplit) {
  for (const Shape s : {Shape{300, 130, 120}, Shape{200, 700, 40}, Shape{33, 600, 2100}, Shape{32, 515, 257}}) {
    for (const tern_dtype compute : {TERN_F32, TERN_BF16}) {
      Form f;
      f.compute = compute;
      check_onednn(product(s, f), compute, "split");
    }
  }
}

TEST(OneDnn, EveryStorageAndTranspose) {
  for (const tern_dtype storage : {TERN_F32, TERN_BF16}) {
    for (const tern_dtype compute : {TERN_F32, TERN_BF16}) {
      for (int t = 0; t < 4; ++t) {
        const tern_dtype out = compute == TERN_F32 ? TERN_F32 : storage;
        const Form f{storage, storage, out, compute, (t & 1) != 0, (t & 2) != 0};
        check_onednn(product({75, 261, 251}, f), compute, "storage " + std::to_string(storage));
      }
    }
  }
  check_onednn(product({75, 261, 251}, {TERN_BF16, TERN_F32, TERN_F32, TERN_BF16}), TERN_BF16, "mixed");
}

TEST(OneDnn, BiasAccumulateAndGaps) {
  for (const tern_dtype compute : {TERN_F32, TERN_BF16}) {
    for (const tern_dtype out : {TERN_F32, TERN_BF16}) {
      if (compute == TERN_F32 && out == TERN_BF16) continue;
      OpCase c = product({90, 259, 256}, {compute, compute, out, compute});
      c.random(TERN_MATMUL_A, padded(make_desc(compute, {90, 256}), 5), 1);
      c.random(TERN_MATMUL_B, padded(make_desc(compute, {259, 256}), 3), 2);
      c.random(TERN_MATMUL_BIAS, make_desc(out, {259}), 3);
      c.random(TERN_MATMUL_OUT, padded(make_desc(out, {90, 259}), 7), 4);
      check_onednn(c, compute, "bias");
      c.accumulate = 1U << TERN_MATMUL_OUT;
      check_onednn(c, compute, "accumulate");
    }
  }
}

TEST(OneDnn, WeightsOfLinearLayersBothWays) {
  for (const bool forward : {true, false}) {
    OpCase c(TERN_OP_MATMUL_Q);
    const std::int64_t m = 70, out = 300, in = 260;
    c.set_attrs(tern_matmul_q_attrs{forward ? 1 : 0, TERN_BF16});
    c.random(TERN_MATMUL_Q_X, make_desc(TERN_F32, {m, forward ? in : out}), 1);
    c.random(TERN_MATMUL_Q_W, make_desc(TERN_BF16, {out, in}), 2);
    c.output(TERN_MATMUL_Q_Y, make_desc(TERN_F32, {m, forward ? out : in}));
    c.needs = TERN_NEED_DETERMINISTIC;
    check_onednn(c, TERN_BF16, forward ? "forward" : "backward");
  }
}

TEST(OneDnn, ThreadsChangeNoBit) {
  if (!built_with_onednn()) GTEST_SKIP() << "built without oneDNN";
  for (const tern_dtype compute : {TERN_F32, TERN_BF16}) {
    for (const std::string& target : targets()) {
      if (!is_served(target, compute)) continue;
      for (const Shape s : {Shape{300, 130, 120}, Shape{40, 600, 1100}}) {
        OpCase c = product(s, {TERN_F32, TERN_F32, TERN_F32, compute, true, true});
        c.choice = "onednn@" + target;
        c.num_threads = 1;
        const Outcome one = run_on(target, c);
        c.num_threads = 3;
        EXPECT_EQ(run_on(target, c).bytes[TERN_MATMUL_OUT], one.bytes[TERN_MATMUL_OUT]) << target;
      }
    }
  }
}

TEST(OneDnn, RefusesWhatItDoesNotPromise) {
  const auto refused = [](const std::string& why, OpCase c) {
    for (const std::string& target : targets()) {
      c.choice = "onednn@" + target;
      EXPECT_THROW(static_cast<void>(run_on(target, c)), std::runtime_error) << why << " on " << target;
    }
  };
  const Shape s{80, 250, 240};
  OpCase rows = product(s, {});
  rows.needs |= TERN_NEED_ROW_INVARIANT;
  refused("rows independent of each other", rows);
  refused("too small", product({8, 64, 64}, {}));
  OpCase misfit = product(s, {});
  misfit.random(TERN_MATMUL_B, make_desc(TERN_F32, {s.n, s.k - 1}), 2);
  refused("shapes that do not fit each other", misfit);
  refused("few rows", product({8, 1000, 1000}, {}));
  refused("fp16", product(s, {TERN_F16, TERN_F32, TERN_F32, TERN_F32}));
  refused("fp16 products", product(s, {TERN_F32, TERN_F32, TERN_F32, TERN_F16}));
  refused("f32 products rounded", product(s, {TERN_F32, TERN_F32, TERN_BF16, TERN_F32}));
  OpCase dynamic = product(s, {});
  for (const int arg : {int{TERN_MATMUL_A}, int{TERN_MATMUL_OUT}}) {
    dynamic.args[static_cast<std::size_t>(arg)].desc.dynamic_dim = 0;
  }
  refused("dynamic rows", dynamic);
  OpCase overlapping = product(s, {});
  overlapping.args[TERN_MATMUL_A].desc.strides[0] = 1;
  refused("rows over each other", overlapping);
}

std::atomic<int> measurements = 0;

void count_measurements(std::int32_t, const char* line) {
  if (std::string_view(line).find("taken:") != std::string_view::npos) ++measurements;
}

// A device whose plugin counts what it measures.
class Choices : public testing::Test {
 protected:
  Choices() {
    const tern_host host = {sizeof(tern_host), TERN_ABI_MAJOR, TERN_ABI_MINOR, 1, nullptr, count_measurements};
    table_ = tern_backend_entry(&host);
    EXPECT_EQ(table_->device_open(&kFirstDevice, &device_), TERN_OK);
    tern_device_info info{};
    info.size = sizeof info;
    EXPECT_EQ(table_->device_info(0, &info), TERN_OK);
    target_ = info.arch;
    measurements = 0;
  }
  ~Choices() override {
    table_->device_close(device_);
    const tern_host host = {sizeof(tern_host), TERN_ABI_MAJOR, TERN_ABI_MINOR, 2, nullptr, nullptr};
    tern_backend_entry(&host);
  }

  std::string choice_of(const OpCase& c, const std::string& given = {}) {
    std::vector<tern_tensor_desc> descs;
    for (const auto& arg : c.args) descs.push_back(arg.desc);
    tern_op_desc desc{};
    desc.size = sizeof desc;
    desc.op = c.op;
    desc.needs = c.needs;
    desc.num_args = static_cast<std::uint32_t>(descs.size());
    desc.attrs_size = static_cast<std::uint32_t>(c.attrs.size());
    desc.args = descs.data();
    desc.attrs = c.attrs.data();
    tern_plan plan = nullptr;
    tern_plan_info info{};
    info.size = sizeof info;
    const tern_plan_options options = choosing(given.empty() ? nullptr : given.c_str());
    if (table_->plan(device_, &desc, &options, &plan, &info) != TERN_OK) return "refused";
    table_->plan_destroy(plan);
    return info.choice;
  }

  const tern_backend* table_ = nullptr;
  tern_device device_ = nullptr;
  std::string target_;
};

TEST_F(Choices, AreMeasuredOnceAndReplayedUnmeasured) {
  const OpCase c = product({61, 320, 384}, {});
  const std::string ours = "panels@" + target_, theirs = "onednn@" + target_;
  const bool two = built_with_onednn() && is_served(target_, TERN_F32);
  // built_with_onednn opened another plugin and with it silenced the log
  const tern_host host = {sizeof(tern_host), TERN_ABI_MAJOR, TERN_ABI_MINOR, 1, nullptr, count_measurements};
  tern_backend_entry(&host);

  EXPECT_EQ(choice_of(c, ours), ours);
  EXPECT_EQ(choice_of(c, theirs), two ? theirs : "refused");
  EXPECT_EQ(measurements, 0) << "a given choice was measured";

  const std::string first = choice_of(c);
  EXPECT_TRUE(first == ours || (two && first == theirs)) << first;
  EXPECT_EQ(measurements, two ? 1 : 0);
  EXPECT_EQ(choice_of(c), first);
  EXPECT_EQ(measurements, two ? 1 : 0) << "an equal desc was measured again";
  EXPECT_EQ(choice_of(product({62, 320, 384}, {})).substr(6), first.substr(6));
  EXPECT_EQ(measurements, two ? 2 : 0) << "another shape was not measured";
}

// One candidate, or one too long to try: nothing is measured.
TEST_F(Choices, AreOursWhereThereIsNothingToMeasure) {
  OpCase c = product({61, 320, 384}, {});
  c.needs |= TERN_NEED_ROW_INVARIANT;
  EXPECT_EQ(choice_of(c), "panels@" + target_);
  EXPECT_EQ(choice_of(product({3, 5, 7}, {})), "panels@" + target_);
  OpCase large(TERN_OP_MATMUL);  // 192 MiB of arguments that the test never makes
  large.set_attrs(tern_matmul_attrs{0, 1, TERN_COMPUTE_F32, 1.0F});
  large.needs = TERN_NEED_DETERMINISTIC;
  large.args[TERN_MATMUL_A].desc = make_desc(TERN_F32, {4096, 4096});
  large.args[TERN_MATMUL_B].desc = make_desc(TERN_F32, {4096, 4096});
  large.args[TERN_MATMUL_OUT].desc = make_desc(TERN_F32, {4096, 4096});
  EXPECT_EQ(choice_of(large), "panels@" + target_);
  EXPECT_EQ(measurements, 0);
}

}  // namespace
}  // namespace tern::test
