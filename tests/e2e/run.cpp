#include "run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace tern::e2e {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error(std::strerror(errno));
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

std::vector<std::string> environment_of(const Options& options) {
  auto all = options.variables;
  // A profile (script/full.d/coverage) is larger than the files that such a program may write.
  if (options.largest_file > 0 && std::getenv("LLVM_PROFILE_FILE") != nullptr) all["LLVM_PROFILE_FILE"] = "/dev/null";
  for (const char* name :
       {"PATH", "HOME", "TERN_HOME", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LLVM_PROFILE_FILE"}) {
    if (const char* value = std::getenv(name); value != nullptr) all.emplace(name, value);
  }
  std::vector<std::string> lines;
  lines.reserve(all.size());
  for (const auto& [name, value] : all) lines.emplace_back(name).append("=").append(value);
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

[[noreturn]] void become(std::vector<std::string> words, const Options& options, const Pipe& in, const Pipe& out,
                         const Pipe& err) {
  words.insert(words.begin(), TERN_PROGRAM);
  auto variables = environment_of(options);
  const auto argv = pointers(words);
  const auto envp = pointers(variables);
  dup2(in.read_end, STDIN_FILENO);
  dup2(options.stdout_path.empty() ? out.write_end : open(options.stdout_path.c_str(), O_WRONLY | O_CREAT, 0644),
       STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  for (const int fd : options.closed) close(fd);
  const auto limit = [](auto resource, std::uint64_t bytes) {
    const rlimit value = {bytes, bytes};
    if (bytes > 0 && setrlimit(resource, &value) != 0) _exit(126);
  };
  limit(RLIMIT_FSIZE, options.largest_file);
  limit(RLIMIT_AS, options.address_space);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

// Moves what is ready; gives false once the end is reached.
bool pump(int fd, std::string& into) {
  std::array<char, 65536> block{};
  const auto count = read(fd, block.data(), block.size());
  if (count > 0) into.append(block.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

void exchange(const Options& options, Pipe& in, Pipe& out, Pipe& err, Outcome& outcome, pid_t child) {
  std::size_t sent = 0;
  bool signalled = false;
  const auto deadline = Clock::now() + std::chrono::seconds(options.seconds);
  while (out.read_end >= 0 || err.read_end >= 0) {
    if (sent == options.input.size()) Pipe::close_end(in.write_end);
    std::array<pollfd, 3> ends = {pollfd{out.read_end, POLLIN, 0}, pollfd{err.read_end, POLLIN, 0},
                                  pollfd{in.write_end, POLLOUT, 0}};
    poll(ends.data(), ends.size(), options.signal_when && !signalled ? 1 : 200);
    const bool seen = !options.signal_after.empty() && (outcome.out.find(options.signal_after) != std::string::npos ||
                                                        outcome.err.find(options.signal_after) != std::string::npos);
    if (!signalled && (seen || (options.signal_when && options.signal_when()))) {
      kill(child, options.signal);
      signalled = true;
    }
    if (Clock::now() > deadline) kill(child, SIGKILL);
    if (ends[0].revents != 0 && !pump(out.read_end, outcome.out)) Pipe::close_end(out.read_end);
    if (ends[1].revents != 0 && !pump(err.read_end, outcome.err)) Pipe::close_end(err.read_end);
    if (ends[2].revents == 0) continue;
    const auto count = write(in.write_end, options.input.data() + sent, options.input.size() - sent);
    if (count < 0 && errno != EINTR && errno != EAGAIN) sent = options.input.size();  // the program reads no more
    if (count > 0) sent += static_cast<std::size_t>(count);
  }
}

}  // namespace

std::string Outcome::last_error_line() const {
  auto text = err;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto newline = text.rfind('\n');
  return newline == std::string::npos ? text : text.substr(newline + 1);
}

Outcome run(const std::vector<std::string>& words, const Options& options) {
  signal(SIGPIPE, SIG_IGN);
  Pipe in;
  Pipe out;
  Pipe err;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::strerror(errno));
  if (child == 0) {
    signal(SIGPIPE, SIG_DFL);
    become(words, options, in, out, err);
  }
  Pipe::close_end(in.read_end);
  Pipe::close_end(out.write_end);
  Pipe::close_end(err.write_end);
  fcntl(in.write_end, F_SETFL, O_NONBLOCK);
  Outcome outcome;
  exchange(options, in, out, err, outcome, child);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool has_real_model() {
  const char* home = std::getenv("TERN_HOME");
  const char* user = std::getenv("HOME");
  const std::filesystem::path root = home != nullptr
                                         ? std::filesystem::path(home)
                                         : std::filesystem::path(user == nullptr ? "" : user) / ".cache/tern";
  return std::filesystem::exists(root / "models/smollm2-135m");
}

}  // namespace tern::e2e
