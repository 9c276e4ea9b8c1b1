// What a run writes for wandb and SwanLab: the log that both keep, and what a resumed run makes of it. Their own
// readers judge the rest (script/golden.d/trackers.py).
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <set>

#include "base/strings.h"
#include "io/checksum.h"
#include "io/json.h"
#include "tiny_run.h"
#include "train/reporting/record_log.h"
#include "train/reporting/run_folder.h"
#include "train/reporting/wire.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWandb{":W&B\xe1\xbe\0", 7};
constexpr std::string_view kSwanlab{":SWL\xd6\xe1\x02", 7};

std::string sha256_of(const std::string& text) {
  io::Digest digest = io::Digest::sha256();
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

io::Json golden_json(const std::string& name) { return io::parse_json(file_text(golden(name)), name).value(); }

std::string text_of(std::string_view message, std::uint32_t field) {
  const auto found = find_field(message, field);
  return found ? std::string(found->bytes) : std::string();
}

// The JSON of wandb's items (field 1) by their keys: nested ones (2), or those of a config (1).
std::map<std::string, std::string> items_of(std::string_view message, std::uint32_t key = 2) {
  std::map<std::string, std::string> out;
  WireReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1) out[text_of(field->bytes, key)] = text_of(field->bytes, 16);
  }
  return out;
}

fs::path only_file(const fs::path& root, const std::string& extension) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == extension) found.push_back(entry.path());
  }
  EXPECT_EQ(found.size(), 1U);
  return found.empty() ? fs::path() : found[0];
}

TEST(RecordLog, FramesAsSwanLabsOwnWriterDoes) {
  const io::Json theirs = golden_json("trackers/swanlab-framing.json");
  std::string file(kSwanlab);
  std::vector<std::string> records;
  for (const io::Json& size : theirs["sizes"]) {
    records.emplace_back(size.get<std::size_t>(), static_cast<char>('a' + records.size()));
    file += framed_record(records.back(), file.size());
  }
  EXPECT_EQ(file.size(), theirs["length"].get<std::size_t>());
  EXPECT_EQ(sha256_of(file), theirs["sha256"].text());
  EXPECT_EQ(sound_records(file, kSwanlab), records);
  EXPECT_TRUE(sound_records(file, kWandb).empty()) << "of another tool";
}

TEST(RecordLog, ReadsAndWritesWandbsOwnRunToTheByte) {
  const std::string theirs = file_text(golden("trackers/offline.wandb"));
  const auto records = sound_records(theirs, kWandb);
  ASSERT_EQ(records.size(), 20U);
  std::string again(kWandb);
  for (const std::string& record : records) again += framed_record(record, again.size());
  EXPECT_EQ(again, theirs);
  EXPECT_EQ(text_of(text_of(records[1], 17), 3), "p");
  EXPECT_EQ(items_of(text_of(records[10], 2)).at("train/loss"), "0.2");
}

TEST(RecordLog, KeepsWhatIsSoundOfADamagedFile) {
  const std::string theirs = file_text(golden("trackers/offline.wandb"));
  const auto whole = sound_records(theirs, kWandb);
  for (std::size_t size = 0; size < theirs.size(); ++size) {
    const auto kept = sound_records(std::string_view(theirs).substr(0, size), kWandb);
    ASSERT_LT(kept.size(), whole.size());
    ASSERT_TRUE(std::equal(kept.begin(), kept.end(), whole.begin()));
  }
  for (std::size_t at = 0; at < theirs.size(); at += 13) {
    std::string broken = theirs;
    broken[at] ^= 1;
    EXPECT_LT(sound_records(broken, kWandb).size(), whole.size()) << at;
  }
}

// A run of six steps whose folders are those of `scratch`.
void train_to(const Scratch& scratch, const fs::path& resume_from) {
  TinyRun run(scratch.path(), resume_from);
  run.options.logging_steps = 1;
  run.options.report.wandb.emplace();
  run.options.report.wandb->directory = scratch.path();
  run.options.report.wandb->name = "the run";
  run.options.report.wandb->tags = {"one", "two"};
  run.options.report.swanlab.emplace();
  run.options.report.swanlab->directory = scratch.path() / "swanlog";
  run.options.args_json = R"({"lr": 0.0001, "target_modules": ["all-linear"], "adapters": null})";
  (void)run.train();
}

std::map<std::string, std::string> logged_at(const fs::path& folder, int step) {
  const std::string text = file_text(folder / "logging.jsonl");
  for (const std::string_view line : split(text, '\n')) {
    if (line.find(cat("\"global_step/max_steps\":\"", step, "/")) == std::string_view::npos) continue;
    std::map<std::string, std::string> out;
    const io::Json row = io::parse_json(line, "row").value();
    for (const auto& [key, value] : row.items()) out[key] = value.dump();
    return out;
  }
  return {};
}

