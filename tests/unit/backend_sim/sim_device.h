// Opening simulated devices, each as its own environment asks.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accel/device.h"

namespace tern::test {

using Environment = std::map<std::string, std::string>;

// Sets TERN_SIM variables while it lives; those left out are unset.
class SimEnvironment {
 public:
  explicit SimEnvironment(const Environment& variables) {
    clear();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  SimEnvironment(const SimEnvironment&) = delete;
  SimEnvironment& operator=(const SimEnvironment&) = delete;
  ~SimEnvironment() { clear(); }

 private:
  static void clear() {
    for (const char* name : {"TERN_SIM", "TERN_SIM_DEVICES", "TERN_SIM_SEED", "TERN_SIM_GRAPH_NODES", "TERN_SIM_FAULT",
                             "TERN_SIM_LARGEST", "TERN_SIM_TIMEOUT_MS"}) {
      unsetenv(name);
    }
  }
};

// The plugin of that name in the build's folder; throws Failure.
inline std::shared_ptr<const accel::Backend> load_plugin(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const accel::Backend>> loaded;
  auto& backend = loaded[name];
  if (!backend) backend = accel::Backend::load(std::string(TERN_PLUGIN_DIR) + "/libtern_" + name + ".so").value();
  return backend;
}

// Throws Failure.
inline accel::DevicePtr open_sim(const Environment& variables = {}, int ordinal = 0) {
  const SimEnvironment environment(variables);
  return accel::Device::open(load_plugin("sim"), ordinal).value();
}

// The error line of what `body` throws, or "".
template <typename Body>
std::string failure_of(Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
template <typename T>
std::span<std::byte> writable_bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace tern::test
