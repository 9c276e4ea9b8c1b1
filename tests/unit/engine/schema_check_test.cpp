// Every keyword that xgrammar would read over is an error that names its place.
#include "engine/schema_check.h"

#include <gtest/gtest.h>

namespace tern::engine {

namespace {

std::string schema_refusal(const std::string& schema) {
  const auto made = check_schema(schema, "json_schema");
  if (made.ok()) return "accepted";
  EXPECT_EQ(made.error().kind, ErrorKind::data);
  return made.error().line();
}

TEST(SchemaCheck, NamesThePlaceTheKeywordAndTheMend) {
  EXPECT_EQ(
      schema_refusal(
          R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"},"uniqueItems":true}}})"),
      "json_schema: $.properties.a: expected keywords that are enforced, found \"uniqueItems\"; leave it out");
  EXPECT_EQ(schema_refusal(R"({"anyOf":[{"type":"integer","multipleOf":3}]})"),
            "json_schema: $.anyOf[0]: expected keywords that are enforced, found \"multipleOf\"; leave it out");
}

TEST(SchemaCheck, WhatIsNotEnforcedIsRefused) {
  for (
      const char* schema : {
          R"({"not":{"type":"null"}})",
          R"({"if":{},"then":{},"else":{}})",
          R"({"type":"array","uniqueItems":true})",
          R"({"type":"array","contains":{"type":"integer"}})",
          R"({"type":"array","minContains":1})",
          R"({"type":"array","unevaluatedItems":false})",
          R"({"type":"array","additionalItems":false})",
          R"({"type":"array","items":[{"type":"integer"}]})",
          R"({"type":"object","dependentRequired":{"a":["b"]}})",
          R"({"type":"object","dependentSchemas":{}})",
          R"({"type":"object","dependencies":{}})",
          R"({"type":"object","patternProperties":{"^a":{}}})",
          R"({"type":"object","propertyNames":{"maxLength":3}})",
          R"({"type":"object","minProperties":1})",
          R"({"type":"object","maxProperties":1})",
          R"({"type":"object","unevaluatedProperties":false})",
          R"({"type":"object","required":["a"]})",
          R"({"type":"object","properties":{"b":{}},"required":["a"]})",
          R"({"type":"object","properties":{"b":{}},"required":["b","b"]})",
          R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
          R"({"type":"object","properties":{"a":false}})",
          R"({"type":"integer","multipleOf":2})",
          R"({"type":"number","multipleOf":0.1})",
          R"({"type":"number","minimum":0.0000001})",
          R"({"type":"number","minimum":1e300})",
          R"({"type":"number","minimum":"3"})",
          R"({"type":"number","minimum":3,"exclusiveMinimum":true})",
          R"({"minimum":3})",
          R"({"minLength":3})",
          R"({"type":"integer","minLength":3})",
          R"({"type":"string","minLength":"3"})",
          R"({"type":"string","minLength":-1})",
          R"({"type":"string","minLength":1.5})",
          R"({"type":"string","maxLength":1000000000})",
          R"({"type":"array","maxItems":1000000000})",
          R"({"type":"string","pattern":"a","minLength":3})",
          R"({"type":"string","pattern":"a","format":"date"})",
          R"({"type":"string","pattern":3})",
          R"({"type":"string","pattern":"(?=a)b"})",
          R"({"type":"string","pattern":"a\"b"})",
          R"({"type":"string","pattern":"a\\nb"})",
          R"({"type":"string","format":"ipv4"})",
          R"({"type":"string","format":"colour"})",
          R"({"type":"string","contentEncoding":"base64"})",
          R"({"type":"text"})",
          R"({"type":[]})",
          R"({"type":3})",
          R"({"type":"integer","const":"a"})",
          R"({"type":"integer","enum":[1,"a"]})",
          R"({"enum":[]})",
          R"({"const":1,"minimum":3})",
          R"({"anyOf":[{"type":"integer"}],"minimum":3})",
          R"({"anyOf":[{"type":"integer"}],"oneOf":[{"type":"null"}]})",
          R"({"anyOf":[]})",
          R"({"type":"integer","anyOf":[{"minimum":3}]})",
          R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
          R"({"oneOf":[{"enum":[1,2]},{"enum":[2,3]}]})",
          R"({"oneOf":[{"const":1},{"const":1.0}]})",
          R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}}},{"type":"object","properties":{"k":{"const":2}}}]})",
          R"({"oneOf":[{},{"type":"null"}]})",
          R"({"allOf":[{"enum":[1]},{"enum":[2]}]})",
          R"({"$ref":"https://example.com/s.json"})",
          R"({"$ref":"other.json#/a"})",
          R"({"$ref":"#anchor"})",
          R"({"$ref":"#/$defs/absent"})",
          R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{}}})",
          R"({"$ref":"#/examples/a","examples":{"a":{"not":{}}}})",
          R"({"$ref":"#/$defs/a","minimum":3,"$defs":{"a":{}}})",
          R"({"$dynamicRef":"#a"})",
          R"({"$anchor":"a"})",
          R"({"properties":{"a":{"$id":"http://x/"}}})",
          R"({"$defs":{"a":{"not":{}}}})",
          R"({"$defs":[]})",
          R"({"$ref":"#"})",
          R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
          R"({"type":"object","properties":{"n":{"$ref":"#"}},"required":["n"]})",
          R"({"type":"array","items":{"$ref":"#"},"minItems":1})",
          R"({"nullable":true,"type":"string"})",
          R"(false)",
          R"([])",
          R"(3)",
          R"({)",
          R"({"type":"integer","type":"string"})",
      }) {
    EXPECT_NE(schema_refusal(schema), "accepted") << schema;
  }
}

