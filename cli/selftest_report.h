// The reports of tern selftest as JSON.
#pragma once

#include <string>

#include "conformance/op_checker.h"
#include "conformance/selftest.h"

namespace tern::cli {

// Of a device's ops and runtime.
[[nodiscard]] std::string to_json(const conformance::SelftestReport& report, const std::string& device);

// Of a model's own ops; `file` keeps the first failing case, where there is one.
[[nodiscard]] std::string to_json(const conformance::OpChecker& checker, const std::string& device,
                                  const std::string& file);

}  // namespace tern::cli
