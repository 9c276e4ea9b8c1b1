// Every error that a template can make: what Jinja or Python would refuse, and what the bounds of the work refuse.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "chat/chat_template.h"
#include "io/json.h"
#include "tests/support/parsed_json.h"

namespace tern::chat {
namespace {

using Json = io::Json;

struct Case {
  std::string source;
  std::string expected;
  std::string found;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.source.substr(0, 200); }

Error error_of(const std::string& source) {
  auto parsed = ChatTemplate::parse(source, "t");
  if (!parsed) return parsed.error();
  const Json messages = Json::array();
  ChatInput input;
  input.messages = &messages;
  const auto text = parsed->render(input);
  return text.ok() ? failed_error(cat("it rendered ", *text), "expect it") : text.error();
}

class JinjaErrors : public testing::TestWithParam<std::vector<Case>> {};

TEST_P(JinjaErrors, SayWhatIsWrongAndWhere) {
  for (const Case& one : GetParam()) {
    SCOPED_TRACE(one.source.substr(0, 200));
    const Error error = error_of(one.source);
    EXPECT_EQ(error.kind, ErrorKind::data);
    EXPECT_EQ(error.where.rfind("t:", 0), 0U) << error.where;
    EXPECT_EQ(error.expected, one.expected);
    EXPECT_EQ(error.found, one.found);
    EXPECT_EQ(error.mend, "correct the template there, or choose another with --template");
  }
}

// A namespace `n` whose member `v` is a list nested `depth` deep.
std::string nested(int depth) {
  return cat("{% set n = namespace(v=[]) %}{% for i in range(", depth - 1, ") %}{% set n.v = [n.v] %}{% endfor %}");
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

const std::string kUsed = " that chat templates use";

const std::vector<Case> kSyntax = {
    {"{# x", "`#}` to end the comment", "the end of the template"},
    {"{{ x", "`}}` to end the tag", "the end of the template"},
    {"{% if x", "`%}` to end the tag", "the end of the template"},
    {"{{ 'x", "a closing '", "the end of the template"},
    {"{{ 99999999999999999999 }}", "an integer within 64 bits", "99999999999999999999"},
    {"{{ '\\xg' }}", R"(one of the escapes \n \r \t \\ \' \")", "`\\x`"},
    {"{{ ? }}", "a name, a value or an operator", "`?`"},
    {"{{ ) }}", "an opening bracket before it", "`)`"},
    {"{{ (1] }}", "`)`", "`]`"},
    {"{{ }}", "an expression", "`}}`"},
    {"{{ * }}", "an expression", "`*`"},
    {"{{ a.'b' }}", "a name after `.`", "a string"},
    {"{{ a[] }}", "an expression", "`]`"},
    {"{{ f(a=1, 2) }}", "arguments in the order positional, named", "another order"},
    {"{{ 1 is none is none }}", "one test", "a second `is` behind it"},
    {"{{ 1 < 2 < 3 }}", "one comparison; `and` joins two", "a second one behind it"},
    {"{{ [1 2] }}", "`,`", "`2`"},
    {"{{ a | 1 }}", "a filter's name", "`1`"},
    {"{% for x 1 %}", "`in`", "`1`"},
    {"{{ 1 2 }}", "`}}`", "`2`"},
    {"{{ 1 | nosuch }}", "a filter" + kUsed, "`nosuch`"},
    {"{{ 1 is nosuch }}", "a test" + kUsed, "`nosuch`"},
    {"{{ 1" + repeated("+1", 600) + " }}", "at most 500 operators in one tag", "more"},
    {"{{ " + repeated("(", 300) + "1" + repeated(")", 300) + " }}", "an expression nested at most 250 deep",
     "deeper nesting"},
    {"{% if 1 %}", "`{% endif %}`", "the end of the template"},
    {"{% break %}", "`break` inside a loop", "none around it"},
    {"{% frob %}", "a tag" + kUsed, "`frob`"},
    {"{% set none = 1 %}", "a name that can be assigned to", "`none`"},
    {"{% macro f(a=1, b) %}{% endmacro %}", "a default value, as the parameter before it has one", "none"},
    {"{% set = 1 %}", "a name to assign to", "`=`"},
};

const std::vector<Case> kCalls = {
    {"{{ 'a'.get }}{{ 1|trim(3) }}", "at most 0 arguments for trim", "1"},
    {"{{ [1]|sort(1) }}", "at most 0 arguments for sort", "1"},
    {"{{ 1|tojson(foo=1) }}", "an argument of tojson" + kUsed, "'foo'"},
    {"{{ 1|tojson(true, ensure_ascii=2) }}", "each argument of tojson once", "'ensure_ascii'"},
    {"{{ 'a'|replace('b') }}", "the argument `new` of replace", "none"},
    {"{{ [1]|map(nope) }}", "a defined value", "'nope' is undefined"},
    {"{{ 'a'|indent(nope) }}", "a defined value", "'nope' is undefined"},
    {"{{ 'a'|indent('x') }}", "an integer (width)", "a str"},
    {"{{ 1|length }}", "something with a length", "a int"},
    {"{{ 1 if (1 is nosuch) else 2 }}", "a test" + kUsed, "`nosuch`"},
    {"{{ 1 if (1|nosuch) else 2 }}", "a filter" + kUsed, "`nosuch`"},
    {"{{ 1() }}", "something that can be called", "a int"},
    {"{{ nope() }}", "something that can be called", "'nope' is undefined"},
    {"{{ namespace(a=1, a=2) }}", "each argument once", "a"},
    {"{{ namespace({}) }}", "named arguments for namespace", "a dict"},
    {"{{ namespace(_a=1) }}", "an attribute without a leading underscore", "'_a'"},
    {"{{ cycler(1) }}", "a name" + kUsed, "Jinja's `cycler`"},
    {"{{ 'a'.zfill(3) }}", "a method" + kUsed, "`zfill` of a str"},
    {"{{ range() }}", "range(stop) or range(start, stop, step)", "0 arguments"},
    {"{{ range(1, 2, 0) }}", "a range's step other than 0", "0"},
    {"{{ range(100001) }}", "a range of at most 100000 items", "a longer one"},
    {"{{ range(3)[0] }}", "a range that is walked over", "an index into it; `|list` makes a list of it"},
    {"{{ range(3) }}", "a value that can be printed", "a range; `|list` makes a list of it"},
    {"{{ strftime_now('%f') }}", "a field of a date" + kUsed, "`%f`"},
    {"{{ strftime_now('%A' * 100) }}", "a date of at most 510 bytes", "a longer one"},
    {"{% macro f(a) %}{% endmacro %}{{ f.name }}", "a macro that is called", "`name` of it"},
    {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "at most 1 arguments for macro 'f'", "2"},
    {"{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}", "an argument that macro 'f' takes", "'a'"},
    {"{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "an argument that macro 'f' takes", "'b'"},
    {"{% for i in [1] %}{{ loop.cycle(1) }}{% endfor %}", "a part of `loop`" + kUsed, "`loop.cycle`"},
    {"{% for i in [1] %}{{ loop }}{% endfor %}", "a value that can be printed", "the loop itself"},
    {"{% for i in [1] %}{{ loop([1]) }}{% endfor %}", "something that can be called", "a LoopContext"},
    {"{{ raise_exception('no!') }}", "what the template asks for", "no!"},
};

const std::vector<Case> kNumbers = {
    {"{{ nope|int }}", "a defined value", "'nope' is undefined"},
    {"{{ nope|float }}", "a defined value", "'nope' is undefined"},
    {"{{ '1_0'|int }}", "a number without `_`", "'1_0'"},
    {"{{ '1e30'|int }}", "integers within 64 bits", "a larger result"},
    {"{{ 9223372036854775807 + 1 }}", "integers within 64 bits", "a larger result"},
    {"{{ 1 / 0 }}", "a divisor other than 0", "0"},
    {"{{ 1.0 / 0 }}", "a divisor other than 0", "0.0"},
    {"{{ -nope }}", "a defined value", "'nope' is undefined"},
    {"{{ -'a' }}", "a number", "a str"},
    {"{{ nope < 1 }}", "a defined value", "'nope' is undefined"},
    {"{{ 'abc'['a':] }}", "integers as a slice's bounds", "other values"},
    {"{{ 'abc'[::0] }}", "a slice's step other than 0", "0"},
};

const std::vector<Case> kFormats = {
    {"{{ '{:.2f}'.format(1) }}", "fields written `{}` in a format", "'{:.2f}'"},
    {"{{ '}'.format() }}", "fields written `{}` in a format", "'}'"},
    {"{{ '{}'.format(a=1) }}", "values for `{}` in order", "'a'"},
    {"{{ '{} {}'.format(1) }}", "a value for each field of a format", "1 values"},
    {"{{ '%s %s' % (1,) }}", "a value for each field of a format", "1 values"},
    {"{{ '%s' % (1, 2) }}", "as many values as the format takes", "more"},
    {"{{ '%' % 1 }}", "one of the conversions %s, %d and %%", "'%'"},
    {"{{ '%5d' % 1 }}", "one of the conversions %s, %d and %%", "'%5d'"},
    {"{{ '%d' % nope }}", "a defined value", "'nope' is undefined"},
    {"{{ '%s'|format(a=2) }}", "values for `%s` in order", "'a'"},
    {"{{ {(1, 2): 3}|tojson }}", "a string, number, bool or None as JSON's key", "a tuple"},
    {"{{ 1|tojson(separators=[1]) }}", "two separators", "1"},
};

const std::vector<Case> kSequences = {
    {"{{ 'a'.split('') }}", "a separator to split at", "an empty string"},
    {"{{ 'a'.replace('', 'b') }}", "text to replace", "an empty string"},
    {"{{ [1]|dictsort }}", "a dict to sort", "a list"},
    {"{{ [1]|map }}", "the name of a filter or an attribute for map", "none"},
    {"{{ [1]|map(attribute='a.b')|list }}", "the name of one attribute", "'a.b'"},
    {"{{ [1]|selectattr }}", "the name of an attribute", "none"},
    {"{{ [1]|map('string')|last }}", "a sequence", "a generator; `|list` makes one of it"},
    {"{{ 1|items }}", "a dict", "a int"},
};

const std::vector<Case> kBounds = {
    {"{% set n = namespace() %}{% set n.a = n %}{{ n }}", "a value that can be printed",
     "a namespace that holds itself"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "evaluations nested at most 600 deep", "deeper recursion"},
    {"{% set s = 'x' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}", "at most 64.0 MiB of rendered text",
     "more"},
    {"{{ 'x' * 99999999999999 }}", "a value that fits in memory", "a larger one"},
    {nested(201), "less deeply nested values", "deeper ones"},
    {nested(199) + "{{ [[n.v]] }}", "values nested at most 200 deep", "deeper nesting"},
    {nested(199) + "{{ {'a': n.v}.get }}", "values nested at most 200 deep", "deeper nesting"},
};

INSTANTIATE_TEST_SUITE_P(Syntax, JinjaErrors, testing::Values(kSyntax));
INSTANTIATE_TEST_SUITE_P(Calls, JinjaErrors, testing::Values(kCalls));
INSTANTIATE_TEST_SUITE_P(Numbers, JinjaErrors, testing::Values(kNumbers));
INSTANTIATE_TEST_SUITE_P(Formats, JinjaErrors, testing::Values(kFormats));
INSTANTIATE_TEST_SUITE_P(Sequences, JinjaErrors, testing::Values(kSequences));
INSTANTIATE_TEST_SUITE_P(Bounds, JinjaErrors, testing::Values(kBounds));

// What is given to a template, as a caller of chat_template() or a row of a dataset may have it.
TEST(ChatTemplateErrors, NameTheInput) {
  const auto chat = ChatTemplate::parse("{% for m in messages %}{{ m.content }}{% endfor %}", "t").value();
  const auto line = [&](const char* json, bool proceed, const char* kwargs) {
    const Json messages = test::parsed_json(json);
    const Json variables = test::parsed_json(kwargs);
    ChatInput input;
    if (!messages.is_null()) input.messages = &messages;
    input.kwargs = &variables;
    input.continue_final_message = proceed;
    return chat.render(input).error().line();
  };
  const std::string array = R"(; give them as [{"role": "user", "content": "..."}, ...])";
  EXPECT_EQ(line("null", false, "{}"), "messages: expected an array, found nothing" + array);
  EXPECT_EQ(line("{}", false, "{}"), "messages: expected an array, found object" + array);
  EXPECT_EQ(line("[7]", false, "{}"), "messages[0]: expected an object, found number" + array);
  EXPECT_EQ(line("[]", false, "[]"),
            R"(chat_template_kwargs: expected an object, found array; write them as {"enable_thinking": false})");
  const auto unfinished = [&](const char* json) { return line(json, true, "{}"); };
  const auto refused = [](const char* found) {
    return cat("continue_final_message: expected text in the last message to go on with, found ", found,
               "; give the last message content, or leave continue_final_message out");
  };
  EXPECT_EQ(unfinished("[]"), refused("no message"));
  EXPECT_EQ(unfinished(R"([{"role":"assistant"}])"), refused("no content"));
  EXPECT_EQ(unfinished(R"([{"role":"assistant","content":7}])"), refused("content of type int"));
  EXPECT_EQ(unfinished(R"([{"role":"assistant","content":[{"type":"image"}]}])"), refused("no text part"));
  std::string deep = "7";
  for (int i = 0; i < 250; ++i) deep = "[" + deep + "]";
  EXPECT_EQ(line(R"([{"role":"user"}])", false, (R"({"a":)" + deep + "}").c_str()),
            "messages: expected values nested at most 200 deep, found deeper nesting; correct the messages");
}

}  // namespace
}  // namespace tern::chat
