#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

namespace tern::cli {
namespace {

// A signal handler has no other way to reach the program.
std::atomic<int> signals_seen{0};
std::atomic<bool> term_seen{false};
std::atomic<const char*> first_line{"\ntern: stopping after this step; press Ctrl-C again to stop at once\n"};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

void on_signal(int signal) {
  if (signals_seen.fetch_add(1) > 0) _exit(128 + signal);
  if (signal == SIGTERM) term_seen = true;
  const char* line = first_line;
  (void)!write(STDERR_FILENO, line, std::strlen(line));
}

}  // namespace

void install_interrupt_handler() {
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

void clear_interrupt() noexcept {
  signals_seen = 0;
  term_seen = false;
}

}  // namespace tern::cli
