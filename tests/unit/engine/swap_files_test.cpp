// If these fail, a server reads tokens out of a damaged file, loses what an earlier one kept, or stops over a full
// disk.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "base/log.h"
#include "engine/swap_files.h"
#include "engine/swap_folders.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlockBytes = 3000;
constexpr std::uint64_t kFileBytes = kBlockBytes + 96;

BlockHash hash_of_number(int number) { return hash_of_text(std::to_string(number)); }

std::vector<std::byte> block_of(int number) {
  std::vector<std::byte> bytes(kBlockBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(number * 31 + static_cast<int>(i) * 7);
  return bytes;
}

SwapFilesOptions files_in(const fs::path& folder, std::uint64_t blocks = 100, const std::string& about = "a model") {
  return {folder, blocks * kFileBytes, about, kBlockBytes};
}

// Written at once.
void write(SwapFiles& files, int number) {
  const std::vector<std::byte> bytes = block_of(number);
  files.write(hash_of_number(number), bytes, number);
  files.wait_for_writes();
}

bool holds(SwapFiles& files, int number) {
  std::vector<std::byte> bytes(kBlockBytes);
  if (!files.read(hash_of_number(number), bytes)) return false;
  EXPECT_EQ(bytes, block_of(number)) << "block " << number << " came back as another";
  return true;
}

std::vector<fs::path> block_files(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && hash_from_hex(entry.path().filename().string())) out.push_back(entry.path());
  }
  return out;
}

// What is told while it lives.
class LogLines {
 public:
  LogLines() {
    set_log_sink([this](LogLevel, std::string_view line) {
      const std::scoped_lock lock(mutex_);
      lines_ += std::string(line) + "\n";
    });
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  ~LogLines() { set_log_sink({}); }
  [[nodiscard]] bool has(const std::string& words) {
    const std::scoped_lock lock(mutex_);
    return lines_.find(words) != std::string::npos;
  }

 private:
  std::mutex mutex_;
  std::string lines_;
};

TEST(SwapFiles, AnotherServerFindsWhatOneKept) {
  const test::TempDir dir;
  {
    const auto files = SwapFiles::open(files_in(dir.path())).value();
    for (int i = 0; i < 5; ++i) write(*files, i);
    EXPECT_EQ(files->written(), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
    write(*files, 3);  // is there
    EXPECT_EQ(files->written(), std::vector<std::int32_t>{3});
    EXPECT_TRUE(holds(*files, 2));
    EXPECT_FALSE(holds(*files, 7));
    files->forget(hash_of_number(4));
  }
  EXPECT_EQ(block_files(dir.path()).size(), 4U);
  LogLines told;
  const auto files = SwapFiles::open(files_in(dir.path())).value();
  EXPECT_TRUE(told.has("4 blocks of earlier runs, room for 100"));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(holds(*files, i), i < 4);
  files->forget_all();
  EXPECT_EQ(block_files(dir.path()).size(), 0U);
}

// Every byte that is another, and every length that is shorter: the block isn't there, or is what it was.
TEST(SwapFiles, ADamagedFileIsNoBlock) {
  const test::TempDir dir;
  LogLines told;
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < 110; ++at) places.push_back(at);
  for (std::size_t at = 110; at < kFileBytes; at += 97) places.push_back(at);
  const auto damage = [&](const auto& change) {
    const auto files = SwapFiles::open(files_in(dir.path())).value();
    write(*files, 1);
    ASSERT_EQ(block_files(dir.path()).size(), 1U);
    change(block_files(dir.path())[0]);
    EXPECT_FALSE(holds(*files, 1));
    EXPECT_FALSE(files->has(hash_of_number(1)));
    EXPECT_EQ(block_files(dir.path()).size(), 0U) << "the damaged file stays";
    write(*files, 1);
    EXPECT_TRUE(holds(*files, 1)) << "it's not written again";
  };
  for (const std::size_t at : places) {
    SCOPED_TRACE(at);
    damage([&](const fs::path& file) {
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(static_cast<std::streamoff>(at));
      const auto was = static_cast<char>(bytes.get());
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put(static_cast<char>(was ^ (1 << (at % 8))));
    });
  }
  EXPECT_TRUE(told.has("is damaged, so its tokens are computed again"));
  for (const std::size_t length : {std::size_t{0}, std::size_t{50}, std::size_t{96}, std::size_t{kFileBytes - 1}}) {
    damage([&](const fs::path& file) { fs::resize_file(file, length); });
    // The same behind a new start.
    { const auto files = SwapFiles::open(files_in(dir.path())).value(); }
    fs::resize_file(block_files(dir.path()).at(0), length);
    EXPECT_EQ(SwapFiles::open(files_in(dir.path())).value()->num_blocks(), 0);
  }
  damage([&](const fs::path& file) { fs::remove(file); });
  EXPECT_TRUE(told.has("is gone, so its tokens are computed again"));
}

// A sound file under another's name, or in another model's folder, is none of ours.
TEST(SwapFiles, OfAnotherBlockOrModelIsNoBlock) {
  const test::TempDir dir;
  LogLines told;
  {
    const auto files = SwapFiles::open(files_in(dir.path())).value();
    write(*files, 1);
    write(*files, 2);
    const std::string two = hex_of(hash_of_number(2));
    for (const fs::path& file : block_files(dir.path())) {
      if (file.filename() != two)
        fs::copy_file(file, file.parent_path().parent_path() / two.substr(0, 2) / two,
                      fs::copy_options::overwrite_existing);
    }
    EXPECT_FALSE(holds(*files, 2));
    EXPECT_TRUE(holds(*files, 1));
  }
  const auto other = SwapFiles::open(files_in(dir.path(), 100, "another model")).value();
  EXPECT_TRUE(told.has("beside it are of other models or settings"));
  EXPECT_EQ(other->num_blocks(), 0);
  write(*other, 3);
  const auto first = SwapFiles::open(files_in(dir.path())).value();
  EXPECT_TRUE(holds(*first, 1));
  EXPECT_FALSE(holds(*first, 3));
}

TEST(SwapFiles, TheOnesUsedLongestAgoMakeRoom) {
  const test::TempDir dir;
  {
    const auto files = SwapFiles::open(files_in(dir.path(), 3)).value();
    for (int i = 0; i < 3; ++i) write(*files, i);
    for (const fs::path& file : block_files(dir.path())) {
      fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(1));
    }
    files->use(hash_of_number(0));
    write(*files, 3);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(files->has(hash_of_number(i)), i != 1) << i;
    EXPECT_EQ(block_files(dir.path()).size(), 3U);
  }
  {
    const auto files = SwapFiles::open(files_in(dir.path(), 2)).value();
    EXPECT_EQ(files->num_blocks(), 2);
    EXPECT_FALSE(files->has(hash_of_number(2))) << "the time of the last use is lost behind a new start";
  }
  EXPECT_EQ(test::failure_of([&] {
              (void)SwapFiles::open({dir.path(), 1000, "a model", kBlockBytes}).value();
            }),
            "--swap_dir_space allows 1000 B, and the file of a block takes 3.02 KiB; raise it.");
}

