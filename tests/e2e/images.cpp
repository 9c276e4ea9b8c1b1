// tern infer with images: whole checkpoints that see, asked about files, against transformers' answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "run.h"
#include "tests/support/base64.h"
#include "tests/support/parsed_json.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using io::Json;
using Words = std::vector<std::string>;

const fs::path kMedia = fs::path(TERN_TEST_DATA) / "media";
const fs::path kGguf = kMedia / "gguf";

class Images : public ::testing::Test {
 protected:
  Images() {
    options_.variables["TERN_HOME"] = (scratch_ / "home").string();
    options_.variables["TERN_CACHE_DIR"] = (scratch_ / "cache").string();
    options_.folder = kMedia / "decode";
  }
  [[nodiscard]] Outcome infer(const std::string& model, Words more, const std::string& input = {}) const {
    const std::string path = (kMedia / "models" / model).string();  // `model` itself, where that is a path
    more.insert(more.begin(),
                {"infer", "--model", path, "--torch_dtype", "float32", "--temperature", "0", "--max_new_tokens", "8"});
    Options options = options_;
    options.input = input;
    return run(more, options);
  }
  // The result rows of rows, each a line of JSON.
  [[nodiscard]] std::vector<Json> results(const std::string& model, const std::string& rows, Words more = {}) const {
    more.insert(more.end(), {"--val_dataset", scratch_.write("rows.jsonl", rows), "--logprobs"});
    const auto outcome = infer(model, more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<Json> out;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) out.push_back(test::parsed_json(line));
    return out;
  }
  static std::vector<Json> golden(const std::string& model) { return golden(model, kMedia / "models" / model); }
  static std::vector<Json> golden(const std::string& /*model*/, const fs::path& folder) {
    const Json json = test::parsed_json(std::ifstream(folder / "answers.json"));
    return {json["answers"].begin(), json["answers"].end()};
  }
  static std::string row_of(const Json& answer) {
    return Json({{"query", answer["query"]}, {"images", answer["images"]}}).dump() + "\n";
  }
  static void expect_equal(const Json& result, const Json& answer) {
    ASSERT_FALSE(result.contains("error")) << result.dump();
    EXPECT_EQ(result.contains("images") ? result["images"].dump() : "[]", answer["images"].dump());
    const Json& tokens = result["logprobs"]["content"];
    ASSERT_EQ(tokens.size(), answer["ids"].size()) << result.dump();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(tokens[i]["id"].get<int>(), answer["ids"][i].get<int>()) << i;
      EXPECT_NEAR(tokens[i]["logprob"].get<double>(), answer["logprobs"][i].get<double>(), 1e-4) << i;
    }
  }

  Scratch scratch_;
  Options options_;
};

class OfModel : public Images, public ::testing::WithParamInterface<const char*> {};

// JPEG, WebP and PNG, upright or not, with and without alpha, none, one or two to a question, answered together.
TEST_P(OfModel, AnswersAreThoseOfTransformers) {
  const auto answers = golden(GetParam());
  std::string rows;
  for (const Json& answer : answers) rows += row_of(answer);
  const auto found = results(GetParam(), rows, {"--max_batch_size", "2"});
  ASSERT_EQ(found.size(), answers.size());
  for (std::size_t i = 0; i < found.size(); ++i) expect_equal(found[i], answers[i]);
}

INSTANTIATE_TEST_SUITE_P(Towers, OfModel,
                         ::testing::Values("qwen2_5_vl", "qwen3_vl", "qwen3_5", "gemma3", "internvl3", "llava"));

