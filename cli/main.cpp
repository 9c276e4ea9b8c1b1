// The program: finds the command, runs it, and turns what goes wrong into one line and an exit status.
#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "accel/backend.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/flags/command_line.h"
#include "cli/flags/condition.h"
#include "cli/flags/help.h"
#include "cli/models_page.h"
#include "cli/terminal.h"
#include "cli/version.h"

namespace tern::cli {
namespace {

using Words = std::vector<std::string>;

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int run_command(const Words& words) {
  const CommandSpec* spec = words.empty() ? nullptr : find_command(words[0]);
  // Before the flags are read: which of them work says nothing where the command does not.
  const bool help = words.size() > 1 && (words[1] == "--help" || words[1] == "-h");
  if (spec != nullptr && spec->run == nullptr && !help) {
    throw Failure(usage_error(cat("tern ", spec->name, " is not implemented yet"), "see tern --help"));
  }
  if (help && spec != nullptr) return print(help_command(*spec));
  const auto invocation = parse_command_line(words, variable).value();
  const CommandSpec& command = invocation.arguments.command();
  if (invocation.help) return print(help_command(command));
  for (const auto& [name, value] : invocation.exports) setenv(name.c_str(), value.c_str(), 1);
  const Arguments& given = invocation.arguments;
  install_log_sink(given.has("quiet") && given.boolean("quiet"));
  Arguments arguments = command.prepare != nullptr ? command.prepare(given) : given;
  check_effects(arguments).value();
  for (const auto& line : arguments.notices()) log_info(line);
  return command.run(arguments);
}

int dispatch(const Words& words) {
  const std::string first = words.empty() ? "" : words[0];
  if (first == "--help" || first == "-h" || first == "help") return print(help_overview());
  if (first == "--version") return print(version_text());
  if (first == "--help-markdown") return print(help_markdown());
  if (first == "--help-models") return print(models_markdown());
  if (first == "--help-not-implemented") return print(join(not_implemented(), "\n") + "\n");
  return run_command(words);
}

// Output that never arrived is a failure, not a success: a full disk, a closed pipe.
int flushed(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  print_error(failed_error("standard output could not be written in full", "check the space left").line());
  return status == 0 ? static_cast<int>(ErrorKind::failed) : status;
}

// A file that is opened takes the lowest free number: where a standard stream was closed (`>&-`), what is printed would
// go into a checkpoint, and a model file be read as the question. Writing to such a stdout fails, as it should.
void hold_standard_files() {
  for (const int fd : {0, 1, 2}) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY);
  }
}

int guarded(const Words& words) {
  try {
    return flushed(dispatch(words));
  } catch (const Failure& failure) {
    std::fflush(stdout);
    print_error(failure.what());
    return static_cast<int>(failure.error().kind);
  } catch (const std::bad_alloc&) {
    print_error(
        device_error("the host has no memory left for the run", "use a smaller batch or a shorter length").line());
    return static_cast<int>(ErrorKind::device);
  } catch (const std::exception& error) {
    print_error(
        failed_error(cat("tern made a mistake of its own: ", error.what()), "report it with the command that led to it")
            .line());
    return static_cast<int>(ErrorKind::failed);
  }
}

}  // namespace
}  // namespace tern::cli

int main(int argc, char** argv) {
  tern::cli::hold_standard_files();
  // A file that reaches the user's limit of size is a write that fails, not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = tern::cli::guarded({argv + (argc > 0 ? 1 : 0), argv + argc});
    tern::accel::finalize_backends();  // everything that a command opened is closed
    return status;
  } catch (...) {
    return static_cast<int>(tern::ErrorKind::failed);
  }
}
