// The recording of what runs on a device, and names for what is queued meanwhile.
#pragma once

#include <string>
#include <vector>

#include "accel/device.h"

namespace tern::accel {

// Records from its making to its end, on a device that can (TERN_CAP_PROFILE). Throws Failure where the device is being
// recorded already.
class DeviceProfile {
 public:
  explicit DeviceProfile(DevicePtr device);
  DeviceProfile(const DeviceProfile&) = delete;
  DeviceProfile& operator=(const DeviceProfile&) = delete;
  ~DeviceProfile();
  // What has finished since the last call, each stream's in order. The caller synchronises first if it wants all.
  [[nodiscard]] std::vector<tern_profile_record> collect() const;
  [[nodiscard]] const DevicePtr& device() const { return device_; }

 private:
  DevicePtr device_;
};

// A name for what this thread queues while it lives.
class ProfileRange {
 public:
  ProfileRange(const Device& device, const std::string& name);
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;
  ~ProfileRange();

 private:
  const Device* device_ = nullptr;  // null: the backend takes no names
};

}  // namespace tern::accel
