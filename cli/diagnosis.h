// The findings of tern doctor: each backend's own, and those that the host makes of what they say.
#pragma once

#include <string>
#include <vector>

#include "accel/inspection.h"

namespace tern::cli {

struct Check {
  std::string about;  // a backend's name, "launch", or "model"
  accel::Finding finding;
};

// Asks each backend for its checks, absent ones as well: why it's absent is what they tell.
[[nodiscard]] std::vector<Check> backend_checks(const std::vector<accel::ProbedBackend>& backends);

// Whether as many ranks are asked for (NPROC_PER_NODE) as there are devices to run them.
[[nodiscard]] std::vector<Check> launch_checks(const std::vector<accel::ProbedBackend>& backends);

// Whether each device holds the model's weights, and multiplies by them as they are stored. Throws Failure where the
// model can't be read.
[[nodiscard]] std::vector<Check> model_checks(const std::vector<accel::ProbedBackend>& backends,
                                              const std::string& device, const std::string& model_path);

// Whether weights of so many bytes find room on the device.
[[nodiscard]] Check memory_check(const std::string& model, std::uint64_t bytes, const std::string& device,
                                 const tern_memory_info& memory);

[[nodiscard]] std::string checks_text(const std::vector<Check>& checks);
[[nodiscard]] std::string checks_json(const std::vector<Check>& checks);

}  // namespace tern::cli
