// A failing case must run anywhere: what is written is what is read, and no foreign file makes it crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "conformance/index_check.h"
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

// Lines behind the first, and what the reader wants at the last of them.
TEST(CaseText, EachWrongLineIsNamedWithWhatBelongsThere) {
  const std::string add = "op axpby\n";
  const std::string x = "arg x f32 2 2 3 3 1 -1 0 -1 0\n";
  const std::pair<std::string, const char*> rows[] = {
      {add.substr(0, add.size() - 1), "more lines"},
      {"\n", "a word and its value"},
      {"op\n", "a word and its value"},
      {"op nothing\n", "an op of this version of tern"},
      {"needs 1\n", "the op first"},
      {add + "colour blue\n", "one of the words of a case"},
      {add + "needs many\n", "a number"},
      {add + "counts 1 2 3\n", "more numbers"},
      {add + "attr alpha\n", "an attribute's name and value"},
      {"op rms_norm\nattr eps x\n", "a number"},
      {add + "attr gamma 1\n", "an attribute of the op"},
      {"op attention\nattr causal 1.5\n", "a whole number"},
      {add + "arg x f32\n", "an argument's name, dtype and rank"},
      {add + "arg z f32 1\n", "an argument of the op"},
      {add + "arg x f33 1\n", "a dtype"},
      {add + "arg x f32 7\n", "a rank of 1 to 6"},
      {add + "arg x f32 2 -1 3 3 1 -1 0 -1 0\n", "sizes and strides of 0 to 2^31"},
      {add + "arg x f32 2 65536 65536 65536 1 -1 0 -1 0\n", "a tensor of less than 2^31 elements"},
      {add + "arg x f32 2 2 3 3 1 2 0 -1 0\n", "a dynamic dimension and its slot"},
      {add + "arg x f32 2 2 3 3 1 -1 0 9 0\n", "an argument's number or -1"},
      {add + "scheme 1 4 0 32 1 0\n", "an arg first"},
      {add + x + "scheme 1 4 0 32 99 0\n", "a scale's dtype"},
      {add + x + "plane 4 00\n", "a plane of 0 to 3"},
      {add + x + "plane 0 000\n", "whole bytes"},
      {add + x + "plane 0 0g\n", "hexadecimal digits"},
      {"end\n", "an op"},
      {add + "end\n", "a call that keeps the op's contract ("},
  };
  for (const auto& [lines, expected] : rows) {
    const auto result = read_case("tern case 1\n" + lines, "a.case");
    ASSERT_FALSE(result.ok()) << lines;
    const std::string text = "tern case 1\n" + lines;
    const auto number = std::count(text.begin(), text.end(), '\n') + (text.ends_with('\n') ? 0 : 1);
    EXPECT_EQ(result.error().line().rfind(cat("a.case:", number, ": expected ", expected), 0), 0U)
        << lines << result.error().line();
    EXPECT_EQ(result.error().mend, "write the file again with tern selftest");
  }
  const std::string whole = write_case(CaseSource{TERN_OP_AXPBY, {.size = 1}, 0}.make(1));
  const auto at = whole.find("plane 0 ") + 8;
  const auto cut = read_case(whole.substr(0, at) + whole.substr(at + 8), "a.case");
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().line().find(" bytes in plane 0 of "), std::string::npos) << cut.error().line();
  EXPECT_EQ(read_case("hello", "a.case").error().line(),
            "a.case:1: expected the line \"tern case 1\", found \"hello\"; this file is no case of tern selftest");
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

