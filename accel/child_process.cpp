#include "accel/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/strings.h"

namespace tern::accel {
namespace {

using Clock = std::chrono::steady_clock;

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::string bytes;
  bool ended = false;  // the pipe is closed
};

Child start_child(const ChildTask& task) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    task([fd = ends[1]](std::string_view bytes) { write_all(fd, bytes); });
    _exit(0);  // no destructors: the parent's state is not this process's to tidy
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return {};
  }
  return {pid, ends[0], {}, false};
}

// Reads from all children until each has closed its pipe or the deadline has passed.
void collect(std::vector<Child>& children, Clock::time_point deadline) {
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Child*> owners;
    for (auto& child : children) {
      if (child.fd >= 0 && !child.ended) {
        waiting.push_back({child.fd, POLLIN, 0});
        owners.push_back(&child);
      }
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (waiting.empty() || left <= 0) return;
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      std::array<char, 4096> chunk{};
      const ssize_t got = read(owners[i]->fd, chunk.data(), chunk.size());
      if (got > 0) {
        owners[i]->bytes.append(chunk.data(), static_cast<std::size_t>(got));
      } else {
        owners[i]->ended = true;
      }
    }
  }
}

// Ends the child and says what became of it.
std::string end_child(const Child& child, std::chrono::milliseconds deadline) {
  if (!child.ended) kill(child.pid, SIGKILL);
  int status = 0;
  waitpid(child.pid, &status, 0);
  close(child.fd);
  if (!child.ended) return cat("its driver did not answer within ", deadline.count() / 1000, " s");
  if (WIFSIGNALED(status)) {
    return cat("its driver crashed the probing process (", strsignal(WTERMSIG(status)), ")");
  }
  return "";
}

}  // namespace

std::vector<ChildResult> run_in_children(const std::vector<ChildTask>& tasks, std::chrono::milliseconds deadline) {
  std::vector<Child> children;
  children.reserve(tasks.size());
  for (const auto& task : tasks) children.push_back(start_child(task));
  collect(children, Clock::now() + deadline);
  std::vector<ChildResult> results(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    results[i].started = children[i].pid >= 0;
    if (results[i].started) results[i].trouble = end_child(children[i], deadline);
    results[i].bytes = std::move(children[i].bytes);
  }
  return results;
}

}  // namespace tern::accel
