#include "data/row.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "chat/chat_template.h"
#include "chat/template_messages.h"

namespace tern::data {
namespace {

Result<Row> parse(std::string_view json, NormalizeOptions options = {}) {
  RawRow raw;
  raw.line = 17;
  raw.json = json;
  return Normalizer(std::move(options)).row(raw, "train.jsonl");
}

// "user:hi|assistant:ho".
std::string dialogue(const std::vector<Message>& messages) {
  std::string out;
  for (const auto& message : messages) {
    if (!out.empty()) out += '|';
    out += cat(message.role, ":", message.content);
  }
  return out;
}

// The messages as JSON, from within a template.
std::string as_templates_see(const std::vector<Message>& messages) {
  const jinja::Values values = chat::template_messages(messages).value();
  chat::ChatInput input;
  input.values = &values;
  return chat::ChatTemplate::parse("{{ messages|tojson(separators=(',', ':')) }}", "t").value().render(input).value();
}

std::string dialogue(std::string_view json) {
  const auto row = parse(json);
  return row ? dialogue(row->messages) : row.error().line();
}

TEST(Row, EveryFormatOfTheContract) {
  const std::string want = "user:hi|assistant:ho";
  EXPECT_EQ(dialogue(R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]})"), want);
  EXPECT_EQ(dialogue(R"({"conversations":[{"from":"human","value":"hi"},{"from":"gpt","value":"ho"}]})"), want);
  EXPECT_EQ(dialogue(R"({"conversation":[{"human":"hi","assistant":"ho"}]})"), want);
  EXPECT_EQ(
      dialogue(
          R"({"messages":"[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"ho\"}]"})"),
      want);
  for (const auto* query : {"query", "prompt", "question", "problem"}) {
    for (const auto* response : {"response", "answer", "output", "solution", "completion"}) {
      EXPECT_EQ(dialogue(cat("{\"", query, "\":\"hi\",\"", response, "\":\"ho\"}")), want);
    }
  }
  EXPECT_EQ(dialogue(R"({"instruction":"hi","output":"ho"})"), want);
  EXPECT_EQ(dialogue(R"({"input":"hi","output":"ho"})"), want);
  EXPECT_EQ(dialogue(R"({"instruction":"a","input":"b","output":"c"})"), "user:a\nb|assistant:c");
  EXPECT_EQ(dialogue(R"({"instruction":"a","input":"","output":"c"})"), "user:a|assistant:c");
  EXPECT_EQ(dialogue(R"({"query":"q","answer":"no","output":"yes"})"), "user:q|assistant:yes");
  EXPECT_EQ(dialogue(R"({"system":"s","history":[["a","b"]],"query":"c","response":"d"})"),
            "system:s|user:a|assistant:b|user:c|assistant:d");
  EXPECT_EQ(dialogue(R"({"conversation":[{"human":"a","assistant":"b"},{"human":"c","assistant":"d"}],"system":"s"})"),
            "system:s|user:a|assistant:b|user:c|assistant:d");
  EXPECT_EQ(dialogue(R"({"query":"only a prompt"})"), "user:only a prompt");
  EXPECT_EQ(parse(R"({"text":"words"})")->text, "words");
}

TEST(Row, AnAnswerThatIsNullIsAPromptUnlessStrict) {
  NormalizeOptions strict;
  strict.strict = true;
  for (const std::string row : {R"({"query":"hi","response":null})", R"({"instruction":"hi","response":null})"}) {
    EXPECT_EQ(dialogue(row), "user:hi");
    EXPECT_EQ(
        parse(row, strict).error().line(),
        "train.jsonl:17: field \"response\": expected a string, found null; write the answer, or leave the column "
        "away");
  }
  EXPECT_EQ(dialogue(parse(R"({"query":"hi","answer":null,"response":"ho"})", strict)->messages),
            "user:hi|assistant:ho");
  EXPECT_TRUE(parse(R"({"query":"a prompt"})", strict));
}

TEST(Row, PlacesInTheTextAreFilledByTheRowsLanguage) {
  NormalizeOptions options;
  options.placeholders = {{"{{NAME}}", "小燕", "Tern"}, {"{{AUTHOR}}", "我", "{{NAME}}s"}};
  const auto english =
      parse(R"({"query":"Who is {{NAME}}?","response":"{{NAME}}, of {{AUTHOR}}","tag":"en"})", options);
  ASSERT_TRUE(english);
  EXPECT_EQ(dialogue(english->messages), "user:Who is Tern?|assistant:Tern, of {{NAME}}s");
  const auto chinese = parse(R"({"query":"{{NAME}}?","response":"{{NAME}}{{NAME}}{{AUTHOR}}","tag":"zh"})", options);
  ASSERT_TRUE(chinese);
  EXPECT_EQ(dialogue(chinese->messages), "user:小燕?|assistant:小燕小燕我");
}

TEST(Row, RolesAliasesToolsAndLoss) {
  const auto row = parse(R"({"messages":[{"role":"user","content":"w?"},
      {"role":"assistant","content":"", "tool_calls":[{"function":{"name":"f","arguments":"{\"x\":1}"}}],"loss":false},
      {"from":"observation","value":"5"},{"from":"function_call","value":"{\"name\":\"g\",\"arguments\":{}}"},
      {"role":"tool","content":"6"},{"role":"assistant","content":"done","loss":0.5,"reasoning_content":"hm"}],
      "tools":"[{\"type\":\"function\"}]"})");
  ASSERT_TRUE(row.ok()) << row.error().line();
  ASSERT_EQ(row->messages.size(), 6U);
  EXPECT_EQ(row->messages[1].loss, 0.0);
  EXPECT_EQ(row->messages[2].role, "tool_response");
  EXPECT_EQ(row->messages[3].role, "tool_call");
  EXPECT_EQ(row->messages[5].loss, 0.5);
  EXPECT_EQ(row->messages[5].members_json, R"({"reasoning_content":"hm"})");
  EXPECT_EQ(row->tools_json, R"([{"type":"function"}])");
  EXPECT_EQ(
      as_templates_see(row->messages),
      R"([{"role":"user","content":"w?"},)"
      R"({"role":"assistant","content":"","loss":0.0,"tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},)"
      R"({"role":"tool","content":"5"},)"
      R"({"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"g","arguments":{}}}]},)"
      R"({"role":"tool","content":"6"},)"
      R"({"thinking":"hm","role":"assistant","content":"done","reasoning_content":"hm","loss":0.5}])");
}

