#include "accel/device_profile.h"

#include <algorithm>
#include <map>

#include "base/strings.h"

namespace tern::accel {
namespace {

const char* kind_name(std::uint32_t kind) {
  switch (kind) {
    case TERN_PROFILE_KERNEL:
      return "kernel";
    case TERN_PROFILE_COPY:
      return "copy";
    case TERN_PROFILE_FILL:
      return "fill";
    case TERN_PROFILE_COLLECTIVE:
      return "collective";
    default:
      return "other";
  }
}

// A JSON string of a plugin's text: what is no plain character becomes a question mark.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return out + "\"";
}

// 1234567 ns are "1234.567" microseconds.
std::string microseconds(std::uint64_t nanoseconds) {
  const std::string rest = cat(nanoseconds % 1000);
  return cat(nanoseconds / 1000, ".", std::string(3 - rest.size(), '0'), rest);
}

}  // namespace

DeviceProfile::DeviceProfile(DevicePtr device) : device_(std::move(device)) {
  check(device_->api().profile_start(device_->raw()), device_->backend(), cat(device_->name(), ": recording"));
}

DeviceProfile::~DeviceProfile() { device_->api().profile_stop(device_->raw()); }

std::vector<tern_profile_record> DeviceProfile::collect() const {
  const auto& api = device_->api();
  const std::string where = cat(device_->name(), ": reading what was recorded");
  std::uint64_t count = 0;
  check(api.profile_collect(device_->raw(), nullptr, 0, &count), device_->backend(), where);
  std::vector<tern_profile_record> records(count);
  if (count == 0) return records;
  check(api.profile_collect(device_->raw(), records.data(), count, &count), device_->backend(), where);
  records.resize(std::min<std::uint64_t>(count, records.size()));
  for (tern_profile_record& record : records) {
    record.name[sizeof(record.name) - 1] = '\0';
    record.range[sizeof(record.range) - 1] = '\0';
  }
  return records;
}

ProfileRange::ProfileRange(const Device& device, const std::string& name) {
  const Backend& backend = device.backend();
  if (!backend.has(&tern_backend::range_push) || !backend.has(&tern_backend::range_pop)) return;
  device_ = &device;
  device.api().range_push(name.c_str());
}

ProfileRange::~ProfileRange() {
  if (device_ != nullptr) device_->api().range_pop();
}

std::string trace_json(const std::vector<tern_profile_record>& records, const std::string& device) {
  std::map<std::uint64_t, std::size_t> streams;  // small numbers in order of appearance
  std::uint64_t first = UINT64_MAX;
  for (const auto& record : records) {
    streams.try_emplace(record.stream, streams.size());
    first = std::min(first, record.begin_ns);
  }
  std::string out =
      cat("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n",
          "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":", json_text(device), "}}");
  for (const auto& [stream, number] : streams) {
    out += cat(",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":", number, ",\"args\":{\"name\":\"stream ",
               number, "\"}}");
  }
  for (const auto& record : records) {
    const std::string_view range = record.range;
    out += cat(",\n{\"ph\":\"X\",\"name\":", json_text(range.empty() ? record.name : range),
               ",\"cat\":", json_text(kind_name(record.kind)), ",\"pid\":0,\"tid\":", streams.at(record.stream),
               ",\"ts\":", microseconds(record.begin_ns - first),
               ",\"dur\":", microseconds(record.end_ns - std::min(record.begin_ns, record.end_ns)),
               ",\"args\":{\"kernel\":", json_text(record.name), ",\"bytes\":", record.bytes, "}}");
  }
  return out + "\n]}\n";
}

}  // namespace tern::accel