// A GGUF with its tower in an mmproj file, named or found beside it, sees what the directory sees.
class OfGguf : public OfModel {
 protected:
  // The two files. Where llama.cpp's converter could not write the language model (gguf_images.py), tern does.
  [[nodiscard]] fs::path folder_of(const std::string& name) const {
    if (fs::exists(kGguf / name / (name + "-F32.gguf"))) return kGguf / name;
    const fs::path folder = scratch_ / name;
    fs::copy(kGguf / name, folder);
    const auto outcome = run(
        {"convert", (kMedia / "models" / name).string(), (folder / (name + "-F32.gguf")).string(), "--outtype", "f32"},
        options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return folder;
  }
};
INSTANTIATE_TEST_SUITE_P(Towers, OfGguf, ::testing::Values("qwen2_5_vl", "qwen3_vl", "qwen3_5", "gemma3", "internvl3"));

TEST_P(OfGguf, AnswersAreThose) {
  const std::string name = GetParam();
  const fs::path folder = folder_of(name);
  const auto answers = golden(name, fs::exists(folder / "answers.json") ? folder : kMedia / "models" / name);
  std::string rows;
  for (const Json& answer : answers) rows += row_of(answer);
  const auto named =
      results((folder / (name + "-F32.gguf")).string(), rows, {"--mmproj", (folder / "mmproj-F32.gguf").string()});
  const auto beside = results(folder.string(), rows);
  ASSERT_EQ(named.size(), answers.size());
  ASSERT_EQ(beside.size(), answers.size());
  for (std::size_t i = 0; i < named.size(); ++i) {
    expect_equal(named[i], answers[i]);
    expect_equal(beside[i], answers[i]);
  }
}

// However an image is written, it is the same image.
TEST_F(Images, FormsOfARow) {
  const Json answer = golden("qwen3_vl")[0];
  std::ostringstream file;
  file << std::ifstream(kMedia / "decode" / answer["images"][0].text(), std::ios::binary).rdbuf();
  const std::string encoded = test::base64(file.str());
  const std::string question = "What is in this image?";
  const std::vector<std::string> rows = {
      R"({"query": "<image>What is in this image?", "images": "rgb-420.jpg"})",
      R"({"query": "What is in this image?", "images": ["rgb-420.jpg"]})",
      R"({"query": "What is in this image?", "images": [{"bytes": null, "path": "rgb-420.jpg"}]})",
      R"({"query": "What is in this image?", "images": [{"bytes": ")" + encoded + R"(", "path": "gone.jpg"}]})",
      R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,)" +
          encoded + R"("}}, {"type": "text", "text": "What is in this image?"}]}]})",
      R"({"messages": [{"role": "user", "content": [{"type": "image", "image": "file://)" +
          (kMedia / "decode" / "rgb-420.jpg").string() +
          R"("}, {"type": "text", "text": "What is in this image?"}]}, {"role": "assistant", "content": "label"}]})"};
  std::string all;
  for (const std::string& row : rows) all += row + "\n";
  const auto found = results("qwen3_vl", all);
  ASSERT_EQ(found.size(), rows.size());
  for (const Json& result : found) {
    EXPECT_EQ(result["logprobs"].dump(), found[0]["logprobs"].dump()) << result.dump();
    EXPECT_EQ(result["messages"][0]["content"].text(), "<image>" + question);
  }
  EXPECT_EQ(found.back()["labels"].text(), "label");
}

// A question from a pipe shows the files of --images.
TEST_F(Images, OfAPipe) {
  const Json answer = golden("internvl3")[1];
  const auto row = results("internvl3", row_of(answer))[0];
  const auto piped =
      infer("internvl3", {"--images", answer["images"][0].text(), answer["images"][1].text()}, answer["query"].text());
  EXPECT_EQ(piped.status, 0) << piped.err;
  EXPECT_EQ(piped.out, row["response"].text() + "\n");
  const auto untagged = infer("internvl3", {"--images", "rgb.png"}, "What?");
  EXPECT_EQ(untagged.out, infer("internvl3", {"--images", "rgb.png"}, "<image>What?").out);
  EXPECT_NE(untagged.out, infer("internvl3", {"--images", "exif-6.jpg"}, "What?").out);
}