TEST(Row, ToolCallsJoinTheAssistantsTurn) {
  const auto row = parse(R"({"messages":[{"role":"user","content":"w?"},{"role":"assistant","content":"let me see"},
      {"role":"tool_call","content":"{\"name\":\"f\",\"arguments\":{}}"},
      {"role":"tool_call","content":"{\"name\":\"g\",\"arguments\":{}}"}]})");
  const std::string rendered = as_templates_see(row->messages);
  EXPECT_NE(rendered.find(R"("content":"let me see","tool_calls":[{"type":"function","function":{"name":"f")"),
            std::string::npos);
  auto broken = row->messages;
  broken[2].content = "not json";
  EXPECT_FALSE(chat::template_messages(broken).ok());
}

TEST(Row, PreferenceLabelAndMargin) {
  auto row = parse(R"({"query":"q","response":"good","rejected_response":"[bad] one","margin":1.5})");
  ASSERT_TRUE(row.ok()) << row.error().line();
  EXPECT_EQ(dialogue(row->messages), "user:q|assistant:good");
  EXPECT_EQ(dialogue(row->rejected), "user:q|assistant:[bad] one");
  EXPECT_EQ(row->margin, 1.5);
  row = parse(R"({"query":"q","response":"g","rejected_response":[{"role":"tool_call","content":"c"},
                  {"role":"assistant","content":"b"}]})");
  EXPECT_EQ(dialogue(row->rejected), "user:q|tool_call:c|assistant:b");
  row = parse(R"({"query":"q","response":"g","rejected_messages":[{"role":"user","content":"q"},
                  {"role":"assistant","content":"b"}],"system":"s"})");
  EXPECT_EQ(dialogue(row->rejected), "system:s|user:q|assistant:b");
  EXPECT_FALSE(parse(R"({"query":"q","rejected_response":"b"})").ok());
  for (const auto& [value, number] :
       {std::pair{"false", 0}, std::pair{"true", 1}, std::pair{"\"True\"", 1}, std::pair{"0", 0}, std::pair{"7", 7},
        std::pair{"\"12\"", 12}, std::pair{"3.0", 3}}) {
    EXPECT_EQ(parse(cat(R"({"query":"q","response":"r","label":)", value, "}"))->label, number) << value;
  }
  EXPECT_FALSE(parse(R"({"query":"q","response":"r","label":"maybe"})").ok());
  EXPECT_FALSE(parse(R"({"query":"q","response":"r","rejected_response":"x","margin":"wide"})").ok());
}

