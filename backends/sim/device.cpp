// Devices: how many, what they are, how they fare.
#include <algorithm>

#include "backends/sim/interface.h"
#include "backends/sim/world.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

Config require_config() {
  auto config = read_config();
  if (!config) fail(TERN_INVALID_ARGUMENT, config.error().line());
  return *config;
}

void require_ordinal(const Config& config, int ordinal) {
  if (ordinal >= 0 && ordinal < config.devices) return;
  fail(TERN_INVALID_ARGUMENT,
       cat("sim:", ordinal, ": there are ", config.devices, " devices; TERN_SIM_DEVICES sets it"));
}

}  // namespace

tern_status device_count(int32_t* count, tern_text reason) {
  return guarded([&](auto&) {
    require(count != nullptr, "device_count: no place for the count");
    const auto config = read_config();
    *count = config ? config.value().devices : 0;
    put_text(reason, config ? std::string() : config.error().line());
  });
}

tern_status device_info(int32_t ordinal, tern_device_info* info) {
  return guarded([&](auto&) {
    require(info != nullptr, "device_info: no place for the description");
    const Config config = require_config();
    require_ordinal(config, ordinal);
    tern_plugin::require(give_info(info, describe(config, ordinal)));
  });
}

tern_status device_open(const tern_open_args* args, tern_device* device) {
  return guarded([&](auto&) {
    tern_open_args own;
    tern_plugin::require(tern_plugin_take_open_args(args, &own));
    const std::int32_t ordinal = own.ordinal;
    require(device != nullptr, "device_open: no place for the device");
    const Config config = require_config();
    require_ordinal(config, ordinal);
    // Opened twice, a device is shared; another environment asks for another device.
    auto& open = world().open;
    std::shared_ptr<Device> opened;
    for (const auto& other : open) {
      const auto alive = other.lock();
      if (alive && alive->ordinal == ordinal && alive->config == config) opened = alive;
    }
    if (!opened) {
      opened = std::make_shared<Device>();
      opened->config = config;
      opened->ordinal = ordinal;
      opened->info = describe(config, ordinal);
      open.erase(std::remove_if(open.begin(), open.end(), [](const auto& other) { return other.expired(); }),
                 open.end());
      open.push_back(opened);
      world().seed(config.seed);
    }
    *device = world().devices.add(std::move(opened));
  });
}

tern_status device_close(tern_device device) {
  return guarded([&](auto&) {
    if (device != nullptr) world().devices.remove(device);
  });
}

tern_status device_health(tern_device device, int32_t* health, tern_text reason) {
  return guarded([&](auto&) {
    require(health != nullptr, "device_health: no place for the health");
    const bool lost = world().devices.at(device)->lost;
    *health = lost ? TERN_HEALTH_LOST : TERN_HEALTH_OK;
    put_text(reason, lost ? "the device was lost, as TERN_SIM_FAULT asked" : "");
  });
}

tern_status doctor(uint32_t check, int32_t* level, tern_text line) {
  tern_status status = TERN_OK;
  const tern_status called = guarded([&](auto&) {
    require(level != nullptr, "doctor: no place for the level");
    if (check > 0) {
      status = TERN_UNSUPPORTED;
      return;
    }
    const auto config = read_config();
    *level = config ? TERN_LOG_INFO : TERN_LOG_ERROR;
    put_text(line, config ? cat("personality: ", personality_name(config.value().personality)) : config.error().line());
  });
  return called == TERN_OK ? status : called;
}

tern_status memory_info(tern_device device, tern_memory_info* info) {
  return guarded([&](auto&) {
    require(info != nullptr, "memory_info: no place for the numbers");
    const Device& d = *world().devices.at(device);
    tern_memory_info filled{};
    filled.total = d.info.memory_bytes;
    filled.free = d.info.memory_bytes - std::min(d.in_use, d.info.memory_bytes);
    filled.in_use_by_process = d.in_use;
    filled.peak_by_process = d.peak;
    tern_plugin::require(give_info(info, filled));
  });
}

}  // namespace tern::sim
