// Every error that a template can make: what Jinja or Python would refuse, and what the bounds of the work refuse.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "chat/chat_template.h"

namespace tern::chat {
namespace {

using nlohmann::ordered_json;

struct Case {
  std::string source;
  std::string expected;
  std::string found;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.source.substr(0, 200); }

Error error_of(const std::string& source) {
  auto parsed = ChatTemplate::parse(source, "t");
  if (!parsed) return parsed.error();
  const ordered_json messages = ordered_json::array();
  ChatInput input;
  input.messages = &messages;
  const auto text = parsed->render(input);
  return text.ok() ? failed_error("rendered", "an error", *text, "none") : text.error();
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

const std::vector<Case> kSyntax = {
    {"{# x", "`#}` to end the comment", "the end of the template"},
    {"{% raw %}x", "`{% endraw %}`", "the end of the template"},
    {"{{ x", "`}}` to end the tag", "the end of the template"},
    {"{% if x", "`%}` to end the tag", "the end of the template"},
    {"{{ 'x", "a closing '", "the end of the template"},
    {"{{ 99999999999999999999 }}", "an integer within 64 bits", "99999999999999999999"},
    {"{{ '\\N{DASH}' }}", "an escape without a character's name", "`\\N`"},
    {"{{ '\\xg' }}", "2 hexadecimal digits of a code point", "\\xg'"},
    {"{{ ? }}", "a name, a value or an operator", "`?`"},
    {"{{ ) }}", "an opening bracket before it", "`)`"},
    {"{{ (1] }}", "`)`", "`]`"},
    {"{{ }}", "an expression", "`}}`"},
    {"{{ * }}", "an expression", "`*`"},
    {"{{ a.'b' }}", "a name or a number after `.`", "a string"},
    {"{{ a[] }}", "an index", "`[]`"},
    {"{{ f(a=1, 2) }}", "arguments in the order positional, named, *, **", "another order"},
    {"{{ 1 is odd is even }}", "one test", "a second `is` behind it"},
    {"{{ [1 2] }}", "`,`", "`2`"},
    {"{{ a | 1 }}", "a filter's name", "`1`"},
    {"{% for x 1 %}", "`in`", "`1`"},
    {"{{ 1 2 }}", "`}}`", "`2`"},
    {"{{ 1 | nosuch }}", "a filter that Jinja knows", "`nosuch`"},
    {"{{ 1 is nosuch }}", "a test that Jinja knows", "`nosuch`"},
    {"{{ 1" + repeated("+1", 600) + " }}", "at most 500 operators in one tag", "more"},
    {"{{ " + repeated("(", 300) + "1" + repeated(")", 300) + " }}", "an expression nested at most 250 deep",
     "deeper nesting"},
    {"{% if 1 %}", "`{% endif %}`", "the end of the template"},
    {"{% break %}", "`break` inside a loop", "none around it"},
    {"{% include 'x' %}", "a tag that stays within one template", "`include`"},
    {"{% frob %}", "a tag that Jinja knows", "`frob`"},
    {"{% call 1 %}{% endcall %}", "a call of a macro", "another expression"},
    {"{% autoescape true %}x{% endautoescape %}", "`autoescape false`: a prompt is not HTML", "another value"},
    {"{% set none = 1 %}", "a name that can be assigned to", "`none`"},
    {"{% macro f(a=1, b) %}{% endmacro %}", "a default value, as the parameter before it has one", "none"},
    {"{% set = 1 %}", "a name to assign to", "`=`"},
};

const std::vector<Case> kCalls = {
    {"{{ 1|round(1, 'ceil', 3) }}", "at most 2 arguments for round", "3"},
    {"{{ 1|round(foo=1) }}", "an argument that round takes", "'foo'"},
    {"{{ 1|round(1, precision=2) }}", "each argument of round once", "'precision'"},
    {"{{ [1]|batch }}", "the argument `linecount` of batch", "none"},
    {"{{ [1]|map(nope) }}", "a defined value", "'nope' is undefined"},
    {"{{ 1|round(nope) }}", "a defined value", "'nope' is undefined"},
    {"{{ 1|round('x') }}", "an integer (precision)", "a str"},
    {"{{ 1|length }}", "something with a length", "a int"},
    {"{{ nope is even }}", "a defined value", "'nope' is undefined"},
    {"{{ 4 is divisibleby 0 }}", "a divisor other than 0", "0"},
    {"{{ 1 if (1 is nosuch) else 2 }}", "a test that Jinja knows", "`nosuch`"},
    {"{{ 1 if (1|nosuch) else 2 }}", "a filter that Jinja knows", "`nosuch`"},
    {"{{ 1() }}", "something that can be called", "a int"},
    {"{{ dict(**1) }}", "a dict behind **", "a int"},
    {"{{ dict(**{1: 2}) }}", "strings as names of arguments", "a int"},
    {"{{ dict(a=1, **{'a': 2}) }}", "each argument once", "a"},
    {"{{ namespace({}, {}) }}", "at most one argument for namespace", "2"},
    {"{{ namespace(1) }}", "a dict for namespace", "a int"},
    {"{{ namespace(_a=1) }}", "an attribute without a leading underscore", "'_a'"},
    {"{{ dict({}, {}) }}", "at most one argument for dict", "2"},
    {"{{ dict([[1]]) }}", "pairs of key and value for dict", "1 values"},
    {"{{ range() }}", "range(stop) or range(start, stop, step)", "0 arguments"},
    {"{{ range(1, 2, 0) }}", "a range's step other than 0", "0"},
    {"{{ range(100001) }}", "a range of at most 100000 items", "a longer one"},
    {"{{ cycler() }}", "at least one item for cycler", "none"},
    {"{{ strftime_now('%Q') }}", "a field that strftime knows", "`%Q`"},
    {"{% set n = namespace() %}{% for i in [1] %}{% set n.f = loop.cycle %}{% endfor %}{{ n.f(1) }}",
     "a loop that still runs", "one that has ended"},
    {"{% for i in [1] %}{{ loop.cycle() }}{% endfor %}", "values to cycle through", "none"},
    {"{% for i in [1] %}{{ loop([1]) }}{% endfor %}", "a loop marked `recursive`", "a call of another"},
    {"{% set n = namespace() %}{% for i in [1] recursive %}{% set n.f = loop %}{% endfor %}{{ n.f([1]) }}",
     "a loop that still runs", "one that has ended"},
    {"{{ raise_exception('no!') }}", "what the template asks for", "no!"},
};

const std::vector<Case> kNumbers = {
    {"{{ nope|int }}", "a defined value", "'nope' is undefined"},
    {"{{ nope|float }}", "a defined value", "'nope' is undefined"},
    {"{{ nope|round }}", "a defined value", "'nope' is undefined"},
    {"{{ 'a'|round }}", "a number", "a str"},
    {"{{ 1|round(1, 'up') }}", "common, ceil or floor as rounding method", "'up'"},
    {"{{ 1.5|round(401) }}", "a precision of at most 400 digits", "401"},
    {"{{ 1e30|round(0, 'ceil') }}", "a number whose integer part fits in 64 bits", "1e+30"},
    {"{{ 9223372036854775807|round(-1) }}", "integers within 64 bits", "a larger result"},
    {"{{ 'x'|filesizeformat }}", "a number of bytes", "'x'"},
    {"{{ 9223372036854775807 + 1 }}", "integers within 64 bits", "a larger result"},
    {"{{ 0 ** -1 }}", "a power other than 0 to a negative exponent", "0"},
    {"{{ (-2.5) ** 0.5 }}", "a real power", "a complex one"},
    {"{{ 1 / 0 }}", "a divisor other than 0", "0"},
    {"{{ 1.0 / 0 }}", "a divisor other than 0", "0.0"},
    {"{{ -nope }}", "a defined value", "'nope' is undefined"},
    {"{{ -'a' }}", "a number", "a str"},
    {"{{ nope < 1 }}", "a defined value", "'nope' is undefined"},
    {"{{ 'abc'['a':] }}", "integers as a slice's bounds", "other values"},
    {"{{ 'abc'[::0] }}", "a slice's step other than 0", "0"},
};

const std::vector<Case> kFormats = {
    {"{{ '%999999d' % 1 }}", "a width or precision of at most 100000", "a larger one"},
    {"{{ '{:.}'.format(1) }}", "a precision behind `.`", "'.'"},
    {"{{ '{:dd}'.format(1) }}", "a format that Python knows", "'dd'"},
    {"{{ '{:.2d}'.format(1) }}", "no precision for an integer", ".2"},
    {"{{ '{:c}'.format(-1) }}", "a code point", "-1"},
    {"{{ '{:s}'.format(1) }}", "a format of integers", "'s'"},
    {"{{ '{:s}'.format(1.5) }}", "a format of numbers", "'s'"},
    {"{{ '{:d}'.format('a') }}", "a format of strings", "'d'"},
    {"{{ '{:=5}'.format('a') }}", "<, > or ^ to align a string", "="},
    {"{{ '{:5}'.format([1]) }}", "a string or number to format", "a list"},
    {"{{ '{:{:{:{}}}}'.format(1, 2, 3, 4) }}", "replacement fields nested at most twice", "deeper ones"},
    {"{{ '}'.format() }}", "`{` before `}` in a format", "'}'"},
    {"{{ '{'.format(1) }}", "`}` in a format", "'{'"},
    {"{{ '{!x}'.format(1) }}", "the conversion !s, !r or !a", "'!x'"},
    {"{{ '{!rx}'.format(1) }}", "`:` behind a conversion", "'!rx'"},
    {"{{ '{0[a}'.format(1) }}", "`[index]` in a format", "'0[a'"},
    {"{{ '{} {}'.format(1) }}", "a value for each field of a format", "1 values"},
    {"{{ '{a}'.format(1) }}", "a value for each field of a format", "'a'"},
    {"{{ '%*d' % (999999, 1) }}", "a width of at most 100000", "999999"},
    {"{{ '%(a' % {'a': 1} }}", "`)` in a format", "'%(a'"},
    {"{{ '%(a)s' % 1 }}", "a dict for a format with names", "a int"},
    {"{{ '%(b)s' % {'a': 1} }}", "a value for each name in the format", "'b'"},
    {"{{ '%' % 1 }}", "a conversion behind `%`", "the end of the format"},
    {"{{ '%d' % nope }}", "a defined value", "'nope' is undefined"},
    {"{{ '%y' % 1 }}", "a conversion that Python knows", "`%y`"},
    {"{{ '%d' % 1e30 }}", "a number within 64 bits", "1e+30"},
    {"{{ '%x' % 1.5 }}", "an integer", "a float"},
    {"{{ '%s'|format(1, a=2) }}", "positional or named arguments", "both"},
    {"{{ '{a}'.format_map(1) }}", "a dict for format_map", "a int"},
    {"{{ {(1, 2): 3}|tojson }}", "a string, number, bool or None as JSON's key", "a tuple"},
    {"{{ 1|tojson(separators=[1]) }}", "two separators", "1"},
};

const std::vector<Case> kSequences = {
    {"{{ 'a'.split('') }}", "a separator to split at", "an empty string"},
    {"{{ 'a'.partition('') }}", "a separator to split at", "an empty string"},
    {"{{ 'a'.center(5, 'xy') }}", "one character to fill with", "'xy'"},
    {"{{ 'a'.center(9999999999) }}", "a width that fits in memory", "9999999999"},
    {"{{ [1].index(2) }}", "a value that is in the list", "2"},
    {"{{ {}|dictsort(by='x') }}", "\"key\" or \"value\" to sort by", "'x'"},
    {"{{ [1]|dictsort }}", "a dict to sort", "a list"},
    {"{{ [1]|map }}", "the name of a filter or an attribute for map", "none"},
    {"{{ [1]|selectattr }}", "the name of an attribute", "none"},
    {"{{ [1]|map('string')|last }}", "a sequence", "a generator; `|list` makes one of it"},
    {"{{ [1]|sum(start='a') }}", "numbers to sum; `|join` adds strings", "a string"},
    {"{{ [1]|batch(1000001, 'x')|list }}", "a batch of at most 1000000", "1000001"},
    {"{{ [1]|slice(0) }}", "1 to 1000000 slices", "0"},
    {"{{ 1|items }}", "a dict", "a int"},
    {"{{ 'abc'|truncate(2) }}", "a length of at least 3", "2"},
    {"{{ [[1]]|urlencode }}", "pairs to encode", "1 values"},
    {"{{ 1|xmlattr }}", "a dict", "a int"},
    {"{{ {'a b': 1}|xmlattr }}", "an attribute's name without white space, /, > or =", "'a b'"},
    {"{{ 'a'|wordwrap(0) }}", "a width above 0", "0"},
};

const std::vector<Case> kBounds = {
    {"{% set n = namespace() %}{% set n.a = n %}{{ n }}", "a value that can be printed",
     "a namespace that holds itself"},
    {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "evaluations nested at most 600 deep", "deeper recursion"},
    {"{% macro f() %}" + repeated("{% autoescape false %}", 20) + "{{ f() }}" + repeated("{% endautoescape %}", 20) +
         "{% endmacro %}{{ f() }}",
     "evaluations nested at most 600 deep", "endless recursion"},
    {"{% set s = 'x' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}", "at most 64.0 MiB of rendered text",
     "more"},
    {"{{ 'x' * 99999999999999 }}", "a value that fits in memory", "a larger one"},
    {nested(201), "less deeply nested values", "deeper ones"},
    {nested(199) + "{{ [[n.v]] }}", "values nested at most 200 deep", "deeper nesting"},
    {nested(199) + "{{ joiner([n.v]) }}", "values nested at most 200 deep", "deeper nesting"},
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
    const ordered_json messages = ordered_json::parse(json);
    const ordered_json variables = ordered_json::parse(kwargs);
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
