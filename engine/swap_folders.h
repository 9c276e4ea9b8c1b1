// The folder of --swap_dir, in which each model, with all that its keys and values hang on, has a folder of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "engine/prefix_hash.h"

namespace tern::engine {

inline constexpr const char* kLockFile = "lock";
inline constexpr const char* kAboutFile = "about.txt";
inline constexpr std::size_t kFolderDigits = 16;  // of a folder's name

[[nodiscard]] BlockHash hash_of_text(std::string_view text);
[[nodiscard]] std::string hex_of(const BlockHash& hash);
[[nodiscard]] std::optional<BlockHash> hash_from_hex(std::string_view digits);

// Bytes that the other models' folders take. Those that were used longest ago go until they're at most `bytes`; one
// that another server has stays.
[[nodiscard]] std::uint64_t make_room_among_others(const std::filesystem::path& folder,
                                                   const std::filesystem::path& own, std::uint64_t bytes);

}  // namespace tern::engine
