#include "data/dataset.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "io/checksum.h"
#include "tests/support/temp_dir.h"

namespace tern::data {
namespace {

// A token a byte, the answer supervised; counts its calls.
class Bytes final : public RowEncoder {
 public:
  explicit Bytes(std::uint32_t max_length = 0, Truncation truncation = Truncation::remove, bool supervised = true)
      : max_length_(max_length), truncation_(truncation), supervised_(supervised) {}

  Result<EncodedRow> encode(const Row& row) const override {
    ++calls;
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    if (row.text && *row.text == "refuse")
      return data_error(cat(row.file, ":", row.line), "another text", "refuse", "write another");
    Sample sample;
    for (const auto& message : row.messages) {
      for (const char c : message.content) {
        sample.ids.push_back(static_cast<unsigned char>(c));
        sample.weights.push_back(supervised_ && message.role == "assistant" ? 1.0F : 0.0F);
      }
    }
    EncodedRow out;
    append_truncated(out, std::move(sample), max_length_, truncation_);
    return out;
  }
  std::string fingerprint() const override { return cat("bytes ", max_length_, " ", static_cast<int>(truncation_)); }

  mutable std::atomic<int> calls = 0;
  std::chrono::milliseconds delay{0};

 private:
  std::uint32_t max_length_;
  Truncation truncation_;
  bool supervised_;
};

std::string rows(int count, int from = 0) {
  std::string out;
  for (int i = from; i < from + count; ++i) out += cat("{\"query\":\"q", i, "\",\"response\":\"r", i, "\"}\n");
  return out;
}

LoadOptions options(const test::TempDir& scratch, std::vector<std::string> dataset) {
  LoadOptions out;
  out.dataset = std::move(dataset);
  out.cache_directory = scratch.path() / "cache";
  out.dataset_num_proc = 3;
  return out;
}

std::string text(const EncodedDataset& data, std::uint32_t id) {
  std::string out;
  for (const auto token : data.sample(id).ids) out += static_cast<char>(token);
  return out;
}

std::vector<std::string> texts(const EncodedDataset& data) {
  std::vector<std::string> out;
  for (std::uint32_t id = 0; id < data.size(); ++id) out.push_back(text(data, id));
  return out;
}

// Collects log lines while it lives.
class Lines {
 public:
  Lines() {
    set_log_sink([this](LogLevel, std::string_view line) { all.emplace_back(line); });
  }
  ~Lines() { set_log_sink({}); }
  std::vector<std::string> all;
};

TEST(Dataset, ThreadsKeepFileOrder) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(2000));
  const Bytes encoder;
  const auto data = load_datasets(options(scratch, {file}), encoder).value();
  ASSERT_EQ(data.train.size(), 2000U);
  for (std::uint32_t i = 0; i < 2000; ++i) ASSERT_EQ(text(data.train, i), cat("q", i, "r", i));
  EXPECT_EQ(data.train.info(7).line, 8U);
  EXPECT_EQ(data.train.sample(3).weights[1], 0.0F);
  EXPECT_EQ(data.train.sample(3).weights[2], 1.0F);
  EXPECT_EQ(data.reports[0].line(), cat(file, ": 2000 rows; 2000 samples"));
}

TEST(Dataset, ACacheHitEqualsTheMiss) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(300) + "{\"messages\":7}\n");
  const Bytes encoder;
  const Lines lines;
  auto load = options(scratch, {file});
  load.split_dataset_ratio = 0.1;
  const auto miss = load_datasets(load, encoder).value();
  const int calls = encoder.calls;
  EXPECT_FALSE(miss.reports[0].cached);
  const auto warned = lines.all;
  const auto hit = load_datasets(load, encoder).value();
  EXPECT_TRUE(hit.reports[0].cached);
  EXPECT_EQ(encoder.calls, calls) << "tokenised again";
  EXPECT_EQ(texts(hit.train), texts(miss.train));
  EXPECT_EQ(texts(hit.validation), texts(miss.validation));
  EXPECT_EQ(hit.held_out, miss.held_out);
  EXPECT_EQ(hit.reports[0].counts.bad, 1U);
  EXPECT_EQ(std::vector<std::string>(lines.all.begin() + static_cast<std::ptrdiff_t>(warned.size()), lines.all.end()),
            warned);
  // A copy of the file is the same content; its errors name it.
  const auto copy = scratch.write("b.jsonl", rows(300) + "{\"messages\":7}\n");
  load.dataset = {copy};
  EXPECT_TRUE(load_datasets(load, encoder)->reports[0].cached);
  EXPECT_NE(lines.all[lines.all.size() - 2].find("b.jsonl:301: field \"messages\""), std::string::npos);
  load.load_from_cache_file = false;
  EXPECT_FALSE(load_datasets(load, encoder)->reports[0].cached);
}