// --max_pixels shrinks what is larger, and the environment says what Qwen's processor makes of it.
TEST_F(Images, AreMadeSmaller) {
  const auto answer = [&](const std::string& model, Words more, const std::string& name = {},
                          const std::string& value = {}) {
    if (!name.empty()) options_.variables[name] = value;
    more.insert(more.begin(), {"--images", "rgb-420.jpg"});  // 29 x 19
    const auto outcome = infer(model, more, "What?");
    options_.variables.erase(name);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome;
  };
  for (const char* model : {"qwen3_vl", "gemma3", "internvl3"}) {
    const std::string whole = answer(model, {}).out;
    EXPECT_EQ(answer(model, {"--max_pixels", "551"}).out, whole);
    EXPECT_NE(answer(model, {"--max_pixels", "9"}).out, whole) << model;
  }
  const std::string whole = answer("qwen2_5_vl", {}).out;
  EXPECT_EQ(answer("qwen2_5_vl", {}, "MAX_PIXELS", "640").out, whole) << "as the checkpoint has it";
  EXPECT_NE(answer("qwen2_5_vl", {}, "MAX_PIXELS", "256").out, whole);
  EXPECT_NE(answer("qwen2_5_vl", {}, "IMAGE_MAX_TOKEN_NUM", "4").out, whole);
  const auto gemma = answer("gemma3", {}, "MAX_PIXELS", "256");
  EXPECT_EQ(gemma.out, answer("gemma3", {}).out);
  EXPECT_NE(gemma.err.find("MIN_PIXELS, MAX_PIXELS and their like are for Qwen's processors"), std::string::npos)
      << gemma.err;
  options_.variables["MAX_PIXELS"] = "large";
  const auto refused = infer("qwen2_5_vl", {}, "What?");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(
      refused.last_error_line(),
      "tern: error: MAX_PIXELS is large, and it is an integer from 1 to 67108864; change it, or take it out of the "
      "environment.");
  options_.variables["MAX_PIXELS"] = "100";
  EXPECT_EQ(infer("qwen2_5_vl", {}, "What?").last_error_line(),
            "tern: error: the environment asks for images of 256 to 64 pixels, and a token is 8 x 8; change MIN_PIXELS "
            "and MAX_PIXELS, or IMAGE_MIN_TOKEN_NUM and IMAGE_MAX_TOKEN_NUM.");
}

// The start says what the tower would take; without an image nothing of it is taken.
TEST_F(Images, ComeToATowerThatIsReadThen) {
  const auto words = infer("qwen3_vl", {}, "Tell me of cats and dogs.");
  EXPECT_EQ(words.status, 0) << words.err;
  EXPECT_NE(words.err.find("images: the vision tower takes at least "), std::string::npos) << words.err;
  EXPECT_NE(words.err.find(" for the largest, of 224 patches"), std::string::npos) << words.err;
  EXPECT_EQ(words.err.find("is left out"), std::string::npos) << words.err;
  EXPECT_EQ(words.out, infer("qwen3_vl", {"--max_pixels", "9"}, "Tell me of cats and dogs.").out);
}

// What is wrong with one row's image is that row's error.
TEST_F(Images, ThatCannotBeReadCostTheirRowsOnly) {
  std::ofstream(scratch_ / "cut.jpg") << "\xFF\xD8\xFF";
  const auto found =
      results("qwen3_vl",
              "{\"query\": \"a\", \"images\": \"none.png\"}\n{\"query\": \"b\", \"images\": \"rgb.png\"}\n{\"query\": "
              "\"c\", \"images\": \"" +
                  (scratch_ / "cut.jpg").string() + "\"}\n");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NE(found[0]["error"].text().find("rows.jsonl:1: none.png: expected an image file's path"), std::string::npos)
      << found[0].dump();
  EXPECT_FALSE(found[1].contains("error")) << found[1].dump();
  EXPECT_NE(found[2]["error"].text().find("cut.jpg: expected a whole JPEG image, found "), std::string::npos)
      << found[2].dump();
}

// The one error line of a GGUF that is asked about an image, without its folder.
TEST_F(Images, OfAGgufNeedItsOwnTower) {
  const auto told = [&](const std::string& model, Words more, int status) {
    more.insert(more.end(), {"--images", "rgb.png"});
    const auto outcome = infer(model, more, "What?");
    EXPECT_EQ(outcome.status, status) << outcome.err;
    std::string line = outcome.last_error_line();
    for (std::size_t at = line.find(kGguf.string()); at != std::string::npos; at = line.find(kGguf.string())) {
      line.replace(at, kGguf.string().size(), "DIR");
    }
    return line;
  };
  const auto file = [](const std::string& name) { return (kGguf / name).string(); };
  const std::string qwen3 = file("qwen3_vl/qwen3_vl-F32.gguf");
  EXPECT_EQ(told(qwen3, {}, 3),
            "tern: error: DIR/qwen3_vl/qwen3_vl-F32.gguf: expected a vision tower beside it, for images, found none; "
            "name its mmproj file with --mmproj (mmproj-*.gguf in the model's repository, if it sees at all), or leave "
            "the images out");
  EXPECT_EQ(told(qwen3, {"--mmproj", file("qwen2_5_vl/mmproj-F32.gguf")}, 3),
            "tern: error: DIR/qwen3_vl/qwen3_vl-F32.gguf: key \"general.architecture\": expected \"qwen2vl\", which "
            "DIR/qwen2_5_vl/mmproj-F32.gguf is a tower of, found \"qwen3vl\"; take the mmproj file that lies beside "
            "the model in its repository");
  EXPECT_EQ(told(qwen3, {"--mmproj", qwen3}, 3),
            "tern: error: DIR/qwen3_vl/qwen3_vl-F32.gguf: key \"general.architecture\": expected \"clip\", as of an "
            "mmproj file, found \"qwen3vl\"; name the mmproj file here, and the language model with --model");
  const std::string other_way = told(file("qwen3_vl/mmproj-F32.gguf"), {}, 3);
  EXPECT_NE(other_way.find("give it as --mmproj"), std::string::npos) << other_way;
  EXPECT_EQ(told("qwen3_vl", {"--mmproj", file("qwen3_vl/mmproj-F32.gguf")}, 2).find("tern: error: --mmproj names the"),
            0U);
}

