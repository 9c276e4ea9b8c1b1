#include "cli/kept_case.h"

#include <fstream>

#include "base/strings.h"

namespace tern::cli {

KeptCase keep_case(const conformance::Case& c) {
  KeptCase kept{cat("selftest-", c.spec().name, ".case"), false};
  std::ofstream out(kept.file, std::ios::binary);
  out << conformance::write_case(c);
  kept.written = static_cast<bool>(out.flush());
  return kept;
}

}  // namespace tern::cli
