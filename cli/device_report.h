// What tern devices and tern topo tell of each backend and its devices.
#pragma once

#include <string>

#include "accel/inspection.h"

namespace tern::cli {

// Whether `device` (--device) asks for the ordinal: `auto` for all, `npu` for all of that backend, `npu:1` for one.
[[nodiscard]] bool is_wanted(const std::string& device, const accel::ProbedBackend& backend, int ordinal);

// The backend and those of its devices that `device` asks for, as lines or as a JSON object.
[[nodiscard]] std::string backend_text(const accel::ProbedBackend& backend, const std::string& device,
                                       const accel::Inspection& inspection);
[[nodiscard]] std::string backend_json(const accel::ProbedBackend& backend, const std::string& device,
                                       const accel::Inspection& inspection);

// How each device is linked to the others and to the processors: a matrix as text, or a JSON object.
[[nodiscard]] std::string links_text(const accel::ProbedBackend& backend, const std::string& device,
                                     const accel::Inspection& inspection);
[[nodiscard]] std::string links_json(const accel::ProbedBackend& backend, const std::string& device,
                                     const accel::Inspection& inspection);

}  // namespace tern::cli
