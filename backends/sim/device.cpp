// Devices: how many, what they are, how they fare.
#include <algorithm>
#include <tuple>
#include <utility>

#include "backends/sim/interface.h"
#include "backends/sim/monitor.h"
#include "backends/sim/world.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

std::pair<Config, tern_device_info> describe_profile(const char* profile) {
  std::uint32_t place = 0;
  tern_plugin::require(tern_plugin_find_profile(kPersonalities.data(), profile, &place));
  Config config;
  config.personality = static_cast<Personality>(place);
  tern_device_info info = describe(config, 0);
  info.described = 1;
  put_text({info.pci_address, sizeof info.pci_address}, "");
  return {config, info};
}

// It holds nothing, so nobody shares it.
std::shared_ptr<Device> make_described(const char* profile) {
  auto made = std::make_shared<Device>();
  std::tie(made->config, made->info) = describe_profile(profile);
  return made;
}

// Opened twice, a device is shared; another environment asks for another device.
std::shared_ptr<Device> share_device(int ordinal) {
  const Config config = require_config();
  require_ordinal(config, ordinal);
  auto& open = world().open;
  for (const auto& other : open) {
    const auto alive = other.lock();
    if (alive && alive->ordinal == ordinal && alive->config == config) return alive;
  }
  auto made = std::make_shared<Device>();
  made->config = config;
  made->ordinal = ordinal;
  made->info = describe(config, ordinal);
  made->take(Use::context, made->info.context_bytes);
  open.erase(std::remove_if(open.begin(), open.end(), [](const auto& other) { return other.expired(); }), open.end());
  open.push_back(made);
  world().seed(config.seed);
  return made;
}

void apply_options(const tern_open_args& args, Opened& opened) {
  if (const char* faults = tern_plugin_option(&args, "faults"); faults != nullptr) {
    opened.faults = parse_faults("device option \"faults\"", faults);
  }
  tern_plugin::require(tern_plugin_option_number(&args, "memory_limit", 0, UINT64_MAX, &opened.limit));
  tern_plugin::require(tern_plugin_option_number(&args, "graph_nodes", 1, UINT64_MAX, &opened.graph_nodes));
  std::uint64_t seed = 0;
  tern_plugin::require(tern_plugin_option_number(&args, "seed", 0, UINT64_MAX, &seed));
  if (tern_plugin_option(&args, "seed") != nullptr) world().seed(seed);
}

}  // namespace

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

const char* const kDeviceOptions[] = {
    "faults: what goes wrong on this handle, instead of TERN_SIM_FAULT's: oom@N, host@N, async@N, lost@N, "
    "hang@N, update@N, comm@N, commhang@N, by commas",
    "graph_nodes: ops that a compiled graph may have, instead of TERN_SIM_GRAPH_NODES",
    "memory_limit: bytes that the buffers of this handle may take",
    "seed: chooses the order of work between streams from now on, instead of TERN_SIM_SEED's", nullptr};

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

tern_status device_describe(const char* profile, tern_device_info* info) {
  return guarded([&](auto&) {
    require(info != nullptr, "device_describe: no place for the description");
    tern_plugin::require(give_info(info, describe_profile(profile).second));
  });
}

tern_status device_open(const tern_open_args* args, tern_device* device) {
  return guarded([&](auto&) {
    tern_open_args own;
    tern_plugin::require(tern_plugin_take_open_args(args, kDeviceOptions, &own));
    require(device != nullptr, "device_open: no place for the device");
    auto opened = std::make_shared<Opened>();
    opened->device = own.profile == nullptr ? share_device(own.ordinal) : make_described(own.profile);
    opened->faults = opened->device->config.faults;
    opened->graph_nodes = opened->device->config.graph_nodes;
    apply_options(own, *opened);
    *device = world().opened.add(std::move(opened));
  });
}

tern_status device_close(tern_device device) {
  return guarded([&](auto&) {
    if (device != nullptr) world().opened.remove(device);
  });
}

tern_status finalize() {
  return guarded([&](auto&) {
    require(world().opened.empty(), "finalize: a device is still open");
    world().finalized = true;
  });
}

tern_status device_health(tern_device device, int32_t* health, tern_text reason) {
  return guarded([&](auto&) {
    require(health != nullptr, "device_health: no place for the health");
    const Device& d = *world().device(device);
    *health = d.lost ? TERN_HEALTH_LOST : d.hung.empty() ? TERN_HEALTH_OK : TERN_HEALTH_DEGRADED;
    put_text(reason, d.lost ? "the device was lost, as TERN_SIM_FAULT asked" : d.hung);
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
    const Opened& opened = *world().opened.at(device);
    const Device& d = *opened.device;
    const auto held = [&](Use use) { return d.held.at(static_cast<std::size_t>(use)); };
    tern_memory_info filled{};
    filled.total = std::min(d.info.memory_bytes, opened.limit);
    filled.free = opened.left();
    filled.in_use_by_process = d.in_use();
    filled.peak_by_process = d.peak;
    filled.context_bytes = held(Use::context);
    filled.library_bytes = held(Use::library);
    filled.comm_bytes = held(Use::comm);
    tern_plugin::require(give_info(info, filled));
  });
}

}  // namespace tern::sim