// The bound is the folder's: blocks of a model that nobody serves any more go first.
TEST(SwapFiles, OtherModelsMakeRoomFirst) {
  const test::TempDir dir;
  {
    const auto old = SwapFiles::open(files_in(dir.path(), 10, "an old model")).value();
    for (int i = 0; i < 6; ++i) write(*old, i);
  }
  LogLines told;
  const auto files = SwapFiles::open(files_in(dir.path(), 10)).value();
  EXPECT_EQ(block_files(dir.path()).size(), 6U) << "there was room beside them";
  for (int i = 0; i < 8; ++i) write(*files, i);
  EXPECT_TRUE(told.has("of another model or other settings, made room"));
  EXPECT_EQ(files->num_blocks(), 8);
  EXPECT_EQ(block_files(dir.path()).size(), 8U);
  const auto next = SwapFiles::open(files_in(dir.path(), 9, "a new model")).value();
  EXPECT_EQ(block_files(dir.path()).size(), 8U) << "a server has them";
  write(*next, 1);
  write(*next, 2);
  EXPECT_EQ(files->num_blocks(), 8);
  EXPECT_LE(next->num_blocks(), 1);
}

TEST(SwapFiles, TwoServersDoNotShareAFolder) {
  const test::TempDir dir;
  auto files = SwapFiles::open(files_in(dir.path())).value();
  const auto second = SwapFiles::open(files_in(dir.path()));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().line(), "--swap_dir " + dir.path().string() +
                                       " is in use by another server of the same model; "
                                       "give each server a folder of its own.");
  files.reset();
  EXPECT_TRUE(SwapFiles::open(files_in(dir.path())));
}