TEST(Dataset, TheKeyHoldsContentAndSettings) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(20));
  const Bytes plain;
  const auto load = options(scratch, {file});
  (void)load_datasets(load, plain).value();
  EXPECT_FALSE(load_datasets(load, Bytes(3, Truncation::right))->reports[0].cached);
  auto with_system = load;
  with_system.normalize.system = "s";
  EXPECT_FALSE(load_datasets(with_system, plain)->reports[0].cached);
  scratch.write("a.jsonl", rows(21));
  EXPECT_FALSE(load_datasets(load, plain)->reports[0].cached);
  scratch.write("a.jsonl", rows(20));
  EXPECT_TRUE(load_datasets(load, plain)->reports[0].cached);
}

TEST(Dataset, ADamagedCacheIsMadeAnew) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(50));
  const Bytes encoder;
  const Lines lines;
  const auto load = options(scratch, {file});
  const auto want = texts(load_datasets(load, encoder)->train);
  std::filesystem::path cache;
  for (const auto& entry : std::filesystem::directory_iterator(load.cache_directory)) {
    if (entry.path().extension() == ".tokens") cache = entry.path();
  }
  const auto size = std::filesystem::file_size(cache);
  for (std::uintmax_t at = 0; at < size; at += 97) {
    {
      std::fstream out(cache, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(static_cast<std::streamoff>(at));
      const int old = out.peek();
      out.seekp(static_cast<std::streamoff>(at));
      out.put(static_cast<char>(old ^ 0x41));
    }
    EXPECT_FALSE(SampleCache::open(cache).ok()) << "byte " << at;
    const auto again = load_datasets(load, encoder).value();
    EXPECT_FALSE(again.reports[0].cached);
    EXPECT_EQ(texts(again.train), want);
  }
  std::filesystem::resize_file(cache, size / 2);
  EXPECT_FALSE(SampleCache::open(cache).ok());
  std::filesystem::resize_file(cache, 3);
  EXPECT_FALSE(SampleCache::open(cache).ok());
}

// Broken if an index with a good checksum can still lead outside the file.
TEST(Dataset, ACacheThatLeadsOutsideItselfIsRefused) {
  const test::TempDir scratch;
  const auto file = (scratch.path() / "a.tokens").string();
  auto writer = SampleCacheWriter::create(file).value();
  const std::vector<std::int32_t> ids = {1, 2};
  const std::vector<float> weights = {0, 1};
  ASSERT_TRUE(writer->add({ids, weights}, {}, 0, 1).ok());
  ASSERT_TRUE(writer->finish({}).ok());
  std::ostringstream read;
  read << std::ifstream(file, std::ios::binary).rdbuf();
  std::string bytes = read.str();
  std::uint64_t index =
      0;  // the footer: index, samples, columns, the text's place and sizes, 8 counts, checksum, magic
  std::memcpy(&index, bytes.data() + bytes.size() - 136, sizeof(index));
  SampleInfo info = {};
  std::memcpy(&info, bytes.data() + index, sizeof(info));
  info.length += 1;
  std::memcpy(bytes.data() + index, &info, sizeof(info));
  const std::string sum = io::xxh3_64(std::as_bytes(std::span(bytes)).first(bytes.size() - 24));
  std::memcpy(bytes.data() + bytes.size() - 24, sum.data(), sum.size());
  scratch.write("a.tokens", bytes);
  EXPECT_EQ(scratch.line(SampleCache::open(file).error()),
            "DIR/a.tokens: expected a whole cache of tokenised rows, found tokens outside the file; delete it");
}

