#include "data/plugin_host.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <span>

#include "base/log.h"
#include "base/strings.h"
#include "data/dataset_spec.h"
#include "data/reader.h"
#include "io/checksum.h"
#include "io/json.h"
#include "io/system_error.h"

extern char** environ;

namespace tern::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPython = "python3";

io::Json parsed(const std::string& line) { return io::parse_json(line, "the answer of a plugin").value(); }

// The child's standard input and output are one end of a socket; a signal of a closed pipe would end tern.
int spawn(const std::vector<std::string>& words, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) posix_spawn_file_actions_adddup2(&actions, socket, fd);
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t process = -1;
  const int error = posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? process : -1;
}

std::string as_file_name(std::string_view word) {
  std::string name(word);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain) c = '_';
  }
  return name;
}

}  // namespace

// Where rows go, and what became of those that the plugin fails on.
struct PluginHost::Rows {
  const Wanted& wanted;
  std::ofstream& out;
  std::uint64_t failed = 0;
  std::string first;

  void fail(const std::string& where, const std::string& found) {
    if (wanted.strict)
      throw Failure(data_error(where, "a row that the plugin takes", found, "mend the row or the plugin"));
    if (failed++ == 0) first = cat(where, ": ", found);
  }
};

Result<std::unique_ptr<PluginHost>> PluginHost::start(const std::vector<std::string>& files) {
  return catching([&] {
    for (const auto& file : files) {
      std::error_code ignored;
      if (!fs::is_regular_file(file, ignored))
        throw Failure(data_error(file, "a file of Python that registers data sets", "no such file", "check the path"));
    }
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw Failure(failed_error("no socket could be made for a plugin", "free some open files"));
    std::unique_ptr<PluginHost> host(new PluginHost);
    host->socket_ = ends[0];
    std::vector<std::string> words = {std::string(kPython), "-c", std::string(plugin_shim())};
    words.insert(words.end(), files.begin(), files.end());
    host->process_ = spawn(words, ends[1]);
    close(ends[1]);
    if (host->process_ < 0) {
      throw Failure(usage_error("--external_plugins are Python, and python3 could not be started",
                                "install Python, or put its folder on the PATH"));
    }
    const std::string line = host->receive();
    const io::Json answer = parsed(line);
    if (answer.contains("error")) {
      throw Failure(data_error(join(files, ", "), "plugins that Python can run", answer["error"].get<std::string>(),
                               "mend the plugin, or install what it imports"));
    }
    host->take_lacking(line);
    return host;
  });
}

