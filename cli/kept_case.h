// A failing case of tern selftest, kept beside the caller for --replay.
#pragma once

#include <string>

#include "conformance/case.h"

namespace tern::cli {

struct KeptCase {
  std::string file;      // selftest-<op>.case in the working directory
  bool written = false;  // false: it could not be
};
[[nodiscard]] KeptCase keep_case(const conformance::Case& c);

}  // namespace tern::cli
