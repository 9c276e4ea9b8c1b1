#include "data/inspect.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/strings.h"
#include "tests/unit/data/byte_tokenizer.h"

namespace tern::data {
namespace {

Sample sample(std::string_view prompt, std::string_view answer) {
  Sample out;
  for (const char c : prompt) out.ids.push_back(static_cast<unsigned char>(c));
  out.weights.assign(prompt.size(), 0.0F);
  for (const char c : answer) out.ids.push_back(static_cast<unsigned char>(c));
  out.ids.push_back(kEnd);
  out.weights.insert(out.weights.end(), answer.size() + 1, 1.0F);
  return out;
}

struct Fixture {
  EncodedDataset data;
  std::vector<DatasetReport> reports{{"rows.jsonl", {"rows.jsonl"}}};
  Fixture() {
    auto store = std::make_shared<MemoryStore>();
    for (std::uint64_t i = 0; i < 40; ++i)
      store->add(sample(std::string(20 + i % 10, 'q'), cat("answer ", i)), i, i + 1);
    store->add(sample(std::string(20, 'q'), "answer 0"), 40, 41);  // the first again
    store->add(sample("short", ""), 41, 42);                       // learns only the end
    store->add(sample(std::string(500, 'x'), "answer"), 42, 43);   // far out
    store->add(sample("caf\xC3\xA9 <b>&\x1b[31m", "\xF0\x9F\x98\x80 ok"), 43, 44);
    data.add(store, "rows.jsonl");
    reports[0].counts.rows = 45;
    reports[0].counts.bad = 1;
    reports[0].counts.first_errors = {"rows.jsonl:45: expected <a>, found b"};
    reports[0].samples = 44;
  }
};

TEST(Inspect, FindsWhatIsWorthALook) {
  const Fixture fixture;
  const Inspection it = inspect(fixture.data, fixture.reports, 600);
  EXPECT_EQ(it.samples, 44U);
  EXPECT_EQ(it.duplicates, 1U);
  ASSERT_EQ(it.duplicate_rows.size(), 1U);
  EXPECT_EQ(it.duplicate_rows[0].place, "rows.jsonl:41");
  EXPECT_EQ(it.duplicate_rows[0].what, "the same as rows.jsonl:1");
  EXPECT_EQ(it.near_empty, 1U);
  EXPECT_EQ(it.near_empty_rows[0].place, "rows.jsonl:42");
  EXPECT_EQ(it.very_long, 1U);
  EXPECT_EQ(it.very_long_rows[0].place, "rows.jsonl:43");
  EXPECT_EQ(it.longest, 507U);
  EXPECT_EQ(it.shortest, 6U);
  std::uint64_t counted = 0;
  for (const auto& bin : it.histogram) counted += bin.samples;
  EXPECT_EQ(counted, it.samples);
  EXPECT_EQ(it.histogram.front().from % (it.histogram.front().to - it.histogram.front().from), 0U);
  EXPECT_GE(static_cast<double>(it.packs) * 600, static_cast<double>(it.tokens));
  EXPECT_NEAR(it.packing_efficiency, static_cast<double>(it.tokens) / (600.0 * static_cast<double>(it.packs)), 1e-12);
}

TEST(Inspect, AnEmptySetHasNumbersToo) {
  const Inspection it = inspect({}, {}, 0);
  EXPECT_EQ(it.packs, 0U);
  EXPECT_NE(to_text(it, 80).find("no sample"), std::string::npos);
  EXPECT_NE(to_html(it, {}).find("</html>"), std::string::npos);
}

TEST(Inspect, ShownTokensSpellTheText) {
  const Fixture fixture;
  const auto shown = show(fixture.data, 43, byte_tokenizer());
  EXPECT_EQ(shown.place, "rows.jsonl:44");
  std::string text;
  for (const auto& token : shown.tokens) text += token.text;
  EXPECT_EQ(text, "caf\xC3\xA9 <b>&\x1b[31m\xF0\x9F\x98\x80 ok<|im_end|>");
  EXPECT_TRUE(shown.tokens.back().special);
  EXPECT_EQ(shown.tokens.back().weight, 1.0F);
  EXPECT_TRUE(shown.tokens[3].text.empty()) << "half a character";
  const std::string plain = to_text(shown, false);
  EXPECT_NE(plain.find("⟦\xF0\x9F\x98\x80 ok<|im_end|>⟧"), std::string::npos) << plain;
  EXPECT_EQ(to_text(shown, true).find("\x1b[31m"), std::string::npos) << "foreign text drives the terminal";
}

TEST(Inspect, PagesEscapeForeignText) {
  const Fixture fixture;
  const auto shown = show(fixture.data, 43, byte_tokenizer());
  const Inspection it = inspect(fixture.data, fixture.reports, 0);
  const std::string html = to_html(it, {shown});
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_EQ(html.find("<a>"), std::string::npos);
  EXPECT_EQ(html.find('\x1b'), std::string::npos);
  EXPECT_EQ(html.find("http"), html.find("http://www.w3.org/2000/svg")) << "the page stands alone";
  EXPECT_NE(to_svg(it).find("</svg>"), std::string::npos);
}

TEST(Inspect, JsonReadsBack) {
  const Fixture fixture;
  const auto shown = show(fixture.data, 43, byte_tokenizer());
  RawRow raw;
  raw.json = to_json(inspect(fixture.data, fixture.reports, 0), {shown});
  raw.json.insert(1, "\"text\": \"x\", ");
  const auto row = Normalizer({}).row(raw, "json");
  ASSERT_TRUE(row.ok()) << row.error().line();
  const auto find = [&](std::string_view key) {
    for (const auto& [name, value] : row->extra) {
      if (name == key) return value;
    }
    return std::string();
  };
  EXPECT_EQ(find("samples"), "44");
  EXPECT_NE(find("shown").find("\"special\":true"), std::string::npos);
  EXPECT_NE(find("datasets").find("expected <a>, found b"), std::string::npos);
}

}  // namespace
}  // namespace tern::data
