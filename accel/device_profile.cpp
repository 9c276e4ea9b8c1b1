#include "accel/device_profile.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::accel {
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

}  // namespace tern::accel
