// libascendcl's functions about the process, its devices and their settings.
#include <unistd.h>

#include <string>

#include "backends/npu/cann/runtime.h"
#include "tests/fakes/cann/acl/control.h"
#include "tests/fakes/cann/acl/graph.h"
#include "tests/fakes/cann/acl/process.h"

using fake::guarded;
using fake::process;
using fake::refuse;

namespace {

void need(const void* argument, const char* name) {
  if (argument == nullptr) refuse(ACL_ERROR_INVALID_PARAM, std::string("[Check][") + name + "]param must not be null.");
}

fake::Device& device_number(std::int32_t number) {
  if (process().devices.empty()) refuse(ACL_ERROR_RT_NO_DEVICE, "There is no device.");
  if (number < 0 || static_cast<std::size_t>(number) >= process().devices.size()) {
    refuse(ACL_ERROR_RT_INVALID_DEVICEID, "Set device failed, invalid device, set device=" + std::to_string(number) +
                                              ", valid device range is [0, " +
                                              std::to_string(process().devices.size()) + ").");
  }
  return *process().devices[static_cast<std::size_t>(number)];
}

// What the device still works on ends; then nothing that was made on it is left but its memory.
void reset(fake::Device& device) {
  if (device.default_stream) device.default_stream->wait();
  for (auto& [handle, stream] : process().streams) {
    if (&stream->device == &device) stream->wait();
  }
  device.error = 0;
}

void check_option(aclSysParamOpt opt, std::int64_t value) {
  // rt: 0 and 1; 2 (strong) and 3 (batch-invariant) in newer runtimes.
  const std::int64_t most = opt == ACL_OPT_DETERMINISTIC && fake::at_least(9, 0) ? 3 : 1;
  if ((opt != ACL_OPT_DETERMINISTIC && opt != ACL_OPT_ENABLE_DEBUG_KERNEL) || value < 0 || value > most) {
    refuse(ACL_ERROR_RT_PARAM_INVALID,
           "Set sysParamOpt failed: the value must be in [0, " + std::to_string(most) + "].");
  }
}

}  // namespace

extern "C" {

aclError aclInit(const char*) {
  return guarded("aclInit", [] {
    if (process().initialized) refuse(ACL_ERROR_REPEAT_INITIALIZE, "repeatedly initialized");
    const fake::Settings& settings = process().settings;
    if (process().devices.empty() && settings.chip != nullptr) {
      for (std::size_t i = 0; i < settings.devices.size(); ++i) {
        process().devices.push_back(std::make_unique<fake::Device>(static_cast<int>(i), settings.devices[i], settings));
      }
    }
    process().initialized = true;
  });
}

aclError aclFinalize() {
  return guarded("aclFinalize", [] {
    if (!process().initialized) refuse(ACL_ERROR_REPEAT_FINALIZE, "repeatedly finalized");
    process().initialized = false;
  });
}

const char* aclGetRecentErrMsg() { return fake::take_message(); }

const char* aclrtGetSocName() {
  // rt: null on failure; with several devices always that of device 0.
  const fake::Settings& settings = process().settings;
  return settings.chip != nullptr && !settings.devices.empty() ? settings.chip->name.data() : nullptr;
}

aclError aclrtGetVersion(std::int32_t* major, std::int32_t* minor, std::int32_t* patch) {
  return guarded("aclrtGetVersion", [&] {
    need(major, "majorVersion");
    need(minor, "minorVersion");
    need(patch, "patchVersion");
    // The version of the interface, not CANN's: it has been 1.13 and later since CANN 8.
    *major = 1;
    *minor = fake::at_least(9, 0) ? 16 : 14;
    *patch = 0;
  });
}

aclError aclrtSetDevice(std::int32_t number) {
  return guarded("aclrtSetDevice", [&] {
    if (!process().initialized) refuse(ACL_ERROR_UNINITIALIZE, "aclInit must be called first.");
    (void)device_number(number);
    fake::set_current_device(number);
  });
}

aclError aclrtResetDevice(std::int32_t number) {
  return guarded("aclrtResetDevice", [&] {
    reset(device_number(number));
    if (fake::current_device_number() == number) fake::set_current_device(-1);
  });
}

aclError aclrtGetDevice(std::int32_t* number) {
  return guarded("aclrtGetDevice", [&] {
    need(number, "deviceId");
    *number = fake::current_device().number;
  });
}

aclError aclrtGetDeviceCount(std::uint32_t* count) {
  return guarded("aclrtGetDeviceCount", [&] {
    need(count, "count");
    const fake::Settings& settings = process().settings;
    if (settings.chip == nullptr || settings.devices.empty()) refuse(ACL_ERROR_RT_NO_DEVICE, "There is no device.");
    *count = static_cast<std::uint32_t>(settings.devices.size());
  });
}

aclError aclrtSynchronizeDevice() {
  return guarded("aclrtSynchronizeDevice", [] {
    fake::Device& device = fake::current_device();
    std::vector<fake::Stream*> streams;
    {
      const std::lock_guard lock(process().mutex);
      if (any_capture(device)) {
        invalidate_captures(device);
        refuse(ACL_ERROR_RT_STREAM_CAPTURED, "The device can't be waited for while a stream is captured.");
      }
      if (device.default_stream) streams.push_back(device.default_stream.get());
      for (auto& [handle, stream] : process().streams) {
        if (&stream->device == &device) streams.push_back(stream.get());
      }
    }
    for (fake::Stream* stream : streams) stream->wait();
    if (device.error != 0) refuse(device.error, fake::take_device_failure());
  });
}

aclError aclrtQueryDeviceStatus(std::int32_t number, aclrtDeviceStatus* status) {
  return guarded("aclrtQueryDeviceStatus", [&] {
    need(status, "deviceStatus");
    *status = device_number(number).error == 0 ? ACL_RT_DEVICE_STATUS_NORMAL : ACL_RT_DEVICE_STATUS_ABNORMAL;
  });
}

aclError aclrtDeviceCanAccessPeer(std::int32_t* can, std::int32_t number, std::int32_t peer) {
  return guarded("aclrtDeviceCanAccessPeer", [&] {
    need(can, "canAccessPeer");
    (void)device_number(number);
    (void)device_number(peer);
    // ggml: no copy between chips on 310P.
    *can = number != peer && fake::chip().family != fake::Family::k310P ? 1 : 0;
  });
}

aclError aclrtDeviceEnablePeerAccess(std::int32_t peer, std::uint32_t flags) {
  return guarded("aclrtDeviceEnablePeerAccess", [&] {
    fake::Device& device = fake::current_device();
    (void)device_number(peer);
    if (flags != 0) refuse(ACL_ERROR_RT_PARAM_INVALID, "The flags must be 0.");
    if (peer == device.number || fake::chip().family == fake::Family::k310P) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The device can't reach that one's memory.");
    }
    device.peers.insert(peer);
  });
}