TEST(Wandb, AResumedRunHasEveryRowOnce) {
  const Scratch scratch;
  train_to(scratch, {});
  const fs::path first = only_file(scratch.path() / "wandb", ".wandb");
  std::ofstream(first.string() + ".synced") << "";
  train_to(scratch, scratch.path() / "checkpoint-2");
  const fs::path file = only_file(scratch.path() / "wandb", ".wandb");
  EXPECT_EQ(file, first);
  EXPECT_FALSE(fs::exists(first.string() + ".synced")) << "wandb sync would pass it over";
  const auto records = sound_records(file_text(file), kWandb);
  std::uint64_t number = 0;
  std::vector<std::string> steps;
  int exits = 0;
  for (const std::string& record : records) {
    EXPECT_EQ(find_field(record, 1)->value, ++number);
    if (find_field(record, 18)) ++exits;
    const auto history = find_field(record, 2);
    if (!history) continue;
    auto items = items_of(history->bytes);
    EXPECT_EQ(items.at("_step"), cat(steps.size()));
    EXPECT_EQ(find_field(text_of(history->bytes, 2), 1)->value, steps.size());
    steps.push_back(items.at("train/global_step"));
    const auto logged = logged_at(scratch.path(), std::stoi(steps.back()));
    for (const char* key : {"loss", "grad_norm", "learning_rate", "epoch", "tokens_per_second"}) {
      EXPECT_EQ(items.at(cat("train/", key)), logged.at(key)) << key;
    }
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"1", "2", "3", "4", "5", "6"}));
  EXPECT_EQ(exits, 1);
  EXPECT_TRUE(find_field(records.back(), 18));
}

TEST(Wandb, TheRunIsDescribedAsTheUserSays) {
  const Scratch scratch;
  train_to(scratch, {});
  const fs::path file = only_file(scratch.path() / "wandb", ".wandb");
  const std::string run = text_of(sound_records(file_text(file), kWandb).at(1), 17);
  const std::string id = text_of(run, 1);
  EXPECT_EQ(id.size(), 8U);
  EXPECT_EQ(file.filename(), cat("run-", id, ".wandb"));
  EXPECT_TRUE(file.parent_path().filename().string().starts_with("offline-run-"));
  EXPECT_EQ(fs::canonical(scratch.path() / "wandb/latest-run"), fs::canonical(file.parent_path()));
  EXPECT_EQ(text_of(run, 3), "huggingface");
  EXPECT_EQ(text_of(run, 8), "the run");
  std::vector<std::string> tags;
  WireReader reader(run);
  while (const auto field = reader.next()) {
    if (field->number == 10) tags.emplace_back(field->bytes);
  }
  EXPECT_EQ(tags, (std::vector<std::string>{"one", "two"}));
  const auto config = items_of(text_of(run, 4), 1);
  EXPECT_EQ(config.at("lr"), "0.0001");
  EXPECT_EQ(config.at("target_modules"), "[\"all-linear\"]");
  EXPECT_EQ(config.at("adapters"), "null");
  const std::string yaml = file_text(file.parent_path() / "files/config.yaml");
  EXPECT_NE(yaml.find("\nlr:\n  desc: null\n  value: 0.0001\n"), std::string::npos) << yaml;
}

TEST(Swanlab, AResumedRunHasEveryRowOnce) {
  const Scratch scratch;
  train_to(scratch, {});
  const fs::path first = only_file(scratch.path() / "swanlog", ".swanlab");
  train_to(scratch, scratch.path() / "checkpoint-2");
  const fs::path file = only_file(scratch.path() / "swanlog", ".swanlab");
  EXPECT_EQ(file, first);
  const auto records = sound_records(file_text(file), kSwanlab);
  std::uint64_t number = 0;
  std::map<std::string, std::vector<std::uint64_t>> steps;  // by key
  std::set<std::string> columns;
  int finishes = 0;
  for (const std::string& record : records) {
    const auto column = find_field(record, 12);
    const auto scalar = find_field(record, 13);
    if (column || scalar) {
      EXPECT_EQ(find_field(record, 1)->value, ++number);
    }
    if (column) {
      EXPECT_TRUE(columns.insert(text_of(column->bytes, 3)).second);
    }
    if (find_field(record, 11)) ++finishes;
    if (!scalar) continue;
    const std::string key = text_of(scalar->bytes, 1);
    EXPECT_TRUE(columns.contains(key)) << key << " is in no column before its first number";
    steps[key].push_back(find_field(scalar->bytes, 2)->value);
    if (key != "train/loss") continue;
    const double value = std::bit_cast<double>(find_field(text_of(scalar->bytes, 5), 1)->value);
    EXPECT_EQ(io::Json(value).dump(), logged_at(scratch.path(), static_cast<int>(steps[key].back())).at("loss"));
  }
  const std::vector<std::uint64_t> all = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(steps.at("train/loss"), all);
  EXPECT_EQ(steps.at("train/learning_rate"), all);
  EXPECT_EQ(steps.at("train/global_step"), all);
  EXPECT_EQ(steps.at("single_value/train_runtime"), std::vector<std::uint64_t>{6});
  EXPECT_EQ(finishes, 1);
  EXPECT_EQ(text_of(text_of(records.at(0), 10), 1), "ms-swift");
  EXPECT_EQ(text_of(text_of(records.at(0), 10), 4), scratch.path().string());
  EXPECT_EQ(file_text(scratch.path() / "swanlog/.gitignore"), "*");
}

}  // namespace
}  // namespace tern::train
