#include "cli/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

namespace tern::cli {
namespace {

// A signal handler has no other way to reach the program.
std::atomic<int> signals_seen{0};
std::atomic<bool> term_seen{false};
std::atomic<const char*> first_line{"\ntern: stopping after this step; press Ctrl-C again to stop at once\n"};
// Written by the handler, so that a poll wakes up. No error where no file is left: poll passes over -1, and the signal
// is noticed with the next key.
std::array<int, 2> wake_up{-1, -1};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

void on_signal(int signal) {
  if (signals_seen.fetch_add(1) > 0) _exit(128 + signal);
  if (signal == SIGTERM) term_seen = true;
  const char* line = first_line;
  (void)!write(STDERR_FILENO, line, std::strlen(line));
  (void)!write(wake_up[1], "", 1);
}

}  // namespace

void install_interrupt_handler() {
  if (wake_up[0] < 0) (void)!pipe2(wake_up.data(), O_CLOEXEC | O_NONBLOCK);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read from the terminal must return.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() noexcept { return signals_seen.load(std::memory_order_relaxed) > 0; }
bool terminated() noexcept { return term_seen.load(std::memory_order_relaxed); }
void set_interrupt_line(const char* line) noexcept { first_line = line; }

int interrupt_file() noexcept { return wake_up[0]; }

void wait_for_interrupt() {
  pollfd file{interrupt_file(), POLLIN, 0};
  while (!interrupted()) (void)poll(&file, 1, -1);
}

void clear_interrupt() noexcept {
  std::array<char, 64> seen{};
  while (read(wake_up[0], seen.data(), seen.size()) > 0) {
  }
  signals_seen = 0;
  term_seen = false;
}

}  // namespace tern::cli