TEST(Row, MediaKeepTheirPlaces) {
  auto row = parse(R"({"messages":[{"role":"user","content":[{"type":"text","text":"see "},
      {"type":"image_url","image_url":{"url":"a.png"}},{"type":"image","image":"b.png"},{"type":"audio","audio":"c.wav"}]},
      {"role":"assistant","content":"yes"}]})");
  ASSERT_TRUE(row.ok()) << row.error().line();
  EXPECT_EQ(row->messages[0].content, "see <image><image><audio>");
  EXPECT_EQ(row->images, (std::vector<std::string>{"a.png", "b.png"}));
  EXPECT_EQ(row->audios, (std::vector<std::string>{"c.wav"}));
  row = parse(R"({"query":"what <image>?","response":"r","images":["a.png","b.png"]})");
  EXPECT_EQ(row->messages[0].content, "<image>what <image>?");
  EXPECT_EQ(parse(R"({"query":"q","image":"one.png"})")->images.size(), 1U);
  row = parse(R"({"query":"q","images":[{"bytes":"QUJD","path":"a.png"},{"bytes":null,"path":"b.png"}]})");
  EXPECT_EQ(row->images, (std::vector<std::string>{"data:;base64,QUJD", "b.png"}));
  EXPECT_FALSE(parse(R"({"query":"<image><image>","response":"r","images":["a.png"]})").ok());
}

TEST(Row, ExtraColumnsAndAnswersReachRewards) {
  const auto row = parse(R"({"query":"q","solution":"42","level":3,"tags":["a"],"id":null})");
  EXPECT_EQ(row->extra,
            (std::vector<Column>{{"solution", "\"42\""}, {"level", "3"}, {"tags", "[\"a\"]"}, {"id", "null"}}));
  EXPECT_EQ(dialogue(row->messages), "user:q|assistant:42");
}

TEST(Row, ColumnsAndSystemFlags) {
  NormalizeOptions options;
  options.columns = parse_columns(R"({"ask":"query","reply":"response"})").value();
  options.system = "be brief";
  EXPECT_EQ(dialogue(parse(R"({"ask":"q","reply":"r"})", options)->messages), "system:be brief|user:q|assistant:r");
  EXPECT_EQ(dialogue(parse(R"({"ask":"q","reply":"r","system":"own"})", options)->messages),
            "system:own|user:q|assistant:r");
  EXPECT_EQ(dialogue(parse(R"({"query":"old","ask":"new","response":"r"})", options)->messages),
            "system:be brief|user:new|assistant:r");
  EXPECT_FALSE(parse_columns("[1]").ok());
  EXPECT_FALSE(parse_columns(R"({"a":1})").ok());
}

TEST(Row, BadRowsNameLineFieldExpectedAndFound) {
  const auto line = [](std::string_view json) {
    const auto row = parse(json);
    return row ? std::string("accepted") : row.error().line();
  };
  EXPECT_EQ(line(R"({"messages":"hello"})"),
            "train.jsonl:17: field \"messages\": expected an array, found a string; "
            R"(write it as [{"role": "user", "content": "..."}, ...])");
  EXPECT_EQ(
      line(R"({"messages":[{"role":"wizard","content":"x"}]})"),
      "train.jsonl:17: field \"messages[0].role\": expected system, user, assistant, tool_call, tool_response or tool, "
      "found \"wizard\"; rename the role to one of these");
  EXPECT_EQ(
      line(R"({"messages":[{"role":"user","content":7}]})"),
      "train.jsonl:17: field \"messages[0].content\": expected a string or an array of parts, found a number; write "
      "the text in quotes");
  EXPECT_EQ(line(R"({"messages":[{"role":"user"}]})"),
            "train.jsonl:17: field \"messages[0]\": expected \"content\" (or \"value\") in each message, found none; "
            "add the text, as \"content\": \"...\"");
  EXPECT_EQ(line("{\"query\":"),
            "train.jsonl:17: expected valid JSON, found a syntax error; write the row as one JSON object");
  EXPECT_EQ(line("[1]"),
            "train.jsonl:17: expected a JSON object, found an array; write the row as {\"messages\": [...]}");
  EXPECT_EQ(line(R"({"query":["a"]})"),
            "train.jsonl:17: field \"query\": expected a string, found an array; write the value in quotes");
  EXPECT_EQ(line("{\"query\":\"\xff\xfe\"}"),
            "train.jsonl:17: expected valid JSON, found bytes that are not UTF-8; write "
            "the row as one JSON object");
  EXPECT_NE(line(R"({"foo":1})").find("found foo"), std::string::npos);
  EXPECT_NE(line(R"({})").find("found no column"), std::string::npos);
}

