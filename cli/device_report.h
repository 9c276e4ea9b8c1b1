// What tern devices tells of each backend and its devices.
#pragma once

#include <string>

#include "accel/registry.h"

namespace tern::cli {

// Whether `device` (--device) asks for the ordinal: `auto` for all, `npu` for all of that backend, `npu:1` for one.
[[nodiscard]] bool is_wanted(const std::string& device, const accel::ProbedBackend& backend, int ordinal);

// The backend and those of its devices that `device` asks for, as lines or as a JSON object. Opens them for their
// health.
[[nodiscard]] std::string backend_text(const accel::ProbedBackend& backend, const std::string& device);
[[nodiscard]] std::string backend_json(const accel::ProbedBackend& backend, const std::string& device);

}  // namespace tern::cli
