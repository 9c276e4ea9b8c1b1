#include "accel/device.h"

#include <algorithm>
#include <stdexcept>

#include "base/strings.h"

namespace tern::accel {

const char* status_name(tern_status status) {
  switch (status) {
    case TERN_OK:
      return "ok";
    case TERN_UNSUPPORTED:
      return "unsupported";
    case TERN_INVALID_ARGUMENT:
      return "invalid argument";
    case TERN_OUT_OF_MEMORY:
      return "out of device memory";
    case TERN_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case TERN_DEVICE_LOST:
      return "device lost";
    case TERN_ASYNC_ERROR:
      return "asynchronous error";
    case TERN_NOT_READY:
      return "not ready";
    case TERN_TIMEOUT:
      return "timeout";
    default:
      return "internal error";
  }
}

void fail(tern_status status, const Backend& backend, const std::string& where) {
  std::string found = status_name(status);
  if (const std::string detail = backend.last_error(); !detail.empty()) found += cat(" (", detail, ")");
  switch (status) {
    case TERN_OUT_OF_HOST_MEMORY:
      throw Failure(device_error(cat(where, " failed: ", found),
                                 "free some of the host's memory, or use shorter sequences or a smaller batch"));
    case TERN_OUT_OF_MEMORY:
      throw Failure(device_error(cat(where, " failed: ", found), kUseLess));
    case TERN_DEVICE_LOST:
      throw Failure(device_error(cat(where, " failed: ", found), "check the device with `tern doctor`, then resume"));
    default:
      throw Failure(
          failed_error(cat(where, " failed: ", found), "check the device with `tern doctor`, then run it again"));
  }
}

bool Event::finished() const {
  const tern_status status = device()->api().event_query(raw());
  if (status == TERN_NOT_READY) return false;
  check(status, device()->backend(), "waiting for an event");
  return true;
}

void Event::synchronize() const {
  check(device()->api().event_synchronize(raw()), device()->backend(), "waiting for an event");
}

float Event::elapsed_since(const Event& start) const {
  float milliseconds = 0;
  check(device()->api().event_elapsed(start.raw(), raw(), &milliseconds), device()->backend(), "timing events");
  return milliseconds;
}

void Stream::synchronize() const {
  check(device()->api().stream_synchronize(raw()), device()->backend(), device()->name(), ": waiting for a stream");
}
void Stream::wait(const Event& event) const {
  check(device()->api().stream_wait_event(raw(), event.raw()), device()->backend(), "ordering streams");
}
void Stream::record(const Event& event) const {
  check(device()->api().event_record(event.raw(), raw()), device()->backend(), "recording an event");
}

void Buffer::evict() const {
  check(device()->api().buffer_evict(raw()), device()->backend(), device()->name(), ": giving back ",
        human_bytes(bytes_));
}
void Buffer::restore() const {
  check(device()->api().buffer_restore(raw()), device()->backend(), device()->name(), ": taking back ",
        human_bytes(bytes_));
}

HostBuffer::HostBuffer(DevicePtr device, std::uint64_t bytes) : device_(std::move(device)), bytes_(bytes) {
  void* pointer = nullptr;
  check(device_->api().host_alloc(device_->raw(), bytes, &pointer), device_->backend(), device_->name(),
        ": allocating ", human_bytes(bytes), " of pinned host memory");
  data_ = static_cast<std::byte*>(pointer);
}
HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : device_(std::move(other.device_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
HostBuffer::~HostBuffer() {
  if (data_ != nullptr) device_->api().host_free(device_->raw(), data_);
}

namespace {

// A flag that is set promises functions: said here, not found out in the middle of a run.
void require_functions(const Backend& backend, const tern_device_info& info, const std::string& where) {
  if ((info.capabilities & (TERN_CAP_EAGER | TERN_CAP_WHOLE_GRAPH)) == 0) {
    throw Failure(device_error(cat(where, " says neither that it runs single ops nor that it runs whole graphs"),
                               "mend the plugin: see docs/backend-spec.md, section 6"));
  }
  if (const std::string missing = backend.missing_functions(info.capabilities); !missing.empty()) {
    throw Failure(device_error(cat(where, " lacks functions that its capabilities promise: ", missing),
                               "mend the plugin: see docs/backend-spec.md, section 4"));
  }
}

}  // namespace

Device::Device(std::shared_ptr<const Backend> backend, std::string name, tern_device raw, const tern_device_info& info)
    : backend_(std::move(backend)), open_(&backend_->api()), name_(std::move(name)), raw_(raw), info_(info) {}

Device::~Device() { backend_->api().device_close(raw_); }

Result<DevicePtr> Device::describe(std::shared_ptr<const Backend> backend, const std::string& profile) {
  const std::string name = cat(backend->name(), ":", profile);
  const std::string where = cat("the description ", name);
  return catching([&]() -> DevicePtr {
    if (!backend->has(&tern_backend::device_describe)) {
      throw Failure(device_error(cat("backend ", backend->name(), " describes no devices"),
                                 "plan on a machine that has the device"));
    }
    tern_device_info info{};
    info.size = sizeof(info);
    check(backend->api().device_describe(profile.c_str(), &info), *backend, where);
    terminate_texts(info);
    require_functions(*backend, info, where);
    tern_open_args args{};
    args.size = sizeof(args);
    args.ordinal = -1;
    args.profile = profile.c_str();
    tern_device raw = nullptr;
    check(backend->api().device_open(&args, &raw), *backend, where);
    return DevicePtr(new Device(backend, name, raw, info));
  });
}

Result<DevicePtr> Device::open(std::shared_ptr<const Backend> backend, int ordinal, const DeviceOptions& options) {
  const auto& api = backend->api();
  const std::string where = cat("device ", backend->name(), ":", ordinal);
  return catching([&]() -> DevicePtr {
    std::int32_t count = 0;
    char reason[512] = "";
    const tern_status counted = api.device_count(&count, {reason, sizeof(reason) - 1});
    if (counted != TERN_OK || count <= 0) {
      std::string why = reason;
      if (why.empty() && counted != TERN_OK) why = backend->last_error();
      throw Failure(device_error(
          cat("backend ", backend->name(), " finds no device", why.empty() ? std::string() : cat(": ", why)),
          "choose another: `tern devices` lists them"));
    }
    if (ordinal < 0 || ordinal >= count) {
      throw Failure(
          device_error(cat(where, " does not exist: ", count == 1 ? "the only one is " : "they are ", backend->name(),
                           ":0", count == 1 ? std::string() : cat(" to ", backend->name(), ":", count - 1)),
                       "choose another: `tern devices` lists them"));
    }
    tern_device_info info{};
    info.size = sizeof(info);
    check(api.device_info(ordinal, &info), *backend, where);
    terminate_texts(info);
    require_functions(*backend, info, where);
    tern_device raw = nullptr;
    tern_open_args args{};
    args.size = sizeof(args);
    args.ordinal = ordinal;
    std::vector<tern_option> list;
    for (const auto& [key, value] : options) list.push_back({key.c_str(), value.c_str()});
    args.options = list.data();
    args.num_options = static_cast<std::uint32_t>(list.size());
    const tern_status opened = api.device_open(&args, &raw);
    if (opened == TERN_INVALID_ARGUMENT && !options.empty()) {
      throw Failure(usage_error(cat(where, " cannot be opened with these options: ", backend->last_error()),
                                "`tern devices` lists those that there are"));
    }
    check(opened, *backend, where);
    return DevicePtr(new Device(backend, cat(backend->name(), ":", ordinal), raw, info));
  });
}

tern_memory_info Device::memory() const {
  tern_memory_info info{};
  info.size = sizeof(info);
  check(api().memory_info(raw_, &info), *backend_, name(), ": reading memory use");
  // A description has nothing in use; a device that is open has less free than it has in all.
  if (info_.described != 0) info.free -= std::min(info.free, info_.context_bytes);
  return info;
}

Buffer Device::allocate(std::uint64_t bytes, const std::string& what, std::uint32_t flags) {
  tern_buffer raw = nullptr;
  check(api().buffer_create(raw_, std::max<std::uint64_t>(bytes, 1), flags, &raw), *backend_, name(), ": allocating ",
        human_bytes(bytes), " for ", what);
  return {shared_from_this(), raw, bytes};
}

Result<Buffer> Device::import_host(std::span<const std::byte> bytes) {
  if (!can(TERN_CAP_IMPORT_HOST)) {
    throw std::logic_error(cat(name(), ": a device that does not map host memory was asked to"));
  }
  return catching([&]() -> Buffer {
    tern_buffer raw = nullptr;
    // The interface takes a mutable pointer as some vendors' calls do; imported weights are only read.
    check(api().import_host(raw_, const_cast<std::byte*>(bytes.data()), bytes.size(), &raw), *backend_, name(),
          ": mapping ", human_bytes(bytes.size()), " of host memory");
    return {shared_from_this(), raw, bytes.size()};
  });
}

HostBuffer Device::allocate_host(std::uint64_t bytes) { return {shared_from_this(), bytes}; }

Stream Device::make_stream(int priority) {
  tern_stream raw = nullptr;
  check(api().stream_create(raw_, priority, &raw), *backend_, name(), ": creating a stream");
  return {shared_from_this(), raw};
}

Event Device::make_event(bool timing) {
  tern_event raw = nullptr;
  check(api().event_create(raw_, timing ? 1 : 0, &raw), *backend_, name(), ": creating an event");
  return {shared_from_this(), raw};
}

std::byte* Device::host_pointer(tern_plane plane) const {
  if (!can(TERN_CAP_HOST_POINTER)) return nullptr;
  void* pointer = nullptr;
  check(api().buffer_host_pointer(plane.buffer, &pointer), *backend_, name(), ": address of a buffer");
  return static_cast<std::byte*>(pointer) + plane.offset;
}

void Device::copy_to_device(tern_plane dst, std::span<const std::byte> src, const Stream& stream) const {
  if (src.empty()) return;
  check(api().copy_to_device(dst, src.data(), src.size(), stream.raw()), *backend_, name(), ": copying to the device");
}
void Device::copy_to_host(std::span<std::byte> dst, tern_plane src, const Stream& stream) const {
  if (dst.empty()) return;
  check(api().copy_to_host(dst.data(), src, dst.size(), stream.raw()), *backend_, name(), ": copying to the host");
}
void Device::copy(tern_plane dst, tern_plane src, std::uint64_t bytes, const Stream& stream) const {
  if (bytes == 0) return;
  check(api().copy_on_device(dst, src, bytes, stream.raw()), *backend_, name(), ": copying on the device");
}
void Device::fill(tern_plane dst, std::uint8_t byte, std::uint64_t bytes, const Stream& stream) const {
  if (bytes == 0) return;
  check(api().fill(dst, byte, bytes, stream.raw()), *backend_, name(), ": filling");
}

}  // namespace tern::accel
