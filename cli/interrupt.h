// Ctrl-C and SIGTERM ask long work to save and stop; a second one ends the process at once.
#pragma once

namespace tern::cli {

// From here on; call it where the work begins that polls `interrupted`, as nothing else stops at the first signal.
void install_interrupt_handler();

// True once the user asked to stop: long work polls it and ends with ErrorKind::interrupted after saving.
[[nodiscard]] bool interrupted() noexcept;

}  // namespace tern::cli
