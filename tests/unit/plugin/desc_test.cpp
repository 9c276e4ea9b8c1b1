// If these fail, a broken desc reaches a kernel, or the host's mistake is told as a want of the device.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "descs.h"
#include "ops/rules.h"

extern "C" tern_status plugin_c_check(const tern_op_desc* desc);

namespace tern::test {
namespace {

tern_status take(const tern_op_desc* desc) {
  tern_plugin_desc own;
  return tern_plugin_take_desc(desc, &own);
}

tern_bind_args bound_args(std::span<const tern_tensor> tensors) {
  tern_bind_args out{};
  out.size = sizeof out;
  out.num_args = static_cast<std::uint32_t>(tensors.size());
  out.args = tensors.data();
  return out;
}

struct Broken {
  const char* what;
  std::function<void(AxpbyDesc&)> harm;
  tern_status status;
  const char* text;
};

const Broken kBroken[] = {
    {"a short desc", [](auto& d) { d.desc.size = sizeof(tern_op_desc) - 1; }, TERN_INVALID_ARGUMENT, "another major"},
    {"op 0", [](auto& d) { d.desc.op = 0; }, TERN_UNSUPPORTED, "the id 0"},
    {"an op to come", [](auto& d) { d.desc.op = 4000; }, TERN_UNSUPPORTED, "the id 4000"},
    {"no arguments", [](auto& d) { d.desc.args = nullptr; }, TERN_INVALID_ARGUMENT, "axpby: no arguments"},
    {"too few arguments", [](auto& d) { d.desc.num_args = 2; }, TERN_INVALID_ARGUMENT, "axpby: out: it is absent"},
    {"a later argument",
     [](auto& d) {
       d.desc.num_args = 4;
       d.args[3] = d.x();
     },
     TERN_UNSUPPORTED, "newer version"},
    {"an alias of a later argument",
     [](auto& d) {
       d.desc.num_args = 4;
       d.alias[3] = 0;
     },
     TERN_UNSUPPORTED, "newer"},
    {"no attributes", [](auto& d) { d.desc.attrs = nullptr; }, TERN_INVALID_ARGUMENT, "no attributes"},
    {"a later member of the desc", [](auto& d) { d.desc.reserved_tail[1] = 1; }, TERN_UNSUPPORTED, "newer version"},
    {"a later member of a tensor", [](auto& d) { d.x().reserved_tail[0] = 1; }, TERN_UNSUPPORTED, "axpby: x: its desc"},
    {"another later member", [](auto& d) { d.x().reserved[1] = 1; }, TERN_UNSUPPORTED, "newer version"},
    {"a later member of a scheme", [](auto& d) { d.x().scheme.reserved[0] = 1; }, TERN_UNSUPPORTED, "newer version"},
    {"later attributes",
     [](auto& d) {
       d.desc.attrs_size = 16;
       d.attrs[3] = 1.0F;
     },
     TERN_UNSUPPORTED, "newer version"},
    {"an unknown need", [](auto& d) { d.desc.needs = 4; }, TERN_UNSUPPORTED, "unknown need"},
    {"an input that accumulates", [](auto& d) { d.desc.accumulate = 1; }, TERN_INVALID_ARGUMENT, "axpby: x: it cannot"},
    {"nothing that accumulates", [](auto& d) { d.desc.accumulate = 8; }, TERN_INVALID_ARGUMENT, "names no argument"},
    {"an absent x", [](auto& d) { d.x() = absent_desc(); }, TERN_INVALID_ARGUMENT, "axpby: x: it is absent"},
    {"a low rank", [](auto& d) { d.x().rank = -1; }, TERN_INVALID_ARGUMENT, "axpby: x: rank -1, expected 0 to 6"},
    {"a high rank", [](auto& d) { d.out().rank = 7; }, TERN_INVALID_ARGUMENT, "axpby: out: rank 7"},
    {"a dtype to come", [](auto& d) { d.x().dtype = TERN_DTYPE_COUNT; }, TERN_UNSUPPORTED, "the number 15"},
    {"a dtype below all", [](auto& d) { d.x().dtype = -1; }, TERN_UNSUPPORTED, "the number -1"},
    {"another dtype", [](auto& d) { d.out().dtype = TERN_I32; }, TERN_UNSUPPORTED,
     "axpby: out: expected f32, f16 or bf16, found i32"},
    {"a dynamic dimension beyond", [](auto& d) { d.x().dynamic_dim = 2; }, TERN_INVALID_ARGUMENT, "is no dimension"},
    {"a dynamic dimension below", [](auto& d) { d.x().dynamic_dim = -2; }, TERN_INVALID_ARGUMENT, "is no dimension"},
    {"a slot beyond", [](auto& d) { d.x() = with_dynamic(d.x(), 0, 8); }, TERN_INVALID_ARGUMENT, "is no slot"},
    {"a negative size", [](auto& d) { d.x().shape[1] = -6; }, TERN_INVALID_ARGUMENT, "shape[1] is -6"},
    {"a negative stride", [](auto& d) { d.x().strides[0] = -6; }, TERN_INVALID_ARGUMENT, "negative strides"},
    {"an output on itself", [](auto& d) { d.out().strides[0] = 0; }, TERN_INVALID_ARGUMENT, "a stride of 0"},
    {"an extent beyond", [](auto& d) { d.x().strides[0] = INT64_MAX; }, TERN_INVALID_ARGUMENT, "64 bits"},
    {"sizes whose product wraps to 0",
     [](auto& d) {
       d.x().shape[0] = d.x().shape[1] = std::int64_t{1} << 32;
       d.x().strides[0] = d.x().strides[1] = 0;
     },
     TERN_INVALID_ARGUMENT, "64 bits"},
    {"a quantised argument", [](auto& d) { d.x().scheme.packing = TERN_PACK_GGUF_Q8_0; }, TERN_INVALID_ARGUMENT,
     "axpby: x: it cannot be quantised"},
    {"a private layout", [](auto& d) { d.x().layout = 3; }, TERN_INVALID_ARGUMENT, "private layout"},
    {"an alias beyond", [](auto& d) { d.alias[TERN_AXPBY_OUT] = 3; }, TERN_INVALID_ARGUMENT, "alias 3 is no input"},
    {"an alias below", [](auto& d) { d.alias[TERN_AXPBY_OUT] = -2; }, TERN_INVALID_ARGUMENT, "is no input"},
    {"an alias of an output", [](auto& d) { d.alias[TERN_AXPBY_OUT] = 2; }, TERN_INVALID_ARGUMENT, "is no input"},
    {"an alias of what is absent", [](auto& d) { d.alias[TERN_AXPBY_OUT] = 1; }, TERN_INVALID_ARGUMENT, "where y does"},
    {"an input that lies on one",
     [](auto& d) {
       d.args[TERN_AXPBY_Y] = d.x();
       d.alias[TERN_AXPBY_Y] = TERN_AXPBY_X;
     },
     TERN_INVALID_ARGUMENT, "axpby: y: it cannot lie where x does"},
};

TEST(PluginDesc, EachBreachIsNamed) {
  for (const Broken& broken : kBroken) {
    SCOPED_TRACE(broken.what);
    AxpbyDesc d;
    ASSERT_EQ(take(&d.desc), TERN_OK) << tern_plugin_error();
    broken.harm(d);
    EXPECT_EQ(take(&d.desc), broken.status);
    const std::string text = tern_plugin_error();
    EXPECT_NE(text.find(broken.text), std::string::npos) << text;
    EXPECT_EQ(plugin_c_check(&d.desc), broken.status) << "as C";
  }
  EXPECT_EQ(take(nullptr), TERN_INVALID_ARGUMENT);
}

TEST(PluginDesc, WhatTheContractLeavesOpenIsTaken) {
  AxpbyDesc d;
  const auto taken = [&] { return take(&d.desc) == TERN_OK; };
  d.desc.size = 4096;
  EXPECT_TRUE(taken()) << tern_plugin_error();
  d.desc.attrs_size = 16;  // a later version's, but zeros
  EXPECT_TRUE(taken()) << tern_plugin_error();
  d.desc.alias = nullptr;
  EXPECT_TRUE(taken()) << tern_plugin_error();
  std::memset(&d.args[TERN_AXPBY_Y], 0x7f, sizeof d.args[0]);
  d.args[TERN_AXPBY_Y].rank = 0;  // absent: its other members mean nothing
  EXPECT_TRUE(taken()) << tern_plugin_error();
  d.x().strides[0] = 0;  // a broadcast
  EXPECT_TRUE(taken()) << tern_plugin_error();
  d.out().shape[0] = 1;
  d.out().strides[0] = 0;
  EXPECT_TRUE(taken()) << tern_plugin_error();
  d.out().shape[0] = 0;
  EXPECT_TRUE(taken()) << tern_plugin_error();
}

// An older host knows fewer arguments and attributes, a newer one more: neither changes what the kernel is asked.
TEST(PluginDesc, IsCompletedToThisVersion) {
  AttentionDesc d;
  d.desc.num_args = TERN_ATTENTION_OUT + 1;  // without lse
  d.desc.attrs_size = offsetof(tern_attention_attrs, max_seqlen_k);
  d.args[TERN_ATTENTION_OUT + 1] = d.args[TERN_ATTENTION_OUT];
  tern_plugin_desc own;
  ASSERT_EQ(tern_plugin_take_desc(&d.desc, &own), TERN_OK) << tern_plugin_error();
  EXPECT_EQ(own.desc.num_args, static_cast<std::uint32_t>(TERN_ATTENTION_NUM_ARGS));
  EXPECT_EQ(own.desc.args[TERN_ATTENTION_LSE].rank, 0) << "read beyond what was given";
  EXPECT_TRUE(tern_plugin_same_desc(&own.desc.args[TERN_ATTENTION_OUT], &d.args[TERN_ATTENTION_OUT]));
  EXPECT_EQ(own.desc.attrs_size, sizeof(tern_attention_attrs));
  const auto* attrs = static_cast<const tern_attention_attrs*>(own.desc.attrs);
  EXPECT_EQ(attrs->scale, 1.0F);
  EXPECT_EQ(attrs->max_seqlen_q, 4);
  EXPECT_EQ(attrs->max_seqlen_k, 0);
  AxpbyDesc newer;
  newer.desc.num_args = 4;
  newer.args[3] = absent_desc();
  newer.desc.attrs_size = 16;
  ASSERT_EQ(tern_plugin_take_desc(&newer.desc, &own), TERN_OK) << tern_plugin_error();
  EXPECT_EQ(own.desc.num_args, 3U);
  EXPECT_EQ(own.desc.attrs_size, sizeof(tern_axpby_attrs));
}

// A host of another version binds as many tensors as it planned with.
TEST(PluginBound, TakesTheTensorsOfAnotherVersion) {
  AxpbyDesc d;
  std::vector<tern_tensor> tensors(4);
  for (std::size_t i = 0; i < 3; ++i) tensors[i].desc = d.args[i];
  tern_bind_args given = bound_args(tensors);
  tern_op_desc planned = d.desc;
  EXPECT_EQ(tern_plugin_check_bound(&planned, &given), TERN_OK) << tern_plugin_error();
  given.num_args = 2;
  EXPECT_EQ(tern_plugin_check_bound(&planned, &given), TERN_INVALID_ARGUMENT) << "out is missing";
  EXPECT_EQ(tern_plugin_bound_arg(&given, 2)->desc.rank, 0);
  EXPECT_EQ(tern_plugin_bound_arg(&given, 2)->planes[0].buffer, nullptr);
  given.args = nullptr;
  EXPECT_EQ(tern_plugin_check_bound(&planned, &given), TERN_INVALID_ARGUMENT);
}

TEST(PluginDesc, AnOutputOfAnotherArgumentsDtypeFollowsIt) {
  tern_tensor_desc args[3] = {make_desc(TERN_I16, {4, 2}), make_desc(TERN_I32, {3}), make_desc(TERN_I16, {3, 2})};
  tern_op_desc desc{sizeof desc, TERN_OP_GATHER_ROWS, 0, 0, 3, 0, args, nullptr, nullptr, {}};
  EXPECT_EQ(take(&desc), TERN_OK) << tern_plugin_error();
  args[TERN_GATHER_ROWS_Y].dtype = TERN_U16;
  EXPECT_EQ(take(&desc), TERN_UNSUPPORTED);
  EXPECT_STREQ(tern_plugin_error(), "gather_rows: y: expected i16, found u16");
}

// Law: what the host's own check takes, a plugin's takes too; what a plugin calls the caller's mistake, so does the
// host.
TEST(PluginDesc, IsNoStricterThanTheHost) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const auto poke = [&](tern_tensor_desc& arg) {
    const auto value = static_cast<std::int64_t>(below(9)) - 1;
    switch (below(8)) {
      case 0:
        arg.rank = static_cast<std::int32_t>(below(9));
        break;
      case 1:
        arg.dtype = static_cast<tern_dtype>(below(TERN_DTYPE_COUNT + 2)) - 1;
        break;
      case 2:
        arg.dynamic_dim = static_cast<std::int8_t>(value);
        break;
      case 3:
        arg.count_slot = static_cast<std::uint8_t>(below(10));
        break;
      case 4:
        arg.shape[below(TERN_MAX_RANK)] = value;
        break;
      case 5:
        arg.strides[below(TERN_MAX_RANK)] = value;
        break;
      case 6:
        arg.layout = static_cast<std::int32_t>(below(2));
        break;
      default:
        arg.scheme.packing = below(2) != 0 ? TERN_PACK_GGUF_Q8_0 : TERN_PACK_NONE;
        break;
    }
  };
  int both = 0;
  int neither = 0;
  for (int round = 0; round < 20000; ++round) {
    AxpbyDesc d;
    for (std::uint64_t harm = below(3); harm > 0; --harm) poke(d.args[below(3)]);
    d.desc.accumulate = below(4) == 0 ? static_cast<std::uint32_t>(below(16)) : 0;
    const auto attrs = std::as_bytes(std::span(d.attrs)).first(d.desc.attrs_size);
    const std::string problem = ops::check_call(d.desc.op, d.args, attrs, d.desc.accumulate);
    const tern_status status = take(&d.desc);
    ASSERT_TRUE(!problem.empty() || status == TERN_OK) << tern_plugin_error();
    both += status == TERN_OK ? 1 : 0;
    neither += status == TERN_OK ? 0 : 1;
  }
  EXPECT_GT(both, 2000);
  EXPECT_GT(neither, 2000);
}

TEST(PluginExtent, IsWhatAPlaneMustHold) {
  const auto extent = [](const tern_tensor_desc& desc) {
    std::uint64_t bytes = 77;
    EXPECT_TRUE(tern_plugin_extent(&desc, &bytes));
    return bytes;
  };
  EXPECT_EQ(extent(make_desc(TERN_F32, {4, 6})), 96U);
  EXPECT_EQ(extent(make_desc(TERN_BF16, {4, 0, 6})), 0U);
  EXPECT_EQ(extent(absent_desc()), 0U);
  tern_tensor_desc desc = make_desc(TERN_U8, {3, 5});
  desc.strides[0] = 100;
  EXPECT_EQ(extent(desc), 205U);
  desc.strides[0] = desc.strides[1] = 0;
  EXPECT_EQ(extent(desc), 1U);
  // The largest that fits, and one more.
  desc = make_desc(TERN_U8, {2});
  desc.strides[0] = INT64_MAX;
  EXPECT_EQ(extent(desc), std::uint64_t{1} << 63);
  std::uint64_t bytes = 0;
  desc.dtype = TERN_F64;
  EXPECT_FALSE(tern_plugin_extent(&desc, &bytes));
  desc = make_desc(TERN_U8, {2, 2});
  desc.strides[0] = INT64_MAX;
  EXPECT_FALSE(tern_plugin_extent(&desc, &bytes));
  desc.strides[0] = -1;
  EXPECT_FALSE(tern_plugin_extent(&desc, &bytes));
  desc.rank = 1000;  // no shape that far
  EXPECT_FALSE(tern_plugin_extent(&desc, &bytes));
}

TEST(PluginBound, IsHeldToThePlan) {
  AxpbyDesc d;
  d.x() = with_dynamic(d.x(), 0, 2);
  tern_tensor bound[3] = {};
  for (int i = 0; i < 3; ++i) bound[i].desc = d.args[static_cast<std::size_t>(i)];
  bound[TERN_AXPBY_OUT].desc.count_slot = 5;  // of no dynamic dimension
  d.out().shape[0] = bound[TERN_AXPBY_OUT].desc.shape[0] = 1;
  bound[TERN_AXPBY_OUT].desc.strides[0] = 99;  // a step that is never made
  const tern_bind_args given = bound_args(bound);
  EXPECT_EQ(tern_plugin_check_bound(&d.desc, &given), TERN_OK) << tern_plugin_error();
  const tern_tensor_desc good = bound[0].desc;
  const auto refused = [&](auto harm) {
    bound[0].desc = good;
    harm(bound[0].desc);
    return tern_plugin_check_bound(&d.desc, &given) == TERN_INVALID_ARGUMENT;
  };
  EXPECT_TRUE(refused([](auto& x) { x.dtype = TERN_BF16; }));
  EXPECT_TRUE(refused([](auto& x) { x.rank = 0; }));
  EXPECT_TRUE(refused([](auto& x) { x.rank = 1000; }));
  EXPECT_TRUE(refused([](auto& x) { x.shape[1] = 5; }));
  EXPECT_TRUE(refused([](auto& x) { x.strides[0] = 7; }));
  EXPECT_TRUE(refused([](auto& x) { x.layout = 1; }));
  EXPECT_TRUE(refused([](auto& x) { x.scheme.packing = TERN_PACK_NF4; }));
  EXPECT_TRUE(refused([](auto& x) { x.count_slot = 3; }));
  EXPECT_TRUE(refused([](auto& x) { x.dynamic_dim = -1; }));
  EXPECT_STREQ(tern_plugin_error(), "axpby: x is bound with another desc than it was planned with");
}

TEST(PluginBound, StaysInsideOfItsBuffer) {
  AxpbyDesc d;
  const auto inside = [&](std::uint32_t arg, std::uint64_t offset, std::uint64_t capacity) {
    return tern_plugin_check_plane(&d.desc, arg, offset, capacity) == TERN_OK;
  };
  EXPECT_TRUE(inside(TERN_AXPBY_OUT, 4, 100));
  EXPECT_FALSE(inside(TERN_AXPBY_OUT, 5, 100));
  EXPECT_STREQ(tern_plugin_error(), "axpby: out: 96 bytes at 5 are not inside of its buffer of 100");
  EXPECT_FALSE(inside(TERN_AXPBY_OUT, UINT64_MAX, 100));
  EXPECT_FALSE(inside(TERN_AXPBY_OUT, 0, 0)) << "no buffer at all";
  EXPECT_TRUE(inside(TERN_AXPBY_Y, UINT64_MAX, 0)) << "absent";
  d.out().shape[0] = 0;
  EXPECT_TRUE(inside(TERN_AXPBY_OUT, 7, 0)) << "empty";
}

TEST(PluginCopy, OwnsAllThatTheDescPointedAt) {
  tern_plugin::OpDesc copy;
  {
    AxpbyDesc d;
    d.alias[TERN_AXPBY_OUT] = TERN_AXPBY_X;
    copy = tern_plugin::copy_desc(d.desc);
    std::memset(d.args.data(), 0x55, sizeof d.args);
    std::memset(d.attrs.data(), 0x55, sizeof d.attrs);
    std::memset(d.alias.data(), 0x55, sizeof d.alias);
  }
  EXPECT_EQ(take(copy.get()), TERN_OK) << tern_plugin_error();
  EXPECT_EQ(copy->args[TERN_AXPBY_OUT].shape[1], 6);
  EXPECT_EQ(static_cast<const tern_axpby_attrs*>(copy->attrs)->a, 2.0F);
  EXPECT_EQ(copy->alias[TERN_AXPBY_OUT], TERN_AXPBY_X);
  tern_op_desc bare{sizeof bare, TERN_OP_AXPBY, 0, 0, 3, 8, nullptr, nullptr, nullptr, {}};  // as a graph's node has it
  copy = tern_plugin::copy_desc(bare);
  EXPECT_EQ(copy->args, nullptr);
  EXPECT_EQ(copy->attrs, nullptr);
  EXPECT_EQ(copy->alias, nullptr);
}

TEST(PluginCopy, BeginsAPlanOfTheBackendsOwn) {
  struct OwnPlan {
    tern_op_desc desc;
    std::int32_t kernel;
    std::array<char, 7> rest;
  };
  const AxpbyDesc d;
  OwnPlan* plan = nullptr;
  ASSERT_EQ(tern_plugin_copy_desc(&d.desc, sizeof *plan, &plan), TERN_OK);
  EXPECT_EQ(plan->kernel, 0);
  EXPECT_EQ(plan->rest[6], 0);
  plan->kernel = -1;
  plan->rest.fill(-1);
  EXPECT_EQ(take(&plan->desc), TERN_OK) << tern_plugin_error();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(plan->desc.args) % alignof(tern_tensor_desc), 0U);
  tern_plugin_free(plan);
}

TEST(PluginWalk, VisitsEachElementOnce) {
  tern_tensor_desc desc = make_desc(TERN_F32, {2, 3, 2});
  desc.strides[0] = 100;
  std::int64_t index[TERN_MAX_RANK] = {};
  std::vector<std::int64_t> offsets;
  do {
    offsets.push_back(tern_plugin_offset(&desc, index));
  } while (tern_plugin_next(&desc, index) != 0);
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105}));
  EXPECT_EQ(tern_plugin_elements(&desc), 12);
  const tern_tensor_desc absent = absent_desc();
  EXPECT_EQ(tern_plugin_elements(&absent), 0);
}

}  // namespace
}  // namespace tern::test