struct BadField {
  const char* json;
  const char* says;  // behind the row's place
};

// Broken if a row of another shape is taken for something, or its error does not name the field.
TEST(Row, EveryFieldSaysWhatItShouldHold) {
  const BadField cases[] = {
      {R"({"messages":[7]})",
       R"(field "messages[0]": expected an object with role and content, found a number; write it as [{"role": "user", "content": "..."}, ...])"},
      {R"({"messages":[]})",
       R"(field "messages": expected at least one message, found an empty array; add its messages, or leave the row out)"},
      {R"({"messages":[{"content":"x"}]})",
       R"(field "messages[0]": expected "role" (or "from") in each message, found none; add who speaks, as "role": "user")"},
      {R"({"messages":[{"role":7,"content":"x"}]})",
       R"(field "messages[0].role": expected a string, found a number; write the role in quotes)"},
      {R"({"messages":[{"role":"assistant","tool_calls":7}]})",
       R"(field "messages[0].tool_calls": expected an array, found a number; write it as [{"function": {"name": "...", "arguments": {}}}])"},
      {R"({"messages":[{"role":"user","content":"x","loss":"x"}]})",
       R"(field "messages[0].loss": expected true, false or a weight of at least 0, found a string; write true, false or a number as 0.5)"},
      {R"({"messages":[{"role":"user","content":[7]}]})",
       R"(field "messages[0].content[0]": expected an object or a string, found a number; write it as {"type": "text", "text": "..."})"},
      {R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})",
       R"(field "messages[0].content[0].type": expected text, image, image_url, video, video_url, audio or audio_url, found no such string; write it as {"type": "text", "text": "..."})"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
       R"(field "messages[0].content[0].text": expected a value, found none; write it as {"type": "text", "text": "..."})"},
      {R"({"messages":[{"role":"user","content":[{"type":"smell","smell":"x"}]}]})",
       R"(field "messages[0].content[0].type": expected text, image, image_url, video, video_url, audio or audio_url, found "smell"; leave the part out, or write it as one of these)"},
      {R"({"conversation":[{"human":"a"}]})",
       R"(field "conversation[0].assistant": expected a string, found nothing; add the answer, or leave the pair out)"},
      {R"({"query":"q","history":7})",
       R"(field "history": expected an array of [query, response], found a number; write it as [["question", "answer"], ...])"},
      {R"({"query":"q","history":[["a"]]})",
       R"(field "history[0]": expected [query, response], found an array; write it as [["question", "answer"], ...])"},
      {R"({"query":"q","image":7})",
       R"(field "image": expected a path, URL or base64 text, found a number; write the path in quotes)"},
      {R"({"query":"<image><image>","images":["a.png"]})",
       R"(field "images": expected one for each <image> in the text, found 1 for 2; add what is missing, or take its tag out of the text)"},
      {R"({"messages":[{"role":"user","content":[{"type":"image","image":"a"}]}],"images":["b"]})",
       R"(field "images": expected media in content parts or in columns, found both; keep one of the two)"},
      {R"({"query":"q","tools":7})",
       R"(field "tools": expected an array of tool definitions, found a number; write it as the array that the model's chat template takes)"},
      {R"({"query":"q","rejected_response":"b"})",
       R"(field "rejected_response": expected a chosen answer beside it, found a prompt only; add "response", the better answer)"},
      {R"({"query":"q","response":"r","margin":"wide"})",
       R"(field "margin": expected a number, found a string; write a number without quotes)"},
      {R"({"query":"q","response":"r","label":"maybe"})",
       R"(field "label": expected true, false or the number of a label, found "maybe"; write true, false or a number from 0 on)"},
      {R"({"query":"q","response":"r","label":-1})",
       R"(field "label": expected true, false or the number of a label, found "-1"; write true, false or a number from 0 on)"},
      {R"({"query":"q","response":"r","label":1.5})",
       R"(field "label": expected true, false or the number of a label, found "1.5"; write true, false or a number from 0 on)"},
      {R"({"query":"q","response":"r","label":[1]})",
       R"(field "label": expected true, false or the number of a label, found an array; write true, false or a number from 0 on)"},
  };
  for (const BadField& one : cases) {
    const auto row = parse(one.json);
    ASSERT_FALSE(row.ok()) << one.json;
    EXPECT_EQ(row.error().line(), cat("train.jsonl:17: ", one.says));
    EXPECT_EQ(row.error().kind, ErrorKind::data);
  }
}

