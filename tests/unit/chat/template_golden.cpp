// Renderings equal transformers' to the byte: every template family over every dialogue, and single constructs.
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <sstream>

#include "chat/chat_template.h"
#include "io/checksum.h"
#include "io/json.h"
#include "jinja/unicode.h"
#include "tests/support/parsed_json.h"

namespace tern::chat {
namespace {

using Json = io::Json;

std::string read(const std::string& name) {
  const std::ifstream file(std::string(TERN_TEST_DATA "/templates/") + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::chrono::system_clock::time_point local_time(const Json& now) {
  std::tm parts{};
  parts.tm_year = now[0].get<int>() - 1900;
  parts.tm_mon = now[1].get<int>() - 1;
  parts.tm_mday = now[2].get<int>();
  parts.tm_hour = now[3].get<int>();
  parts.tm_min = now[4].get<int>();
  parts.tm_sec = now[5].get<int>();
  parts.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(std::mktime(&parts));
}

struct Golden {
  Json renderings = test::parsed_json(read("renderings.json"));
  Json dialogues = test::parsed_json(read("dialogues.json"));

  [[nodiscard]] ChatInput input(const Json& dialogue) const {
    ChatInput input;
    const auto is_set = [&](const char* key) { return dialogue.contains(key) && dialogue[key].get<bool>(); };
    input.messages = dialogue.find("messages");
    input.tools = dialogue.find("tools");
    input.documents = dialogue.find("documents");
    input.kwargs = dialogue.find("kwargs");
    input.add_generation_prompt = is_set("add_generation_prompt");
    input.continue_final_message = is_set("continue_final_message");
    input.bos_token = renderings["bos_token"].text();
    input.eos_token = renderings["eos_token"].text();
    input.now = local_time(renderings["now"]);
    return input;
  }
};

std::string digest(const std::string& text) { return io::xxh3_64(std::as_bytes(std::span(text))); }

TEST(TemplateGolden, EveryFamilyRendersEveryDialogueAsTransformersDoes) {
  const Golden golden;
  std::size_t compared = 0, refused = 0;
  for (const auto& [name, digests] : golden.renderings["renderings"].items()) {
    const auto chat_template = ChatTemplate::parse(read(name + ".jinja"), name + ".jinja");
    ASSERT_TRUE(chat_template) << chat_template.error().line();
    for (const Json& dialogue : golden.dialogues) {
      const std::string title = dialogue["name"].text();
      const auto text = chat_template->render(golden.input(dialogue));
      if (digests[title] == "error") {
        EXPECT_FALSE(text) << name << ", " << title << ": transformers refuses this, here it rendered\n" << *text;
        ++refused;
        continue;
      }
      ASSERT_TRUE(text) << name << ", " << title << ": " << text.error().line();
      EXPECT_EQ(digest(*text), digests[title]) << name << ", " << title << " rendered\n" << *text;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000U);
  EXPECT_GT(refused, 100U);
}

TEST(TemplateGolden, WholeTextsAreEqual) {
  const Golden golden;
  const Json full = test::parsed_json(read("full.json"));
  for (const auto& [name, texts] : full.items()) {
    const auto chat_template = ChatTemplate::parse(read(name + ".jinja"), name + ".jinja");
    ASSERT_TRUE(chat_template);
    for (const Json& dialogue : golden.dialogues) {
      if (!texts.contains(dialogue["name"].text())) continue;
      const auto text = chat_template->render(golden.input(dialogue));
      ASSERT_TRUE(text) << text.error().line();
      EXPECT_EQ(*text, texts[dialogue["name"].get<std::string>()]) << name;
    }
  }
}

TEST(TemplateGolden, GenerationBlocksLieWhereTransformersSeesThem) {
  const Golden golden;
  ASSERT_FALSE(golden.renderings["generation"].empty());
  for (const auto& [name, by_dialogue] : golden.renderings["generation"].items()) {
    const auto chat_template = ChatTemplate::parse(read(name + ".jinja"), name + ".jinja");
    ASSERT_TRUE(chat_template && chat_template->has_generation());
    for (const Json& dialogue : golden.dialogues) {
      const std::string title = dialogue["name"].text();
      if (!by_dialogue.contains(title)) continue;
      const auto rendered = chat_template->render_with_generation(golden.input(dialogue));
      ASSERT_TRUE(rendered);
      Json spans = Json::array();
      const std::string_view text = rendered->text;
      for (const auto& [begin, end] : rendered->generation) {
        spans.push_back({jinja::code_point_count(text.substr(0, begin)), jinja::code_point_count(text.substr(0, end))});
      }
      // transformers leaves a span as it was where the text is cut to be continued; here it ends with the text.
      Json expected = by_dialogue[title];
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i][1] = std::min(expected[i][1].get<std::size_t>(), jinja::code_point_count(text));
      EXPECT_EQ(spans, expected) << name << ", " << title;
    }
  }
}

TEST(TemplateGolden, SingleConstructsGiveWhatJinjaGives) {
  const Golden golden;
  const Json file = test::parsed_json(read("snippets.json"));
  const Json dialogue = {{"messages", {{{"role", "user"}, {"content", "q"}}}}, {"kwargs", file["variables"]}};
  for (const Json& pair : file["snippets"]) {
    const std::string source = pair[0].text();
    const auto chat_template = ChatTemplate::parse(source, "snippet");
    if (pair[1].is_null()) {
      EXPECT_FALSE(chat_template && chat_template->render(golden.input(dialogue))) << source;
      continue;
    }
    const auto text = chat_template ? chat_template->render(golden.input(dialogue)) : chat_template.error();
    EXPECT_TRUE(text) << source << "\n" << text.error().line();
    if (!text) continue;
    EXPECT_EQ(*text, pair[1]) << source;
  }
}

// What Jinja can and no published template uses: an error that names the place, and never another text.
TEST(TemplateGolden, WhatIsCutIsRefused) {
  const Golden golden;
  const Json file = test::parsed_json(read("snippets.json"));
  const Json dialogue = {{"messages", {{{"role", "user"}, {"content", "q"}}}}, {"kwargs", file["variables"]}};
  std::istringstream lines(read("refused.txt"));
  std::size_t refused = 0;
  for (std::string source; std::getline(lines, source); ++refused) {
    const auto chat_template = ChatTemplate::parse(source, "t");
    const auto text = chat_template ? chat_template->render(golden.input(dialogue)) : chat_template.error();
    ASSERT_FALSE(text) << source << " rendered " << *text;
    EXPECT_EQ(text.error().where.rfind("t:1:", 0), 0U) << source << "\n" << text.error().line();
  }
  EXPECT_GT(refused, 200U);
}

// Jinja's own lists against what published templates use: each filter, test and method is either read or refused by
// name, in a place where Jinja would take it.
TEST(TemplateGolden, EveryConstructOfPublishedTemplatesIsRead) {
  const Json constructs = test::parsed_json(read("constructs.json"));
  const auto error = [](const std::string& source) {
    const auto chat_template = ChatTemplate::parse(source, "t");
    if (!chat_template) return chat_template.error().expected;
    const Json messages = Json::array();
    ChatInput input;
    input.messages = &messages;
    const auto text = chat_template->render(input);
    return text ? std::string() : text.error().expected;
  };
  const auto check = [&](const char* kind, const std::string& prefix, const std::string& suffix) {
    const Json &used = constructs[kind], &beside = constructs["beside"][kind];
    for (const auto& [name, where] : constructs["jinja"][kind].items()) {
      const bool known = used.contains(name) || beside.contains(name);
      EXPECT_EQ(error(prefix + name + suffix).find("chat templates use") == std::string::npos, known)
          << kind << " " << name;
    }
  };
  check("filters", "{{ x | ", " }}");
  check("tests", "{{ x is ", " }}");
  check("methods", "{{ 'a'.", " }}");
}

}  // namespace
}  // namespace tern::chat