// Indices that leave their bounds are refused before an oracle or a kernel follows them.
TEST(CaseText, IndicesOutOfBoundsAreRefused) {
  struct Bad {
    std::uint32_t op;
    const char* arg;
    std::size_t entry;
    std::int32_t value;
    const char* problem;
  };
  const Bad table[] = {
      {TERN_OP_GATHER_ROWS, "index", 0, 1 << 20, "index[0]: expected -2147483648 to "},
      {TERN_OP_SCATTER_ADD_ROWS, "index", 0, 1 << 20, "index[0]: expected "},
      {TERN_OP_EMBEDDING, "ids", 0, -2, "ids[0]: expected -1 to "},
      {TERN_OP_ROPE, "positions", 0, 1 << 20, "positions[0]: expected 0 to "},
      {TERN_OP_QK_NORM_ROPE, "positions", 0, -5, "positions[0]: expected 0 to "},
      {TERN_OP_QK_NORM_ROPE_BACKWARD, "positions", 0, 1 << 20, "positions[0]: expected 0 to "},
      {TERN_OP_KV_WRITE, "slots", 0, 1 << 20, "slots[0]: expected 0 to "},
      {TERN_OP_KV_WRITE, "slots", 0, -1, "slots[0]: expected 0 to "},
      {TERN_OP_LINEAR_CROSS_ENTROPY, "targets", 0, 1 << 20, "targets[0]: expected -1 to "},
      {TERN_OP_SAMPLE, "history_len", 0, 1 << 20, "history_len[0]: expected 0 to "},
      {TERN_OP_SAMPLE, "history_table", 0, 1 << 20, "history_table[0]: expected 1 to "},
      {TERN_OP_SAMPLE, "history_table", 0, 0, "history_table[0]: expected 1 to "},
      {TERN_OP_ATTENTION, "cu_seqlens_q", 0, 1, "cu_seqlens_q[0]: expected 0, found 1"},
      {TERN_OP_ATTENTION, "cu_seqlens_q", 1, 1 << 20, "cu_seqlens_q[1]: expected 0 to "},
      {TERN_OP_ATTENTION, "cu_seqlens_k", 2, 0, "cu_seqlens_k[2]: expected "},
      {TERN_OP_ATTENTION_BACKWARD, "cu_seqlens_k", 1, -1, "cu_seqlens_k[1]: expected 0 to "},
      {TERN_OP_ATTENTION_PAGED, "kv_lens", 0, 1 << 20, "kv_lens[0]: expected "},
      {TERN_OP_ATTENTION_PAGED, "block_table", 0, 1 << 20, "block_table[0]: expected 1 to "},
      {TERN_OP_ATTENTION_PAGED, "block_table", 0, 0, "block_table[0]: expected 1 to "},
  };
  for (const Bad& bad : table) {
    Case c = CaseSource{bad.op, {.size = 2}, 0}.make(1);
    ASSERT_EQ(index_problem(c), "") << bad.arg;
    const auto arg = static_cast<std::size_t>(c.spec().arg_index(bad.arg));
    std::memcpy(c.args[arg].planes[0].data() + 4 * bad.entry, &bad.value, 4);
    EXPECT_EQ(index_problem(c).rfind(bad.problem, 0), 0U) << bad.arg << ": " << index_problem(c);
    const auto read = read_case(write_case(c), "a.case");
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.error().line().find(bad.problem), std::string::npos) << read.error().line();
  }
  Case c = CaseSource{TERN_OP_ATTENTION, {.size = 2, .dynamic = true}, 0}.make(1);
  c.counts.fill(1 << 20);
  EXPECT_EQ(index_problem(c).rfind("counts[", 0), 0U) << index_problem(c);
}

TEST(CaseText, AChangedFileThatIsAcceptedRuns) {
  Random random(11);
  int accepted = 0;
  for (const ops::OpSpec& spec : ops::op_table()) {
    const std::string text = write_case(CaseSource{spec.id, {.size = 2}, 0}.make(1));
    for (int i = 0; i < 100; ++i) {
      std::string changed = text;
      for (int k = 0; k < 3; ++k) {
        changed[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())))] =
            "0123456789abcdef"[random.below(16)];
      }
      const auto read = read_case(changed, "a.case");
      if (!read.ok()) continue;
      (void)run_oracle(*read);
      ++accepted;
    }
  }
  EXPECT_GT(accepted, 500);
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
