#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>

namespace tern::cli {
namespace {

// Each signal stays inside the child process of a death test.
TEST(InterruptDeathTest, TheFirstSignalOnlyAsksToStop) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        if (interrupted()) _exit(1);
        (void)raise(SIGINT);
        _exit(interrupted() ? 75 : 2);
      },
      ::testing::ExitedWithCode(75), "stopping after this step");
}

// A chat goes on after the answer that was stopped: the next signal is a first one again.
TEST(InterruptDeathTest, WhatWasClearedIsForgotten) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        set_interrupt_line("this answer stops");
        (void)raise(SIGTERM);
        if (!interrupted() || !terminated()) _exit(1);
        clear_interrupt();
        if (interrupted() || terminated()) _exit(2);
        (void)raise(SIGINT);
        _exit(interrupted() && !terminated() ? 75 : 3);
      },
      ::testing::ExitedWithCode(75), "^this answer stopsthis answer stops$");
}

// Else a signal that comes just before a wait for the terminal would be noticed with the next key only.
TEST(InterruptDeathTest, ASignalWakesAPollThatBeginsAfterIt) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        pollfd file{};
        file.fd = interrupt_file();
        file.events = POLLIN;
        if (poll(&file, 1, 0) != 0) _exit(1);
        (void)raise(SIGINT);
        if (poll(&file, 1, 0) != 1) _exit(2);
        clear_interrupt();
        _exit(poll(&file, 1, 0) == 0 ? 75 : 3);
      },
      ::testing::ExitedWithCode(75), "");
}

TEST(InterruptDeathTest, TheSecondEndsAtOnce) {
  EXPECT_EXIT(
      {
        install_interrupt_handler();
        (void)raise(SIGINT);
        (void)raise(SIGTERM);
        _exit(0);
      },
      ::testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace tern::cli
