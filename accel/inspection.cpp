#include "accel/inspection.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "accel/child_process.h"
#include "base/strings.h"

namespace tern::accel {
namespace {

constexpr std::uint32_t kMost = 1000;  // findings, processes, files: an end for a plugin that never says unsupported
constexpr std::size_t kLongestLine = 4096;

// A record on its way to the parent: a kind, an ordinal or level, and text or the bytes of a struct.
enum class Kind : std::int32_t { finding, health, state, process, link, affinity, log };
struct Header {
  Kind kind;
  std::int32_t number;
  std::uint32_t bytes;
};

class Sender {
 public:
  explicit Sender(const Answer& answer) : answer_(answer) {}
  void text(Kind kind, std::int32_t number, std::string_view text) const { send(kind, number, text); }
  template <typename Struct>
  void value(Kind kind, std::int32_t number, const Struct& value) const {
    send(kind, number, {reinterpret_cast<const char*>(&value), sizeof value});
  }

 private:
  void send(Kind kind, std::int32_t number, std::string_view bytes) const {
    const Header header{kind, number, static_cast<std::uint32_t>(bytes.size())};
    answer_({reinterpret_cast<const char*>(&header), sizeof header});
    answer_(bytes);
  }
  const Answer& answer_;
};

struct Text {
  std::array<char, kLongestLine> data{};
  [[nodiscard]] tern_text out() { return {data.data(), data.size() - 1}; }
};

std::int32_t level_of(std::int32_t level) {
  if (level >= TERN_LOG_ERROR) return static_cast<std::int32_t>(Finding::Level::error);
  return static_cast<std::int32_t>(level >= TERN_LOG_WARN ? Finding::Level::warning : Finding::Level::ok);
}

void send_findings(const Backend& backend, const Sender& send) {
  if (!backend.has(&tern_backend::doctor)) return;
  for (std::uint32_t check = 0; check < kMost; ++check) {
    Text line;
    std::int32_t level = TERN_LOG_INFO;
    const auto status = backend.api().doctor(check, &level, line.out());
    if (status == TERN_UNSUPPORTED) return;
    if (status != TERN_OK) {
      send.text(Kind::finding, level_of(TERN_LOG_ERROR), cat("check ", check, ": ", backend.last_error()));
      return;
    }
    send.text(Kind::finding, level_of(level), line.data.data());
  }
}

constexpr std::array<const char*, 3> kHealths = {"ok", "degraded", "lost"};

std::string health_name(std::int32_t health) {
  const bool known = health >= 0 && static_cast<std::size_t>(health) < kHealths.size();
  return known ? kHealths[static_cast<std::size_t>(health)] : "unknown";
}

// From an open device, where the backend has no monitor. The first line is the state, the rest the reason.
std::string opened_health(const std::shared_ptr<const Backend>& backend, int ordinal) {
  const auto device = Device::open(backend, ordinal);
  if (!device) return cat("unknown\n", device.error().line());
  Text reason;
  std::int32_t health = TERN_HEALTH_OK;
  const auto status = (*device)->api().device_health((*device)->raw(), &health, reason.out());
  if (status != TERN_OK) return cat("unknown\n", status_name(status));
  return cat(health_name(health), "\n", reason.data.data());
}

template <typename Function>
bool told(const tern_monitor* monitor, Function tern_monitor::*member) {
  return monitor != nullptr && monitor->*member != nullptr;
}

void send_status(const std::shared_ptr<const Backend>& backend, const tern_monitor* monitor, int ordinal,
                 const Sender& send) {
  tern_device_state state{};
  state.size = sizeof state;
  if (told(monitor, &tern_monitor::device_state) && monitor->device_state(ordinal, &state) == TERN_OK) {
    state.place[sizeof state.place - 1] = '\0';
    state.reason[sizeof state.reason - 1] = '\0';
    send.value(Kind::state, ordinal, state);
  } else {
    send.text(Kind::health, ordinal, opened_health(backend, ordinal));
  }
  for (std::uint32_t i = 0; told(monitor, &tern_monitor::device_process) && i < kMost; ++i) {
    tern_device_process process{};
    process.size = sizeof process;
    if (monitor->device_process(ordinal, i, &process) != TERN_OK) break;
    send.value(Kind::process, ordinal, process);
  }
}

void send_links(const tern_monitor* monitor, int ordinal, int devices, const Sender& send) {
  for (int other = 0; told(monitor, &tern_monitor::device_link) && other < devices; ++other) {
    Text link;
    const bool known = other != ordinal && monitor->device_link(ordinal, other, link.out()) == TERN_OK;
    send.text(Kind::link, ordinal, known ? link.data.data() : "");
  }
  Text cpus;
  if (told(monitor, &tern_monitor::cpu_affinity) && monitor->cpu_affinity(ordinal, cpus.out()) == TERN_OK) {
    send.text(Kind::affinity, ordinal, cpus.data.data());
  }
}

void answer_in_child(const ProbedBackend& probed, const InspectOptions& options, const Sender& send) {
  const auto backend = Backend::load(probed.file);
  if (!backend) {
    send.text(Kind::finding, level_of(TERN_LOG_ERROR), backend.error().line());
    return;
  }
  const auto* monitor = (*backend)->extension<tern_monitor>("tern.monitor");
  const int devices = static_cast<int>(probed.devices.size());
  if (options.findings) send_findings(**backend, send);
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    if (options.links) send_links(monitor, ordinal, devices, send);
    if (options.status) send_status(*backend, monitor, ordinal, send);
  }
  for (std::uint32_t i = 0; options.logs && told(monitor, &tern_monitor::log_file) && i < kMost; ++i) {
    Text path;
    if (monitor->log_file(i, path.out()) != TERN_OK) break;
    send.text(Kind::log, 0, path.data.data());
  }
}

template <typename Struct>
Struct read_struct(const std::string& bytes) {
  Struct out{};
  std::memcpy(&out, bytes.data(), std::min(sizeof out, bytes.size()));
  return out;
}

void read_device_record(Kind kind, const std::string& bytes, DeviceStatus& device) {
  switch (kind) {
    case Kind::health: {
      const auto end = bytes.find('\n');
      device.health = bytes.substr(0, end);
      device.reason = bytes.substr(end + 1);
      return;
    }
    case Kind::state:
      device.monitored = true;
      device.state = read_struct<tern_device_state>(bytes);
      device.health = health_name(device.state.health);
      device.reason = device.state.reason;
      return;
    case Kind::process:
      device.processes.push_back(read_struct<tern_device_process>(bytes));
      return;
    case Kind::link:
      device.links.push_back(bytes);
      return;
    case Kind::affinity:
      device.cpu_affinity = bytes;
      return;
    case Kind::finding:
    case Kind::log:
      return;
  }
}

void read_record(const Header& header, const std::string& bytes, Inspection& out) {
  if (header.kind == Kind::finding) {
    out.findings.push_back({static_cast<Finding::Level>(header.number), bytes});
  } else if (header.kind == Kind::log) {
    out.log_files.emplace_back(bytes);
  } else if (header.number >= 0 && static_cast<std::size_t>(header.number) < out.devices.size()) {
    read_device_record(header.kind, bytes, out.devices[static_cast<std::size_t>(header.number)]);
  }
}

}  // namespace

Inspection inspect(const ProbedBackend& probed, const InspectOptions& options) {
  Inspection out;
  out.devices.resize(probed.devices.size());
  const ChildTask task = [&](const Answer& answer) { answer_in_child(probed, options, Sender(answer)); };
  const auto result = run_in_children({task}, options.deadline)[0];
  out.trouble = result.started ? result.trouble : "no process could be started to ask it";
  std::size_t at = 0;
  while (at + sizeof(Header) <= result.bytes.size()) {
    Header header{};
    std::memcpy(&header, result.bytes.data() + at, sizeof header);
    at += sizeof header;
    if (header.bytes > result.bytes.size() - at) break;  // the child ended within a record
    read_record(header, result.bytes.substr(at, header.bytes), out);
    at += header.bytes;
  }
  return out;
}

}  // namespace tern::accel
