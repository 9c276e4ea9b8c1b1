// What a dialogue with images becomes, and what is said of one that cannot be asked.
#include "engine/prompt_encoder.h"

#include <gtest/gtest.h>

#include "tests/support/pattern.h"
#include "tests/support/png.h"
#include "tests/support/temp_dir.h"

namespace tern::engine {
namespace {

namespace fs = std::filesystem;

class Prompts : public ::testing::Test {
 protected:
  Prompts() {
    const fs::path media = fs::path(TERN_TEST_DATA) / "media";
    fs::copy(media / "processors" / "qwen3_vl_nested", dir_.path());
    fs::copy(media / "words" / "tokenizer.json", dir_.path());
    fs::copy(media / "words" / "tokenizer_config.json", dir_.path());
    fs::copy_file(media / "words" / "qwen3_vl.jinja", dir_ / "chat_template.jinja");
    image_ = dir_.write("a.png", test::png_of(test::pattern(64, 64, 1)));  // 4 tokens
    options_.engine.max_model_len = 100;
  }
  [[nodiscard]] Result<EncodedPrompt> encoded(const Dialogue& dialogue) const {
    const chat::ModelText text = chat::load_model_text(dir_.path()).value();
    return PromptEncoder::create(text, dir_.path(), options_).value()->encode(dialogue);
  }
  [[nodiscard]] std::string line(const Dialogue& dialogue) const {
    const auto found = encoded(dialogue);
    return found.ok() ? "ok" : dir_.line(found.error());
  }
  static Dialogue shown(std::string question, std::vector<std::string> images) {
    Dialogue out{{"user", std::move(question), {}, {}}};
    out.images = std::move(images);
    return out;
  }

  test::TempDir dir_;
  std::string image_;
  LLMOptions options_;
};

TEST_F(Prompts, HoldThePlacesOfTheirImages) {
  const auto one = encoded(shown("<image>What?", {image_})).value();
  const auto two = encoded(shown("<image>What?<image>", {image_, image_})).value();
  ASSERT_EQ(one.images.size(), 1U);
  ASSERT_EQ(two.images.size(), 2U);
  EXPECT_EQ(one.images[0].tokens, 4);
  EXPECT_EQ(two.images[0].patches, two.images[1].patches);
  EXPECT_EQ(two.ids.size(), one.ids.size() + 4 + 2);  // and its begin and end
}

// A template that takes texts alone, as GGUFs of InternVL have it, gives the same prompt as one that knows images.
TEST_F(Prompts, OfATemplateForTextsHoldThemToo) {
  const auto ids_with = [&](const std::string& content) {
    dir_.write("chat_template.jinja",
               "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}" + content + "<|im_end|>{% endfor %}");
    return encoded(shown("See <image> and <image>what?", {image_, image_}))->ids;
  };
  const auto parts = ids_with(
      "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for p in m['content'] %}{% if p['type'] == "
      "'image' "
      "%}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p['text'] }}{% endif %}{% endfor %}{% endif %}");
  EXPECT_EQ(ids_with("{{ '' + m['content'] }}"), parts) << "whose concatenation refuses a list";
  EXPECT_EQ(ids_with("{{ m['content'] }}"), parts) << "which writes a list as text";
}

TEST_F(Prompts, WithoutImagesATagIsText) {
  const auto tag = encoded(shown("<image>What?", {})).value();
  EXPECT_TRUE(tag.images.empty());
  EXPECT_GT(tag.ids.size(), encoded(shown("What?", {}))->ids.size());
}

TEST_F(Prompts, AreRefusedWhereTagsAndImagesDiffer) {
  EXPECT_EQ(line(shown("What?", {image_})),
            "images: expected one for each of the 0 tags <image> in the messages, found 1; write the tag once for each "
            "image");
  EXPECT_EQ(line(shown("<image> <image>", {image_})),
            "images: expected one for each of the 2 tags <image> in the messages, found 1; write the tag once for each "
            "image");
}

TEST_F(Prompts, AreRefusedByAModelOfText) {
  dir_.remove("processor_config.json");
  EXPECT_EQ(
      line(shown("<image>What?", {image_})),
      "DIR: expected a model that takes images, found one without preprocessor_config.json; leave the images out, or "
      "choose another model");
  EXPECT_EQ(line(shown("<image>What?", {})), "ok");
}

TEST_F(Prompts, NeedATemplateForImages) {
  options_.use_chat_template = false;
  EXPECT_EQ(
      line(shown("<image>What?", {image_})),
      "images: expected a model with a chat template, which says where they stand, found no template; give one with "
      "--template, or leave the images out");
}

// A tool's result in a format whose calls are lines of the assistant's text: the answer goes on in its turn, and ends
// where the next result would come.
TEST_F(Prompts, GoOnBehindAToolsResult) {
  options_.agent_template = "react_en";
  Dialogue dialogue{{"user", "When?", {}, {}}};
  dialogue.tools_json = R"([{"name": "now", "description": "d"}])";
  const chat::ModelText text = chat::load_model_text(dir_.path()).value();
  const auto words = [&](const Dialogue& asked) { return text.tokenizer.decode(encoded(asked)->ids, false); };
  const std::string question = words(dialogue);
  EXPECT_TRUE(question.ends_with("When?<|im_end|>\n<|im_start|>assistant\n")) << question;
  EXPECT_EQ(encoded(dialogue)->stop, "Observation:");
  dialogue.messages.push_back({"tool_call", R"({"name": "now", "arguments": {}})", {}, {}});
  dialogue.messages.push_back({"tool_response", "12", {}, {}});
  EXPECT_EQ(words(dialogue), question + "Action: now\nAction Input: {}\nObservation:12\n");
  dialogue.tools_json.clear();
  EXPECT_EQ(encoded(dialogue)->stop, "");
  options_.agent_template = "hermes";
  EXPECT_TRUE(words(dialogue).ends_with("<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_EQ(encoded(dialogue)->stop, "");
}

TEST_F(Prompts, AreRefusedWhereImagesTakeMoreThanTheContext) {
  options_.engine.max_model_len = 7;
  EXPECT_EQ(line(shown("<image><image>", {image_, image_})),
            "DIR/a.png: expected images of at most 7 tokens in a prompt, found 8 with this one; give fewer or smaller "
            "images, or raise --max_model_len");
}

}  // namespace
}  // namespace tern::engine
