// Probing in child processes: each child loads one plugin, writes what it found into a pipe and ends.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "accel/registry.h"
#include "base/strings.h"

namespace tern::accel {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int32_t kMaxDevices = 64;  // as many as peer_mask can name

// The fixed part of a child's answer; device infos follow.
struct ProbeAnswer {
  char name[64];
  char version[64];
  char reason[512];
  std::int32_t probe_rank;
  std::int32_t devices;
  std::int32_t text_bytes;  // of the lines behind the infos: options, an empty one, profiles
};

void put(char* to, std::size_t capacity, const std::string& text) {
  const std::size_t length = std::min(capacity - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

void write_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, at, bytes);
    if (written <= 0) return;
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void answer_in_child(const fs::path& file, int fd) {
  ProbeAnswer answer{};
  answer.probe_rank = -1;
  std::vector<tern_device_info> infos;
  std::string text;
  auto backend = Backend::load(file);
  if (!backend) {
    put(answer.reason, sizeof(answer.reason), backend.error().problem);  // its mend is for who named the file
  } else {
    const auto& api = (*backend)->api();
    put(answer.name, sizeof(answer.name), api.name);
    put(answer.version, sizeof(answer.version), api.version);
    answer.probe_rank = api.probe_rank;
    for (const std::string& line : (*backend)->device_options()) text += line + '\n';
    text += '\n';
    for (const std::string& name : (*backend)->profiles()) text += name + '\n';
    std::int32_t count = 0;
    const tern_status status = api.device_count(&count, {answer.reason, sizeof(answer.reason) - 1});
    if (status != TERN_OK && answer.reason[0] == '\0') {
      put(answer.reason, sizeof(answer.reason), (*backend)->last_error());
    }
    for (std::int32_t i = 0; status == TERN_OK && i < std::min(count, kMaxDevices); ++i) {
      tern_device_info info{};
      info.size = sizeof(info);
      if (api.device_info(i, &info) != TERN_OK) {
        // The list's places are the ordinals: it ends where one of them cannot be described.
        put(answer.reason, sizeof(answer.reason), cat("device ", i, ": ", (*backend)->last_error()));
        break;
      }
      infos.push_back(info);
    }
  }
  answer.devices = static_cast<std::int32_t>(infos.size());
  answer.text_bytes = static_cast<std::int32_t>(text.size());
  write_all(fd, &answer, sizeof(answer));
  write_all(fd, infos.data(), infos.size() * sizeof(tern_device_info));
  write_all(fd, text.data(), text.size());
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::string bytes;
  bool ended = false;  // the pipe is closed
};

Child start_child(const fs::path& file) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    answer_in_child(file, ends[1]);
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

// Options, an empty line, profiles.
void read_lines(const std::string& text, ProbedBackend& out) {
  std::vector<std::string>* list = &out.options;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) {
      list = &out.profiles;
    } else {
      list->emplace_back(line);
    }
  }
}

ProbedBackend read_answer(const fs::path& file, const std::string& bytes) {
  ProbedBackend out;
  out.file = file;
  ProbeAnswer answer{};
  std::memcpy(&answer, bytes.data(), sizeof(answer));
  answer.name[sizeof(answer.name) - 1] = '\0';
  answer.version[sizeof(answer.version) - 1] = '\0';
  answer.reason[sizeof(answer.reason) - 1] = '\0';
  out.name = answer.name;
  out.version = answer.version;
  out.probe_rank = answer.probe_rank;
  out.absent_reason = answer.reason;
  const char* at = bytes.data() + sizeof(answer);
  for (std::int32_t i = 0; i < answer.devices; ++i) {
    tern_device_info info{};
    std::memcpy(&info, at + static_cast<std::size_t>(i) * sizeof(info), sizeof(info));
    terminate_texts(info);
    out.devices.push_back(info);
  }
  read_lines(bytes.substr(bytes.size() - static_cast<std::size_t>(answer.text_bytes)), out);
  if (out.devices.empty() && out.absent_reason.empty()) out.absent_reason = "no device found";
  return out;
}

bool is_whole(const std::string& bytes) {
  if (bytes.size() < sizeof(ProbeAnswer)) return false;
  ProbeAnswer answer{};
  std::memcpy(&answer, bytes.data(), sizeof(answer));
  return answer.devices >= 0 && answer.text_bytes >= 0 &&
         bytes.size() == sizeof(answer) + static_cast<std::size_t>(answer.devices) * sizeof(tern_device_info) +
                             static_cast<std::size_t>(answer.text_bytes);
}

// Ends the child and says what became of it: "" where it ended by itself with an answer.
std::string end_child(const Child& child, std::chrono::milliseconds deadline) {
  if (!child.ended) kill(child.pid, SIGKILL);
  int status = 0;
  waitpid(child.pid, &status, 0);
  if (!child.ended) return cat("its driver did not answer within ", deadline.count() / 1000, " s");
  if (WIFSIGNALED(status)) {
    return cat("its driver crashed the probing process (", strsignal(WTERMSIG(status)), ")");
  }
  return is_whole(child.bytes) ? "" : "its driver ended the probing process without an answer";
}

// A remembered verdict holds for the same file; `tern devices` probes again and overwrites it.
fs::path verdict_file(const fs::path& dir, const fs::path& file) { return dir / (file.stem().string() + ".verdict"); }

std::string file_stamp(const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  return cat(file.string(), " ", static_cast<std::int64_t>(time.time_since_epoch().count()));
}

std::string remembered_reason(const ProbeOptions& options, const fs::path& file) {
  if (options.verdict_dir.empty() || options.forget) return {};
  std::ifstream in(verdict_file(options.verdict_dir, file));
  std::string stamp;
  std::string reason;
  if (!std::getline(in, stamp) || !std::getline(in, reason) || stamp != file_stamp(file)) return {};
  return reason;
}

void remember(const ProbeOptions& options, const fs::path& file, const std::string& reason) {
  if (options.verdict_dir.empty()) return;
  std::error_code error;
  const fs::path path = verdict_file(options.verdict_dir, file);
  if (reason.empty()) {
    fs::remove(path, error);
    return;
  }
  fs::create_directories(options.verdict_dir, error);
  std::ofstream(path) << file_stamp(file) << '\n' << reason << '\n';
}

}  // namespace

std::vector<ProbedBackend> probe_backends(const std::vector<fs::path>& files, const ProbeOptions& options) {
  std::vector<ProbedBackend> out(files.size());
  std::vector<Child> children(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    out[i].file = files[i];
    if (auto reason = remembered_reason(options, files[i]); !reason.empty()) {
      out[i].absent_reason = reason + " (remembered; `tern devices` probes again)";
      out[i].remembered = true;
    } else {
      children[i] = start_child(files[i]);
    }
  }
  collect(children, Clock::now() + options.deadline);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (out[i].remembered) continue;
    if (children[i].pid < 0) {
      out[i].absent_reason = "no process could be started to probe it";
      continue;
    }
    const std::string trouble = end_child(children[i], options.deadline);
    close(children[i].fd);
    remember(options, files[i], trouble);
    if (trouble.empty()) {
      out[i] = read_answer(files[i], children[i].bytes);
    } else {
      out[i].absent_reason = trouble + "; check the driver with the vendor's own tool, or remove the plugin";
    }
  }
  return out;
}

}  // namespace tern::accel
