// A failing case must run anywhere: what is written is what is read, and no foreign file makes it crash.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "conformance/memory.h"
#include "conformance/recipe.h"

namespace tern::conformance {
namespace {

bool same(const Case& a, const Case& b) {
  if (a.op != b.op || a.label != b.label || a.attrs != b.attrs || a.accumulate != b.accumulate || a.needs != b.needs ||
      a.alias != b.alias || a.counts != b.counts || a.special != b.special || a.args.size() != b.args.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.args.size(); ++i) {
    if (a.args[i].packed != b.args[i].packed || a.args[i].planes != b.args[i].planes) return false;
    const accel::OpDesc left{a.op, {a.args[i].desc}, {}, 0, 0, {}};
    const accel::OpDesc right{b.op, {b.args[i].desc}, {}, 0, 0, {}};
    if (left.key() != right.key()) return false;
  }
  return true;
}

TEST(CaseText, EveryCaseComesBack) {
  for (const ops::OpSpec& op : ops::op_table()) {
    for (const CaseSource& source : case_sources(op.id)) {
      if (source.variant.size > 1 || source.variant.in == TERN_F16) continue;
      const Case c = source.make(1);
      const auto back = read_case(write_case(c), "a.case");
      ASSERT_TRUE(back.ok()) << op.name << " " << c.label << ": " << back.error().line();
      ASSERT_TRUE(same(c, *back)) << op.name << " " << c.label;
    }
  }
}

std::string error_of(const std::string& text) {
  const auto result = read_case(text, "a.case");
  return result.ok() ? "" : result.error().line();
}

TEST(CaseText, AForeignFileIsAnErrorWithItsPlace) {
  EXPECT_EQ(error_of("hello").rfind("a.case:1: expected the line \"tern case 1\"", 0), 0U) << error_of("hello");
  EXPECT_NE(error_of("tern case 1\nop nothing\nend\n").find("a.case:2: expected an op"), std::string::npos);
  EXPECT_NE(error_of("tern case 1\nneeds 1\nend\n").find("the op first"), std::string::npos);
  EXPECT_NE(error_of("tern case 1\nop mul\n").find("expected"), std::string::npos);
  EXPECT_NE(error_of("tern case 1\nop mul\nplane 9 00\nend\n").find("a plane of 0 to 3"), std::string::npos);
  EXPECT_NE(error_of("tern case 1\nop mul\narg x f32 9 1\nend\n").find("a rank of 1 to 6"), std::string::npos);
  EXPECT_NE(error_of("tern case 1\nop mul\nend\n").find("keeps the op's contract"), std::string::npos);
  EXPECT_NE(error_of("").find("expected"), std::string::npos);
}

TEST(CaseText, NoCutOrChangedFileCrashes) {
  const std::string text = write_case(CaseSource{TERN_OP_ATTENTION, {.size = 3}, 0}.make(1));  // one row
  for (std::size_t length = 0; length < text.size(); length += 7) (void)read_case(text.substr(0, length), "a.case");
  Random random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string changed = text;
    // the head of the file, where the numbers are
    const auto at =
        static_cast<std::size_t>(random.below(std::min<std::int64_t>(700, static_cast<std::int64_t>(text.size()))));
    changed[at] = "0123456789- \nx"[random.below(14)];
    (void)read_case(changed, "a.case");
  }
}

TEST(Judge, SeesEveryKindOfDamage) {
  const CaseSource source{TERN_OP_AXPBY, {.size = 1, .layout = Layout::padded_rows}, 0};
  const Case c = source.make(1);
  const auto expected = run_oracle(c);
  Outputs good;
  for (std::size_t i = 0; i < c.args.size(); ++i) good.planes.push_back(c.args[i].planes);
  good.zones_intact.assign(c.args.size(), true);
  ops::ref::Tensor out = expected[TERN_AXPBY_OUT];
  ops::ref::encode(out, c.args[TERN_AXPBY_OUT].desc, good.planes[TERN_AXPBY_OUT][0]);
  EXPECT_EQ(judge(c, expected, good).problem, "");

  Outputs outside = good;
  outside.zones_intact[TERN_AXPBY_OUT] = false;
  EXPECT_NE(judge(c, expected, outside).problem.find("memory before or after"), std::string::npos);
  Outputs input = good;
  input.planes[TERN_AXPBY_X][0][3] ^= std::byte{1};
  EXPECT_EQ(judge(c, expected, input).problem, "x: an input was written");
  Outputs gap = good;
  const std::size_t past = static_cast<std::size_t>(c.args[TERN_AXPBY_OUT].desc.shape[1]) * 4;
  gap.planes[TERN_AXPBY_OUT][0][past] ^= std::byte{1};
  EXPECT_NE(judge(c, expected, gap).problem.find("between its elements"), std::string::npos);
  Outputs value = good;
  value.planes[TERN_AXPBY_OUT][0][2] ^= std::byte{1};
  EXPECT_NE(judge(c, expected, value).problem.find("of the tolerance"), std::string::npos);
}

}  // namespace
}  // namespace tern::conformance
