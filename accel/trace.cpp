#include "accel/trace.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/log.h"
#include "base/strings.h"

namespace tern::accel {
namespace {

constexpr int kHost = 1;  // processes of the trace
constexpr int kDevice = 2;

std::uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

const char* kind_name(std::uint32_t kind) {
  switch (kind) {
    case TERN_PROFILE_KERNEL:
      return "op";
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

// 1234567 ns are "1234.567" microseconds.
std::string microseconds(std::uint64_t nanoseconds) {
  const std::string rest = cat(nanoseconds % 1000);
  return cat(nanoseconds / 1000, ".", std::string(3 - rest.size(), '0'), rest);
}

// A range's name holds the place of what it is: a device keeps 63 characters of it.
std::string range_name(std::string_view name, std::uint32_t what) {
  constexpr std::size_t kReadable = 48;
  return cat(name.substr(0, kReadable), " #", what);
}

std::optional<std::uint32_t> place_in(std::string_view range) {
  const auto mark = range.rfind('#');
  if (mark == std::string_view::npos) return std::nullopt;
  std::uint32_t place = 0;
  const auto [end, failed] = std::from_chars(range.data() + mark + 1, range.data() + range.size(), place);
  if (failed != std::errc() || end != range.data() + range.size()) return std::nullopt;
  return place;
}

std::string name_event(const char* what, int process, std::optional<std::uint32_t> row, std::string_view name) {
  return cat("{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", process, row ? cat(",\"tid\":", *row) : std::string(),
             ",\"args\":{\"name\":", json_text(name), "}}");
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return out + "\"";
}

Trace::Trace(DevicePtr device, const TraceOptions& options, std::function<void(const Trace&)> on_end)
    : device_(std::move(device)),
      options_(options),
      on_end_(std::move(on_end)),
      reads_device_(device_->can(TERN_CAP_PROFILE)),
      names_(1) {}

Trace::~Trace() { end(); }

void Trace::begin_step() {
  ++begun_;
  if (ended_ || begun_ < options_.first) return;
  try {
    if (recording_) {
      (void)recording_->collect();  // between steps
    } else if (reads_device_) {
      recording_.emplace(device_);
    }
    on_ = true;
  } catch (const std::exception& failure) {
    log_warn(cat("nothing is profiled: ", failure.what()));
    end();
  }
}

void Trace::end_step(std::string_view name, std::uint64_t begin_ns) noexcept {
  try {
    if (ended_ || begun_ < options_.first) return;
    if (is_on()) collect();
    add_host(intern(name, ""), "step", begin_ns);
    on_ = false;
    ++recorded_;
    if (cut_ || begun_ >= options_.last) end();
  } catch (const std::exception& failure) {
    log_warn(cat("the profile ends here: ", failure.what()));
    end();
  }
}

void Trace::end() noexcept {
  if (std::exchange(ended_, true)) return;
  on_ = false;
  try {
    recording_.reset();
    on_end_(*this);
  } catch (const std::exception& failure) {
    log_warn(cat("no profile was written: ", failure.what()));
  }
}

std::uint32_t Trace::intern(std::string_view name, std::string_view arguments) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] =
      places_.try_emplace(cat(name, '\n', arguments), static_cast<std::uint32_t>(names_.size()));
  if (is_new) names_.emplace_back(name, arguments);
  return found->second;
}

void Trace::add(const Event& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
  if (events_.size() < options_.max_events) return;
  cut_ = true;
  on_ = false;
}

void Trace::add_host(std::uint32_t what, const char* category, std::uint64_t begin_ns) {
  Event event{begin_ns, now_ns(), category, what};
  {
    const std::lock_guard lock(mutex_);
    const auto next = static_cast<std::uint32_t>(host_rows_.size());
    event.row = host_rows_.try_emplace(std::this_thread::get_id(), next).first->second;
  }
  add(event);
}

void Trace::add_timed(std::uint32_t what, const char* category, std::uint32_t lane, std::uint64_t begin_ns) {
  Event event{begin_ns, now_ns(), category, what};
  event.row = lane;
  event.of_device = true;
  {
    const std::lock_guard lock(mutex_);
    device_rows_.try_emplace(lane, lane);
  }
  add(event);
}

Trace::Event Trace::event_of(const tern_profile_record& record) {
  Event event{record.begin_ns, std::max(record.begin_ns, record.end_ns), kind_name(record.kind)};
  event.kernel = intern(record.name, "");
  event.bytes = record.bytes;
  event.of_device = true;
  const std::string_view range = record.range;
  const std::lock_guard lock(mutex_);
  const auto place = place_in(range);
  event.what = place && *place < names_.size() ? *place : event.kernel;
  const auto next = static_cast<std::uint32_t>(device_rows_.size());
  event.row = device_rows_.try_emplace(record.stream, next).first->second;
  return event;
}

void Trace::collect() {
  if (!recording_) return;
  for (const tern_profile_record& record : recording_->collect()) {
    if (is_on()) add(event_of(record));
  }
}

std::string Trace::head() const {
  const std::string how = reads_device_ ? "as the device recorded it"
                                        : "as the host timed it: each op alone, with its launch and the wait for it";
  std::string out = cat("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"device\":", json_text(device_->name()),
                        ",\"device_times\":", json_text(how), ",\"steps\":", recorded_,
                        ",\"cut\":", cut_ ? "true" : "false", "},\"traceEvents\":[\n");
  out += name_event("process_name", kHost, std::nullopt, "host");
  out += ",\n" + name_event("process_name", kDevice, std::nullopt, cat(device_->name(), ", ", how));
  for (const auto& [thread, row] : host_rows_) {
    out += ",\n" + name_event("thread_name", kHost, row, cat("thread ", row));
  }
  for (const auto& [stream, row] : device_rows_) {
    out += ",\n" + name_event("thread_name", kDevice, row, cat(reads_device_ ? "stream " : "lane ", row));
  }
  return out;
}

std::string Trace::event_text(const Event& event, std::uint64_t origin) const {
  const auto& [name, arguments] = names_[event.what];
  std::string args = arguments;
  const auto add_member = [&](std::string_view member) { args += cat(args.empty() ? "" : ",", member); };
  if (event.kernel != 0) add_member(cat("\"kernel\":", json_text(names_[event.kernel].first)));
  if (event.bytes != 0) add_member(cat("\"bytes\":", event.bytes));
  return cat(",\n{\"ph\":\"X\",\"name\":", json_text(name), ",\"cat\":\"", event.category,
             "\",\"pid\":", event.of_device ? kDevice : kHost, ",\"tid\":", event.row,
             ",\"ts\":", microseconds(event.begin_ns - origin),
             ",\"dur\":", microseconds(event.end_ns - event.begin_ns), ",\"args\":{", args, "}}");
}

void Trace::write(const std::function<void(std::string_view)>& put) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t origin = UINT64_MAX;
  for (const Event& event : events_) origin = std::min(origin, event.begin_ns);
  put(head());
  for (const Event& event : events_) put(event_text(event, origin));
  put("\n]}\n");
}

TraceStep::TraceStep(Trace* trace, std::int64_t number) : trace_(trace), number_(number) {
  if (trace_ == nullptr) return;
  trace_->begin_step();
  begin_ns_ = now_ns();
}

TraceStep::~TraceStep() {
  if (trace_ != nullptr) trace_->end_step(cat("step ", number_), begin_ns_);
}

TraceSpan::TraceSpan(Trace* trace, std::string_view name, const char* category)
    : trace_(trace != nullptr && trace->is_on() ? trace : nullptr), category_(category) {
  if (trace_ == nullptr) return;
  what_ = trace_->intern(name, "");
  begin_ns_ = now_ns();
}

TraceSpan::~TraceSpan() {
  if (trace_ != nullptr) trace_->add_host(what_, category_, begin_ns_);
}

TraceOp::TraceOp(Trace& trace, const Device& device, std::uint32_t what, std::string_view name, Place place)
    : trace_(trace), what_(what), place_(place), begin_ns_(now_ns()), range_(device, range_name(name, what)) {}

TraceOp::~TraceOp() {
  if (!trace_.reads_device()) trace_.add_timed(what_, place_.category, place_.lane, begin_ns_);
}

}  // namespace tern::accel
