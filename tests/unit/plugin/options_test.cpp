// If these fail, a user's device option is ignored or told wrongly, or a kept recipe is taken for another graph's.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tern/plugin.h"

namespace tern::test {
namespace {

constexpr const char* kLines[] = {"memory_limit: bytes", "mode: fast or safe", nullptr};

tern_open_args open_args(const std::vector<tern_option>& options) {
  tern_open_args args{};
  args.size = sizeof args;
  args.options = options.data();
  args.num_options = static_cast<std::uint32_t>(options.size());
  return args;
}

std::string refusal(const tern_open_args& args, tern_status expected = TERN_INVALID_ARGUMENT,
                    const char* const* lines = kLines) {
  tern_open_args own;
  const tern_status status = tern_plugin_take_open_args(&args, lines, &own);
  EXPECT_EQ(status, expected);
  return status == TERN_OK ? "" : tern_plugin_error();
}

TEST(PluginOptions, KeysAreThoseOfTheList) {
  EXPECT_EQ(refusal(open_args({}), TERN_OK), "");
  EXPECT_EQ(refusal(open_args({{"mode", "safe"}, {"memory_limit", "1"}}), TERN_OK), "");
  EXPECT_EQ(refusal(open_args({{"mod", "safe"}})),
            "device option \"mod\": expected one of memory_limit, mode, found \"mod\"");
  EXPECT_EQ(refusal(open_args({{"", "safe"}})), "device option \"\": expected one of memory_limit, mode, found \"\"");
  EXPECT_EQ(refusal(open_args({{"mode", "safe"}, {"mode", "safe"}})),
            "device option \"mode\": expected it once, found it twice");
  EXPECT_EQ(refusal(open_args({{"mode", nullptr}})), "device_open: option 0 has no key or no value");
  EXPECT_EQ(refusal(open_args({{"mode", "safe"}}), TERN_INVALID_ARGUMENT, nullptr),
            "device option \"mode\": this backend has no options");
}

TEST(PluginOptions, EitherAnOrdinalOrAProfile) {
  tern_open_args args = open_args({});
  args.ordinal = -1;
  EXPECT_NE(refusal(args), "");
  args.profile = "big";
  EXPECT_EQ(refusal(args, TERN_OK), "");
  args.ordinal = 0;
  EXPECT_NE(refusal(args), "");
  args = open_args({});
  args.reserved = 1;
  EXPECT_NE(refusal(args, TERN_UNSUPPORTED), "");
  args = open_args({});
  args.num_options = 1;
  args.options = nullptr;
  EXPECT_NE(refusal(args), "");
  args = open_args({});
  args.size = 8;
  EXPECT_NE(refusal(args), "");
  tern_open_args own;
  EXPECT_EQ(tern_plugin_take_open_args(nullptr, kLines, &own), TERN_INVALID_ARGUMENT);
}

TEST(PluginOptions, NumbersAreWholeAndInTheirRange) {
  const auto number = [](const char* text, std::uint64_t low, std::uint64_t high) -> std::string {
    const std::vector<tern_option> options{{"memory_limit", text}};
    const tern_open_args args = open_args(options);
    std::uint64_t value = 77;
    const tern_status status = tern_plugin_option_number(&args, "memory_limit", low, high, &value);
    if (status != TERN_OK) {
      EXPECT_EQ(value, 77U);
      return tern_plugin_error();
    }
    return std::to_string(value);
  };
  EXPECT_EQ(number("0", 0, UINT64_MAX), "0");
  EXPECT_EQ(number("18446744073709551615", 0, UINT64_MAX), "18446744073709551615");
  for (const char* wrong : {"18446744073709551616", "", "-1", "1 ", "0x10", "4", "99"}) {
    EXPECT_EQ(number(wrong, 5, 50),
              "device option \"memory_limit\": expected a number from 5 to 50, found \"" + std::string(wrong) + "\"");
  }
  const tern_open_args none = open_args({});
  std::uint64_t value = 77;
  EXPECT_EQ(tern_plugin_option_number(&none, "memory_limit", 0, 1, &value), TERN_OK);
  EXPECT_EQ(value, 77U) << "what wasn't given stays as it was";
}

TEST(PluginOptions, ProfilesAreThoseOfTheList) {
  constexpr const char* kProfiles[] = {"small", "large", nullptr};
  std::uint32_t place = 9;
  EXPECT_EQ(tern_plugin_find_profile(kProfiles, "large", &place), TERN_OK);
  EXPECT_EQ(place, 1U);
  EXPECT_EQ(tern_plugin_find_profile(kProfiles, "larg", &place), TERN_INVALID_ARGUMENT);
  EXPECT_STREQ(tern_plugin_error(), "profile \"larg\": expected one of small, large");
  EXPECT_EQ(tern_plugin_find_profile(kProfiles, nullptr, &place), TERN_INVALID_ARGUMENT);
  EXPECT_EQ(tern_plugin_find_profile(nullptr, "small", &place), TERN_INVALID_ARGUMENT);
}

TEST(PluginRanges, NestAndAreCountedBeyondTheirDepth) {
  EXPECT_STREQ(tern_plugin_range(), "");
  tern_plugin_range_pop();  // more than were pushed
  for (int i = 0; i < 40; ++i) tern_plugin_range_push(std::to_string(i).c_str());
  EXPECT_STREQ(tern_plugin_range(), "15") << "the deepest that has a name";
  for (int i = 0; i < 25; ++i) tern_plugin_range_pop();
  EXPECT_STREQ(tern_plugin_range(), "14");
  for (int i = 0; i < 15; ++i) tern_plugin_range_pop();
  EXPECT_STREQ(tern_plugin_range(), "");
  tern_plugin_range_push(std::string(200, 'x').c_str());
  EXPECT_EQ(std::strlen(tern_plugin_range()), 63U);
  tern_plugin_range_pop();
}

TEST(PluginGraph, BytesDifferWhereverTheGraphDoes) {
  tern_graph_value values[2] = {};
  std::int32_t inputs[2] = {0, -1};
  std::int32_t outputs[2] = {-1, 1};
  float attrs[1] = {2.0F};
  tern_graph_node node{};
  node.op.num_args = 2;
  node.op.attrs_size = sizeof attrs;
  node.op.attrs = attrs;
  node.inputs = inputs;
  node.outputs = outputs;
  tern_graph_edge edge{0, 0};
  const tern_graph_desc graph{sizeof graph, 2, 1, 1, 2, 0, values, &node, &edge};
  const auto bytes = [&] {
    std::vector<unsigned char> out(tern_plugin_graph_bytes(&graph, nullptr, 0));
    EXPECT_EQ(tern_plugin_graph_bytes(&graph, out.data(), out.size()), out.size());
    return out;
  };
  const auto before = bytes();
  EXPECT_EQ(bytes(), before);
  std::int8_t alias[2] = {-1, 0};
  const auto differs = [&](auto&& change, auto&& undo) {
    change();
    EXPECT_NE(bytes(), before);
    undo();
    EXPECT_EQ(bytes(), before);
  };
  differs([&] { attrs[0] = 3.0F; }, [&] { attrs[0] = 2.0F; });
  differs([&] { values[1].desc.shape[3] = 1; }, [&] { values[1].desc.shape[3] = 0; });
  differs([&] { values[0].version = 1; }, [&] { values[0].version = 0; });
  differs([&] { values[0].offset = 1; }, [&] { values[0].offset = 0; });
  differs([&] { inputs[1] = 0; }, [&] { inputs[1] = -1; });
  differs([&] { outputs[0] = 0; }, [&] { outputs[0] = -1; });
  differs([&] { node.op.needs = 1; }, [&] { node.op.needs = 0; });
  differs([&] { node.op.accumulate = 1; }, [&] { node.op.accumulate = 0; });
  differs([&] { node.op.alias = alias; }, [&] { node.op.alias = nullptr; });
  differs([&] { node.lane = 1; }, [&] { node.lane = 0; });
  differs([&] { edge.after = 1; }, [&] { edge.after = 0; });
  std::vector<unsigned char> small(before.size() - 1, 0x5a);
  (void)tern_plugin_graph_bytes(&graph, small.data(), 8);
  EXPECT_EQ(small[8], 0x5a) << "written beyond the room";
}

}  // namespace
}  // namespace tern::test
