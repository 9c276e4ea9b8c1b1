// What Jinja's statements, operators, filters and methods give; every expected text is Jinja's own.
#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "io/json.h"

namespace tern::chat {
namespace {

using Json = io::Json;

// The rendering of `source` over `variables`, or the error's line.
std::string rendered(const std::string& source, const Json& variables = Json::object()) {
  auto parsed = ChatTemplate::parse(source, "t");
  if (!parsed) return parsed.error().line();
  const Json messages = Json::array();
  ChatInput input;
  input.messages = &messages;
  input.kwargs = &variables;
  auto text = parsed->render(input);
  return text ? *text : text.error().line();
}

TEST(Jinja, TagsTakeTheNewlineBehindAndTheBlanksBeforeThem) {
  EXPECT_EQ(rendered("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(rendered("a  {{- 1 -}}  b {%+ if true +%}\nc{% endif %}"), "a1b \nc");
  EXPECT_EQ(rendered("{# one\n#}\nx{# two #} y"), "x y");
}

TEST(Jinja, LoopsScopeWhatTheySet) {
  EXPECT_EQ(rendered("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}"), "15151");
  EXPECT_EQ(rendered("{% set n = namespace(x=1) %}{% for i in range(3) %}{% set n.x = n.x * 2 %}{% endfor %}{{ n.x }}"),
            "8");
  EXPECT_EQ(rendered("{% for i in [3,4,5] if i != 4 %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %}"),
            "1/2False 2/2True ");
  EXPECT_EQ(rendered("{% for i in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(rendered("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}"
                     "{% endif %}{{ i }}{% endfor %}"),
            "013");
}

TEST(Jinja, PythonPrintsItsValues) {
  EXPECT_EQ(rendered("{{ [1.0, 10000000000000000.0, true, none, 'a\\'b', {'k': (1,)}] }}"),
            "[1.0, 1e+16, True, None, \"a'b\", {'k': (1,)}]");
  EXPECT_EQ(rendered("{{ 7 // -2 }} {{ 7 % -2 }} {{ 7 / 2 }}"), "-4 -1 3.5");
  EXPECT_EQ(rendered("{{ x.y is defined }}{{ z }}{{ 'é🎉b'[1] }}{{ 'abc'[::-1] }}", {{"x", {{"y", 1}}}}), "True🎉cba");
}

TEST(Jinja, ErrorsNameTemplateLineAndColumn) {
  EXPECT_EQ(rendered("a\n {% frob %}").substr(0, 6), "t:2:5:");
  EXPECT_EQ(rendered("a\n{{ x | nosuch }}").substr(0, 6), "t:2:8:");
  EXPECT_EQ(
      rendered("{{ raise_exception('no!') }}"),
      "t:1:19: expected what the template asks for, found no!; correct the template there, or choose another with "
      "--template");
  EXPECT_NE(rendered("{{ missing + 1 }}").find("'missing' is undefined"), std::string::npos);
}

TEST(Jinja, WorkIsBounded) {
  EXPECT_NE(rendered("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}").find("steps"),
            std::string::npos);
  EXPECT_NE(rendered("{{ 'x' * 99999999999 }}").find("t:1:"), std::string::npos);
  EXPECT_NE(rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("nested at most"), std::string::npos);
  std::string doubling = "{% set x = [1] %}";
  for (int i = 0; i < 60; ++i) doubling += "{% set x = [x, x] %}";
  EXPECT_NE(rendered(doubling + "{{ x }}").find("values of at most"), std::string::npos);
  EXPECT_NE(rendered("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}").find("nested at most"),
            std::string::npos);
}

}  // namespace
}  // namespace tern::chat
