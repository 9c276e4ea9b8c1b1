// If these fail, plugins check descs by another table than the host makes them by.
#include <gtest/gtest.h>

#include <string>

#include "base/dtype.h"
#include "ops/table.h"
#include "tern/plugin.h"

namespace tern::test {
namespace {

// The dtypes that the op table's text permits; "as <argument>" is told apart by `as`.
std::uint32_t table_dtypes(const ops::OpSpec& op, const ops::ArgSpec& arg, int& as) {
  const std::string text(name_of(arg.dtypes));
  as = text.starts_with("as ") ? op.arg_index(text.substr(3)) : -1;
  if (text == "any" || as >= 0) return (1U << TERN_DTYPE_COUNT) - 1;
  const std::uint32_t floats = 1U << TERN_F32 | 1U << TERN_F16 | 1U << TERN_BF16;
  if (text == "float") return floats;
  if (text == "cached") return floats | 1U << TERN_I8 | 1U << TERN_F8_E4M3;
  return 1U << dtype_from_name(text).value();
}

TEST(PluginSignatures, AgreeWithTheOpTable) {
  ASSERT_EQ(ops::op_table().size(), std::size_t{TERN_OP_SIGNATURE_COUNT});
  for (const auto& op : ops::op_table()) {
    const tern_op_signature* row = tern_plugin_signature(op.id);
    ASSERT_NE(row, nullptr) << op.name;
    EXPECT_EQ(op.name, row->name);
    EXPECT_EQ(op.name, tern_plugin_op_name(op.id));
    ASSERT_EQ(op.args.size(), row->num_args) << op.name;
    EXPECT_EQ(op.attrs.size() * 4, row->attrs_size) << op.name;
    for (std::uint32_t i = 0; i < row->num_args; ++i) {
      const ops::ArgSpec& arg = op.args[i];
      const tern_arg_signature& mine = row->args[i];
      const std::string where = std::string(op.name) + "." + std::string(arg.name);
      EXPECT_EQ(arg.name, mine.name);
      EXPECT_EQ(arg.name, tern_plugin_arg_name(op.id, i));
      EXPECT_EQ(mine.role == TERN_ROLE_INPUT, arg.role == ops::Role::input) << where;
      EXPECT_EQ(mine.role == TERN_ROLE_OUTPUT, arg.role == ops::Role::output) << where;
      EXPECT_EQ(mine.role == TERN_ROLE_STATE, arg.role == ops::Role::state) << where;
      const auto same = [&](std::uint32_t bit, std::uint32_t flag) {
        EXPECT_EQ((mine.flags & bit) != 0, (arg.flags & flag) != 0) << where << " " << flag;
      };
      same(TERN_ARG_OPTIONAL, ops::kOptional);
      same(TERN_ARG_LENGTHS, ops::kLengths);
      same(TERN_ARG_ACCUMULATE, ops::kAccumulate);
      same(TERN_ARG_QUANTISED, ops::kQuantised);
      same(TERN_ARG_PACKABLE, ops::kPackable);
      int as = -1;
      EXPECT_EQ(mine.dtypes, table_dtypes(op, arg, as)) << where;
      EXPECT_EQ(mine.dtype_as, as) << where;
    }
  }
}

TEST(PluginSignatures, WhatIsUnknownHasANameAllTheSame) {
  EXPECT_EQ(tern_plugin_signature(0), nullptr);
  EXPECT_EQ(tern_plugin_signature(UINT32_MAX), nullptr);
  EXPECT_STREQ(tern_plugin_op_name(4000), "unknown op");
  EXPECT_STREQ(tern_plugin_arg_name(TERN_OP_AXPBY, TERN_AXPBY_NUM_ARGS), "unknown argument");
  EXPECT_STREQ(tern_plugin_arg_name(4000, 0), "unknown argument");
  EXPECT_STREQ(tern_plugin_dtype_name(-1), "unknown dtype");
  EXPECT_EQ(tern_plugin_dtype_bytes(TERN_DTYPE_COUNT), 0U);
}

TEST(PluginSignatures, DtypesAreThoseOfTheHost) {
  for (tern_dtype dtype = 0; dtype < TERN_DTYPE_COUNT; ++dtype) {
    EXPECT_EQ(dtype_name(dtype), tern_plugin_dtype_name(dtype));
    EXPECT_EQ(static_cast<std::uint64_t>(dtype_bytes(dtype)), tern_plugin_dtype_bytes(dtype));
  }
}

}  // namespace
}  // namespace tern::test
