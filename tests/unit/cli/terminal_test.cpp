#include "cli/terminal.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace tern::cli {
namespace {

// A progress whose clock and terminal are in the test's hands.
struct Bench {
  double now = 0;
  std::string text;

  Progress::Options options(bool terminal, bool quiet = false) {
    Progress::Options made;
    made.terminal = terminal;
    made.quiet = quiet;
    made.clock = [this] { return now; };
    made.writer = [this](std::string_view part) { text += part; };
    return made;
  }
};

TEST(Progress, PlainLinesComeEveryTenSecondsAndAtTheEnd) {
  Bench bench;
  Progress progress("encode", 100, "rows", bench.options(false));
  for (bench.now = 1; bench.now <= 25; ++bench.now) progress.update(static_cast<std::uint64_t>(bench.now) * 4);
  EXPECT_EQ(bench.text,
            "encode 40/100 rows 40% 4.0 rows/s 10s left 15s\nencode 80/100 rows 80% 4.0 rows/s 20s left 5s\n");
  bench.text.clear();
  bench.now = 25;
  progress.finish();
  EXPECT_EQ(bench.text, "encode 100/100 rows 100% 4.0 rows/s 25s\n");
}

// Ten of twenty steps were another run's.
TEST(Progress, WhatWasThereBeforeTookNoTime) {
  Bench bench;
  Progress progress("training", 20, "step", bench.options(false));
  progress.begin_at(10);
  bench.now = 10;
  progress.update(15, "loss 1.2");
  EXPECT_EQ(bench.text, "training 15/20 step 75% 2.0 s/step 10s left 10s loss 1.2\n");
}

TEST(Progress, MakesRoomForAnotherLine) {
  Bench bench;
  Progress progress("encode", 4, "rows", bench.options(true));
  bench.now = 1;
  progress.update(1);
  bench.text.clear();
  progress.clear();
  EXPECT_EQ(bench.text, "\r\x1b[K");
}

TEST(Progress, ATerminalGetsOneLineThatIsRedrawn) {
  Bench bench;
  {
    Progress progress("encode", 4, "rows", bench.options(true));
    bench.now = 1;
    progress.update(2, "loss 1.5");
    EXPECT_EQ(bench.text, "\r\x1b[Kencode [############............] 2/4 rows 50% 2.0 rows/s 1s left 1s loss 1.5");
    bench.text.clear();
    bench.now = 1.05;
    progress.update(3);
    EXPECT_EQ(bench.text, "") << "redrawn too often";
    bench.now = 2;
  }
  EXPECT_TRUE(bench.text.ends_with("\n")) << "the next output would overwrite the bar";
}

TEST(Progress, ALineNeverWrapsTheTerminal) {
  Bench bench;
  Progress progress("a label", 4, "rows", bench.options(true));
  bench.now = 1;
  progress.update(2, std::string(200, 'x'));
  EXPECT_LT(bench.text.size(), 80U + 4U);
}

TEST(Progress, UnknownTotalShowsNoShare) {
  Bench bench;
  Progress progress("read", 0, "rows", bench.options(false));
  bench.now = 20;
  progress.update(10);
  EXPECT_EQ(bench.text, "read 10 rows 2.0 s/rows 20s\n");
}

TEST(Progress, QuietShowsNothing) {
  Bench bench;
  {
    Progress progress("read", 10, "rows", bench.options(true, true));
    bench.now = 20;
    progress.update(10);
  }
  EXPECT_EQ(bench.text, "");
}

TEST(ClockText, GrowsWithTheTime) {
  EXPECT_EQ(clock_text(0), "0s");
  EXPECT_EQ(clock_text(59.9), "59s");
  EXPECT_EQ(clock_text(185), "3:05");
  EXPECT_EQ(clock_text(3723), "1:02:03");
  EXPECT_EQ(clock_text(-5), "0s");
  EXPECT_EQ(clock_text(1e300), "100000:00:00");
}

}  // namespace
}  // namespace tern::cli
