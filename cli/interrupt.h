// Ctrl-C and SIGTERM ask long work to save and stop; a second one ends the process at once.
#pragma once

namespace tern::cli {

// From here on; call it where the work begins that polls `interrupted`, as nothing else stops at the first signal.
void install_interrupt_handler();

// True once the user asked to stop: long work polls it and ends with ErrorKind::interrupted after saving.
[[nodiscard]] bool interrupted() noexcept;

// True where that was SIGTERM: who sent it wants the program to end, whatever it is doing.
[[nodiscard]] bool terminated() noexcept;

// What the first signal says from here on; it lives as long as the program. "": nothing.
void set_interrupt_line(const char* line) noexcept;

// A file that can be read from the first signal on, until it is cleared: for a poll beside another file. A look at
// `interrupted` before a plain read would miss what comes in between.
[[nodiscard]] int interrupt_file() noexcept;

// Returns once the user asked to stop.
void wait_for_interrupt();

// Forgets the signals so far: for a program that goes on after the work that was stopped.
void clear_interrupt() noexcept;

}  // namespace tern::cli
