// Files of the cache folder, which other processes use too.
#pragma once

#include <filesystem>
#include <span>

namespace tern::accel {

// Writes the file under another name and then renames it, so that nobody reads half of it; makes its folder. What can't
// be written is left out, and nothing is said: a cache is only missed.
void write_cache_file(const std::filesystem::path& file, std::span<const char> bytes);

}  // namespace tern::accel