// As a full disk does: the kernel writes no file beyond this size.
TEST(SwapFiles, AFullDiskEndsTheWritingAlone) {
  const test::TempDir dir;
  LogLines told;
  const auto files = SwapFiles::open(files_in(dir.path())).value();
  write(*files, 1);
  rlimit was{};
  getrlimit(RLIMIT_FSIZE, &was);
  const rlimit small{1000, was.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  write(*files, 2);
  setrlimit(RLIMIT_FSIZE, &was);
  (void)std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(told.has("swap folder: no further block is written: "));
  write(*files, 3);
  EXPECT_EQ(files->written(), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_TRUE(holds(*files, 1));
  EXPECT_FALSE(files->has(hash_of_number(2)) || files->has(hash_of_number(3)));
  EXPECT_EQ(block_files(dir.path()).size(), 1U);
  for (const auto& entry : fs::recursive_directory_iterator(dir.path())) EXPECT_NE(entry.path().extension(), ".tmp");
}

EngineOptions swapping(const models::LoadedModel& model, const fs::path& folder, const std::string& about = "tiny\n") {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.max_model_len = 6 * model.store->device()->info().preferred_kv_block;
  options.numerics.needs = TERN_NEED_ROW_INVARIANT;
  options.enable_prefix_caching = true;
  options.swap.bytes = 64U << 20;
  options.swap.dir = folder;
  options.swap.dir_bytes = 64U << 20;
  options.swap.about = about;
  return options;
}

struct Answered {
  std::vector<std::int32_t> tokens;
  std::int64_t cached = 0;
};
Answered answer_of(LLMEngine& engine, const std::vector<std::int32_t>& prompt) {
  (void)engine.add_request(prompt, greedy(6)).value();
  Answered out;
  while (!engine.idle()) {
    for (const RequestOutput& output : engine.step()) {
      out.tokens.push_back(output.token);
      out.cached = output.cached_tokens;
    }
  }
  return out;
}

// A server that is started anew begins behind what an earlier one computed, whatever became of some files: what it
// can't read it computes.
TEST(SwapFiles, ARestartKeepsTheCacheAndDamageIsComputedAgain) {
  for (const char* name : {"llama-tied", "gemma2-tied", "deepseek-v3-untied"}) {
    SCOPED_TRACE(name);
    const test::TempDir dir;
    LogLines told;
    auto model = tiny_model(name);
    session::Runtime runtime;
    const auto prompt = prompt_of(5, 4 * 16 + 3);
    const auto other = prompt_of(60, 4 * 16 + 3);
    std::vector<std::int32_t> expected;
    {
      LLMEngine engine(model, any_tokenizer(), swapping(model, dir.path()), runtime);
      expected = answer_of(engine, prompt).tokens;
      (void)answer_of(engine, other);
    }
    ASSERT_EQ(block_files(dir.path()).size(), 8U);
    const auto restart = [&](std::int64_t cached, const std::string& about = "tiny\n") {
      LLMEngine engine(model, any_tokenizer(), swapping(model, dir.path(), about), runtime);
      const Answered answered = answer_of(engine, prompt);
      EXPECT_EQ(answered.tokens, expected);
      EXPECT_EQ(answered.cached, cached);
      EXPECT_EQ(engine.num_computed_tokens(), 4 * 16 + 3 - cached + 5);
      EXPECT_EQ(engine.cache_statistics().swap_hit_tokens, cached);
      EXPECT_EQ(engine.cache_statistics().used_blocks, 0);
    };
    restart(64);
    restart(0, "another\n");
    // The third block of the prompt alone.
    Sequence sequence;
    sequence.tokens = prompt;
    PrefixHashes hashes(prefix_root("", ""), {}, 4);
    const std::string third = hex_of(hashes.first(4, sequence, 16)[2]);
    for (const fs::path& file : block_files(dir.path())) {
      if (file.filename() != third) continue;
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(700);
      bytes.write("damage", 6);
    }
    restart(32);
    restart(64);  // it was written again
  }
}

// Beside requests on their way, and with nothing but places that are being written.
TEST(SwapFiles, ARunOverFewPlacesIsARunWithout) {
  const test::TempDir dir;
  auto model = tiny_model();
  const auto answer_all = [&](bool swaps, std::uint64_t blocks) {
    session::Runtime runtime;
    EngineOptions options = swapping(model, dir.path());
    {
      EngineOptions plain = options;
      plain.swap = {};
      const LLMEngine roomy(model, any_tokenizer(), plain, runtime);
      const auto all = static_cast<std::uint64_t>(roomy.cache().num_blocks() + 1);
      options.kv_cache_memory = roomy.cache().bytes() - roomy.cache().block_bytes() * (all - 8);
      options.swap.bytes = swaps ? blocks * roomy.cache().block_bytes() : 0;
      if (!swaps) options.swap.dir = "";
    }
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    std::map<SequenceId, std::vector<std::int32_t>> tokens;
    for (std::int32_t i = 0; i < 10; ++i) {
      auto prompt = prompt_of(5 * (i % 2), 8 + 6 * i);
      prompt.push_back(40 + i);
      (void)engine.add_request(prompt, greedy(20)).value();
    }
    while (!engine.idle()) {
      for (const RequestOutput& output : engine.step()) tokens[output.id].push_back(output.token);
    }
    return tokens;
  };
  const auto expected = answer_all(false, 0);
  for (const std::uint64_t blocks : {1, 3, 8, 100}) {
    for (int run = 0; run < 2; ++run) EXPECT_EQ(answer_all(true, blocks), expected) << blocks << " places";
  }
}

}  // namespace
}  // namespace tern::engine