PluginHost::~PluginHost() {
  if (socket_ >= 0) close(socket_);  // its loop over requests ends
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

void PluginHost::send(std::string line) const {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // it has ended, as receive() finds out
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string PluginHost::receive() {
  std::size_t searched = 0;
  for (;;) {
    if (const auto end = buffer_.find('\n', searched); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    searched = buffer_.size();
    std::array<char, 65536> chunk{};
    const ssize_t got = ::recv(socket_, chunk.data(), chunk.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Failure(failed_error("the Python process of --external_plugins has ended", "see what it wrote above"));
    }
    buffer_.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

void PluginHost::take_lacking(const std::string& line) {
  const io::Json answer = parsed(line);
  if (!answer.contains("lacking")) return;
  lacking_.clear();
  for (const io::Json& name : answer["lacking"]) lacking_.push_back(name.get<std::string>());
}

void PluginHost::pass_rows(std::size_t handle, const std::vector<std::string>& files, Rows& rows) {
  for (const auto& file : files) {
    const auto reader = open_rows(file).value();
    RawRow raw;
    while (reader->next(raw).value()) {
      const std::string where = cat(file, ":", raw.line);
      if (raw.error) {
        rows.fail(where, raw.error->line());
        continue;
      }
      std::string request = cat("{\"do\":\"row\",\"handle\":", handle, ",\"row\":", raw.json, "}");
      for (char& c : request) c = c == '\n' || c == '\r' ? ' ' : c;  // between values: inside of strings there is none
      send(std::move(request));
      const io::Json answer = parsed(receive());
      if (answer.contains("error")) {
        rows.fail(where, answer["error"].get<std::string>());
      } else if (!answer["row"].is_null()) {
        rows.out << answer["row"].dump() << '\n';
      }
    }
  }
}

void PluginHost::load_rows(std::size_t handle, Rows& rows) {
  send(cat("{\"do\":\"load\",\"handle\":", handle, "}"));
  for (;;) {
    const io::Json answer = parsed(receive());
    if (answer.contains("error")) {
      throw Failure(data_error(rows.wanted.word, "rows from the plugin's loader", answer["error"].get<std::string>(),
                               "mend the plugin"));
    }
    if (answer.contains("end")) return;
    if (!answer["row"].is_null()) rows.out << answer["row"].dump() << '\n';
  }
}

Result<std::optional<fs::path>> PluginHost::rows(const Wanted& wanted, const HubResolver& hub, const fs::path& folder) {
  return catching([&]() -> std::optional<fs::path> {
    io::Json request = io::Json::object();
    request["do"] = "find";
    request["word"] = wanted.word;
    request["use_hf"] = wanted.use_hf;
    send(request.dump());
    const std::string line = receive();
    const io::Json answer = parsed(line);
    if (answer.contains("error")) {
      throw Failure(data_error(wanted.word, "a data set of the plugins", answer["error"].get<std::string>(),
                               "choose one that is there"));
    }
    take_lacking(line);
    if (!answer.contains("handle")) return std::nullopt;
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    io::Xxh3 hash;
    hash.update(std::as_bytes(std::span(wanted.word)));
    const fs::path target = folder / cat(as_file_name(wanted.word), "-", hash.hex(), ".jsonl");
    const fs::path beside = fs::path(target) += cat(".", ::getpid());
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    Rows rows{wanted, out, 0, {}};
    const auto handle = answer["handle"].get<std::size_t>();
    if (answer["loads"].get<bool>()) {
      load_rows(handle, rows);
    } else {
      pass_rows(handle, dataset_files(DatasetSpec{answer["source"].get<std::string>(), {}}, hub).value(), rows);
    }
    out.close();
    if (!out) throw Failure(io::write_error(beside.string(), errno));
    fs::rename(beside, target);
    if (rows.failed > 0)
      log_warn(cat(rows.failed, " rows of ", wanted.word, " were dropped, as the plugin failed on them: ", rows.first));
    return target;
  });
}

Result<PluginHost::Numbers> PluginHost::metric(const std::string& name, const std::vector<std::string>& answers,
                                               const std::vector<std::string>& labels) {
  return catching([&] {
    io::Json request = io::Json::object();
    request["do"] = "metric";
    request["name"] = name;
    request["answers"] = io::Json(answers);
    request["labels"] = io::Json(labels);
    send(request.dump());
    const std::string line = receive();
    const io::Json answer = parsed(line);
    if (answer.contains("error")) {
      throw Failure(data_error(cat("--metric ", name), "numbers from the plugin's metric",
                               answer["error"].get<std::string>(), "mend the plugin, or choose another metric"));
    }
    take_lacking(line);
    Numbers numbers;
    for (const auto& [key, value] : answer["metric"].items()) numbers.emplace_back(key, value.get<double>());
    return numbers;
  });
}

void use_plugins(PluginHost& host, LoadOptions& options, bool use_hf) {
  const fs::path folder = options.cache_directory / "plugins";
  for (auto* words : {&options.dataset, &options.val_dataset}) {
    for (std::string& word : *words) {
      const DatasetSpec spec = parse_dataset_spec(word).value();
      const auto file = host.rows({spec.path, use_hf, options.strict}, options.hub, folder).value();
      if (file) word = spec.count ? cat(file->string(), "#", *spec.count) : file->string();
    }
  }
}

}  // namespace tern::data