TEST(SchemaCheck, WhatIsEnforcedStays) {
  const auto same = [](const std::string& schema) { EXPECT_EQ(check_schema(schema, "s").value(), schema); };
  same(R"({"type":"array","items":{"type":"string","format":"uuid"},"minItems":1,"maxItems":3})");
  same(R"({"oneOf":[{"type":"integer"},{"type":"string"}]})");
  same(R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"n":{"$ref":"#/$defs/a"}}}}})");
  EXPECT_EQ(
      check_schema(
          R"({"title":"T","$schema":"x","description":"d","properties":{"a":{"default":1}},"additionalProperties":true})",
          "s")
          .value(),
      R"({"type":"object","properties":{"a":{}},"additionalProperties":false})");
  EXPECT_EQ(check_schema("true", "s").value(), "true");
  EXPECT_EQ(check_schema(R"({"type":"string","minLength":2,"maxLength":5})", "s").value(),
            R"({"type":"string","pattern":"^.{2,5}$"})");
}

TEST(SchemaCheck, HostileSizes) {
  std::string deep = "{}", wide = R"({"anyOf":[)";
  for (int i = 0; i < 80; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  EXPECT_NE(schema_refusal(deep).find("schemas in schemas"), std::string::npos);
  for (int i = 0; i < 5000; ++i) wide += R"({"type":"null"},)";
  EXPECT_NE(schema_refusal(wide + "{}]}").find("at most 4096 schemas"), std::string::npos);
  EXPECT_NE(schema_refusal(std::string(300'000, ' ')).find("300000"), std::string::npos);
  EXPECT_NE(schema_refusal(std::string(200'000, '[')), "accepted");
  // Each refers twice to the next: exponential for whoever follows them all.
  std::string fan = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 60; ++i) {
    const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + R"("})";
    fan += "\"d" + std::to_string(i) + R"(":{"anyOf":[)" + next + "," + next + "]},";
  }
  EXPECT_EQ(schema_refusal(fan + R"("d60":{"type":"null"}}})"), "accepted");
  EXPECT_NE(schema_refusal(fan + R"("d60":{"$ref":"#"}}})"), "accepted");
}

}  // namespace

}  // namespace tern::engine
