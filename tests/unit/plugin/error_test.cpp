// If these fail, a host of another version is written beyond its structs, or told nothing of what went wrong.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tern/plugin.h"

extern "C" {
tern_status plugin_c_fail(const char* text);
const char* plugin_c_error(void);
}

namespace tern::test {
namespace {

std::string cut_to(const char* text, std::uint64_t capacity) {
  std::array<char, 32> place{};
  place.fill('#');
  tern_plugin_put_text({place.data(), capacity}, text);
  EXPECT_EQ(place[capacity], '#') << "written beyond its room";
  return capacity == 0 ? "" : place.data();
}

TEST(PluginText, IsCutBetweenCharacters) {
  EXPECT_EQ(cut_to("abc", 4), "abc");
  EXPECT_EQ(cut_to("abcd", 4), "abc");
  EXPECT_EQ(cut_to("ab\xc3\xa4", 5), "ab\xc3\xa4");
  EXPECT_EQ(cut_to("ab\xc3\xa4", 4), "ab");        // not half of an umlaut
  EXPECT_EQ(cut_to("a\xf0\x9f\x8c\xb2", 5), "a");  // nor three quarters of a tree
  EXPECT_EQ(cut_to("\xf0\x9f\x8c\xb2", 2), "");
  EXPECT_EQ(cut_to("abc", 1), "");
  EXPECT_EQ(cut_to("abc", 0), "");
  tern_plugin_put_text({nullptr, 10}, "abc");
}

TEST(PluginError, IsOneTextOfEachThreadForCAndCpp) {
  EXPECT_EQ(plugin_c_fail("first"), TERN_INTERNAL);
  EXPECT_STREQ(tern_plugin_error(), "in C: first");
  EXPECT_EQ(tern_plugin_fail(TERN_TIMEOUT, "%d of %s", 3, "these"), TERN_TIMEOUT);
  EXPECT_STREQ(plugin_c_error(), "3 of these");
  std::thread([] { EXPECT_STREQ(plugin_c_error(), "") << "another thread's failure"; }).join();
  std::array<char, 64> text{};
  tern_plugin_last_error({text.data(), text.size()});
  tern_plugin_last_error({text.data(), text.size()});  // may be asked twice
  EXPECT_STREQ(text.data(), "3 of these");
}

TEST(PluginError, IsOneLineCutToFitAndMayQuoteItself) {
  tern_plugin_fail(TERN_INTERNAL, "a vendor's\nsecond\tline");
  EXPECT_STREQ(tern_plugin_error(), "a vendor's second line");
  tern_plugin_fail(TERN_INTERNAL, "matmul: %s", tern_plugin_error());
  EXPECT_STREQ(tern_plugin_error(), "matmul: a vendor's second line");
  const std::string trees = [] {
    std::string text = "x";
    while (text.size() < 5000) text += "\xf0\x9f\x8c\xb2";
    return text;
  }();
  tern_plugin_fail(TERN_INTERNAL, "%s", trees.c_str());
  const std::string kept = tern_plugin_error();
  EXPECT_EQ(kept.size(), 1U + 4 * 255);
  EXPECT_EQ(trees.compare(0, kept.size(), kept), 0);
  EXPECT_EQ(tern_plugin::fail(TERN_INTERNAL, trees), TERN_INTERNAL);
  EXPECT_EQ(kept, tern_plugin_error());
}

// What follows a struct must stay as it was, and what an older host lacks is left out.
TEST(PluginStructs, AreFilledAsFarAsTheHostHasRoom) {
  tern_memory_info filled{};
  filled.total = 7;
  filled.peak_by_process = 9;
  tern_memory_info old{};
  old.size = offsetof(tern_memory_info, peak_by_process);
  old.peak_by_process = 1234;
  EXPECT_EQ(tern_plugin_give_info(&old, &filled, sizeof filled), TERN_OK);
  EXPECT_EQ(old.size, offsetof(tern_memory_info, peak_by_process));
  EXPECT_EQ(old.total, 7U);
  EXPECT_EQ(old.peak_by_process, 1234U);
  struct {
    tern_memory_info known;
    std::uint64_t later;
  } newer{};
  newer.known.size = sizeof newer;
  newer.later = 55;
  EXPECT_EQ(tern_plugin::give_info(&newer.known, filled), TERN_OK);
  EXPECT_EQ(newer.known.size, sizeof(tern_memory_info)) << "what was written";
  EXPECT_EQ(newer.known.peak_by_process, 9U);
  EXPECT_EQ(newer.later, 55U);
  for (const std::uint32_t size : {0U, 3U}) {
    tern_memory_info none{};
    none.size = size;
    EXPECT_EQ(tern_plugin_give_info(&none, &filled, sizeof filled), TERN_INVALID_ARGUMENT);
    EXPECT_EQ(none.total, 0U);
  }
  EXPECT_EQ(tern_plugin_give_info(nullptr, &filled, sizeof filled), TERN_INVALID_ARGUMENT);
}

TEST(PluginStructs, AreReadAsFarAsTheyAreKnown) {
  tern_host given{};
  given.size = offsetof(tern_host, cache_dir);
  given.abi_major = TERN_ABI_MAJOR;
  given.num_threads = 3;
  given.cache_dir = "beyond its size";
  tern_host own{};
  own.log = [](std::int32_t, const char*) {};
  ASSERT_EQ(tern_plugin_take_struct(&own, sizeof own, offsetof(tern_host, num_threads), &given), TERN_OK);
  EXPECT_EQ(own.num_threads, 3);
  EXPECT_EQ(own.cache_dir, nullptr);
  EXPECT_EQ(own.log, nullptr) << "what the host doesn't know is 0, whatever was there";
  EXPECT_EQ(own.size, given.size);
  given.size = 4096;  // a newer host's; nothing beyond the known members is read
  ASSERT_EQ(tern_plugin_take_struct(&own, sizeof own, sizeof own, &given), TERN_OK);
  EXPECT_EQ(own.size, sizeof own);
  given.size = offsetof(tern_host, num_threads) - 1;
  EXPECT_EQ(tern_plugin_take_struct(&own, sizeof own, offsetof(tern_host, num_threads), &given), TERN_INVALID_ARGUMENT);
  given.size = 0;
  EXPECT_EQ(tern_plugin_take_struct(&own, sizeof own, 0, &given), TERN_INVALID_ARGUMENT);
  EXPECT_EQ(tern_plugin_take_struct(&own, sizeof own, 0, nullptr), TERN_INVALID_ARGUMENT);
}

TEST(PluginHandles, AreZerosAndRangesDontWrap) {
  std::uint64_t* handle = nullptr;
  ASSERT_EQ(tern_plugin_new(sizeof *handle, &handle), TERN_OK);
  EXPECT_EQ(*handle, 0U);
  EXPECT_EQ(tern_plugin_free(handle), TERN_OK);
  EXPECT_EQ(tern_plugin_free(nullptr), TERN_OK);
  EXPECT_TRUE(tern_plugin_in_range(0, 0, 0));
  EXPECT_TRUE(tern_plugin_in_range(60, 4, 64));
  EXPECT_FALSE(tern_plugin_in_range(60, 5, 64));
  EXPECT_FALSE(tern_plugin_in_range(65, 0, 64));
  EXPECT_FALSE(tern_plugin_in_range(UINT64_MAX, 64, 64));
  EXPECT_FALSE(tern_plugin_in_range(1, UINT64_MAX, 64));
}

TEST(PluginMemory, IsNeverPromisedTwice) {
  tern_plugin_memory memory{1000, 0, 0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        if (tern_plugin_take_memory(&memory, 400) == TERN_OK) tern_plugin_return_memory(&memory, 400);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory.in_use, 0U);
  EXPECT_LE(memory.peak, 800U) << "two fit, three don't";
  EXPECT_EQ(tern_plugin_take_memory(&memory, 1000), TERN_OK);
  EXPECT_EQ(tern_plugin_take_memory(&memory, 0), TERN_OK);
  EXPECT_EQ(tern_plugin_take_memory(&memory, 1), TERN_OUT_OF_MEMORY);
  EXPECT_EQ(tern_plugin_take_memory(&memory, UINT64_MAX), TERN_OUT_OF_MEMORY);
  EXPECT_STREQ(tern_plugin_error(), "18446744073709551615 bytes asked for, 1000 of the device's 1000 are in use");
  tern_memory_info info{};
  info.size = sizeof info;
  EXPECT_EQ(tern_plugin_memory_info(&memory, &info), TERN_OK);
  EXPECT_EQ(info.peak_by_process, 1000U);
  EXPECT_EQ(info.free, 0U);
}

TEST(PluginGuarded, NothingThrownCrossesTheBorder) {
  const auto status_of = [](auto thrown) {
    return tern_plugin::guarded([&]() -> tern_status { throw std::move(thrown); });
  };
  EXPECT_EQ(tern_plugin::guarded([] { return tern_status{TERN_NOT_READY}; }), TERN_NOT_READY);
  EXPECT_EQ(status_of(tern_plugin::Error(TERN_DEVICE_LOST, "gone")), TERN_DEVICE_LOST);
  EXPECT_STREQ(tern_plugin_error(), "gone");
  EXPECT_EQ(status_of(std::bad_alloc()), TERN_OUT_OF_HOST_MEMORY);
  EXPECT_STRNE(tern_plugin_error(), "gone");
  EXPECT_EQ(status_of(std::runtime_error("inside")), TERN_INTERNAL);
  EXPECT_STREQ(tern_plugin_error(), "inside");
  EXPECT_EQ(status_of(3), TERN_INTERNAL);
  EXPECT_STRNE(tern_plugin_error(), "inside");
  EXPECT_EQ(tern_plugin::guarded([]() -> tern_status {
              tern_plugin::require(tern_plugin_fail(TERN_TIMEOUT, "late"));
              return TERN_OK;
            }),
            TERN_TIMEOUT);
  EXPECT_STREQ(tern_plugin_error(), "late");
}

}  // namespace
}  // namespace tern::test
