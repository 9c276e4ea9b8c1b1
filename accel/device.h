// RAII over the C interface: devices, buffers, streams, events. Calls throw Failure with the backend's own words;
// nothing has a "current device", so there is none to restore after an error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "accel/backend.h"
#include "base/status.h"
#include "base/strings.h"
#include "tern/accel.h"

namespace tern::accel {

[[noreturn]] void fail(tern_status status, const Backend& backend, const std::string& where);
// Throws Failure unless `status` is TERN_OK; the parts of `where`, put together only then, name what was being done.
template <typename... Where>
void check(tern_status status, const Backend& backend, const Where&... where) {
  if (status != TERN_OK) [[unlikely]]
    fail(status, backend, cat(where...));
}
[[nodiscard]] const char* status_name(tern_status status);

// What every error of a device that lacks memory asks for.
inline constexpr const char* kUseLess = "use shorter sequences, a smaller batch or a device with more memory";
[[nodiscard]] inline bool lacks_memory(const Error& error) { return error.mend == kUseLess; }

class Device;
using DevicePtr = std::shared_ptr<Device>;

// A handle of the C interface that is destroyed with its owner; keeps its device open.
template <typename Raw, tern_status (*tern_backend::*Destroy)(Raw)>
class Handle {
 public:
  Handle() = default;
  Handle(DevicePtr device, Raw raw) : device_(std::move(device)), raw_(raw) {}
  Handle(Handle&& other) noexcept : device_(std::move(other.device_)), raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      device_ = std::move(other.device_);
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  ~Handle() { reset(); }

  void reset() noexcept;
  [[nodiscard]] Raw raw() const { return raw_; }
  [[nodiscard]] const DevicePtr& device() const { return device_; }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  DevicePtr device_;
  Raw raw_ = nullptr;
};

class Event : public Handle<tern_event, &tern_backend::event_destroy> {
 public:
  using Handle::Handle;
  [[nodiscard]] bool finished() const;
  void synchronize() const;
  // Milliseconds from `start` to this; both made with timing.
  [[nodiscard]] float elapsed_since(const Event& start) const;
};

class Stream : public Handle<tern_stream, &tern_backend::stream_destroy> {
 public:
  using Handle::Handle;
  void synchronize() const;
  void wait(const Event& event) const;
  void record(const Event& event) const;
};

class Buffer : public Handle<tern_buffer, &tern_backend::buffer_destroy> {
 public:
  Buffer() = default;
  Buffer(DevicePtr device, tern_buffer raw, std::uint64_t bytes) : Handle(std::move(device), raw), bytes_(bytes) {}
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] tern_plane plane(std::uint64_t offset = 0) const { return {raw(), offset}; }
  // Of one made with TERN_BUFFER_RECLAIMABLE: gives its memory back and keeps its address, and takes memory again. What
  // it held is lost. Nothing queued may use it meanwhile.
  void evict() const;
  void restore() const;

 private:
  std::uint64_t bytes_ = 0;
};

using Capture = Handle<tern_capture, &tern_backend::capture_destroy>;
using Recipe = Handle<tern_recipe, &tern_backend::recipe_destroy>;

// Pinned host memory.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(DevicePtr device, std::uint64_t bytes);
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer();
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  DevicePtr device_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// Settings of one device, by the keys that its backend lists.
using DeviceOptions = std::vector<std::pair<std::string, std::string>>;

// An open device, or the description of one that need not be here.
class Device : public std::enable_shared_from_this<Device> {
 public:
  // Errors (device): no such ordinal, or the backend's own reason; (usage): options that it refuses.
  static Result<DevicePtr> open(std::shared_ptr<const Backend> backend, int ordinal, const DeviceOptions& options = {});
  // What a device of that profile would say: it plans and compiles, and runs nothing. Errors (device): there is none.
  static Result<DevicePtr> describe(std::shared_ptr<const Backend> backend, const std::string& profile);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }  // "cpu:0", and of a description "cpu:avx2"
  [[nodiscard]] const tern_device_info& info() const { return info_; }
  [[nodiscard]] bool can(std::uint32_t capability) const { return (info_.capabilities & capability) != 0; }
  [[nodiscard]] const Backend& backend() const { return *backend_; }
  [[nodiscard]] const tern_backend& api() const { return backend_->api(); }
  [[nodiscard]] tern_device raw() const { return raw_; }
  [[nodiscard]] tern_memory_info memory() const;

  // `flags`: TERN_BUFFER_*, what the buffer is for.
  [[nodiscard]] Buffer allocate(std::uint64_t bytes, const std::string& what, std::uint32_t flags = 0);
  // Maps host pages that outlive the buffer, where the device can.
  [[nodiscard]] Result<Buffer> import_host(std::span<const std::byte> bytes);
  [[nodiscard]] HostBuffer allocate_host(std::uint64_t bytes);
  [[nodiscard]] Stream make_stream(int priority = 0);
  [[nodiscard]] Event make_event(bool timing = false);
  // The host's address of device memory (TERN_CAP_HOST_POINTER), else null.
  [[nodiscard]] std::byte* host_pointer(tern_plane plane) const;

  void copy_to_device(tern_plane dst, std::span<const std::byte> src, const Stream& stream) const;
  void copy_to_host(std::span<std::byte> dst, tern_plane src, const Stream& stream) const;
  void copy(tern_plane dst, tern_plane src, std::uint64_t bytes, const Stream& stream) const;
  void fill(tern_plane dst, std::uint8_t byte, std::uint64_t bytes, const Stream& stream) const;

 private:
  Device(std::shared_ptr<const Backend> backend, std::string name, tern_device raw, const tern_device_info& info);
  std::shared_ptr<const Backend> backend_;
  OpenDevice open_;
  std::string name_;
  tern_device raw_;
  tern_device_info info_;
};

template <typename Raw, tern_status (*tern_backend::*Destroy)(Raw)>
void Handle<Raw, Destroy>::reset() noexcept {
  if (raw_ != nullptr) (device_->api().*Destroy)(raw_);
  raw_ = nullptr;
  device_.reset();
}

}  // namespace tern::accel
