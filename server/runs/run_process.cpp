#include "server/runs/run_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/strings.h"

namespace tern::server {
namespace {

struct Stat {
  char state = 0;
  std::uint64_t born = 0;
};

// proc(5): the command's name stands in parentheses and may hold anything, so that fields count from its last one.
std::optional<Stat> stat_of(std::int64_t pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  Stat stat;
  fields >> stat.state;
  constexpr int kBetween = 18;  // state is field 3, starttime field 22
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  fields >> stat.born;
  return fields ? std::optional<Stat>(stat) : std::nullopt;
}

bool has_open(std::int64_t pid, const std::filesystem::path& file) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(cat("/proc/", pid, "/fd"), error)) {
    if (std::filesystem::equivalent(entry.path(), file, error)) return true;
  }
  return false;
}

}  // namespace

Result<ProcessMark> start_process(const std::vector<std::string>& words, const std::filesystem::path& output) {
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);  // the server's sockets
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int failure = posix_spawn(&pid, words.front().c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failure != 0) {
    return failed_error(cat("the run could not be started: ", std::strerror(failure)),
                        cat("see whether ", words.front(), " and ", output.parent_path().string(), " are there"));
  }
  const auto stat = stat_of(pid);
  return ProcessMark{pid, stat ? stat->born : 0};
}

bool is_alive(const ProcessMark& mark) {
  if (mark.pid <= 0) return false;
  const auto stat = stat_of(mark.pid);
  return stat && stat->born == mark.born && stat->state != 'Z' && stat->state != 'X';
}

std::optional<int> take_status(const ProcessMark& mark) {
  int status = 0;
  if (mark.pid <= 0 || ::waitpid(static_cast<pid_t>(mark.pid), &status, WNOHANG) != mark.pid) return std::nullopt;
  constexpr int kSignalled = 128;
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

std::int64_t lock_holder(const std::filesystem::path& file) {
  struct stat wanted {};
  if (::stat(file.c_str(), &wanted) != 0) return 0;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    long long pid = 0;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    unsigned long long inode = 0;
    // "3: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF"; one that waits has "->" before its kind.
    if (std::sscanf(line.c_str(), "%*d: FLOCK %*s %*s %lld %x:%x:%llu", &pid, &major_number, &minor_number, &inode) !=
        4)
      continue;
    if (inode != wanted.st_ino) continue;
    // Some file systems (overlay, btrfs) give stat() another device than the lock's: the open file tells.
    if (makedev(major_number, minor_number) == wanted.st_dev || has_open(pid, file)) return pid;
  }
  return 0;
}

}  // namespace tern::server
