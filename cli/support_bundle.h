// What tern doctor --bundle packs for a bug report.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/diagnosis.h"
#include "io/tar.h"

namespace tern::cli {

// Versions, devices with their links, the findings, the environment as far as it matters, and the last lines of logs:
// the vendors' and those of the newest run below the working directory's `output`. Every text is redacted (redact.h).
[[nodiscard]] std::vector<io::TarEntry> collect_bundle(const std::vector<accel::ProbedBackend>& backends,
                                                       const std::vector<Check>& checks);

// Throws Failure (usage) unless the name says how to pack: .tar.zst, .tar.gz or .tgz.
void require_bundle_name(const std::filesystem::path& file);

// Packs them as `file`'s name says. Throws Failure where it can't be written.
void write_bundle(const std::filesystem::path& file, const std::vector<io::TarEntry>& entries);

// "wrote FILE, which holds:" and a line for each entry, as the reporter should see what goes out.
[[nodiscard]] std::string bundle_listing(const std::filesystem::path& file, const std::vector<io::TarEntry>& entries);

}  // namespace tern::cli
