// Compiled programs in files. Other processes use the same folder at the same time, and a file may be damaged: one is
// written under another name and then renamed, and read only where its checksum fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern::opencl {

// A number for a text: FNV-1a of 64 bits.
[[nodiscard]] std::uint64_t hash_of(std::string_view text);

// The file of a program: its name tells a hash of `key`, which is everything that the binary depends on.
[[nodiscard]] std::string binary_file(const std::string& folder, std::string_view key);

// The binary in the file; none where there is no file, or it is damaged or of another key.
[[nodiscard]] std::optional<std::vector<unsigned char>> read_binary(const std::string& file, std::string_view key);

// Keeps the binary; false where the folder can't be written.
bool write_binary(const std::string& file, std::string_view key, const std::vector<unsigned char>& binary);

}  // namespace tern::opencl