TEST(Row, MessagesThatNoTemplateTakesAreNamed) {
  const auto line = [](const std::vector<Message>& messages) {
    return chat::template_messages(messages).error().line();
  };
  const auto call = [&](const char* content) { return line({{"tool_call", content, {}, {}}}); };
  const std::string mend = R"(; write it as {"name": "...", "arguments": {...}})";
  EXPECT_EQ(call("7"), "messages:1: expected an object with name and arguments, found a number" + mend);
  EXPECT_EQ(call("{}"), "messages:1: expected an object with name and arguments, found one without name" + mend);
  EXPECT_EQ(call(R"({"function":7})"), "messages:1: field \"function\": expected an object, found a number" + mend);
  EXPECT_EQ(call("not json"),
            R"(messages:1: expected a call as JSON, {"name": ..., "arguments": {...}}, found a syntax error; )"
            "quote its keys and strings as JSON does");
  EXPECT_EQ(
      line({{"assistant", "a", {}, 1.0}, {"tool_call", R"({"name":"f"})", {}, 0.0}}),
      "messages:2: field \"loss\": expected one weight for an assistant's text and its tool calls, found different "
      "ones; give both messages the same \"loss\"");
  EXPECT_EQ(line({{"user", "a", {}, 1.0}}),
            "messages:1: field \"loss\": expected no weight for the role user, found 1; leave it out: prompts are not "
            "learned");
  EXPECT_EQ(call(R"({"name":"f","name":"g"})"),
            "messages:1: expected each key once, found a key twice in one object; keep one of the two");
  std::string deep = "7";
  for (int i = 0; i < 250; ++i) deep = "[" + deep + "]";
  EXPECT_EQ(call((R"({"name":"f","arguments":)" + deep + "}").c_str()),
            "messages: expected values nested at most 200 deep, found deeper nesting; correct the messages");
  EXPECT_THROW((void)chat::template_messages({{"user", "a", "[1]", {}}}), std::logic_error);
}

TEST(Row, JsonOfARowReadsBackEqual) {
  for (
      const auto* json :
      {R"({"query":"q \"x\"\n","response":"r","level":3})", R"({"text":"some\ttext"})",
       R"({"messages":[{"role":"user","content":"w?"},{"role":"assistant","content":"a","loss":0.25,"name":"n"}],"tools":[{"a":1}]})",
       R"({"query":"q <image>","response":"g","rejected_response":"b","margin":0.5,"images":["a.png"]})",
       R"({"query":"q","solution":"s","label":true,"videos":["v"],"audios":["a"],"query2":"x"})"}) {
    const auto once = parse(json);
    ASSERT_TRUE(once.ok()) << once.error().line();
    const auto twice = parse(to_json(*once));
    ASSERT_TRUE(twice.ok()) << twice.error().line() << " in " << to_json(*once);
    EXPECT_EQ(twice->messages, once->messages);
    EXPECT_EQ(twice->rejected, once->rejected);
    EXPECT_EQ(twice->text, once->text);
    EXPECT_EQ(twice->label, once->label);
    EXPECT_EQ(twice->margin, once->margin);
    EXPECT_EQ(twice->tools_json, once->tools_json);
    EXPECT_EQ(twice->images, once->images);
    EXPECT_EQ(twice->videos, once->videos);
    EXPECT_EQ(twice->audios, once->audios);
    EXPECT_EQ(twice->extra, once->extra);
  }
}

}  // namespace
}  // namespace tern::data
