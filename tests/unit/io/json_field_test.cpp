#include "io/json_field.h"

#include <gtest/gtest.h>

namespace tern::io {
namespace {

const Json& sample() {
  static const Json json = parse_json(R"({"text": "x", "yes": true, "number": 2.5, "count": 3, "below": -1,
      "huge": 18446744073709551615, "null": null, "texts": ["a", "b"], "counts": [1, 2], "mixed": [1, "a", {}],
      "in": {"list": [{"deep": [7]}]}})",
                                      "sample")
                               .value();
  return json;
}

JsonField field(std::string_view key) { return JsonField(sample(), "f.json", "mend it").at(key); }

template <typename Read>
std::string line(const Read& read) {
  const auto result = catching([&] { return (void)read(), Unit{}; });
  return result.ok() ? "read" : result.error().line();
}

TEST(JsonField, ReadsByType) {
  const JsonField root(sample(), "f.json", "mend it");
  EXPECT_EQ(field("text").text(), "x");
  EXPECT_TRUE(field("yes").boolean());
  EXPECT_EQ(field("number").number(), 2.5);
  EXPECT_EQ(field("count").number(), 3);
  EXPECT_EQ(field("below").integer(), -1);
  EXPECT_EQ(field("huge").natural(), 18446744073709551615U);
  EXPECT_EQ(field("texts").texts(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(field("counts").integers(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(field("count").integers(), std::vector<std::int64_t>{3});
  EXPECT_EQ(field("mixed").items().size(), 3U);
  EXPECT_FALSE(root.find("null") || root.find("absent"));
  EXPECT_TRUE(root.member(sample().items()[6]).json().is_null());
  EXPECT_EQ(root.text("text", "y") + root.text("null", "y"), "xy");
  EXPECT_TRUE(root.boolean("yes", false) && root.boolean("absent", true));
  EXPECT_EQ(root.number("number", 1) + root.number("absent", 1), 3.5);
  EXPECT_EQ(root.integer("count", 5) + root.integer("absent", 5), 8);
}

TEST(JsonField, SaysWhereWhatAndHowToMend) {
  const std::string mend = "; mend it";
  EXPECT_EQ(line([] { return JsonField(Json(1), "f.json", "mend it").object().size(); }),
            "f.json: expected an object, found 1" + mend);
  EXPECT_EQ(line([] { return field("absent"); }), "f.json: expected a field \"absent\", found none" + mend);
  EXPECT_EQ(line([] { return field("null"); }), "f.json: expected a field \"null\", found none" + mend);
  EXPECT_EQ(line([] { return field("text").find("a"); }),
            "f.json: field \"text\": expected an object, found \"x\"" + mend);
  EXPECT_EQ(line([] { return field("text").items(); }),
            "f.json: field \"text\": expected an array, found \"x\"" + mend);
  EXPECT_EQ(line([] { return field("yes").text(); }), "f.json: field \"yes\": expected a string, found true" + mend);
  EXPECT_EQ(line([] { return field("count").boolean(); }),
            "f.json: field \"count\": expected true or false, found 3" + mend);
  EXPECT_EQ(line([] { return field("text").number(); }),
            "f.json: field \"text\": expected a number, found \"x\"" + mend);
  EXPECT_EQ(line([] { return field("number").integer(); }),
            "f.json: field \"number\": expected an integer, found 2.5" + mend);
  EXPECT_EQ(line([] { return field("huge").integer(); }),
            "f.json: field \"huge\": expected an integer, found 18446744073709551615" + mend);
  EXPECT_EQ(line([] { return field("below").natural(); }),
            "f.json: field \"below\": expected an integer of at least 0, found -1" + mend);
  EXPECT_EQ(line([] { return field("mixed").texts(); }),
            "f.json: field \"mixed\": expected a list of strings, found [1,\"a\",{}]" + mend);
  EXPECT_EQ(line([] { return field("mixed").integers(); }),
            "f.json: field \"mixed\": expected an integer or a list of integers, found [1,\"a\",{}]" + mend);
  EXPECT_EQ(line([] { return field("in").at("list").items()[0].at("deep").items()[0].text(); }),
            "f.json: field \"in.list[0].deep[0]\": expected a string, found 7" + mend);
  EXPECT_EQ(line([] { throw field("count").wrong("a pair", "count again"); }),
            "f.json: field \"count\": expected a pair, found 3; count again");
}

TEST(JsonField, ShortensWhatIsLong) {
  std::string text(55, 'a');
  text += "é" + std::string(20, 'b');  // the text is cut at its 58th byte, the second of é
  const Json json = text;
  EXPECT_EQ(line([&] { return JsonField(json, "f", "m").number(); }),
            "f: expected a number, found \"" + std::string(55, 'a') + "...; m");
  const Json nested = {{std::string(100, 'k'), 1}};
  EXPECT_EQ(line([&] { return JsonField(nested, "f", "m").at(std::string(100, 'k')).text(); }),
            "f: field \"" + std::string(64, 'k') + "\": expected a string, found 1; m");
}

}  // namespace
}  // namespace tern::io
