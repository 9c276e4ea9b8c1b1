#include <gtest/gtest.h>

#include <limits>

#include "io/json.h"
#include "io/yaml.h"

namespace tern::io {
namespace {

std::string json_error(const std::string& text) { return parse_json(text, "f").error().line(); }
std::string yaml_error(const std::string& text) { return parse_yaml(text, "f").error().line(); }

TEST(Json, KeepsOrderAndTypes) {
  const std::string text = R"({"z":[1,-2,2.5,true,null,"x\u00e9\n"],"a":{"b":{}},"big":18446744073709551615})";
  EXPECT_EQ(parse_json(text, "f").value().dump(),
            "{\"z\":[1,-2,2.5,true,null,\"xé\\n\"],\"a\":{\"b\":{}},\"big\":18446744073709551615}");
  EXPECT_EQ(parse_json("\xEF\xBB\xBF[1]", "f").value().dump(), "[1]");
  EXPECT_EQ(parse_json(" 3 ", "f").value(), 3);
}

TEST(Json, ErrorsSayWhere) {
  EXPECT_EQ(json_error("{\n \"a\": nope}").substr(0, 6), "f:2:8:") << json_error("{\n \"a\": nope}");
  EXPECT_EQ(json_error("[1,").substr(0, 6), "f:1:3:") << json_error("[1,");
  EXPECT_EQ(json_error("").substr(0, 2), "f:") << json_error("");
  EXPECT_FALSE(parse_json("[1] 2", "f").ok());
  EXPECT_FALSE(parse_json("[\"\xff\"]", "f").ok());
  EXPECT_NE(json_error(R"({"a":1,"b":{"a":1},"a":2})").find("key \"a\""), std::string::npos);
}

TEST(Json, BoundsDepthAndTakesLargeObjectsInLinearTime) {
  EXPECT_TRUE(parse_json(std::string(256, '[') + std::string(256, ']'), "f").ok());
  EXPECT_NE(json_error(std::string(257, '[') + std::string(257, ']')).find("256"), std::string::npos);
  EXPECT_FALSE(parse_json(std::string(1'000'000, '['), "f").ok());
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i)
    text += (i != 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";  // hours if quadratic
  EXPECT_EQ(parse_json(text + "}", "f").value().size(), 200'000U);
}

// The bytes of files that other programs read: as nlohmann's library wrote them.
TEST(Json, IsWrittenToTheByte) {
  EXPECT_EQ(Json({1.0, -0.0, 0.1, 1e14, 1e15, 123456789012345680.0, 1e-4, 1e-5, 5e-324, 1.5e300}).dump(),
            "[1.0,-0.0,0.1,100000000000000.0,1e+15,1.2345678901234568e+17,0.0001,1e-05,5e-324,1.5e+300]");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
  EXPECT_EQ(Json(0.1F).dump(), "0.10000000149011612");
  EXPECT_EQ(Json("\"\\/\b\f\n\r\t\x01\x1f\x7f é🎉").dump(), "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f é🎉\"");
  EXPECT_EQ(Json("\x7f é🎉").dump_ascii(), R"("\u007f \u00e9\ud83c\udf89")");
  EXPECT_EQ(Json("a\xFF\xE2\x82z\xF0\x9F\xED\xA0\x80\xC0").dump(), "\"a\uFFFD\uFFFDz\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\"");
  EXPECT_EQ(Json({{"a", {1, {{"b", Json::array()}}}}, {"c", Json::object()}}).dump(2),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}");
}

TEST(Json, IsMadeAndReadByType) {
  Json json;
  json["n"] = 3;
  json["list"].push_back("x");
  json["pair"] = {"a", 1};
  json["map"] = std::map<std::string, int>{{"k", 2}};
  EXPECT_EQ(json.dump(), R"({"n":3,"list":["x"],"pair":["a",1],"map":{"k":2}})");
  for (const char* copy : {"a", "b", "c", "d", "e"}) json[copy] = json["pair"];  // while the members move
  EXPECT_EQ(json["e"].dump(), R"(["a",1])");
  json["e"] = json["e"][0];
  EXPECT_EQ(json["e"], "a");
  json.erase("pair");
  EXPECT_FALSE(json.contains("pair"));
  json["list"][0] = 2.75;
  EXPECT_EQ(json["list"][0].get<int>(), 2);
  EXPECT_EQ(json.append("last", nullptr), nullptr);
  EXPECT_EQ(json.find("absent"), nullptr);
  EXPECT_EQ(json["list"].find("absent"), nullptr);
  EXPECT_EQ(Json(std::vector<int>{1, 2}), Json({1, 2}));
  for (const Json& item : Json()) ADD_FAILURE() << item;
  EXPECT_TRUE(Json(1) == Json(1.0) && Json(1U) == Json(1) && Json(-1) != Json(18446744073709551615ULL));
  EXPECT_TRUE(Json(1) != Json(true) && Json({{"a", 1}}) != Json({{"b", 1}}) && Json("1") != Json(1));
  const Json& constant = json;
  EXPECT_THROW((void)constant["absent"], JsonError);
  EXPECT_THROW((void)constant["n"].text(), JsonError);
  EXPECT_THROW((void)constant["list"][1], JsonError);
  EXPECT_THROW((void)constant["map"][0], JsonError);
  EXPECT_THROW((void)constant["map"].begin(), JsonError);
  EXPECT_THROW((void)Json(1e300).get<int>(), JsonError);
  EXPECT_THROW((void)constant["map"].get<int>(), JsonError);
  EXPECT_THROW((void)constant["n"].get<bool>(), JsonError);
  EXPECT_THROW((void)Json("x").get<double>(), JsonError);
  EXPECT_THROW((void)Json("x").items(), JsonError);
  EXPECT_THROW(json["n"].push_back(1), JsonError);
  EXPECT_THROW(json["n"]["m"] = 1, JsonError);
}

TEST(Yaml, ReadsTheCoreSchema) {
  const auto value = parse_yaml(
      "a: 1\nb: -2.5e-3\nc: [true, null, ~, x]\nd: '1'\ne: 1e-5\nf: 0x10\ng: +7\nh: .inf\ni: yes\nj:\n  k: \"\\n\"\nl: "
      "1.2.3\n"
      "n: 18446744073709551615\n",
      "f");
  ASSERT_TRUE(value.ok()) << value.error().line();
  EXPECT_EQ((*value)["a"], 1);
  EXPECT_EQ((*value)["b"], -2.5e-3);
  EXPECT_EQ((*value)["c"].dump(), R"([true,null,null,"x"])");
  EXPECT_EQ((*value)["d"], "1");
  EXPECT_EQ((*value)["e"], 1e-5);
  EXPECT_EQ((*value)["f"], 16);
  EXPECT_EQ((*value)["g"], 7);
  EXPECT_GT((*value)["h"].get<double>(), 1e300);
  EXPECT_EQ((*value)["i"], "yes");
  EXPECT_EQ((*value)["j"]["k"], "\n");
  EXPECT_EQ((*value)["l"], "1.2.3");
  EXPECT_EQ((*value)["n"].get<std::uint64_t>(), 18446744073709551615ULL);
  EXPECT_TRUE(parse_yaml("", "f").value().is_null());
}

TEST(Yaml, ErrorsSayWhere) {
  EXPECT_EQ(yaml_error("a: 1\nb: [1\n").substr(0, 2), "f:") << yaml_error("a: 1\nb: [1\n");
  EXPECT_EQ(yaml_error("a: 1\na: 2\n").substr(0, 6), "f:2:1:") << yaml_error("a: 1\na: 2\n");
  EXPECT_EQ(yaml_error("a: 1\n---\nb: 2\n").substr(0, 4), "f:2:") << yaml_error("a: 1\n---\nb: 2\n");
  EXPECT_FALSE(parse_yaml("? [a]\n: 1\n", "f").ok());
  EXPECT_FALSE(parse_yaml("a: !!binary xx\n", "f").ok());
  EXPECT_FALSE(parse_yaml("<<: {a: 1}\n", "f").ok());
  EXPECT_EQ(parse_yaml("a: &x {b: [1]}\nc: *x\n1: t\n", "f").value().dump(),
            R"({"a":{"b":[1]},"c":{"b":[1]},"1":"t"})");
}

TEST(Yaml, SaysWhatIsNotReadAndWhatToWrite) {
  const std::pair<std::string, const char*> cases[] = {
      {"a: !!binary xx\n",
       "f:1:4: expected a value without a tag, found the tag tag:yaml.org,2002:binary; remove the tag"},
      {"a: !x [1]\n", "f:1:4: expected a value without a tag, found the tag !x; remove the tag"},
      {std::string(300, '[') + std::string(300, ']'),
       "f:1:257: expected YAML nested at most 256 deep, found deeper nesting; nest it less"},
      {"? [a]\n: 1\n", "f:1:3: expected a key that is text, found a list or map; write the key as plain text"},
      {": 1\n", "f:1:1: expected a key that is text, found a list, map or null; write the key as plain text"},
      {"a: &x [1]\n? *x\n: 1\n",
       "f:2:3: expected a key that is text, found a list, map or null; write the key as plain text"},
      {"<<: {a: 1}\n", "f:1:1: expected plain keys, found the merge key <<; write its keys out"},
      {"a: 1\na: 2\n", "f:2:1: key \"a\": expected each key once, found the key twice; keep one of the two"},
      {"a: &a [*a]\n", "f:1:8: expected an alias of a value before it, found an alias of itself; write the value out"},
  };
  for (const auto& [text, says] : cases) EXPECT_EQ(yaml_error(text), says) << text;
}

TEST(Yaml, RefusesWhatIsNoText) {
  for (const char* text :
       {"a: \xff", "a: \xc0\x80", "a: \xed\xa0\x80", "a: \xf4\x90\x80\x80", "a: \xe2\x82", "a: \x80"}) {
    EXPECT_FALSE(parse_yaml(text, "f").ok()) << text;
  }
  EXPECT_EQ(parse_yaml("a: \xe2\x82\xac\xf0\x9f\x98\x80", "f").value()["a"], "\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_FALSE(parse_yaml(",: &a [*afal]", "f").ok());  // yaml-cpp finds documents in it for ever
  EXPECT_EQ(yaml_error("x: 1\n,a: \va0[*kM").substr(0, 6), "f:2:5:");
  EXPECT_FALSE(parse_yaml(std::string("a: b\0c", 6), "f").ok());
}

TEST(Yaml, BoundsAliasesAndDepth) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 9; ++k) bomb += ", " + last;
    bomb += "]\n";
  }
  EXPECT_NE(yaml_error(bomb).find("aliases"), std::string::npos);
  EXPECT_FALSE(parse_yaml("a: &a [*a]\n", "f").ok());
  EXPECT_FALSE(parse_yaml(std::string(100'000, '['), "f").ok());
}

}  // namespace
}  // namespace tern::io