TEST(Dataset, SaysWhichSettingsDoNotFit) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(5));
  const auto line = [&](const LoadOptions& load) { return scratch.line(load_datasets(load, Bytes()).error()); };
  EXPECT_EQ(line(options(scratch, {})), "no dataset was given; name a file, as in --dataset train.jsonl.");
  auto split = options(scratch, {file});
  split.split_dataset_ratio = 1;
  EXPECT_EQ(line(split),
            "--split_dataset_ratio 1 is not a share of the rows; give a number from 0 to below 1, such as 0.01.");
  split.split_dataset_ratio = 0.5;
  split.val_dataset = {file};
  EXPECT_EQ(line(split), "--split_dataset_ratio and --val_dataset cannot be used together; drop one.");
  EXPECT_EQ(line(options(scratch, {file + "#0"})),
            "DIR/a.jsonl#0 asks for 0 rows; write a number from 1 to 268435456 after #, or leave it out to take "
            "every row once.");
  EXPECT_EQ(line(options(scratch, {"#3"})), "\"#3\" names no file; name one, as in train.jsonl#1000.");
  std::filesystem::create_directory(scratch.path() / "empty");
  EXPECT_EQ(line(options(scratch, {(scratch.path() / "empty").string()})),
            "DIR/empty: expected a directory with .jsonl, .json or .csv files, found none in it; name the file, or the "
            "directory that holds the files");
  auto hub = options(scratch, {"org/name"});
  hub.hub = [](const std::string&) { return std::vector<std::filesystem::path>(); };
  EXPECT_EQ(
      line(hub),
      "org/name: expected a data set with .jsonl, .json or .csv files, found none in it; name a data set with rows "
      "in such files");
  hub.hub = [](const std::string&) -> Result<std::vector<std::filesystem::path>> {
    throw std::runtime_error("no folder");
  };
  EXPECT_EQ(line(hub), "loading datasets failed: no folder; free memory, or look at the folder that it names.");
}

// Broken if a thread that runs out of memory takes the process with it, or ends with another status than 4.
TEST(Dataset, TellsWhatItsThreadsThrow) {
  class Throws final : public RowEncoder {
   public:
    Result<EncodedRow> encode(const Row&) const override { throw std::bad_alloc(); }
    std::string fingerprint() const override { return "throws"; }
  };
  const test::TempDir scratch;
  const auto loaded = load_datasets(options(scratch, {scratch.write("a.jsonl", rows(5))}), Throws());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::device);
  EXPECT_EQ(loaded.error().line(),
            "reading rows failed: no memory is left; free memory, or use fewer threads (--dataset_num_proc).");
}

TEST(Dataset, KilledWritersLeaveASoundCache) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(3000));
  auto load = options(scratch, {file});
  load.dataset_num_proc = 2;
  Bytes slow;
  slow.delay = std::chrono::milliseconds(1);
  std::filesystem::create_directories(load.cache_directory);
  const auto temporaries = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(load.cache_directory)) {
      count += entry.path().string().find(".tmp.") != std::string::npos ? 1 : 0;
    }
    return count;
  };
  const auto age = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(load.cache_directory)) {
      std::filesystem::last_write_time(entry.path(),
                                       std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    }
  };
  for (int round = 0; round < 6; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      (void)load_datasets(load, slow);
      _exit(0);
    }
    int status = 0;
    bool running = true;
    while (running && temporaries() == 0) {
      running = waitpid(child, &status, WNOHANG) == 0;
      usleep(500);
    }
    ASSERT_TRUE(running) << "the writer ended before it could be killed";
    usleep(static_cast<useconds_t>(20000 * round));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    for (const auto& entry : std::filesystem::directory_iterator(load.cache_directory)) {
      if (entry.path().extension() == ".tokens") {
        EXPECT_TRUE(SampleCache::open(entry.path()).ok());
      }
    }
    for (const auto& entry : std::filesystem::directory_iterator(load.cache_directory)) {
      if (round + 1 < 6 && entry.path().string().find(".tmp.") != std::string::npos) {
        std::filesystem::remove(entry.path());
      }
    }
  }
  EXPECT_GT(temporaries(), 0) << "no writer was killed in the middle";
  age();
  const auto data = load_datasets(load, Bytes()).value();
  EXPECT_EQ(data.train.size(), 3000U);
  EXPECT_EQ(temporaries(), 0);
}

