// Prompts with images against transformers' processors, and what is said of those that cannot be made.
#include "session/image_prompt.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "chat/image_parts.h"
#include "chat/model_text.h"
#include "chat/template_messages.h"
#include "tests/support/parsed_json.h"
#include "tests/support/pattern.h"
#include "tests/support/png.h"
#include "tests/support/temp_dir.h"

namespace tern::session {
namespace {

namespace fs = std::filesystem;
using io::Json;

const fs::path kMedia = fs::path(TERN_TEST_DATA) / "media";

// A checkpoint's files without its weights.
void write_model(const test::TempDir& dir, const std::string& family) {
  const auto copy = [&](const fs::path& from) { fs::copy(from, dir.path(), fs::copy_options::overwrite_existing); };
  fs::copy(kMedia / "processors" / family, dir.path());
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) copy(kMedia / "words" / file);
  const std::string name = family.substr(0, family.find("_nested"));
  fs::copy_file(kMedia / "words" / (name + ".jinja"), dir / "chat_template.jinja");
}

// Content parts as rows have them: tags in the text.
std::vector<chat::Message> tagged(const Json& messages) {
  std::vector<chat::Message> out;
  for (const Json& message : messages) {
    std::string text;
    for (const Json& part : message["content"]) {
      text += part.contains("text") ? part["text"].text() : std::string(chat::image_tag);
    }
    out.push_back({message["role"].text(), text, {}, {}});
  }
  return out;
}

std::string rendered(const chat::ModelText& text, const std::vector<chat::Message>& messages) {
  const jinja::Values values = chat::with_image_parts(chat::template_messages(messages).value());
  chat::ChatInput input;
  input.values = &values;
  input.add_generation_prompt = true;
  input.bos_token = text.tokenizer.config().bos.content;
  return text.chat_template->render(input).value();
}

TEST(ImagePrompts, HaveTheIdsOfTransformers) {
  std::ifstream file(kMedia / "words" / "prompts.json");
  const Json golden = test::parsed_json(std::move(file));
  int cases = 0;
  for (const Json& row : golden["prompts"]) {
    const test::TempDir dir;
    write_model(dir, row["family"].text());
    const chat::ModelText text = chat::load_model_text(dir.path()).value();
    const ImagePrompts prompts = ImagePrompts::open(dir.path(), text.tokenizer).value();
    std::vector<std::string> files;
    for (const Json& size : row["sizes"]) {
      const std::string name = std::to_string(files.size()) + ".png";
      files.push_back(dir.write(name, test::png_of(test::pattern(size[0].get<int>(), size[1].get<int>(), 1))));
    }
    const auto images = prompts.read(files, 10000).value();
    const auto ids = prompts.encode(rendered(text, tagged(row["messages"])), images).value();
    std::vector<tokenizer::TokenId> expected;
    for (const Json& run : row["runs"]) expected.insert(expected.end(), run[1].get<std::size_t>(), run[0].get<int>());
    EXPECT_EQ(ids, expected) << row["family"].text();
    ++cases;
  }
  EXPECT_EQ(cases, 12);
}

class ImagePromptErrors : public testing::Test {
 protected:
  ImagePromptErrors() { write_model(dir_, "qwen3_vl_nested"); }
  std::string encoded(std::string_view prompt, std::size_t images) {
    const chat::ModelText text = chat::load_model_text(dir_.path()).value();
    const ImagePrompts prompts = ImagePrompts::open(dir_.path(), text.tokenizer).value();
    const std::vector<ImagePatches> patches(images, {.patches = {}, .grids = {}, .tokens = 2});
    const auto ids = prompts.encode(prompt, patches);
    return ids.ok() ? "ok" : ids.error().line();
  }
  test::TempDir dir_;
};

TEST_F(ImagePromptErrors, CountPlacesAndImages) {
  const std::string mend = "; write <image> once for each image, and the model's own words for images nowhere";
  EXPECT_EQ(encoded("a <|image_pad|> b <|image_pad|>", 2), "ok");
  EXPECT_EQ(
      encoded("a <|image_pad|>", 2),
      "the prompt: expected 2 times <|image_pad|>, once for each image, found 1 times, as the chat template writes it" +
          mend);
  EXPECT_EQ(
      encoded("a <|image_pad|> <|image_pad|>", 1),
      "the prompt: expected 1 times <|image_pad|>, once for each image, found 2 times, as the chat template writes it" +
          mend);
}

// Gemma's places are another word than its placeholder: one that a question smuggles in is no image's.
TEST(ImagePrompts, RefuseAPlaceInTheTextItself) {
  const test::TempDir dir;
  write_model(dir, "gemma3");
  const chat::ModelText text = chat::load_model_text(dir.path()).value();
  const ImagePrompts prompts = ImagePrompts::open(dir.path(), text.tokenizer).value();
  const std::vector<ImagePatches> one(1, {.patches = {}, .grids = {}, .tokens = 256});
  EXPECT_TRUE(prompts.encode("<start_of_image> what?", one).ok());
  EXPECT_EQ(prompts.encode("<start_of_image> <image_soft_token>", one).error().line(),
            "the prompt: expected 256 tokens <image_soft_token> for its images, found 257; write <image> once for each "
            "image, and the model's own words for images nowhere");
}

TEST_F(ImagePromptErrors, NameWhatDoesNotFit) {
  const chat::ModelText text = chat::load_model_text(dir_.path()).value();
  const ImagePrompts prompts = ImagePrompts::open(dir_.path(), text.tokenizer).value();
  const std::string file = dir_.write("a.png", test::png_of(test::pattern(64, 64, 1)));
  EXPECT_EQ(prompts.read(std::vector{file, file}, 8)->size(), 2U);
  EXPECT_EQ(dir_.line(prompts.read(std::vector{file, file, file}, 8).error()),
            "DIR/a.png: expected images of at most 8 tokens in a prompt, found 12 with this one; give fewer or smaller "
            "images, or raise --max_model_len");
  dir_.write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": []})");
  const chat::ModelText other = chat::load_model_text(dir_.path()).value();
  EXPECT_EQ(dir_.line(ImagePrompts::open(dir_.path(), other.tokenizer).error()),
            "DIR/tokenizer.json: expected the token <|image_pad|>, for images, found none; take the model's repository "
            "again, or choose another model");
}

}  // namespace
}  // namespace tern::session