// A tower that was found and not named is no reason to refuse a text.
TEST_F(Images, ADamagedTowerBesideAModelIsLeftOut) {
  fs::create_directory(scratch_ / "model");
  fs::copy(kGguf / "qwen3_vl/qwen3_vl-F32.gguf", scratch_ / "model");
  std::ofstream(scratch_ / "model/mmproj.gguf") << "a projector, no model";
  const auto outcome = infer((scratch_ / "model").string(), {}, "What?");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("the vision tower that lies beside the model is left out: "), std::string::npos)
      << outcome.err;
}

TEST_F(Images, AreRefusedWhereNothingReadsThem) {
  write_tiny_model(scratch_ / "model");
  const std::string rows = scratch_.write("rows.jsonl", R"({"query": "a", "response": "b", "images": "rgb.png"})");
  const auto told = [&](Words words, const std::string& input = {}) {
    words.insert(words.begin() + 1, {"--model", (scratch_ / "model").string()});
    Options options = options_;
    options.input = input;
    const auto outcome = run(words, options);
    EXPECT_EQ(outcome.status, 3) << outcome.err;
    if (words[3] == "--images") {
      EXPECT_EQ(outcome.err.find("parameters"), std::string::npos) << "weights were read before: " << outcome.err;
    }
    std::string line = outcome.last_error_line();
    const std::string folder = scratch_.path().string();
    for (std::size_t at = line.find(folder); at != std::string::npos; at = line.find(folder)) {
      line.replace(at, folder.size(), "DIR");
    }
    return line;
  };
  const auto begins = [](const std::string& text, const std::string& with) {
    EXPECT_TRUE(text.starts_with(with)) << text;
  };
  begins(told({"infer", "--images", "rgb.png"}, "What?"),
         "tern: error: DIR/model: expected a model that takes images, found one without preprocessor_config.json; "
         "leave the "
         "images out, or choose another model");
  begins(told({"infer", "--val_dataset", rows, "--strict"}),
         "tern: error: --val_dataset: expected an answer to every row, found 1 of 1 without one, the first "
         "DIR/rows.jsonl:1: "
         "DIR/model: expected a model that takes images, found one without preprocessor_config.json");
  begins(
      told({"infer", "--val_dataset", rows, "--task_type", "embedding"}),
      "tern: error: DIR/rows.jsonl:1: field \"images\": expected text alone, as --task_type embedding reads it, found "
      "images; take the column out");
  const std::string videos = scratch_.write("videos.jsonl", R"({"query": "a", "videos": "a.mp4"})");
  begins(
      told({"infer", "--val_dataset", videos}),
      "tern: error: DIR/videos.jsonl:1: field \"videos\": expected text and images, as models here take, found videos; "
      "take the column out");
  const std::string text = scratch_.write("text.jsonl", R"({"text": "a", "images": "rgb.png"})");
  begins(told({"score", "--dataset", text}),
         "tern: error: DIR/text.jsonl:1: expected text alone, found images, videos or audios beside it; take the "
         "columns out");
  begins(
      told({"pt", "--dataset", text, "--strict", "--output_dir", (scratch_ / "out").string()}),
      "tern: error: DIR/text.jsonl:1: field \"images\": expected text only, as the model reads no media, found media");
  begins(
      told({"sft", "--dataset", rows, "--strict", "--output_dir", (scratch_ / "out").string()}),
      "tern: error: DIR/rows.jsonl:1: field \"images\": expected text only, as the model reads no media, found media");
}

}  // namespace
}  // namespace tern::e2e