TEST(Dataset, TwoProcessesMakeOneCache) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(500));
  auto load = options(scratch, {file});
  Bytes slow;
  slow.delay = std::chrono::milliseconds(1);
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const auto data = load_datasets(load, slow);
      const bool right = data.ok() && data->train.size() == 500 && text(data->train, 499) == "q499r499";
      _exit(right ? (slow.calls > 0 ? 1 : 0) : 2);
    }
    children.push_back(child);
  }
  int made = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_NE(WEXITSTATUS(status), 2);
    made += WEXITSTATUS(status);
  }
  EXPECT_EQ(made, 1) << "processes that tokenised";
}

TEST(Dataset, BadRowsAreDroppedOrStopTheRun) {
  const test::TempDir scratch;
  const auto file = scratch.write(
      "a.jsonl", rows(3) + "{\"query\":3,\"response\":[]}\n" + "oops\n" + rows(2) + "{\"text\":\"refuse\"}\n");
  const Bytes encoder;
  auto load = options(scratch, {file});
  {
    const Lines lines;
    const auto data = load_datasets(load, encoder).value();
    EXPECT_EQ(data.train.size(), 5U);
    EXPECT_EQ(data.reports[0].counts.bad, 3U);
    ASSERT_EQ(lines.all.size(), 4U);
    EXPECT_EQ(lines.all[0],
              cat(file, ":4: field \"response\": expected a string, found an array; write the value in quotes"));
    EXPECT_EQ(lines.all[3], cat(file, ": 3 bad rows dropped"));
  }
  load.strict = true;
  for (const bool cached : {true, false}) {
    load.load_from_cache_file = cached;
    const auto strict = load_datasets(load, encoder);
    ASSERT_FALSE(strict.ok());
    EXPECT_EQ(strict.error().kind, ErrorKind::data);
    EXPECT_EQ(strict.error().line(),
              cat(file, ":4: field \"response\": expected a string, found an array; write the value in quotes"));
  }
}

TEST(Dataset, NoSupervisedTokenIsRefused) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(3));
  const auto data = load_datasets(options(scratch, {file}), Bytes(0, Truncation::remove, false));
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.error().kind, ErrorKind::data);
  EXPECT_NE(data.error().line().find("at least one supervised token"), std::string::npos);
}

TEST(Dataset, CountSamplesOrRepeats) {
  const test::TempDir scratch;
  const Lines lines;
  const auto file = scratch.write("a.jsonl", rows(10) + "bad\n");
  const Bytes encoder;
  const auto few = load_datasets(options(scratch, {file + "#4"}), encoder).value();
  const auto few_texts = texts(few.train);
  EXPECT_EQ(few_texts.size(), 4U);
  EXPECT_EQ(std::set<std::string>(few_texts.begin(), few_texts.end()).size(), 4U);
  EXPECT_EQ(few.reports[0].counts.bad, 1U);
  auto other = options(scratch, {file + "#4"});
  other.data_seed = 7;
  EXPECT_NE(texts(load_datasets(other, encoder)->train), few_texts);
  const auto many = texts(load_datasets(options(scratch, {file + "#25"}), encoder)->train);
  EXPECT_EQ(many.size(), 25U);
  for (int i = 0; i < 10; ++i) {
    const auto times = std::count(many.begin(), many.end(), cat("q", i, "r", i));
    EXPECT_TRUE(times == 2 || times == 3);
  }
}

TEST(Dataset, ForEachRowAgreesWithTheEncoded) {
  const test::TempDir scratch;
  const Lines lines;
  const auto file = scratch.write("a.jsonl", rows(10) + "bad\n");
  const Bytes encoder;
  for (const std::string& spec : {file, file + "#4", file + "#10", file + "#20", file + "#23"}) {
    const auto load = options(scratch, {spec});
    std::vector<std::string> seen;
    const auto report = for_each_row(spec, load, [&](Row&& row) {
      seen.push_back(row.messages[0].content + row.messages[1].content);
      return true;
    });
    EXPECT_EQ(seen, texts(load_datasets(load, encoder)->train)) << spec;
    EXPECT_EQ(report->counts.bad, 1U);
    EXPECT_EQ(report->counts.rows, 11U);
  }
  int taken = 0;
  (void)for_each_row(file, options(scratch, {file}), [&](Row&&) { return ++taken < 3; });
  EXPECT_EQ(taken, 3);
}

