// What a run writes of itself: the event file's bytes, plots, and what a resumed run makes of both.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "base/strings.h"
#include "io/checksum.h"
#include "io/json.h"
#include "tiny_run.h"
#include "train/reporting/event_file.h"
#include "train/reporting/plots.h"
#include "train/reporting/tags.h"
#include "train/reporting/tensorboard_log.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {(std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>()};
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

// The scalars of an event file: tag and step of each, read without the code that writes them.
std::vector<std::pair<std::string, int>> scalars(const std::string& file) {
  std::vector<std::pair<std::string, int>> out;
  for (std::size_t at = 0; at + 16 <= file.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, file.data() + at, 8);
    const std::string event = file.substr(at + 12, size);
    at += 16 + size;
    // wall_time (9 bytes), then the step where it isn't 0, then the summary with one value: key, size, key, size
    std::size_t i = 9;
    int step = 0;
    if (i < event.size() && event[i] == 0x10) step = static_cast<unsigned char>(event[i + 1]), i += 2;
    if (i + 6 > event.size() || event[i] != 0x2a || event[i + 4] != 0x0a) continue;
    const auto length = static_cast<std::size_t>(event[i + 5]);
    if (event[i + 6 + length] != 0x15) continue;  // simple_value
    out.emplace_back(event.substr(i + 6, length), step);
  }
  return out;
}

// RFC 3720, appendix B.4.
TEST(EventFile, ChecksumsAreTheStandardsOwn) {
  const std::string zeros(32, '\0');
  const std::string ones(32, '\xff');
  const auto crc = [](const std::string& bytes) { return io::crc32c(std::as_bytes(std::span(bytes))); };
  EXPECT_EQ(crc(zeros), 0x8a9136aaU);
  EXPECT_EQ(crc(ones), 0x62a8ab43U);
  EXPECT_EQ(crc("123456789"), 0xe3069283U);
}

// As torch.utils.tensorboard's SummaryWriter frames the same events at second 1 (script/golden.d/event_files.py).
TEST(EventFile, BytesAreSummaryWritersOwn) {
  const io::Json theirs = io::parse_json(slurp(TERN_TEST_DATA "/golden/tensorboard-events.json"), "golden").value();
  EXPECT_EQ(hex(record(scalar_event(1.0, 300, "train/loss", 0.5))), theirs["scalar"].text());
  EXPECT_EQ(hex(record(text_event(1.0, 0, "args", "{}"))), theirs["text"].text());
  // Theirs also names the program that wrote it.
  constexpr std::size_t kHead = 24;
  const std::string version = hex(version_event(1.0));
  EXPECT_EQ(theirs["version"].text().substr(kHead, version.size()), version);
}

TEST(EventFile, KeepsSoundRecordsUpToAStep) {
  const std::string head = record(version_event(1.0));
  std::string file = head;
  for (int step = 1; step <= 4; ++step) file += record(scalar_event(1.0, step * 100, "train/loss", step));
  const std::string two = head + record(scalar_event(1.0, 100, "train/loss", 1)) + record(scalar_event(1.0, 200, "train/loss", 2));
  EXPECT_EQ(records_until(file, 200), two);
  EXPECT_EQ(records_until(file, 1000), file);
  EXPECT_EQ(records_until(file.substr(0, file.size() - 3), 200), two) << "cut short";
  std::string broken = file;
  broken[two.size() + 20] ^= 1;
  EXPECT_EQ(records_until(broken, 1000), two);
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_LE(records_until(std::string_view(file).substr(0, size), 1000).size(), size);
  }
}

TEST(Reporting, TagsAreThoseOfTransformers) {
  EXPECT_EQ(tag_of("loss"), "train/loss");
  EXPECT_EQ(tag_of("eval_loss"), "eval/loss");
  EXPECT_EQ(tag_of("memory(GiB)"), "train/memory(GiB)");
}

// ms-swift's tensorboard_smoothing([1, 2, 4], 0.9).
TEST(Reporting, SmoothsAsTensorBoardDoes) {
  const auto out = smoothed({1, 2, 4}, 0.9);
  ASSERT_EQ(out.size(), 3U);
  EXPECT_DOUBLE_EQ(out[0], 1);
  EXPECT_DOUBLE_EQ(out[1], 2.9 / 1.9);
  EXPECT_DOUBLE_EQ(out[2], 6.61 / 2.71);
}

TEST(Reporting, EveryNumberHasItsPlot) {
  const auto plots = plots_of(
      "{\"loss\":2,\"grad_norm\":1,\"epoch\":0.1,\"global_step/max_steps\":\"1/9\",\"train_speed(s/it)\":3}\n"
      "{\"eval_loss\":3,\"epoch\":0.1,\"global_step/max_steps\":\"1/9\",\"train_speed(s/it)\":9}\n"
      "{\"loss\":1,\"grad_norm\":1,\"epoch\":0.2,\"global_step/max_steps\":\"2/9\",\"train_speed(s/it)\":3}\n"
      "{\"last_model_checkpoint\":null,\"global_step/max_steps\":\"2/9\",\"best_metric\":7}\nhalf a ro");
  std::vector<std::string> names;
  for (const auto& [name, plot] : plots) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"eval_loss.svg", "train_grad_norm.svg", "train_loss.svg",
                                             "train_train_speed(s_it).svg"}));
  const io::LinePlot& loss = plots.at("train_loss.svg");
  ASSERT_EQ(loss.curves.size(), 3U);
  EXPECT_EQ(loss.curves[0].y, (std::vector<double>{2, 1}));
  EXPECT_EQ(loss.curves[1].y, smoothed({2, 1}, 0.9));
  EXPECT_EQ(loss.curves[2].y, std::vector<double>{3});
  EXPECT_EQ(plots.at("train_train_speed(s_it).svg").curves[0].y, (std::vector<double>{3, 3}));
}

TEST(Reporting, OnlyTheNewestRunOfAFolderIsDrawn) {
  const auto row = [](int step) { return cat("{\"loss\":1,\"global_step/max_steps\":\"", step, "/9\"}\n"); };
  const auto plots = plots_of(row(1) + row(2) + row(3) + row(1) + row(2));
  EXPECT_EQ(plots.at("train_loss.svg").curves[0].x, (std::vector<double>{1, 2}));
}

// A run that is killed behind its checkpoint and goes on has written each row once, everywhere.
TEST(Reporting, AResumedRunWritesNoRowTwice) {
  const Scratch scratch;
  const auto train = [&](const fs::path& resume_from, std::int64_t steps) {
    TinyRun run(scratch.path(), resume_from);
    run.options.max_steps = steps;
    run.options.logging_steps = 1;
    run.options.report = {.tensorboard = true, .logging_dir = {}, .plots = true};
    run.options.args_json = "{}";
    (void)run.train();
  };
  train({}, 6);
  train(scratch.path() / "checkpoint-2", 6);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(scratch.path() / "runs")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_TRUE(files[0].filename().string().starts_with("events.out.tfevents."));
  std::vector<int> steps;
  for (const auto& [tag, step] : scalars(slurp(files[0]))) {
    if (tag == "train/loss") steps.push_back(step);
  }
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  const auto plots = plots_of(slurp(scratch.path() / "logging.jsonl"));
  EXPECT_EQ(plots.at("train_loss.svg").curves[0].x, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  for (const char* name : {"train_loss", "train_learning_rate", "train_grad_norm", "train_tokens_per_second", "train_memory(GiB)"}) {
    EXPECT_NE(slurp(scratch.path() / "images" / cat(name, ".svg")).find("</svg>"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tern::train
