// If these fail, a launch reads lengths that aren't there, or the kernel that a choice names is not the one that runs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "descs.h"

namespace tern::test {
namespace {

struct Given {
  std::vector<std::int32_t> q{0, 3, 8};
  std::vector<std::int32_t> k{0, 4, 8};
  tern_host_array arrays[3] = {{q.data(), 3}, {k.data(), 3}, {nullptr, 9}};  // the last a newer host's
  tern_host_args args{sizeof(tern_host_args), 2, arrays, {0, 3}};
};

TEST(PluginHostArgs, AreCopiedWithWhatTheyPointAt) {
  const AttentionDesc d;
  tern_plugin::HostArgs copy;
  EXPECT_EQ(copy.counts(), nullptr);
  EXPECT_TRUE(copy.arrays().empty());
  {
    Given given;
    tern_plugin::HostArgs made(d.desc, &given.args);
    given.q.assign(3, -1);
    given.args.counts[1] = -1;
    copy = std::move(made);
  }
  ASSERT_EQ(copy.arrays().size(), 2U);
  EXPECT_EQ(copy.arrays()[0].data[1], 3);
  EXPECT_EQ(copy.arrays()[1].data[1], 4);
  EXPECT_EQ(copy.counts()[1], 3);
}

TEST(PluginHostArgs, AreHeldToTheDesc) {
  const AttentionDesc d;
  const auto refused = [&](auto harm, const std::string& text) {
    Given given;
    harm(given);
    const bool answer = tern_plugin_check_host_args(&d.desc, &given.args) == TERN_INVALID_ARGUMENT;
    tern_plugin_host_args copy;
    EXPECT_EQ(tern_plugin_copy_host_args(&d.desc, &given.args, &copy) == TERN_INVALID_ARGUMENT, answer);
    if (!answer) tern_plugin_free(copy.arrays);
    EXPECT_TRUE(!answer || std::string(tern_plugin_error()).find(text) != std::string::npos) << tern_plugin_error();
    return answer;
  };
  EXPECT_FALSE(refused([](auto&) {}, ""));
  EXPECT_FALSE(refused([](auto& g) { g.args.num_arrays = 0; }, "")) << "then the tensors alone hold them";
  EXPECT_FALSE(refused([](auto& g) { g.args.size = 4096; }, ""));
  EXPECT_FALSE(refused([](auto& g) { g.args.counts[1] = g.arrays[0].count = g.arrays[1].count = 0; }, ""));
  EXPECT_FALSE(refused([](auto& g) { g.args.counts[7] = -9; }, "")) << "of a slot that nothing has";
  EXPECT_TRUE(refused([](auto& g) { g.args.size = 24; }, "host_args of 24 bytes"));
  EXPECT_TRUE(refused([](auto& g) { g.args.num_arrays = 1; }, "expected 2 arrays of lengths, found 1"));
  EXPECT_FALSE(refused([](auto& g) { g.args.num_arrays = 3; }, "")) << "a newer host's third";
  EXPECT_TRUE(refused([](auto& g) { g.args.arrays = nullptr; }, "found 0"));
  EXPECT_TRUE(refused([](auto& g) { g.arrays[1].data = nullptr; }, "cu_seqlens_k: its array"));
  EXPECT_TRUE(refused([](auto& g) { g.arrays[0].count = -1; }, "null or negative"));
  EXPECT_TRUE(refused([](auto& g) { g.arrays[0].count = 2; }, "cu_seqlens_q: expected 3 lengths"));
  EXPECT_TRUE(refused([](auto& g) { g.arrays[0].count = INT64_MAX; }, "found 9223372036854775807"));
  EXPECT_TRUE(refused([](auto& g) { g.args.counts[1] = 4; }, "expected 0 to 3, found 4"));
  EXPECT_TRUE(refused([](auto& g) { g.args.counts[1] = -1; }, "found -1"));
  EXPECT_EQ(tern_plugin_check_host_args(&d.desc, nullptr), TERN_INVALID_ARGUMENT);
}

TEST(PluginHostArgs, AreNeededForLengthsAlone) {
  AttentionDesc d;
  for (auto& arg : d.args) arg.dynamic_dim = -1;
  EXPECT_EQ(tern_plugin_check_host_args(&d.desc, nullptr), TERN_INVALID_ARGUMENT);
  Given given;
  given.args.counts[1] = -1;  // of no dimension
  EXPECT_EQ(tern_plugin_check_host_args(&d.desc, &given.args), TERN_OK) << tern_plugin_error();
}

TEST(PluginHostArgs, AreNotNeededWithoutCountsAndLengths) {
  AxpbyDesc d;
  EXPECT_EQ(tern_plugin_check_host_args(&d.desc, nullptr), TERN_OK);
  EXPECT_EQ(tern_plugin::HostArgs(d.desc, nullptr).counts(), nullptr);
  d.out() = with_dynamic(d.out(), 0, 0);
  EXPECT_EQ(tern_plugin_check_host_args(&d.desc, nullptr), TERN_INVALID_ARGUMENT);
  EXPECT_STREQ(tern_plugin_error(), "axpby: host_args are missing");
}

tern_status small_only(const tern_plugin_kernel*, tern_device, const tern_op_desc* desc) {
  if (desc->args[0].shape[0] <= 4) return TERN_OK;
  return tern_plugin_fail(TERN_UNSUPPORTED, "x: more than 4 rows");
}

tern_status none(const tern_plugin_kernel*, tern_device, const tern_op_desc*) {
  return tern_plugin_fail(TERN_UNSUPPORTED, "no units for it");
}

void with_target(const tern_plugin_kernel* kernel, tern_device, tern_text text) {
  tern_plugin::put_text(text, std::string(kernel->name) + "@z80");
}

const tern_plugin_kernel kSmall{TERN_OP_AXPBY, "small", small_only, nullptr};
const tern_plugin_kernel kNone{TERN_OP_AXPBY, "none", none, with_target};
const tern_plugin_kernel kLoop{TERN_OP_AXPBY, "loop", nullptr, with_target};
const tern_plugin_kernel kMul{TERN_OP_MUL, "loop", nullptr, nullptr};

std::vector<std::string> find(const std::vector<const tern_plugin_kernel*>& kernels, const AxpbyDesc& d,
                              const char* choice, std::uint32_t room = 8) {
  std::vector<const tern_plugin_kernel*> found(8, nullptr);
  tern_status status = TERN_INTERNAL;
  const auto count = tern_plugin_find_kernels(kernels.data(), static_cast<std::uint32_t>(kernels.size()), nullptr,
                                              &d.desc, choice, found.data(), room, &status);
  EXPECT_EQ(status, count > 0 ? TERN_OK : TERN_UNSUPPORTED);
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) names.emplace_back(found[i]->name);
  return names;
}

TEST(PluginKernels, AreFoundInOrderAndByChoice) {
  const std::vector<const tern_plugin_kernel*> all{&kMul, &kNone, &kSmall, &kLoop};
  AxpbyDesc d;
  using Names = std::vector<std::string>;
  EXPECT_EQ(find(all, d, nullptr), (Names{"small", "loop"}));
  EXPECT_EQ(find(all, d, "", 1), (Names{"small"}));
  EXPECT_EQ(find(all, d, "loop@z80"), (Names{"loop"}));
  EXPECT_EQ(find(all, d, "loop"), Names{});
  EXPECT_STREQ(tern_plugin_error(), "axpby: no kernel is called \"loop\" here; there is none@z80, small, loop@z80");
  d.x() = d.out() = make_desc(TERN_F32, {5, 6});
  EXPECT_EQ(find(all, d, nullptr), (Names{"loop"}));
  EXPECT_EQ(find({&kSmall, &kNone}, d, nullptr), Names{});
  EXPECT_STREQ(tern_plugin_error(), "axpby: x: more than 4 rows; no units for it");
  EXPECT_EQ(find({&kMul}, d, nullptr), Names{});
  EXPECT_STREQ(tern_plugin_error(), "axpby: this device has no kernel for it");
  const std::vector<const tern_plugin_kernel*> many(300, &kSmall);  // more refusals than a text holds
  EXPECT_EQ(find(many, d, nullptr), Names{});
  EXPECT_EQ(std::string(tern_plugin_error()).size(), std::size_t{TERN_PLUGIN_ERROR_BYTES - 1});
}

TEST(PluginKernels, TellABreachFromAWant) {
  const tern_plugin_kernel strict{TERN_OP_AXPBY, "strict",
                                  [](const tern_plugin_kernel*, tern_device, const tern_op_desc*) {
                                    return tern_plugin_fail(TERN_INVALID_ARGUMENT, "shapes differ");
                                  },
                                  nullptr};
  const tern_plugin_kernel* const list[] = {&strict, &kNone};
  const AxpbyDesc d;
  tern_plugin_desc own;
  EXPECT_EQ(tern_plugin_find_kernel(list, 2, nullptr, &d.desc, nullptr, &own, nullptr), TERN_INVALID_ARGUMENT);
  EXPECT_STREQ(tern_plugin_error(), "axpby: shapes differ; no units for it");
}

TEST(PluginKernels, AreAskedOnlyAboutDescsThatKeepTheContract) {
  const tern_plugin_kernel* const list[] = {&kSmall};
  const tern_plugin_kernel* found = nullptr;
  AxpbyDesc d;
  tern_plugin_desc own;
  EXPECT_EQ(tern_plugin_find_kernel(list, 1, nullptr, &d.desc, nullptr, &own, &found), TERN_OK);
  EXPECT_EQ(found, &kSmall);
  d.desc.num_args = 0;
  EXPECT_EQ(tern_plugin_find_kernel(list, 1, nullptr, &d.desc, nullptr, &own, &found), TERN_INVALID_ARGUMENT);
  char reason[64] = "old";
  EXPECT_EQ(tern_plugin_answer(TERN_INVALID_ARGUMENT, {reason, sizeof reason}), TERN_INVALID_ARGUMENT);
  EXPECT_STREQ(reason, "axpby: x: it is absent and not optional");
  EXPECT_EQ(tern_plugin_answer(TERN_OK, {reason, sizeof reason}), TERN_OK);
  EXPECT_STREQ(reason, "");
}

}  // namespace
}  // namespace tern::test