TEST(Dataset, HeldOutRowsAreNeverTrainedOn) {
  const test::TempDir scratch;
  const auto file = scratch.write("a.jsonl", rows(100));
  const Bytes encoder(3, Truncation::split);  // several samples a row
  for (const std::string& spec : {file, file + "#40", file + "#250"}) {
    auto load = options(scratch, {spec});
    load.split_dataset_ratio = 0.2;
    const auto data = load_datasets(load, encoder).value();
    std::set<std::uint64_t> train, held;
    for (std::uint32_t i = 0; i < data.train.size(); ++i) train.insert(data.train.info(i).row);
    for (std::uint32_t i = 0; i < data.validation.size(); ++i) held.insert(data.validation.info(i).row);
    EXPECT_EQ(held.size(), spec == file + "#40" ? 8U : 20U);
    for (const auto row : held) EXPECT_FALSE(train.contains(row));
    EXPECT_EQ(data.held_out.size(), held.size());
    const auto target = scratch.path() / "val_dataset.jsonl";
    ASSERT_TRUE(write_held_out(load, data, target).ok());
    auto again = options(scratch, {});
    again.val_dataset = {target.string()};
    EXPECT_EQ(texts(load_datasets(again, encoder)->validation), texts(data.validation));
  }
  auto wrong = options(scratch, {file});
  wrong.split_dataset_ratio = 1;
  EXPECT_EQ(load_datasets(wrong, encoder).error().kind, ErrorKind::usage);
}

TEST(Dataset, SeveralSetsAndDirectoriesMix) {
  const test::TempDir scratch;
  std::filesystem::create_directory(scratch.path() / "d");
  scratch.write("d/1.jsonl", rows(3));
  scratch.write("d/2.csv", "query,response\nx,y\n");
  scratch.write("d/readme.md", "not data");
  const auto other = scratch.write("b.json", "[{\"query\":\"m\",\"response\":\"n\"}]");
  auto load = options(scratch, {(scratch.path() / "d").string(), other});
  load.val_dataset = {other};
  const auto data = load_datasets(load, Bytes()).value();
  EXPECT_EQ(texts(data.train), (std::vector<std::string>{"q0r0", "q1r1", "q2r2", "xy", "mn"}));
  EXPECT_EQ(texts(data.validation), (std::vector<std::string>{"mn"}));
  EXPECT_EQ(load_datasets(options(scratch, {"absent.jsonl"}), Bytes()).error().kind, ErrorKind::data);
  EXPECT_EQ(load_datasets(options(scratch, {"ORG/NAME"}), Bytes()).error().kind, ErrorKind::data);
  auto hub = options(scratch, {"ORG/NAME#1"});
  hub.hub = [&](const std::string& id) -> Result<std::vector<std::filesystem::path>> {
    EXPECT_EQ(id, "ORG/NAME");
    return std::vector<std::filesystem::path>{other};
  };
  EXPECT_EQ(load_datasets(hub, Bytes())->train.size(), 1U);
}

TEST(Truncate, NamesItsStrategies) {
  EXPECT_EQ(parse_truncation("middle").error().line(),
            "--truncation_strategy middle is unknown; choose delete, left, right or split.");
}

TEST(Truncate, EveryStrategy) {
  const Sample sample{{1, 2, 3, 4, 5}, {0, 1, 1, 0, 0.5F}};
  const auto cut = [&](std::uint32_t length, Truncation how) {
    EncodedRow out;
    append_truncated(out, sample, length, how);
    return out;
  };
  EXPECT_EQ(cut(5, Truncation::remove).samples, (std::vector<Sample>{sample}));
  EXPECT_EQ(cut(0, Truncation::remove).samples, (std::vector<Sample>{sample}));
  EXPECT_TRUE(cut(4, Truncation::remove).samples.empty());
  EXPECT_TRUE(cut(4, Truncation::remove).too_long);
  EXPECT_EQ(cut(3, Truncation::right).samples, (std::vector<Sample>{{{1, 2, 3}, {0, 1, 1}}}));
  EXPECT_EQ(cut(3, Truncation::left).samples, (std::vector<Sample>{{{3, 4, 5}, {0, 0, 0.5F}}}));
  EXPECT_EQ(cut(3, Truncation::split).samples, (std::vector<Sample>{{{1, 2, 3}, {0, 1, 1}}, {{4, 5}, {0, 0.5F}}}));
  EXPECT_EQ(cut(3, Truncation::right).truncated, 1U);
  EXPECT_TRUE(cut(3, Truncation::split).split);
}

}  // namespace
}  // namespace tern::data