aclError aclrtDeviceDisablePeerAccess(std::int32_t peer) {
  return guarded("aclrtDeviceDisablePeerAccess", [&] { fake::current_device().peers.erase(peer); });
}

aclError aclrtDeviceGetBareTgid(std::int32_t* pid) {
  return guarded("aclrtDeviceGetBareTgid", [&] {
    need(pid, "pid");
    *pid = getpid();
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return guarded("aclrtGetCurrentContext", [&] {
    need(context, "context");
    *context = &fake::current_device();
  });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return guarded("aclrtSetCurrentContext", [&] {
    need(context, "context");
    for (const auto& device : process().devices) {
      if (device.get() == context) return fake::set_current_device(device->number);
    }
    refuse(ACL_ERROR_RT_CONTEXT_NULL, "The handle is no context.");
  });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, std::int64_t value) {
  return guarded("aclrtSetSysParamOpt", [&] {
    check_option(opt, value);
    process().options[opt] = value;
  });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, std::int64_t* value) {
  return guarded("aclrtGetSysParamOpt", [&] {
    need(value, "value");
    const auto found = process().options.find(opt);
    if (found == process().options.end()) refuse(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "The option isn't set.");
    *value = found->second;
  });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, std::int64_t value) {
  return guarded("aclrtCtxSetSysParamOpt", [&] {
    check_option(opt, value);
    fake::current_device().options[opt] = value;
  });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, std::int64_t* value) {
  return guarded("aclrtCtxGetSysParamOpt", [&] {
    need(value, "value");
    const auto& options = fake::current_device().options;
    const auto found = options.find(opt);
    if (found == options.end()) refuse(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "The option isn't set.");
    *value = found->second;
  });
}

void ternFakeCannRestart() {
  fake::Process& all = process();
  all.graphs.clear();
  all.streams.clear();
  all.events.clear();
  all.physical.clear();
  all.devices.clear();
  all.options.clear();
  all.calls.clear();
  all.initialized = false;
  all.settings = fake::read_settings();
  all.random_state = all.settings.seed + 1;
  (void)fake::take_device_failure();
  fake::set_current_device(-1);
}

std::uint64_t ternFakeCannAllocations() {
  std::uint64_t sum = process().pinned.size();
  for (const auto& device : process().devices) sum += device->memory.allocations();
  return sum;
}

std::uint64_t ternFakeCannHandles() {
  return process().streams.size() + process().events.size() + process().graphs.size();
}
}
