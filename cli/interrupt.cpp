#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

namespace tern::cli {
namespace {

// A signal handler has no other way to reach the program.
std::atomic<int> signals_seen{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  if (signals_seen.fetch_add(1) > 0) _exit(128 + signal);
  constexpr std::string_view kLine = "\ntern: stopping after this step; once more ends at once\n";
  (void)!write(STDERR_FILENO, kLine.data(), kLine.size());
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

}  // namespace tern::cli
